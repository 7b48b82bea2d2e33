"""Feature rows and links of a corpus that is larger than memory.

Everything that training computes of a document is computed from its own row or its own part,
and sums over parts are exact. So rows may stay in files and come a stretch at a time: no bit of
the result depends on it. Random parts would scatter the reading; rows are therefore laid out
part by part first, in one pass that reads and writes long stretches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from privgcn.data import scratch
from privgcn.data.scratch import ChosenRows, Scratch, each_stretch, is_mapped, let_go
from privgcn.graph.dense_rows import ROWS_AT_ONCE, DenseRows
from privgcn.graph.sparse_rows import SparseRows

InMemory = DenseRows | SparseRows
Rows: TypeAlias = "InMemory | RowsOnDisk"
Change = Callable[[InMemory], "Rows"]

# What is computed with at once: much more would be new memory from the system each time.
_BLOCK_BYTES = 1 << 24
_BUCKET_BYTES = 1 << 27
_USUAL_WORDS = 32


def bytes_of(documents: int, width: int, *, dense: bool) -> int:
    """Bytes of feature rows, about, from public numbers: not from how much people wrote."""
    return documents * (4 * width if dense else 12 * min(width, _USUAL_WORDS))


def forget(*tensors: Tensor) -> None:
    """Gives back the memory of tensors that lie in files; they are read again when needed."""
    for tensor in tensors:
        let_go(tensor.untyped_storage().data_ptr())


def lies_on_disk(tensor: Tensor) -> bool:
    """Whether a tensor lies in a file."""
    return is_mapped(tensor.untyped_storage().data_ptr())


@dataclass(frozen=True, eq=False)
class RowsOnDisk:
    """Rows in files, with the interface of rows in memory.

    Attributes:
        kept: What is in the files.
        index: The chosen ones of them, in order; ``None`` for all.
        changes: What happens to rows when they are read; each looks at one row alone.
        device: Where they go then.
    """

    kept: InMemory
    index: Tensor | None = None
    changes: tuple[Change, ...] = ()
    device: torch.device | str = "cpu"

    @classmethod
    def of(cls, rows: Rows | ChosenRows) -> RowsOnDisk:
        """Rows of a file that is there, or rows in memory written to files without a name."""
        if isinstance(rows, RowsOnDisk):
            return rows
        if isinstance(rows, ChosenRows):
            index = None if rows.rows is None else torch.from_numpy(rows.rows)
            return cls(DenseRows(torch.from_numpy(rows.array)), index)
        starts = range(0, rows.shape[0], ROWS_AT_ONCE)
        pieces = (rows.part(begin, begin + ROWS_AT_ONCE) for begin in starts)
        return cls(_written(rows.part(0, 0), pieces))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.kept.shape[0] if self.index is None else len(self.index), self.kept.width

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.kept.width

    @property
    def is_dense(self) -> bool:
        """Whether every value is stored."""
        return self.kept.is_dense

    @property
    def stored(self) -> int:
        """Number of stored values, chosen or not."""
        return self.kept.stored

    @property
    def at_once(self) -> int:
        """How many rows make a block: a public number."""
        return max(1, _BLOCK_BYTES // bytes_of(1, self.width, dense=self.is_dense))

    def to(self, device: torch.device | str) -> RowsOnDisk:
        """The same rows, read for another device."""
        return replace(self, device=device)

    # -- what happens to a row when it is read --------------------------------------------

    def changed(self, change: Change) -> RowsOnDisk:
        """The same rows after one more change, which looks at one row alone."""
        return replace(self, changes=(*self.changes, change))

    def finite(self) -> RowsOnDisk:
        """The same rows, with every row that holds a non-finite value emptied."""
        return self.changed(lambda rows: rows.finite())

    def on_grid(self, bits: int) -> RowsOnDisk:
        """Each row cut, toward zero, to ``bits`` digits below its own power of two."""
        return self.changed(lambda rows: rows.on_grid(bits))

    def centred(self, centre: Tensor) -> RowsOnDisk:
        """Each row's direction without ``centre``, of length one; zero rows stay zero."""
        return self.changed(lambda rows: rows.centred(centre))

    def scaled(self, factors: Tensor) -> InMemory:
        """Each row times its factor, in memory."""
        return self.read().scaled(factors)

    def emptied(self, bad: Tensor) -> InMemory:
        """The rows without the values of the marked ones, in memory."""
        return self.read().emptied(bad)

    # -- reading --------------------------------------------------------------------------

    def pieces(self) -> Iterator[tuple[slice, InMemory]]:
        """The rows, in the stretches in which dense rows in memory are multiplied."""
        for begin in range(0, self.shape[0], ROWS_AT_ONCE):
            own = slice(begin, min(begin + ROWS_AT_ONCE, self.shape[0]))
            rows: InMemory
            if self.index is None:
                rows = self.kept.part(own.start, own.stop)
            else:
                rows = self.kept.select(self.index[own])
            rows = rows.to(self.device)
            for change in self.changes:
                rows = in_memory(change(rows))
            yield own, rows
            forget(*_values_of(self.kept))

    def read(self) -> InMemory:
        """All rows, in memory."""
        found = [rows for _, rows in self.pieces()] or [self.kept.part(0, 0).to(self.device)]
        if isinstance(found[0], DenseRows):
            return DenseRows(torch.cat([rows.dense() for rows in found]))
        sparse = [rows for rows in found if isinstance(rows, SparseRows)]
        lengths = torch.cat([rows.lengths for rows in sparse])
        return SparseRows(
            torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]),
            torch.cat([rows.columns for rows in sparse]),
            torch.cat([rows.values for rows in sparse]),
            self.width,
        )

    def select(self, index: Tensor) -> Rows:
        """The named rows: in memory where a block holds them, else still on disk."""
        own = index.cpu()
        neighbours = self.index is None and len(own) > 0 and bool((own.diff() == 1).all())
        if neighbours and not self.changes and len(own) <= self.at_once:
            # As they lie in the file; what was read before is not needed any more.
            forget(*_values_of(self.kept))
            return self.kept.part(int(own[0]), int(own[-1]) + 1).to(self.device)
        chosen = replace(self, index=own if self.index is None else self.index[own])
        return chosen.read() if len(own) <= self.at_once else chosen

    def part(self, begin: int, end: int) -> Rows:
        """Neighbouring rows."""
        return self.select(torch.arange(begin, min(end, self.shape[0])))

    def dense(self) -> Tensor:
        """The rows as a dense tensor."""
        return self.read().dense()

    def times(self, table: Tensor) -> Tensor:
        """The product with a dense table of ``width`` rows."""
        product = table.new_empty(self.shape[0], table.shape[1])
        for own, rows in self.pieces():
            product[own] = rows.times(table)
        return product

    def transposed_times(self, table: Tensor) -> Tensor:
        """The product of the transpose with a dense table of one row per document."""
        total = table.new_zeros(self.width, table.shape[1])
        for own, rows in self.pieces():
            total += rows.transposed_times(table[own])
        return total

    @property
    def powers(self) -> Tensor:
        """The power of two above the largest entry of each row."""
        return torch.cat([rows.powers for _, rows in self.pieces()])

    def row_sums(self, power: int) -> Tensor:
        """Float64 sum over each row of ``|value| ** power``."""
        return torch.cat([rows.row_sums(power) for _, rows in self.pieces()])

    def settled(self) -> RowsOnDisk:
        """The rows as they are after all changes, written once for who reads them often."""
        empty = self.kept.part(0, 0)
        kept = _written(empty, (rows.to("cpu") for _, rows in self.pieces()))
        return RowsOnDisk(kept, device=self.device)

    # -- laying out -----------------------------------------------------------------------

    def laid_out(self, order: Tensor) -> RowsOnDisk:
        """The rows in another order, so stored that neighbours lie near each other.

        One pass reads the files from beginning to end and adds each row to the bucket of its
        new place; inside a bucket, reading finds the order.
        """
        wanted = order.cpu() if self.index is None else self.index[order.cpu()]
        if bool((wanted.diff() > 0).all()):
            return replace(self, index=wanted)
        documents = self.kept.shape[0]
        at_once = max(1, _BUCKET_BYTES // bytes_of(1, self.width, dense=self.is_dense))
        none = -(-len(wanted) // at_once)
        bucket = torch.full((documents,), none)
        bucket[wanted] = torch.arange(len(wanted)) // at_once
        lies = _stable_order(bucket)[: len(wanted)]
        place = torch.empty_like(bucket)
        place[lies] = torch.arange(len(lies))
        offsets = None
        if isinstance(self.kept, SparseRows):
            lengths = self.kept.lengths[lies]
            offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        files = [Scratch() for _ in _values_of(self.kept)]
        for begin in range(0, documents, at_once):
            own = bucket[begin : begin + at_once]
            sizes = torch.bincount(own, minlength=none + 1)[:none]
            moved = _stable_order(own)[: int(sizes.sum())]
            rows = self.kept.part(begin, begin + at_once).select(moved)
            first = place[begin + moved]
            ends = sizes.cumsum(0).tolist()
            for end, size in zip(ends, sizes.tolist(), strict=True):
                if size:
                    at = int(first[end - size])
                    at = at if offsets is None else int(offsets[at])
                    _write(files, rows.part(end - size, end), at)
            forget(*_values_of(self.kept))
        kept = _mapped(files, self.kept, offsets, len(wanted))
        return replace(self, kept=kept, index=place[wanted])


def in_memory(rows: Rows) -> InMemory:
    """The same rows, in memory."""
    return rows.read() if isinstance(rows, RowsOnDisk) else rows


def sparse_in_memory(rows: Rows) -> SparseRows:
    """The same sparse rows, in memory."""
    found = in_memory(rows)
    assert isinstance(found, SparseRows)
    return found


def _values_of(rows: InMemory) -> list[Tensor]:
    """What a file keeps of rows."""
    return [rows.columns, rows.values] if isinstance(rows, SparseRows) else [rows.values]


def _write(files: list[Scratch], rows: InMemory, at: int | None = None) -> None:
    """Adds rows to files, or writes them at a place that is counted as the files count."""
    for file, values in zip(files, _values_of(rows), strict=True):
        each = values[:1].numel() * values.element_size()
        file.write(values.numpy(), None if at is None else at * each)


def _written(empty: InMemory, pieces: Iterable[InMemory]) -> InMemory:
    """Rows that come in pieces, in files; ``empty`` tells their kind."""
    files = [Scratch() for _ in _values_of(empty)]
    lengths, count = [torch.zeros(1, dtype=torch.int64)], 0
    for rows in pieces:
        _write(files, rows)
        count += rows.shape[0]
        if isinstance(rows, SparseRows):
            lengths.append(rows.lengths)
    offsets = None if empty.is_dense else torch.cat(lengths).cumsum(0)
    return _mapped(files, empty, offsets, count)


def _mapped(
    files: list[Scratch], like: InMemory, offsets: Tensor | None, rows: int
) -> InMemory:
    if offsets is None:
        values = files[0].mapped(np.float32, (rows, like.width))
        return DenseRows(torch.from_numpy(values))
    count = (int(offsets[-1]),)
    columns, values = files[0].mapped(np.int64, count), files[1].mapped(np.float32, count)
    return SparseRows(offsets, torch.from_numpy(columns), torch.from_numpy(values), like.width)


def _stable_order(keys: Tensor) -> Tensor:
    """``argsort`` of small numbers; NumPy sorts those of two bytes in one pass."""
    small: npt.NDArray[Any] = keys.numpy()
    if len(small) and small.max() < 1 << 16:
        small = small.astype(np.uint16)
    return torch.from_numpy(np.argsort(small, kind="stable"))


# -- links ------------------------------------------------------------------------------------


def stretch_by_stretch(edges: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    """Links after a change that may drop some; those on disk go by stretches and stay there."""
    if not lies_on_disk(edges):
        return change(edges)
    left = each_stretch(edges.numpy(), lambda own: change(torch.from_numpy(own)).numpy())
    return torch.from_numpy(left)


def propagation_on_disk(edges: Tensor, documents: int) -> RowsOnDisk:
    """The matrix of ``propagation_matrix``, to the bit, with its entries in files.

    Links are first gathered by the stretch of rows that they lead to.
    """
    pieces = torch.split(edges, scratch.LINKS_AT_ONCE, dim=1)
    degree = torch.ones(documents, dtype=torch.int64)
    for piece in pieces:
        degree += torch.bincount(piece.flatten(), minlength=documents)
        forget(edges)
    offsets = torch.cat([degree.new_zeros(1), degree.cumsum(0)])
    rows_each = max(1, documents * scratch.LINKS_AT_ONCE // int(offsets[-1]))
    starts = torch.arange(0, documents, rows_each)
    # Each row has one loop among its entries, which needs no gathering.
    filled = offsets[starts] - starts
    gathered = Scratch()
    for source, target in ((0, 1), (1, 0)):
        for piece in pieces:
            bucket = piece[source] // rows_each
            pairs = piece[[source, target]].T.to(torch.int32)[_stable_order(bucket)]
            sizes = torch.bincount(bucket, minlength=len(starts))
            for part, own in enumerate(torch.split(pairs, sizes.tolist())):
                gathered.write(own.numpy(), int(filled[part]) * 8)
            filled += sizes
            forget(edges)
    directed = torch.from_numpy(gathered.mapped(np.int32, (2 * edges.shape[1], 2)))
    scale = degree.double().rsqrt()
    files = [Scratch(), Scratch()]
    begin = 0
    for start, end in zip(starts.tolist(), filled.tolist(), strict=True):
        loops = torch.arange(start, min(start + rows_each, documents))
        links = directed[begin:end].long()
        rows, columns = torch.cat([links, loops[:, None].expand(-1, 2)]).unbind(1)
        order = _stable_order(rows - start)
        columns = columns[order]
        values = (scale[rows[order]] * scale[columns]).float()
        files[0].write(columns.numpy())
        files[1].write(values.numpy())
        forget(directed)
        begin = end
    empty = SparseRows(offsets, degree[:0], scale[:0].float(), documents)
    return RowsOnDisk(_mapped(files, empty, offsets, documents))
