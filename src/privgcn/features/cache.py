"""Encoded texts on disk, by their content, so that a text is encoded once.

One SQLite file for each encoder has keys, hashes of the whole text and of all that can change a
vector, and vectors. Several runs may write at once; a corrupt file is deleted. Vectors tell a
lot about a text: the folder is readable by its owner only.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from contextvars import ContextVar
from pathlib import Path

import numpy as np
import numpy.typing as npt

from privgcn.errors import ConfigError, DataError
from privgcn.files import cache_folder, writing

_OWN_FILE = re.compile(r"[0-9a-f]{32}\.sqlite3(-journal)?")

Encode = Callable[[list[str]], npt.NDArray[np.float32]]

# Whether vectors are stored, and stored ones used.
enabled: ContextVar[bool] = ContextVar("enabled", default=True)


@contextmanager
def disabled() -> Iterator[None]:
    """While the block runs, nothing is stored and nothing stored is used."""
    token = enabled.set(False)
    try:
        yield
    finally:
        enabled.reset(token)


class VectorCache:
    """Vectors of texts under one encoder."""

    def __init__(self, folder: Path, identity: str, dimension: int) -> None:
        self._identity = hashlib.sha256(identity.encode()).digest()
        self._folder, self._dimension = folder, dimension
        self.path = folder / f"{self._identity.hex()[:32]}.sqlite3"

    def vectors(self, texts: Sequence[str], encode: Encode) -> npt.NDArray[np.float32]:
        """The vectors of ``texts``, encoding each different one that is not stored."""
        if texts and not enabled.get():
            return encode(list(texts))
        keys = [self._key(text) for text in texts]
        wanted = dict(zip(keys, texts, strict=True))
        try:
            with writing(self._folder):
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                stored = self._read(wanted)
                missing = [key for key in wanted if key not in stored]
                made = encode([wanted[key] for key in missing]) if missing else ()
                fresh = dict(zip(missing, made, strict=True))
                new = [(key, np.asarray(own, "<f4").tobytes()) for key, own in fresh.items()]
                with closing(self._connect()) as base, base:
                    base.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", new)
        except (ConfigError, sqlite3.OperationalError) as error:
            raise DataError(
                f"The cache folder {self._folder} must be writable. {error}. Give another one "
                "with the option 'cache_dir', or --no-cache."
            ) from error
        known = stored | fresh
        rows = [known[key] for key in keys]
        return np.array(rows, dtype=np.float32).reshape(len(keys), self._dimension)

    def _key(self, text: str) -> bytes:
        return hashlib.sha256(self._identity + text.encode("utf-8", "surrogatepass")).digest()

    def _read(self, keys: Iterable[bytes]) -> dict[bytes, npt.NDArray[np.float32]]:
        query = "SELECT key, vector FROM vectors WHERE key = ?"
        try:
            with closing(self._connect()) as base:
                found = (row for key in keys for row in base.execute(query, (key,)))
                return {key: np.frombuffer(row, "<f4", self._dimension) for key, row in found}
        except sqlite3.OperationalError:
            raise
        except (sqlite3.DatabaseError, ValueError):
            self.path.unlink(missing_ok=True)
            return {}

    def _connect(self) -> sqlite3.Connection:
        # Made here, as SQLite would make it readable for others.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        base = sqlite3.connect(self.path, timeout=60.0)
        base.execute(
            "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL)"
        )
        return base


def default_cache() -> Path:
    """Where vectors are stored when nobody named a folder."""
    return cache_folder() / "features"


def cache_contents(folder: Path, *, purge: bool = False) -> tuple[int, int]:
    """How many files of vectors a folder holds, and their bytes; ``purge`` deletes them."""
    files = [
        path
        for path in (folder.iterdir() if folder.is_dir() else ())
        if _OWN_FILE.fullmatch(path.name) and path.is_file() and not path.is_symlink()
    ]
    size = sum(path.stat().st_size for path in files)
    for path in files if purge else ():
        path.unlink(missing_ok=True)
    return len(files), size
