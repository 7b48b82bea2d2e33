"""Feature rows of any kind: dense, sparse or on disk, behind one small interface."""

from __future__ import annotations

from typing import Any

import torch

from privgcn.graph.dense_rows import DenseRows
from privgcn.graph.on_disk import InMemory, Rows
from privgcn.graph.sparse_rows import SparseRows

# Of rows that a device keeps without gaps: one gibibyte in float64.
_MOST_CELLS = 1 << 27

__all__ = ["Rows", "densified", "normalised", "rows_of"]


def densified(rows: Rows, dtype: torch.dtype, documents: int) -> Rows:
    """The same rows without gaps where that is not much: a device multiplies these faster.

    Both kinds round in their own way, so a public number of ``documents`` decides: that of
    the rows may be private.
    """
    if documents * rows.width > _MOST_CELLS:
        return rows
    return DenseRows(rows.dense().to(dtype))


def rows_of(matrix: Any) -> InMemory:
    """Wraps a SciPy sparse matrix, an array or a tensor."""
    if hasattr(matrix, "tocsr"):
        return SparseRows.from_scipy(matrix)
    return DenseRows(torch.as_tensor(matrix, dtype=torch.float32))


def normalised(rows: Rows, norm: str) -> Rows:
    """Divides each row by its own L1 or L2 norm (``"none"``: leaves it); zero rows stay zero.

    Only the document's own row decides, so the step is free of privacy cost.
    """
    if norm == "none":
        return rows
    size = rows.row_sums(1) if norm == "l1" else rows.row_sums(2).sqrt()
    # In float64: the inverse of a tiny norm is no float32, and infinite rows would follow.
    return rows.scaled(torch.where(size > 0, 1.0 / size, 0.0))
