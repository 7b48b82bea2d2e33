"""Symmetric normalisation with self-loops (Kipf and Welling 2017)."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from privgcn.graph.on_disk import RowsOnDisk, lies_on_disk, propagation_on_disk
from privgcn.graph.sparse_rows import SparseRows


def propagation_matrix(edges: Tensor, documents: int) -> SparseRows:
    """The matrix D^-1/2 (A + I) D^-1/2 of an undirected graph.

    Args:
        edges: ``[2, m]``, each link once, no self-loops.
        documents: Number of documents; those without links keep their own value.
    """
    device = edges.device
    loops = torch.arange(documents, device=device)
    source = torch.cat([edges[0], edges[1], loops])
    target = torch.cat([edges[1], edges[0], loops])
    degree = torch.bincount(source, minlength=documents)
    # One stable sort by row; within a row the order does not matter to a sum.
    order = torch.argsort(source, stable=True)
    offsets = torch.cat([degree.new_zeros(1), degree.cumsum(0)])
    scale = degree.double().rsqrt()
    values = (scale[source] * scale[target]).float()
    return SparseRows(offsets, target[order], values[order], documents)


def propagation_of(edges: Tensor, documents: int) -> SparseRows | RowsOnDisk:
    """The same matrix; of links on disk, on disk."""
    if lies_on_disk(edges):
        return propagation_on_disk(edges, documents)
    return propagation_matrix(edges, documents)


class Links(Protocol):
    """A propagation matrix, however it is stored."""

    def times(self, table: Tensor) -> Tensor:
        """The product with a table of one row per document."""


def propagate(matrix: Links | None, values: Tensor, hops: int) -> Tensor:
    """Applies the matrix ``hops`` times to ``[n, ...]``; ``None`` stands for no links."""
    if matrix is None or hops == 0:
        return values
    flat = values.flatten(1)
    for _ in range(hops):
        flat = matrix.times(flat)
    return flat.view_as(values)
