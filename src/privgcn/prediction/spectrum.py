"""The main directions of a set of documents, and what travels along their links."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from privgcn.graph.rows import Rows, SparseRows

OVERSAMPLING = 20
ITERATIONS = 3
_NEGLIGIBLE = 1e-6


class Directions(NamedTuple):
    """Principal directions of some documents.

    Attributes:
        basis: ``[features, r + 1]``, orthonormal; the last column is what the mean adds.
        coordinates: ``[documents, r]``, centred.
    """

    basis: Tensor
    coordinates: Tensor


def principal_directions(
    features: Rows,
    rank: int,
    *,
    oversampling: int = OVERSAMPLING,
    iterations: int = ITERATIONS,
) -> Directions:
    """The ``rank`` strongest directions, by a randomised SVD that never centres the rows.

    The random start is fixed, so the same documents give the same directions.
    """
    documents, width = features.shape
    ones = torch.full((documents, 1), 1.0 / max(documents, 1))
    mean = features.transposed_times(ones)[:, 0]

    def times(table: Tensor) -> Tensor:
        return features.times(table) - mean @ table

    def transposed_times(table: Tensor) -> Tensor:
        return features.transposed_times(table) - torch.outer(mean, table.sum(0))

    columns = min(rank + oversampling, documents, width)
    start = torch.randn(width, columns, generator=torch.Generator().manual_seed(0))
    found = torch.linalg.qr(times(start))[0]
    for _ in range(iterations):
        found = torch.linalg.qr(times(transposed_times(found)))[0]
    _, strengths, rows = torch.linalg.svd(transposed_times(found).T, full_matrices=False)
    strong = int((strengths > _NEGLIGIBLE * strengths[:1].clamp(min=1e-12)).sum())
    basis = rows[: min(rank, strong)].T
    rest = mean - basis @ (basis.T @ mean)
    rest = rest / rest.norm().clamp(min=1e-12)
    return Directions(torch.cat([basis, rest[:, None]], dim=1), times(basis))


def personalised_pagerank(
    matrix: SparseRows, values: Tensor, restart: float, hops: int
) -> Tensor:
    """Lets values travel along the links, each hop going back to the start in part."""
    travelled = values
    for _ in range(hops):
        travelled = (1.0 - restart) * matrix.times(travelled) + restart * values
    return travelled


def whitened(values: Tensor, exponent: float) -> Tensor:
    """Rows in their own principal axes, each axis stretched by its variance to a power.

    Rows end with length about one; rows much shorter than most stay shorter.
    """
    variances, axes = torch.linalg.eigh(values.T @ values / max(len(values), 1))
    variances = variances.clamp(min=0)
    stretch = (variances / variances[-1:].clamp(min=1e-30)) ** exponent
    turned: Tensor = values @ (axes * stretch)
    squares = turned.square().sum(1)
    return turned / (squares + 1e-3 * squares.mean() + 1e-30).sqrt()[:, None]
