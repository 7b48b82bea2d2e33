"""Edges between documents, in every form that people have them in.

Examples:
    >>> canonical_edges([3, 1, 1, 2], [1, 3, 1, 0], 4).tolist()
    [[0, 1], [2, 3]]
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privgcn.data.corpus import Strings
from privgcn.data.documents import codes
from privgcn.data.problems import Problems
from privgcn.data.table import Table
from privgcn.errors import DataError, shown

ENDS = ("source", "target")
_WEIGHTS = ("weight", "weights")
_AT_ONCE = 1 << 22
_CUT = "; a last line may have been cut"


def canonical_edges(source: ArrayLike, target: ArrayLike, count: int) -> NDArray[np.int64]:
    """Undirected edges, each once with the smaller row first; self-loops are dropped.

    A repeated edge and an edge of a document with itself carry no information here, because
    propagation adds its own self-loops.
    """
    first, second = np.asarray(source), np.asarray(target)
    # One integer for each pair makes sorting and duplicates one pass over flat memory.
    keys = np.empty(first.shape[0], dtype=np.int64)
    size = 0
    for begin in range(0, len(keys), _AT_ONCE):
        ends = np.stack([ends[begin : begin + _AT_ONCE] for ends in (first, second)])
        ends = ends.astype(np.int64)
        ends.sort(axis=0)
        pairs = (ends[0] * np.int64(max(count, 1)) + ends[1])[ends[0] != ends[1]]
        keys[size : size + len(pairs)] = pairs
        size += len(pairs)
    keys = keys[:size]
    keys.sort()
    first_of_its_kind = np.ones(size, dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=first_of_its_kind[1:])
    edges = np.stack(np.divmod(keys[first_of_its_kind], max(count, 1)))
    return edges.astype(np.int64, copy=False)


def no_edges() -> NDArray[np.int64]:
    """The edges of a corpus without edges."""
    return np.zeros((2, 0), dtype=np.int64)


def rows_of_table(
    table: Table, count: int, ids: Strings | None, problems: Problems, documents: str = ""
) -> NDArray[np.int64]:
    """The rows that each edge joins, ``[2, edges]``.

    The columns ``source`` and ``target`` name documents, or else the first two: by id, or by
    row where there are no ids. ``documents`` says in messages where they are.
    """
    import polars as pl

    columns = table.frame.columns
    folded = {column.strip().casefold(): column for column in reversed(columns)}
    named = [folded[name] for name in ENDS if name in folded]
    pair = named if len(named) == 2 else columns[:2]
    if len(pair) < 2 or any(mark in name for name in pair for mark in ",;|\t"):
        raise DataError(
            f"{table.name} must have the columns 'source' and 'target'. Got {table.got()}. "
            "Rename the columns, or add them."
        )
    if pair is not named:
        problems.tell(
            f"Edges lead from {shown(pair[0])} to {shown(pair[1])}, the first two columns of "
            f"{table.name.lower()}",
            stops=False,
        )
    refuse_weights([folded[name] for name in _WEIGHTS if name in folded], table.name, problems)
    unused = [name for name in columns if name not in (*pair, *_WEIGHTS)]
    if unused:
        some = ", ".join(map(shown, unused))
        problems.tell(f"Of the edges, nothing uses {some}", stops=False)
    ends = []
    for name, column in zip(ENDS, pair, strict=True):
        values = table.frame[column]
        end, remedy = f"the id of a document{documents}", "Remove the edge or add the document"
        if ids is None:
            numbers = values.cast(pl.Int64, strict=False)
            rows = numbers.fill_null(-1).to_numpy()
            rows = np.where(rows < count, rows, -1)
            end = f"a row of the {count} documents, counted from 0"
            remedy = "To name documents by id, give them ids"
        else:
            rows = codes(values, ids.column)
        missing = values.is_null().to_numpy()
        problems.rows(
            missing,
            f"The '{name}' of an edge must not be empty",
            lambda row: f"nothing in {table.place(row)}",
            f"Remove the edge{_CUT * table.from_file}",
        )
        wrong = (rows < 0) & ~missing
        if wrong.any() and ids is not None:
            bare = values[int(wrong.argmax())].strip().removesuffix(".0")
            near = ids.column.filter(ids.column.str.strip_chars() == bare)
            if len(near):
                remedy = f"Did you mean {shown(near[0])}? Write ids the same way in both"
        problems.rows(
            wrong,
            f"The '{name}' of an edge must be {end}",
            partial(table.value, column),
            remedy + _CUT * table.from_file,
        )
        ends.append(rows)
    joined: NDArray[np.int64] = np.stack(ends)
    return joined[:, (joined >= 0).all(axis=0)] if problems.collect else joined


def rows_of_array(ends: Any, count: int, name: str) -> NDArray[np.int64]:
    """Edges by the rows of their documents, as an array ``[2, edges]``."""
    ends = np.asarray(ends)
    if ends.ndim != 2 or ends.shape[0] != 2:
        raise DataError(
            f"{name} must have the shape [2, edges], a row of sources above a row of targets. "
            f"Got {list(ends.shape)}. Turn it."
        )
    if ends.dtype.kind not in "iu" and ends.size:
        raise DataError(
            f"{name} must hold rows of the {count} documents, counted from 0. Got "
            f"{shown(ends.dtype)[:80]}. Use whole numbers; to name documents by id, give them "
            "ids."
        )
    for begin in range(0, ends.shape[1], _AT_ONCE):
        own = ends[:, begin : begin + _AT_ONCE]
        if not 0 <= int(own.min()) <= int(own.max()) < count:
            bad = next(int(end) for end in own.flat if not 0 <= int(end) < count)
            raise DataError(
                f"{name} must hold rows of the {count} documents, counted from 0. Got {bad}. "
                "Count documents from 0; to name documents by id, give them ids."
            )
    rows: NDArray[np.int64] = ends
    return rows


def refuse_weights(given: Sequence[str], name: str, problems: Problems) -> None:
    """Refuses what would be ignored."""
    if given:
        problems.tell(
            f"{name} must give edges no weights: every edge counts the same",
            given[0],
            remedy="Remove it, and the edges that are too weak to count",
        )
