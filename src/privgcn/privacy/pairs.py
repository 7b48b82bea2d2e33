"""Inner products of the rows inside each part, in float64.

The squared norm of Z_i^T D_i is the sum over pairs of rows of (z_u . z_v)(d_u . d_v).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from privgcn.graph.partition import PartitionedGraph
from privgcn.graph.rows import Rows
from privgcn.models.stack import LayerGradient


def padded_groups(graph: PartitionedGraph) -> list[tuple[Tensor, Tensor]]:
    """Parts of similar size, padded to a common one: ``(rows [parts, size], parts)``.

    Row index -1 pads. Sizes are rounded up to powers of two, so that one large part does
    not pad all others to its size, and how a part is padded depends on its own size alone.
    """
    sizes, groups = graph.sizes, []
    levels = torch.where(sizes > 0, (sizes.double().log2().ceil()).long(), -1)
    for level in torch.unique(levels).tolist():
        if level < 0:
            continue
        parts = torch.nonzero(levels == level)[:, 0]
        slots = torch.arange(2**level, device=sizes.device)
        rows = graph.offsets[parts][:, None] + slots
        groups.append((torch.where(slots < sizes[parts][:, None], rows, -1), parts))
    return groups


def count_pairs(graph: PartitionedGraph) -> int:
    """Pairs of rows inside the parts, both orders and each row with itself."""
    return int(graph.sizes.square().sum())


@dataclass(frozen=True, eq=False)
class PairProducts:
    """Pairwise products of one partitioned graph; those of the features are made once.

    Attributes:
        graph: The parts.
        features: The graph's feature rows in float64, all finite.
    """

    graph: PartitionedGraph
    features: Rows

    @cached_property
    def groups(self) -> list[tuple[Tensor, Tensor]]:
        """Parts of similar size."""
        return padded_groups(self.graph)

    @cached_property
    def _feature_products(self) -> list[Tensor]:
        """Inner products of feature rows inside each part, in float64, for each group."""
        products = []
        for members, _ in self.groups:
            if members.shape[1] == 1:
                products.append(self.features.row_sums(2)[members[:, 0], None, None])
                continue
            product = torch.zeros(*members.shape, members.shape[1], dtype=torch.float64)
            for i, rows in enumerate(members):
                block = self.features.select(rows[rows >= 0]).dense()
                product[i, : len(block), : len(block)] = (block @ block.T).cpu()
            products.append(product.to(members.device))
        return products

    def squares(self, gradient: LayerGradient) -> Tensor:
        """Squared norm of each part's weight gradient, ``[parts, R]``."""
        replicas = gradient.outputs.shape[1]
        squares = gradient.outputs.new_zeros(self.graph.parts, replicas, dtype=torch.float64)
        for number, (members, parts) in enumerate(self.groups):
            outputs = _gathered_products(gradient.outputs, members)
            if isinstance(gradient.inputs, Tensor):
                inputs = _gathered_products(gradient.inputs, members)
            else:
                inputs = self._feature_products[number][:, None]
            squares[parts] = (inputs * outputs).sum((-1, -2))
        return squares


def _gathered_products(rows: Tensor, members: Tensor) -> Tensor:
    """Float64 inner products of the rows of each part: ``[parts, R, size, size]``."""
    taken = rows.double()[members.clamp(min=0)]
    taken = torch.where((members >= 0)[..., None, None], taken, 0.0).transpose(1, 2)
    return taken @ taken.transpose(2, 3)
