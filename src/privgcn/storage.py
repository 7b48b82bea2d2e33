"""Arrays that may be larger than memory: beyond a bound they lie in files without a name.

Nobody else can open such a file, and the system frees it with the process, also when that is
killed. Whoever goes through an array a block at a time gives each one back by ``unmap``.
"""

from __future__ import annotations

import math
import mmap
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from privgcn.files import array_on_disk, writing

MOST_IN_MEMORY = 1 << 26
"""Bytes from which on an array lies in a file."""

_BUCKETS, _EDGES_AT_ONCE, _ROWS_AT_ONCE = 64, 1 << 20, 1 << 16


def room(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An array to be filled."""
    large = np.dtype(dtype).itemsize * math.prod(shape) > MOST_IN_MEMORY
    return array_on_disk(shape, dtype) if large else np.empty(shape, dtype)


def copy_rows(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Fills one array from another, of which not all has to be in memory."""
    for begin in range(0, len(source), _ROWS_AT_ONCE):
        own = slice(begin, begin + _ROWS_AT_ONCE)
        target[own] = source[own]
        unmap(source)
        unmap(target)


class Grown:
    """An array that is appended to; more than ``most`` bytes of it lie in a file."""

    def __init__(self, dtype: DTypeLike, most: float | None = None) -> None:
        self._file: Any = BytesIO()
        self._dtype, self._size = np.dtype(dtype), 0
        self._most = MOST_IN_MEMORY if most is None else most

    def append(self, block: ArrayLike) -> None:
        """More numbers."""
        data = np.ascontiguousarray(block, self._dtype).reshape(-1)
        self._size += data.size
        with writing(Path(tempfile.gettempdir())):
            if isinstance(self._file, BytesIO) and self._size * data.itemsize > self._most:
                held, self._file = self._file, tempfile.TemporaryFile()  # noqa: SIM115
                weakref.finalize(self, self._file.close)
                self._file.write(held.getbuffer())
            self._file.write(data.view(np.uint8).data)

    def array(self) -> NDArray[Any]:
        """All of them, in one dimension."""
        if isinstance(self._file, BytesIO):
            return np.ndarray(self._size, self._dtype, self._file.getbuffer())
        self._file.flush()
        return np.memmap(self._file, self._dtype, "r+", shape=(self._size,))


class GrownRows:
    """Dense or sparse rows that are appended to, as ``Grown`` is."""

    def __init__(self, most: float | None = None) -> None:
        self._most, self._width, self._lengths = most, 0, [np.zeros(1, np.int64)]
        self._numbers: Grown | None = None
        self._columns = Grown(np.int32, most)

    def append(self, block: Any) -> None:
        """More rows, of the kind of the first ones."""
        sparse, self._width = hasattr(block, "indptr"), block.shape[1]
        self._numbers = self._numbers or Grown(block.dtype, self._most)
        self._numbers.append(block.data if sparse else block)
        if sparse:
            self._columns.append(block.indices)
            self._lengths.append(np.diff(block.indptr))

    def rows(self) -> Any:
        """All of them: an array, a ``numpy.memmap`` or a ``csr_array``."""
        values = np.empty(0, np.float32) if self._numbers is None else self._numbers.array()
        if not self._lengths[1:]:
            return values.reshape(-1, self._width)
        return sparse_rows(
            values, self._columns.array(), np.concatenate(self._lengths), self._width
        )


def sparse_rows(
    values: NDArray[Any], columns: NDArray[np.int32], lengths: NDArray[np.int64], width: int
) -> Any:
    """A ``csr_array`` of rows of these lengths, after a zero; it copies no numbers."""
    from scipy.sparse import csr_array

    # Wider than the columns, SciPy would copy those.
    begins = np.cumsum(lengths).astype(np.int32 if len(values) < 1 << 31 else np.int64)
    return csr_array((values, columns, begins), shape=(len(begins) - 1, width))


def in_order(pieces: Iterable[NDArray[np.int64]], end: int) -> Iterator[NDArray[np.int64]]:
    """Whole numbers from 0 to below ``end`` by size, in blocks, equal ones in the same."""
    buckets = [Grown(np.int64, MOST_IN_MEMORY / _BUCKETS) for _ in range(_BUCKETS)]
    bounds = np.arange(1, _BUCKETS) * (end // _BUCKETS + 1)
    for piece in pieces:
        numbers = np.sort(piece)
        parts = np.split(numbers, np.searchsorted(numbers, bounds))
        for bucket, part in zip(buckets, parts, strict=True):
            bucket.append(part)
    while buckets:
        yield np.sort(np.asarray(buckets.pop(0).array()))


def edge_blocks(edges: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """The edges, some at a time."""
    for begin in range(0, edges.shape[1], _EDGES_AT_ONCE):
        yield edges[:, begin : begin + _EDGES_AT_ONCE]
        unmap(edges)


def edges_among(edges: NDArray[np.int64], position: NDArray[np.int64]) -> NDArray[np.int64]:
    """The edges between documents with a ``position``, which is -1 for others, by that."""
    ends = (position[some] for some in edge_blocks(edges))
    return joined_edges(np.sort(own[:, (own >= 0).all(axis=0)], axis=0) for own in ends)


def joined_edges(blocks: Iterable[Any]) -> NDArray[np.int64]:
    """Blocks ``[2, some]`` of edges as one."""
    made = Grown(np.int64)
    for source, target in blocks:
        made.append(np.stack([source, target], axis=1))
    return np.asarray(made.array()).reshape(-1, 2).T


def mapping(array: Any) -> mmap.mmap | None:
    """The mapped file that an array or a sparse matrix lies in; private ones apart."""
    owner, mode = getattr(array, "data", array) if hasattr(array, "indptr") else array, "c"
    while isinstance(owner, np.ndarray):
        mode, owner = getattr(owner, "mode", mode), owner.base
    # Changes to a private mapping are in memory alone.
    return owner if isinstance(owner, mmap.mmap) and mode != "c" else None


def unmap(rows: Any) -> None:
    """Takes pages of mapped files out of memory; they are read again when needed."""
    for array in (rows.data, rows.indices) if hasattr(rows, "indptr") else (rows,):
        mapped = mapping(array)
        if mapped is not None:
            mapped.madvise(mmap.MADV_DONTNEED)
