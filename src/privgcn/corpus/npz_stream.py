"""Reads the arrays of an ``.npz`` archive in pieces, without pickles and without unpacking."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from privgcn.errors import DataError


class NpzStream:
    """An open archive.

    Args:
        path: The ``.npz`` file.
        archive: The same, opened.
    """

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self._path = path
        self._archive = archive

    def names(self) -> set[str]:
        """The arrays in the archive."""
        return {name.removesuffix(".npy") for name in self._archive.namelist()}

    def array(self, name: str) -> npt.NDArray[Any]:
        """A whole array, for small ones."""
        pieces = list(self.pieces(name, 1 << 62))
        return pieces[0] if pieces else np.zeros(0)

    def pieces(self, name: str, rows: int) -> Generator[npt.NDArray[Any], None, None]:
        """An array in pieces of at most ``rows`` rows.

        Raises:
            DataError: There is no such array, it holds objects, or it is cut.
        """
        if name not in self.names():
            raise DataError(
                f"The file {self._path} must hold the array '{name}'. Got "
                f"{', '.join(sorted(self.names()))}. Get the published file again."
            )
        with self._archive.open(f"{name}.npy") as stream:
            shape, kind = _header(stream)
            if kind.hasobject:
                raise DataError(
                    f"The array '{name}' of {self._path} must hold numbers. Got objects, which "
                    "are not read because a pickle can run any code."
                )
            width = prod(shape[1:]) * kind.itemsize
            left = shape[0] if shape else 1
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
    try:
        with zipfile.ZipFile(path) as archive:
            yield NpzStream(path, archive)
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, SyntaxError) as error:
        raise DataError(
            f"The file {path} must be a complete .npz archive. It can not be read ({error}). "
            "It was probably cut in the download: get it again."
        ) from error
    except OSError as error:
        raise DataError(f"The file {path} can not be read: {error.strerror}.") from error


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in read:
        raise ValueError(f"unknown version {version} of the npy format")
    shape, by_columns, kind = read[version](stream)
    if by_columns and len(shape) > 1:
        raise ValueError("the array is stored by columns")
    return shape, kind
