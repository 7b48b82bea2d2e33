"""Links between documents, in every form that people have them in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from privgcn.data.frames import column, column_names, is_frame
from privgcn.errors import DataError, shown

ENDS = ("source", "target")
WEIGHTS = ("weight", "weights")


def canonical_edges(
    source: npt.ArrayLike, target: npt.ArrayLike, count: int
) -> npt.NDArray[np.int64]:
    """Undirected links, each once with the smaller row first; self-loops are dropped.

    A repeated link and a link of a document with itself carry no information here, because
    propagation adds its own self-loops.
    """
    first = np.asarray(source, dtype=np.int64)
    second = np.asarray(target, dtype=np.int64)
    low, high = np.minimum(first, second), np.maximum(first, second)
    keep = low != high
    # One integer for each pair makes sorting and duplicates one pass over flat memory.
    keys = np.unique(low[keep] * np.int64(max(count, 1)) + high[keep])
    return np.stack([keys // max(count, 1), keys % max(count, 1)])


def no_edges() -> npt.NDArray[np.int64]:
    """The links of a corpus without links."""
    return np.zeros((2, 0), dtype=np.int64)


def link_ends(links: Any, count: int, ids: Sequence[str] | None) -> npt.NDArray[np.int64]:
    """The rows that each link joins, ``[2, links]``, as they were given.

    Args:
        links: Pairs; a frame with the columns ``source`` and ``target``; a square sparse
            matrix; or an ``edge_index`` of the shape ``[2, links]``. A matrix and an
            ``edge_index`` speak of rows, the others of ids where documents have ids.
        count: How many documents there are.
        ids: Their ids; None where documents are known by their row.

    Raises:
        DataError: A link leads to no document, or has a weight.
    """
    if links is None:
        return no_edges()
    if hasattr(links, "tocoo"):
        return _of_matrix(links, count)
    if hasattr(links, "detach"):
        ends = np.asarray(links.detach().cpu().numpy())
        if ends.ndim != 2 or ends.shape[0] != 2:
            raise DataError(
                "An edge_index must have the shape [2, links], a row of sources above a row of "
                f"targets. Got {list(ends.shape)}."
            )
        return _checked_rows(ends, count)
    if is_frame(links):
        names = column_names(links)
        _refuse_weights([name for name in names if name in WEIGHTS])
        for name in ENDS:
            if name not in names:
                raise DataError(
                    "A frame of links must have the columns 'source' and 'target'. Got "
                    f"{', '.join(shown(name) for name in names[:20])}. Rename them."
                )
        ends = np.array([column(links, name) for name in ENDS], dtype=object)
        return _rows_of(ends, count, ids)
    if (
        isinstance(links, np.ndarray)
        and links.ndim == 2
        and links.shape[0] == 2 != links.shape[1]
    ):
        return _checked_rows(links, count)
    pairs = [tuple(pair) for pair in links]
    for number, pair in enumerate(pairs):
        if len(pair) != 2:
            _refuse_weights(["a third value"] if len(pair) == 3 else [])
            raise DataError(
                f"A link must be a pair of documents. Link {number} has {len(pair)} values."
            )
    return _rows_of(np.array(pairs, dtype=object).reshape(-1, 2).T, count, ids)


def _of_matrix(matrix: Any, count: int) -> npt.NDArray[np.int64]:
    if matrix.shape != (count, count):
        raise DataError(
            f"A matrix of links must have one row and one column for each of the {count} "
            f"documents. Got the shape {matrix.shape}."
        )
    entries = matrix.tocoo()
    present = entries.data != 0
    if len(np.unique(entries.data[present])) > 1:
        _refuse_weights(["different values"])
    return np.stack([entries.row[present], entries.col[present]]).astype(np.int64)


def _refuse_weights(found: Sequence[str]) -> None:
    if found:
        raise DataError(
            f"Links must have no weights: every link counts the same. Got {found[0]}. Remove "
            "it, and the links that are too weak to count."
        )


def _rows_of(
    ends: npt.NDArray[Any], count: int, ids: Sequence[str] | None
) -> npt.NDArray[np.int64]:
    if ids is None:
        return _checked_rows(ends, count)
    place = {name: row for row, name in enumerate(ids)}
    rows = np.empty(ends.shape, dtype=np.int64)
    for side, values in enumerate(ends):
        for number, value in enumerate(values):
            row = place.get(str(value))
            if row is None:
                raise DataError(
                    f"The {ENDS[side]} of a link must be the id of a document. Got "
                    f"{shown(value)} in link {number}. Remove the link or add the document."
                )
            rows[side, number] = row
    return rows


def _checked_rows(ends: npt.NDArray[Any], count: int) -> npt.NDArray[np.int64]:
    if ends.size == 0:
        return no_edges()
    whole = ends.dtype.kind in "iu" or (
        ends.dtype == object
        and all(isinstance(end, int | np.integer) for end in ends.reshape(-1))
    )
    if not whole or int(ends.min()) < 0 or int(ends.max()) >= count:
        bad = next(
            end
            for end in ends.reshape(-1)
            if not isinstance(end, int | np.integer) or not 0 <= int(end) < count
        )
        raise DataError(
            f"Links must join rows of the {count} documents, counted from 0. Got {shown(bad)}. "
            "To name documents by id, give them ids."
        )
    return ends.astype(np.int64)
