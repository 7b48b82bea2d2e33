"""Reads large published dumps in pieces that fit in memory, and names what is broken.

Gzipped tables come in blocks of whole lines; the arrays of an ``.npz`` archive come in
blocks of rows, without pickles and without unpacking the archive.
"""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from privgcn.errors import DataError, reason

BLOCK_BYTES = 32 << 20
_MOST_LINE_BYTES = 16 << 20
_MOST_PIECE_BYTES = 1 << 30
_MOST_DIGITS = 12


@dataclass(frozen=True)
class Block:
    """Some whole lines of a file.

    Attributes:
        path: The file.
        data: The lines, each with its line feed.
        first: The number of the first line, counted from 1.
    """

    path: Path
    data: bytes
    first: int

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Every line with its number."""
        return enumerate(self.data.split(b"\n")[:-1], start=self.first)

    def check_utf8(self) -> None:
        """Refuses a block that is not UTF-8, with an error that names the line."""
        try:
            self.data.decode()
        except UnicodeDecodeError as error:
            line = self.first + self.data.count(b"\n", 0, error.start)
            raise DataError(
                f"The file {self.path} must be UTF-8. Line {line} has a byte that is not "
                f"(0x{self.data[error.start]:02x}). Get the published file again."
            ) from error

    def bad_id(self, columns: int, highest: int) -> DataError:
        """The error for the first line whose leading fields are not ids up to ``highest``."""
        rule = f"The ids in {self.path} must be whole numbers from 1 to {highest}."
        for number, line in self.lines():
            for field in line.split(b"\t", columns)[:columns]:
                digits = field.isdigit() and len(field) <= _MOST_DIGITS
                if not digits or not 1 <= int(field) <= highest:
                    shown = field[:40].decode("utf-8", "replace")
                    return DataError(
                        f"{rule} Got '{shown}' in line {number}. Get the published file again."
                    )
        return DataError(f"{rule} They cannot be read.")

    def check_fields(self, fields: int) -> None:
        """Refuses a block with a line that has another number of fields, and names the line."""
        # A count over the whole block is far quicker than one for each line.
        if self.data.count(b"\t") == self.data.count(b"\n") * (fields - 1):
            return
        for number, line in self.lines():
            count = line.count(b"\t") + 1
            if count != fields:
                raise DataError(
                    f"The file {self.path} must have {fields} tab-separated fields in each "
                    f"line. Line {number} has {count}. Get the published file again."
                )


def blocks(path: Path, fields: int, size: int = BLOCK_BYTES) -> Iterator[Block]:
    """The lines of a gzipped tab-separated file, which must all have so many fields.

    Raises:
        DataError: The file is cut, not gzip, or a line has another number of fields.
    """
    rest, first = b"", 1
    with _readable(path, "gzip file"), gzip.open(path, "rb") as stream:
        while True:
            piece = stream.read(size)
            # The last line may lack its line feed.
            data = rest + (piece or b"\n" * bool(rest))
            end = data.rfind(b"\n") + 1
            rest = data[end:]
            if len(rest) > _MOST_LINE_BYTES:
                raise ValueError(f"a line has more than {_MOST_LINE_BYTES} bytes")
            if end:
                block = Block(path, data[:end], first)
                block.check_fields(fields)
                yield block
                first += block.data.count(b"\n")
            if not piece:
                return


class NpzStream:
    """An open ``.npz`` archive."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self._path = path
        self._archive = archive

    def array(self, name: str) -> NDArray[Any]:
        """A whole array, for small ones."""
        pieces = list(self.pieces(name, 1 << 62))
        return pieces[0] if pieces else np.zeros(0)

    def pieces(
        self, name: str, rows: int, kinds: str = "iu"
    ) -> Generator[NDArray[Any], None, None]:
        """An array of the ``kinds`` that numpy codes so, in pieces of at most ``rows`` rows.

        Raises:
            DataError: There is no such array, it holds something else, or it is cut.
        """
        names = {member.removesuffix(".npy") for member in self._archive.namelist()}
        if name not in names:
            raise DataError(
                f"The file {self._path} must hold the array '{name}'. Got "
                f"{', '.join(sorted(names)[:20])}. Get the published file again."
            )
        with self._archive.open(f"{name}.npy") as stream:
            shape, kind = _header(stream)
            if kind.kind not in kinds:
                raise DataError(
                    f"The array '{name}' of {self._path} must hold numbers of kind {kinds}. "
                    f"Got {kind.kind}. Get the published file again."
                )
            width = prod(shape[1:]) * kind.itemsize
            left = shape[0] if shape else 1
            if min(rows, left) * width > _MOST_PIECE_BYTES:
                raise ValueError(f"the array '{name}' is too large: its shape is {shape}")
            while left:
                take = min(rows, left)
                data = stream.read(take * width)
                if len(data) != take * width:
                    raise EOFError(f"the array '{name}' is not complete")
                yield np.frombuffer(data, dtype=kind).reshape(take, *shape[1:])
                left -= take


@contextmanager
def open_npz(path: Path) -> Iterator[NpzStream]:
    """Opens an archive and turns everything that is wrong with it into one error.

    Raises:
        DataError: The file is cut or of another format.
    """
    with _readable(path, ".npz archive"), zipfile.ZipFile(path) as archive:
        yield NpzStream(path, archive)


@contextmanager
def _readable(path: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except (
        EOFError,
        MemoryError,
        RuntimeError,
        ValueError,
        gzip.BadGzipFile,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise DataError(
            f"The file {path} must be a complete {kind}. It cannot be read "
            f"({reason(error)}). It was probably cut in the download: get it again."
        ) from error
    except OSError as error:
        raise DataError(f"The file {path} cannot be read: {error.strerror}.") from error


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in read:
        raise ValueError(f"unknown version {version} of the npy format")
    try:
        shape, by_columns, kind = read[version](stream)
    # A header is Python source: numpy passes on whatever its parser says of a broken one.
    except Exception as error:
        raise ValueError(f"a header is broken: {reason(error)}") from error
    if by_columns and len(shape) > 1:
        raise ValueError("the array is stored by columns")
    # True and False pass for numbers in Python.
    if min(shape, default=0) < 0 or any(isinstance(size, bool) for size in shape):
        raise ValueError(f"the shape is {shape}")
    return shape, kind
