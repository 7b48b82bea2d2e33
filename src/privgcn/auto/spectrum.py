"""Main directions and axes of documents, and propagation along their edges.

    directions   the strongest singular vectors of X - mean, by a randomised SVD that never
                 centers the rows; then the direction in which the mean adds to them
    axes         eigenvectors of a table's second moments, each times variance^power
    propagation  v <- (1 - restart) M v + restart v0: personalised PageRank

Random choices are fixed: the same documents give the same directions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from privgcn.storage import copy_rows, room, unmap

Table = NDArray[np.float32]

_NEGLIGIBLE = 1e-6
_ROUNDING = 1e-4
_ROWS_AT_ONCE = 1 << 16


def fixed_choice() -> np.random.RandomState:
    """A generator of fixed random choices; its stream is frozen for all versions of NumPy."""
    return np.random.RandomState(0)


class Directions(NamedTuple):
    """Orthonormal columns, the last being what the mean adds, and the mean in the others."""

    basis: Table
    mean: Table


def principal_directions(
    rows: Any, rank: int, *, oversampling: int, iterations: int
) -> Directions:
    """The ``rank`` strongest directions of sparse or dense rows."""
    documents, width = rows.shape
    mean = np.asarray(rows.sum(axis=0), np.float32) / np.float32(max(documents, 1))
    transposed = rows.T

    def times(table: Table) -> Table:
        return np.asarray(rows @ table - mean @ table)

    def transposed_times(table: Table) -> Table:
        return np.asarray(transposed @ table - np.outer(mean, table.sum(axis=0)))

    columns = min(rank + oversampling, documents, width)
    start = fixed_choice().standard_normal((width, columns)).astype(np.float32)
    # Threads would wait for each other most of the time.
    with threadpool_limits(1):
        range_of = times(start)
        for _ in range(iterations):
            range_of = linalg.qr(range_of, mode="economic", check_finite=False)[0]
            range_of = times(transposed_times(range_of))
        range_of = linalg.qr(range_of, mode="economic", check_finite=False)[0]
        _, strengths, right = linalg.svd(
            transposed_times(range_of).T, full_matrices=False, check_finite=False
        )
    strong = int((strengths > _NEGLIGIBLE * max(float(strengths[:1].sum()), 1e-12)).sum())
    basis = np.ascontiguousarray(right[: min(rank, strong)].T)
    rest = mean - basis @ (mean @ basis)
    length = float(np.linalg.norm(rest))
    # Where the directions hold all of the mean, what is left is rounding.
    rounding = length <= _ROUNDING * float(np.linalg.norm(mean))
    rest = np.zeros_like(rest) if rounding else rest / np.float32(length)
    return Directions(np.column_stack([basis, rest]), mean @ basis)


def personalised_pagerank(matrix: csr_array, values: Table, restart: float, hops: int) -> Table:
    """Propagates values along the edges, each hop going back to the start in part."""
    back, away = np.float32(restart), np.float32(1.0 - restart)
    start, result = values, room(values.shape, np.float32)
    values, moved = (np.empty(start.shape, np.float32) for _ in range(2))
    copy_rows(start, values)
    for _ in range(hops):
        for begin in range(0, len(values), _ROWS_AT_ONCE):
            own = slice(begin, begin + _ROWS_AT_ONCE)
            moved[own] = (matrix[own] * away) @ values + back * start[own]
            unmap(matrix)
            unmap(start)
        values, moved = moved, values
    copy_rows(values, result)
    return result


def principal_axes(values: Table, power: float) -> Callable[[Table], Table]:
    """What turns rows along the principal axes of ``values``, stretched by variance^power.

    They get length about one; much shorter rows stay shorter.
    """
    # In float32 the library may fail where many directions are empty.
    square = (values.T @ values).astype(np.float64) / max(len(values), 1)
    variances, axes = np.linalg.eigh(square)
    variances = np.maximum(variances, 0.0)
    relative = variances / max(float(variances[-1:].sum()), 1e-30)
    stretched = (axes * relative**power).astype(np.float32)
    typical = float(np.square(values @ stretched).sum()) / max(len(values), 1)

    def along(rows: Table) -> Table:
        turned = rows @ stretched
        squares = np.einsum("ij,ij->i", turned, turned)
        turned /= np.sqrt(squares + np.float32(1e-3 * typical + 1e-30))[:, None]
        return np.asarray(turned)

    return along
