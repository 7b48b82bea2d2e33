"""Pairs of rows inside small parts: the norm of a part's gradient without the gradient.

The squared norm of Z_i^T D_i is the sum over pairs of rows of (z_u . z_v)(d_u . d_v).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from privgcn.graph.parts import PartitionedGraph
from privgcn.graph.rows import Rows, SparseRows

_AT_ONCE = 1 << 16


@dataclass(frozen=True, eq=False)
class RowPairs:
    """Every two different rows of each small part, once, part after part.

    Attributes:
        first: One row of each pair.
        second: The other.
        offsets: Where the pairs of each part begin; one more entry than parts.
    """

    first: Tensor
    second: Tensor
    offsets: Tensor

    @classmethod
    def of(cls, graph: PartitionedGraph, most: int) -> RowPairs:
        """The pairs of all parts with at most ``most`` rows."""
        sizes = torch.where(graph.sizes <= most, graph.sizes, 0)
        counts = sizes * (sizes - 1) // 2
        offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        pairs = torch.empty(2, int(offsets[-1]), dtype=torch.int64, device=sizes.device)
        for size in torch.unique(sizes).tolist():
            if size > 1:
                own = torch.nonzero(sizes == size)[:, 0]
                inside = torch.triu_indices(size, size, 1, device=sizes.device)
                places = offsets[own][:, None] + torch.arange(
                    inside.shape[1], device=sizes.device
                )
                pairs[:, places] = inside[:, None] + graph.offsets[own][:, None]
        return cls(pairs[0], pairs[1], offsets)

    def __len__(self) -> int:
        return len(self.first)

    def products(self, rows: Rows | Tensor) -> Tensor:
        """Float64 inner product of the two rows of each pair, ``[pairs, R]``."""
        pieces = []
        for begin in range(0, len(self), _AT_ONCE):
            own = slice(begin, begin + _AT_ONCE)
            if isinstance(rows, SparseRows):
                pieces.append(rows.inner_products(self.first[own], self.second[own])[:, None])
                continue
            table = rows if isinstance(rows, Tensor) else rows.dense()[:, None]
            one, other = table[self.first[own]].double(), table[self.second[own]]
            pieces.append(one.mul_(other).sum(-1))
        return torch.cat(pieces)

    @cached_property
    def _by_part(self) -> SparseRows:
        ones = torch.ones(len(self), dtype=torch.float64, device=self.first.device)
        columns = torch.arange(len(self), device=self.first.device)
        return SparseRows(self.offsets, columns, ones, len(self))

    def sums_by_part(self, values: Tensor) -> Tensor:
        """The sum over each part's pairs, ``[parts, R]``, in their own order."""
        return self._by_part.times(values)
