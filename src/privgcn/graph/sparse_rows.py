"""Sparse rows, one per document: words of a text, or links of a graph.

A product of sparse rows with a dense table is an ``embedding_bag``: on a CPU it is about
twice as fast as a CSR product, and it serves features, their transpose and the
propagation matrix alike.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from privgcn.graph.dense_rows import DenseRows
from privgcn.graph.exact import powers_above


def segment_positions(starts: Tensor, lengths: Tensor) -> Tensor:
    """Positions of all segments ``starts[i] .. starts[i] + lengths[i]``, one after another."""
    ends = lengths.cumsum(0)
    total = int(ends[-1]) if len(ends) else 0
    shift = torch.repeat_interleave(starts - (ends - lengths), lengths, output_size=total)
    return torch.arange(total, device=starts.device) + shift


@dataclass(frozen=True, eq=False)
class SparseRows:
    """A sparse float32 matrix in CSR form.

    Attributes:
        offsets: Where each row begins in ``columns``; one more entry than rows.
        columns: Column of each stored value.
        values: The stored values.
        width: Number of columns.
    """

    offsets: Tensor
    columns: Tensor
    values: Tensor
    width: int
    is_dense: ClassVar[bool] = False
    _transposed: list[SparseRows] = field(default_factory=list, repr=False)

    @classmethod
    def from_scipy(cls, matrix: Any) -> SparseRows:
        """Takes over a SciPy sparse matrix, dropping explicit zeros."""
        csr = matrix.tocsr().astype(np.float32)
        csr.sum_duplicates()
        csr.eliminate_zeros()
        return cls(
            torch.from_numpy(csr.indptr.astype(np.int64)),
            torch.from_numpy(csr.indices.astype(np.int64)),
            torch.from_numpy(csr.data.copy()),
            int(csr.shape[1]),
        )

    def to_scipy(self) -> Any:
        """The same matrix as ``scipy.sparse.csr_matrix``."""
        from scipy.sparse import csr_matrix

        arrays = (self.values.cpu(), self.columns.cpu(), self.offsets.cpu())
        return csr_matrix(tuple(a.numpy() for a in arrays), shape=self.shape)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.offsets) - 1, self.width

    @cached_property
    def lengths(self) -> Tensor:
        """Stored values in each row."""
        return self.offsets.diff()

    @property
    def _row_of(self) -> Tensor:
        """Row of each stored value."""
        rows = torch.arange(self.shape[0], device=self.offsets.device)
        return torch.repeat_interleave(rows, self.lengths, output_size=self.stored)

    @property
    def stored(self) -> int:
        """Number of stored values."""
        return len(self.values)

    def to(self, device: torch.device | str) -> SparseRows:
        """The same rows on another device."""
        return SparseRows(
            self.offsets.to(device), self.columns.to(device), self.values.to(device), self.width
        )

    @cached_property
    def _scipy64(self) -> Any:
        return self.to_scipy().astype(np.float64)

    @cached_property
    def _by_threads(self) -> dict[int, list[tuple[slice, Any]]]:
        return {}

    def _scipy64_pieces(self) -> list[tuple[slice, Any]]:
        """The transpose, as one piece of documents for each thread."""
        threads = torch.get_num_threads()
        if threads not in self._by_threads:
            bounds = np.linspace(0, self.shape[0], threads + 1).astype(int).tolist()
            pieces = [slice(*ends) for ends in itertools.pairwise(bounds)]
            self._by_threads[threads] = [(own, self._scipy64[own].T) for own in pieces]
        return self._by_threads[threads]

    def times(self, table: Tensor) -> Tensor:
        """The product with a dense table of ``width`` rows."""
        if table.dtype == torch.float64 and not table.is_cuda:
            # Only float32 has a fast ``embedding_bag`` on a CPU.
            return torch.from_numpy(self._scipy64 @ table.numpy())
        return embedding_bag(
            self.columns,
            table,
            self.offsets,
            mode="sum",
            per_sample_weights=self.values.to(table.dtype),
            include_last_offset=True,
        )

    def transposed(self) -> SparseRows:
        """The transpose, computed once."""
        if not self._transposed:
            rows, width = self.shape
            order = torch.argsort(self.columns, stable=True)
            counts = torch.bincount(self.columns, minlength=width)
            offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
            self._transposed.append(
                SparseRows(offsets, self._row_of[order], self.values[order], rows)
            )
        return self._transposed[0]

    def transposed_times(self, table: Tensor) -> Tensor:
        """The product of the transpose with a dense table of one row per document."""
        if table.dtype == torch.float64 and not table.is_cuda:
            # Documents scatter into a table of weights that stays in the cache.
            values, pieces = table.numpy(), self._scipy64_pieces()
            if len(pieces) == 1:
                return torch.from_numpy(pieces[0][1] @ values)
            with ThreadPoolExecutor(len(pieces)) as pool:
                sums = pool.map(lambda piece: piece[1] @ values[piece[0]], pieces)
                return torch.from_numpy(sum(sums))
        return self.transposed().times(table)

    def inner_products(self, first: Tensor, second: Tensor) -> Tensor:
        """Float64 inner products of rows ``first[i]`` and ``second[i]``."""
        rows = self._scipy64
        products = rows[first.cpu().numpy()].multiply(rows[second.cpu().numpy()]).sum(1)
        return torch.from_numpy(np.asarray(products).ravel()).to(first.device)

    @cached_property
    def powers(self) -> Tensor:
        """The power of two above the largest entry of each row."""
        most = self.values.new_zeros(self.shape[0])
        most.scatter_reduce_(0, self._row_of, self.values.abs(), "amax")
        return powers_above(most)

    def on_grid(self, bits: int) -> SparseRows:
        """Each row cut, toward zero, to ``bits`` digits below its own power of two."""
        units = torch.repeat_interleave(self.powers * 2.0**-bits, self.lengths)
        values = (self.values / units).trunc_().mul_(units)
        return SparseRows(self.offsets, self.columns, values, self.width)

    def select(self, index: Tensor) -> SparseRows:
        """The named rows, in that order."""
        lengths = self.lengths[index]
        positions = segment_positions(self.offsets[index], lengths)
        offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        return SparseRows(offsets, self.columns[positions], self.values[positions], self.width)

    def part(self, begin: int, end: int) -> SparseRows:
        """Neighbouring rows."""
        offsets = self.offsets[begin : end + 1]
        own = slice(int(offsets[0]), int(offsets[-1]))
        return SparseRows(offsets - offsets[0], self.columns[own], self.values[own], self.width)

    def centred(self, centre: Tensor) -> DenseRows:
        """Each row's direction without ``centre``."""
        return DenseRows(self.dense()).centred(centre)

    def scaled(self, factors: Tensor) -> SparseRows:
        """Each row times its factor, multiplied in the factors' precision."""
        values = self.values * torch.repeat_interleave(factors, self.lengths)
        return SparseRows(self.offsets, self.columns, values.to(self.values.dtype), self.width)

    def row_sums(self, power: int) -> Tensor:
        """Float64 sum over each row of ``|value| ** power``."""
        sums = torch.zeros(self.shape[0], dtype=torch.float64, device=self.values.device)
        return sums.index_add_(0, self._row_of, self.values.double().abs() ** power)

    def finite(self) -> SparseRows:
        """The same rows, with every row that holds a non-finite value emptied of it.

        A document with such a row counts as a document without words. Nothing is raised:
        an error that depends on private values would be a release.
        """
        bad = ~torch.isfinite(self.row_sums(2))
        return self if not bool(bad.any()) else self.emptied(bad)

    def emptied(self, bad: Tensor) -> SparseRows:
        """The same rows without the values of the marked ones."""
        keep = ~torch.repeat_interleave(bad, self.lengths)
        lengths = torch.where(bad, torch.zeros_like(self.lengths), self.lengths)
        offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        return SparseRows(offsets, self.columns[keep], self.values[keep], self.width)

    def dense(self) -> Tensor:
        """The rows as a dense tensor."""
        table = self.values.new_zeros(self.shape)
        return table.index_put_((self._row_of, self.columns), self.values, accumulate=True)
