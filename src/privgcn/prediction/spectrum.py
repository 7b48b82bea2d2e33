"""The main directions of a set of documents, and what travels along their links."""

from __future__ import annotations

from typing import NamedTuple

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from privgcn.graph.rows import Rows

OVERSAMPLING = 20
ITERATIONS = 3
_NEGLIGIBLE = 1e-6


class Directions(NamedTuple):
    """Principal directions of some documents.

    Attributes:
        basis: ``[features, r + 1]``, orthonormal; the last column is what the mean adds.
        centre: The mean of the documents in the first ``r`` of them.
    """

    basis: Tensor
    centre: Tensor

    def coordinates(self, features: Rows, empty: Tensor, chosen: slice = slice(None)) -> Tensor:
        """Where documents stand in the chosen of the ``r`` directions; empty ones at zero."""
        table = self.basis[:, :-1][:, chosen].contiguous()
        found = features.times(table).sub_(self.centre[chosen])
        return found.masked_fill_(empty[:, None], 0.0)


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
    # A second thread brings a QR of this size ten times the work.
    with threadpool_limits(1):
        found = torch.linalg.qr(times(start))[0]
        for _ in range(iterations):
            found = torch.linalg.qr(times(transposed_times(found)))[0]
        _, strengths, rows = torch.linalg.svd(transposed_times(found).T, full_matrices=False)
    strong = int((strengths > _NEGLIGIBLE * strengths[:1].clamp(min=1e-12)).sum())
    basis = rows[: min(rank, strong)].T
    rest = mean - basis @ (basis.T @ mean)
    rest = rest / rest.norm().clamp(min=1e-12)
    return Directions(torch.cat([basis, rest[:, None]], dim=1), mean @ basis)


def personalised_pagerank(matrix: Rows, values: Tensor, restart: float, hops: int) -> Tensor:
    """Lets values travel along the links, each hop going back to the start in part."""
    travelled = values
    for _ in range(hops):
        travelled = matrix.times(travelled).mul_(1.0 - restart).add_(values, alpha=restart)
    return travelled


class Whitening(NamedTuple):
    """The principal axes of some rows, each stretched by its variance to a power.

    Attributes:
        axes: ``[r, r]``, the stretched axes.
        typical: Mean squared length of the rows along them.
    """

    axes: Tensor
    typical: Tensor

    @classmethod
    def of(cls, values: Tensor, exponent: float) -> Whitening:
        """The axes of these rows."""
        # In float32 the library fails on two threads where many directions are silent.
        square = (values.T @ values / max(len(values), 1)).double()
        variances, axes = (found.float() for found in torch.linalg.eigh(square))
        variances = variances.clamp(min=0)
        stretched = axes * (variances / variances[-1:].clamp(min=1e-30)) ** exponent
        return cls(stretched, (values @ stretched).square().sum(1).mean())

    def __call__(self, values: Tensor) -> Tensor:
        """Rows along the axes, of length about one; much shorter rows stay shorter."""
        turned = values @ self.axes
        squares = turned.square().sum(1)
        return turned.div_((squares + 1e-3 * self.typical + 1e-30).sqrt_()[:, None])
