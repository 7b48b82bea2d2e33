"""The file of a ledger: whole after a crash, locked while in use, and its end remembered.

Beside ``ledger.jsonl`` lies ``ledger.jsonl.head``: the SHA-256 of all lines, written after they
are. So the lines are those that the head remembers, or one more, whose writer was stopped in
between; anything else was done by somebody else. The head is also the lock.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from privgcn.errors import DataError
from privgcn.files import lock, read_bounded, write_atomically

#: Tens of thousands of releases. A larger file is none of ours.
MOST_BYTES = 1 << 24


class LedgerFile:
    """Lines that are only ever added.

    Guarantees:
        A line is on disk when :meth:`OpenLedger.add` returns. A process that is killed at any
        moment leaves the lines from before or after, readable. Two processes never add at
        once. Lines that were changed, cut off or deleted are noticed, and so is a head that
        was: one of the two files remembers the other.
    Assumes:
        Nobody writes both files. The head is a plain hash, made without a secret: whoever
        may write both can make any ledger, put back an older pair, or delete the pair.
    """

    def __init__(self, path: str | Path) -> None:
        # One lock for one file, whatever link leads to it.
        self.path = Path(os.path.realpath(path))
        self.head = Path(f"{self.path}.head")

    def lines(self) -> list[bytes]:
        """All lines so far.

        Raises:
            DataError: the file cannot be read, or is not what its head remembers.
        """
        with self._in_words():
            if not self._begun():
                return []
            with self._locked(os.O_RDONLY) as head:
                return OpenLedger(self, head).lines

    @contextlib.contextmanager
    def adding(self) -> Iterator[OpenLedger]:
        """Keeps everybody else out until the block ends.

        Raises:
            DataError: as :meth:`lines`.
            ConfigError: the file cannot be written; what was there is unchanged.
        """
        with self._in_words():
            self._begun()
            with self._locked(os.O_RDWR | os.O_CREAT) as head:
                opened = OpenLedger(self, head)
                yield opened
                opened.remember()

    def _begun(self) -> bool:
        # The head is there before the first line is, so in this order no writer is in between.
        lines = os.path.lexists(self.path)
        head = self.head.exists()
        if lines and not self.path.is_file():
            raise DataError(f"The ledger {self.path} must be a plain file. Name another one.")
        if lines and not head:
            raise DataError(
                f"The ledger {self.path} must have its head beside it, {self.head.name}, which "
                "is missing. Restore both files from one copy that holds every release."
            )
        return head

    @contextlib.contextmanager
    def _locked(self, flags: int) -> Iterator[int]:
        # A pipe in place of the head must not keep us waiting.
        head = os.open(self.head, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
        try:
            lock(head, shared=flags == os.O_RDONLY)
            yield head
        finally:
            os.close(head)

    @contextlib.contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DataError(
                f"The ledger {self.path} cannot be read or written: {error.strerror}. Name a "
                "file in a folder that exists, can be written and has room."
            ) from None


class OpenLedger:
    """The lines of a ledger while its lock is held."""

    def __init__(self, file: LedgerFile, head: int) -> None:
        self._file = file
        self._head = head
        begun = file.path.exists()
        self._content = read_bounded(file.path, most=MOST_BYTES) if begun else b""
        os.lseek(head, 0, os.SEEK_SET)
        remembered = os.read(head, 2 * len(_hash(b"")))
        before_last = self._content[: self._content[:-1].rfind(b"\n") + 1]
        whole = not self._content or self._content.endswith(b"\n")
        # An empty head was made by somebody who was stopped before the first line.
        known = [_hash(self._content), _hash(before_last), *([] if self._content else [b""])]
        if not whole or remembered not in known:
            raise DataError(
                f"The ledger {file.path} must hold what {file.head.name} remembers, and does "
                "not: lines were changed, cut off or deleted. Restore both files from one copy "
                "that holds every release."
            )
        self._remembered = remembered

    @property
    def lines(self) -> list[bytes]:
        """All lines so far, without their ends."""
        return self._content.split(b"\n")[:-1]

    def add(self, line: bytes) -> None:
        """Adds one line, which is on disk afterwards."""
        content = self._content + line + b"\n"
        if len(content) > MOST_BYTES:
            raise DataError(
                f"The ledger {self._file.path} must have at most {MOST_BYTES} bytes. It would "
                "have more. Name another file."
            )
        # The head may be one line behind, never two.
        self.remember()
        write_atomically(self._file.path, content)
        self._content = content
        self.remember()

    def remember(self) -> None:
        """Makes the head that of the lines."""
        head = _hash(self._content)
        if head == self._remembered:
            return
        # In place, as the lock is on this file: 65 bytes in one page are written or not.
        os.lseek(self._head, 0, os.SEEK_SET)
        os.write(self._head, head)
        os.fsync(self._head)
        self._remembered = head


def _hash(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode("ascii") + b"\n"
