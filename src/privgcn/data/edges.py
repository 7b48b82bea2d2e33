"""Edges between documents, in every form that people have them in."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def canonical_edges(source: ArrayLike, target: ArrayLike, count: int) -> NDArray[np.int64]:
    """Undirected edges, each once with the smaller row first; self-loops are dropped.

    A repeated edge and an edge of a document with itself carry no information here, because
    propagation adds its own self-loops.
    """
    first = np.asarray(source, dtype=np.int64)
    second = np.asarray(target, dtype=np.int64)
    # One integer for each pair makes sorting and duplicates one pass over flat memory.
    keys = np.minimum(first, second)
    keys *= max(count, 1)
    keys += np.maximum(first, second)
    keys = np.unique(keys[first != second])
    return np.stack([keys // max(count, 1), keys % max(count, 1)])


def no_edges() -> NDArray[np.int64]:
    """The edges of a corpus without edges."""
    return np.zeros((2, 0), dtype=np.int64)
