"""Pairs of rows inside small parts: the norm of a part's gradient without the gradient.

The squared norm of Z_i^T D_i is the sum over pairs of rows of (z_u . z_v)(d_u . d_v). Inner
products of all rows of like parts are one batched product of matrices. That is exact if rows
have few enough digits, so no bit of a part's norm depends on the parts beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from privgcn.graph.exact import product_bits
from privgcn.graph.parts import PartitionedGraph
from privgcn.graph.rows import Rows
from privgcn.graph.sparse_rows import SparseRows, segment_positions

# Inner products that are made at once: what a cache holds.
_AT_ONCE = 1 << 18


def pair_digits(width: int) -> int:
    """Digits that rows of this width may have so that their inner products are exact."""
    return product_bits(width) // 2


@dataclass(frozen=True, eq=False)
class RowPairs:
    """Every two different rows of each small part, once, part after part.

    Attributes:
        first: One row of each pair.
        second: The other.
        offsets: Where the pairs of each part begin; one more entry than parts.
        blocks: Parts of like sizes that are multiplied at once.
    """

    first: Tensor
    second: Tensor
    offsets: Tensor
    blocks: list[_Block]

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
        blocks = []
        for size in [2**power for power in range(1, max(most, 2).bit_length() + 1)]:
            like = torch.nonzero((sizes > size // 2) & (sizes <= size) & (sizes > 1))[:, 0]
            for own in torch.split(like, max(1, _AT_ONCE // size**2)) if len(like) else ():
                starts, places = (
                    graph.offsets[own],
                    segment_positions(offsets[own], counts[own]),
                )
                # Where a part has no more rows, its last one is taken and not looked at.
                steps = torch.arange(size, device=sizes.device)
                rows = starts[:, None] + torch.minimum(steps, sizes[own][:, None] - 1)
                number = torch.repeat_interleave(
                    torch.arange(len(own), device=sizes.device), counts[own]
                )
                inside = pairs[:, places] - starts[number]
                cells = (number * size + inside[0]) * size + inside[1]
                blocks.append(_Block(rows, cells, places))
        return cls(pairs[0], pairs[1], offsets, blocks)

    def __len__(self) -> int:
        return len(self.first)

    def products(self, rows: Rows | Tensor) -> Tensor:
        """Float64 inner product of the two rows of each pair, ``[pairs, R]``.

        Exact for rows of :func:`pair_digits`, each below its own power of two.
        """
        if isinstance(rows, SparseRows):
            return rows.inner_products(self.first, self.second)[:, None]
        table = rows if isinstance(rows, Tensor) else rows.dense()[:, None]
        found = torch.empty(len(self), table.shape[1], dtype=torch.float64, device=table.device)
        for block in self.blocks:
            found[block.places] = block.products(table)
        return found

    @cached_property
    def _by_part(self) -> SparseRows:
        ones = torch.ones(len(self), dtype=torch.float64, device=self.first.device)
        columns = torch.arange(len(self), device=self.first.device)
        return SparseRows(self.offsets, columns, ones, len(self))

    def sums_by_part(self, values: Tensor) -> Tensor:
        """The sum over each part's pairs, ``[parts, R]``, in their own order."""
        return self._by_part.times(values)


@dataclass(frozen=True, eq=False)
class _Block:
    """Parts of like sizes.

    Attributes:
        rows: Their rows, ``[parts, size]``.
        cells: Where their pairs are among all ``parts * size * size`` inner products.
        places: Where these are among the pairs of all parts.
    """

    rows: Tensor
    cells: Tensor
    places: Tensor

    def products(self, table: Tensor) -> Tensor:
        """The inner products of these pairs ``[pairs, R]``."""
        taken = table[self.rows].double().movedim(2, 0)
        return (taken @ taken.mT).flatten(1)[:, self.cells].T
