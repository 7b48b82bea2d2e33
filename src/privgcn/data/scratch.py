"""Arrays beyond memory: mapped files of which a stretch at a time is in memory.

What is written here is as private as the documents. It lies in files without a name: nobody
else can open them, and the system takes them back when the process ends, however it ends. They
are in the folder for temporary files, which ``TMPDIR`` names.
"""

from __future__ import annotations

import math
import mmap
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary, finalize

import numpy as np
import numpy.typing as npt

from privgcn.files import writing

Links = npt.NDArray[np.int64]

LINKS_AT_ONCE = 1 << 22
"""Links of one stretch."""

_BYTES_AT_ONCE = 1 << 24

_MAPS: WeakValueDictionary[int, mmap.mmap] = WeakValueDictionary()


class Scratch:
    """A file without a name, written in stretches and then mapped."""

    def __init__(self) -> None:
        with writing(Path(tempfile.gettempdir())):
            self._file = tempfile.TemporaryFile()  # noqa: SIM115
        finalize(self, self._file.close)
        self.size = 0

    def write(self, array: npt.NDArray[Any], at: int | None = None) -> None:
        """Writes an array at a byte, or behind what is there."""
        begin = self.size if at is None else at
        with writing(Path(tempfile.gettempdir())):
            self._file.seek(begin)
            self._file.write(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
        self.size = max(self.size, begin + array.nbytes)

    def mapped(self, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """What was written, as an array; the file goes when nothing refers to it."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size == 0:
            return np.empty(shape, dtype)
        with writing(Path(tempfile.gettempdir())):
            self._file.flush()
            self._file.truncate(size)
        content = mmap.mmap(self._file.fileno(), size)
        array = np.frombuffer(content, dtype).reshape(shape)
        _MAPS[array.ctypes.data] = content
        return array


def mapped_file(path: Path) -> npt.NDArray[Any]:
    """The array of a ``.npy`` file. Nothing that is written to it reaches the file."""
    array: Any = np.lib.format.open_memmap(path, mode="c")
    if array.size:
        _MAPS[array.ctypes.data] = array.base
    return np.asarray(array)


def let_go(address: int) -> None:
    """Gives back the memory of the mapped array that begins at an address.

    Its values stay in the file and are read again when they are asked for.
    """
    content = _MAPS.get(address)
    if content is not None:
        content.madvise(mmap.MADV_DONTNEED)


def is_mapped(address: int) -> bool:
    """Whether the array that begins at an address lies in a file."""
    return address in _MAPS


def as_float32(array: npt.NDArray[Any]) -> ChosenRows:
    """A mapped table as rows of float32; of another type or layout, a copy on disk."""
    if array.dtype == np.float32 and array.flags.c_contiguous:
        return ChosenRows(array)
    file = Scratch()
    for rows in ChosenRows(array).pieces():
        with np.errstate(over="ignore"):
            file.write(rows.astype(np.float32))
    return ChosenRows(file.mapped(np.float32, array.shape))


def each_stretch(links: Links, change: Callable[[Links], Links]) -> Links:
    """Links ``[2, m]`` after a change that may drop some of them.

    Those on disk go by stretches, and what is left of them is on disk too.
    """
    if not is_mapped(links.ctypes.data):
        return change(links)
    file, most, count = Scratch(), links.shape[1], 0
    for begin in range(0, most, LINKS_AT_ONCE):
        left = change(links[:, begin : begin + LINKS_AT_ONCE])
        for row, ends in enumerate(left):
            file.write(ends, (row * most + count) * ends.itemsize)
        count += left.shape[1]
        let_go(links.ctypes.data)
    return file.mapped(left.dtype, (2, most))[:, :count] if count else left


def canonical_on_disk(ends: Links, count: int) -> Links:
    """What ``canonical_edges`` makes of links, with both on disk.

    Links are gathered by their smaller row first, and then sorted a stretch at a time.
    """
    stretches = range(0, ends.shape[1], LINKS_AT_ONCE)
    each = max(1, count * LINKS_AT_ONCE // max(1, ends.shape[1]))
    sizes = np.zeros(-(-count // each), dtype=np.int64)

    def keys(begin: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        own = ends[:, begin : begin + LINKS_AT_ONCE].astype(np.int64)
        low, high = own.min(axis=0), own.max(axis=0)
        let_go(ends.ctypes.data)
        low, high = low[low != high], high[low != high]
        return low // each, low * count + high

    for begin in stretches:
        sizes += np.bincount(keys(begin)[0], minlength=len(sizes))
    places = np.cumsum(sizes) - sizes
    gathered, total = Scratch(), int(sizes.sum())
    filled = places.copy()
    for begin in stretches:
        bucket, key = keys(begin)
        counts = np.bincount(bucket, minlength=len(sizes))
        ordered = key[np.argsort(bucket, kind="stable")]
        for part, own in enumerate(np.split(ordered, np.cumsum(counts)[:-1])):
            gathered.write(own, int(filled[part]) * 8)
        filled += counts
    by_bucket = gathered.mapped(np.int64, (total,))
    out, kept = Scratch(), 0
    for begin, end in zip(places, filled, strict=True):
        unique = np.unique(by_bucket[begin:end])
        let_go(by_bucket.ctypes.data)
        out.write(unique // count, kept * 8)
        out.write(unique % count, (total + kept) * 8)
        kept += len(unique)
    return out.mapped(np.int64, (2, total))[:, :kept]


@dataclass(frozen=True, eq=False)
class ChosenRows:
    """Some rows of a mapped array, which are read when they are asked for.

    Attributes:
        array: The whole array.
        rows: The chosen rows in their order; ``None`` for all.
    """

    array: npt.NDArray[np.float32]
    rows: npt.NDArray[np.int64] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        count = len(self.array) if self.rows is None else len(self.rows)
        return count, self.array.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, chosen: npt.NDArray[np.int64]) -> ChosenRows:
        rows = chosen if self.rows is None else self.rows[chosen]
        return ChosenRows(self.array, rows)

    def row(self, number: int) -> npt.NDArray[np.float32]:
        """One row."""
        place = number if self.rows is None else self.rows[number]
        return np.asarray(self.array[place])

    def pieces(self) -> Iterator[npt.NDArray[np.float32]]:
        """The rows, some at a time."""
        at_once = max(1, _BYTES_AT_ONCE // (4 * self.shape[1]))
        for begin in range(0, len(self), at_once):
            own: Any = slice(begin, begin + at_once)
            yield self.array[own if self.rows is None else self.rows[own]]
            let_go(self.array.ctypes.data)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        whole = self.array if self.rows is None else self.array[self.rows]
        return np.asarray(whole, dtype=dtype)
