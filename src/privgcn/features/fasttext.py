"""Reads fastText's binary models without fastText.

The format is fastText's own (version 12): settings, dictionary, and one float matrix with a
row for each word and each bucket of character n-grams. A word's vector is the mean of its
own row and the rows of its n-grams; an unknown word has its n-grams only. The matrix, which
can have gigabytes, is mapped and never loaded.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from privgcn.errors import DataError

_MAGIC = 793_712_314
_VERSION = 12
_SETTINGS = struct.Struct("<12id")
_DICTIONARY = struct.Struct("<iiiqq")
_ENTRY = struct.Struct("<qb")
_END_OF_SENTENCE = "</s>"


class FastTextModel:
    """Vectors of words, known or not.

    Args:
        path: A ``.bin`` file.

    Raises:
        DataError: The file is cut, of another format, or quantised.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with path.open("rb") as stream:
                data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
                self._read(data)
        except OSError as error:
            raise DataError(f"The file {path} cannot be read: {error.strerror}.") from error
        except (struct.error, ValueError, IndexError) as error:
            raise DataError(
                f"The file {path} must be a complete fastText model. It cannot be read "
                f"({error}). It may have been cut: copy it again."
            ) from error

    def _read(self, data: Any) -> None:
        magic, version = struct.unpack_from("<ii", data, 0)
        if magic != _MAGIC or version != _VERSION:
            raise DataError(
                f"The file {self._path} must be a fastText model of version {_VERSION}. Got "
                "another format. Use a .bin file of fastText, or a text file named .vec."
            )
        settings = _SETTINGS.unpack_from(data, 8)
        self.dimension, self._buckets = settings[0], settings[8]
        self._shortest, self._longest = settings[9], settings[10]
        place = 8 + _SETTINGS.size
        size, self._words, _, _, pruned = _DICTIONARY.unpack_from(data, place)
        place += _DICTIONARY.size
        self._rows: dict[str, int] = {}
        for row in range(size):
            end = data.find(b"\0", place)
            if end < 0:
                raise ValueError("the dictionary is not complete")
            word = data[place:end].decode("utf-8", "replace")
            place = end + 1 + _ENTRY.size
            if row < self._words:
                self._rows[word] = row
        if pruned >= 0 or data[place]:
            raise DataError(
                f"The file {self._path} must not be quantised. Got a quantised model. Use the "
                ".bin file instead of the .ftz file."
            )
        height, width = struct.unpack_from("<qq", data, place + 1)
        place += 17
        if (
            width != self.dimension
            or height < self._words
            or height * width * 4 > len(data) - place
        ):
            raise ValueError("the matrix is not complete")
        flat = np.frombuffer(data, dtype="<f4", count=height * width, offset=place)
        self._matrix = flat.reshape(height, width)

    def vector(self, word: str) -> npt.NDArray[np.float32] | None:
        """The vector of a word; None for a word without any known n-gram."""
        rows = [] if word not in self._rows else [self._rows[word]]
        if word != _END_OF_SENTENCE:
            rows += [self._words + code for code in self._grams(f"<{word}>")]
        if not rows:
            return None
        return np.asarray(self._matrix[rows].mean(axis=0, dtype=np.float32))

    def _grams(self, word: str) -> list[int]:
        """The buckets of a word's n-grams; n counts characters, the hash takes bytes."""
        if self._longest <= 0 or self._buckets <= 0:
            return []
        codes = []
        for start in range(len(word)):
            for size in range(max(1, self._shortest), self._longest + 1):
                end = start + size
                if end > len(word):
                    break
                if size == 1 and (start == 0 or end == len(word)):
                    continue
                codes.append(fnv_hash(word[start:end].encode()) % self._buckets)
        return codes


def fnv_hash(data: bytes) -> int:
    """The 32-bit FNV-1a of fastText: its bytes are signed, so those above 127 set high bits."""
    value = 2_166_136_261
    for byte in data:
        value ^= byte if byte < 128 else 0xFFFFFF00 | byte
        value = (value * 16_777_619) & 0xFFFFFFFF
    return value
