"""Edges between documents, in every form that people have them in.

Examples:
    >>> canonical_edges([3, 1, 1, 2], [1, 3, 1, 0], 4).tolist()
    [[0, 1], [2, 3]]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privgcn.data.documents import codes, numbered
from privgcn.data.frames import columns_of, is_frame, table_of_columns
from privgcn.data.problems import Problems
from privgcn.data.table import ENDS, Table
from privgcn.errors import DataError, shown

if TYPE_CHECKING:
    import polars as pl

_WEIGHTS = ("weight", "weights")
_AT_ONCE = 1 << 22
_CUT = "; a last line may have been cut"


def canonical_edges(source: ArrayLike, target: ArrayLike, count: int) -> NDArray[np.int64]:
    """Undirected edges, each once with the smaller row first; self-loops are dropped.

    A repeated edge and an edge of a document with itself carry no information here, because
    propagation adds its own self-loops.
    """
    edges = Edges(count)
    first, second = np.asarray(source), np.asarray(target)
    for begin in range(0, len(first), _AT_ONCE):
        edges.add(first[begin : begin + _AT_ONCE], second[begin : begin + _AT_ONCE])
    return edges.canonical()


class Edges:
    """Collects edges, eight bytes each, until all are known.

    Args:
        count: How many documents there are.
    """

    def __init__(self, count: int) -> None:
        self.count, self.to_self, self.repeated = max(count, 1), 0, 0
        self._keys = np.empty(0, dtype=np.int64)

    def add(self, source: NDArray[Any], target: NDArray[Any]) -> None:
        """Some more edges, by the rows of their documents."""
        ends = np.sort(np.stack([source, target]).astype(np.int64, copy=False), axis=0)
        # One integer for each pair makes sorting and duplicates one pass over flat memory.
        keys = (ends[0] * self.count + ends[1])[ends[0] != ends[1]]
        self.to_self += ends.shape[1] - len(keys)
        # Nobody else has the array, so it grows in its place.
        self._keys.resize(len(self._keys) + len(keys), refcheck=False)
        self._keys[len(self._keys) - len(keys) :] = keys

    def canonical(self) -> NDArray[np.int64]:
        """All of them, as ``canonical_edges`` has them; nothing can be added then."""
        keys, self._keys = self._keys, np.empty(0, dtype=np.int64)
        keys.sort()
        first_of_its_kind = np.ones(len(keys), dtype=bool)
        np.not_equal(keys[1:], keys[:-1], out=first_of_its_kind[1:])
        different = keys[first_of_its_kind]
        self.repeated = len(keys) - len(different)
        del keys
        edges = np.empty((2, len(different)), dtype=np.int64)
        np.divmod(different, self.count, out=(edges[0], edges[1]))
        return edges


def no_edges() -> NDArray[np.int64]:
    """The edges of a corpus without edges."""
    return np.zeros((2, 0), dtype=np.int64)


def edges_of_tables(
    tables: Iterable[Table],
    count: int,
    ids: pl.Series | None,
    problems: Problems,
    documents: str = "",
) -> Edges:
    """The edges that tables list.

    The columns ``source`` and ``target`` name documents, or else the first two: by id, or by
    row where there are no ids. ``documents`` says in messages where they are.
    """
    edges, all_of = Edges(count), Problems(collect=True)
    rows_of = None if ids is None else numbered(ids)
    for table in tables:
        rows = _rows(table, _pair(table, all_of), count, ids, rows_of, all_of, documents)
        edges.add(*rows[:, (rows >= 0).all(axis=0)])
    problems.repeat(all_of)
    return edges


def _pair(table: Table, problems: Problems) -> list[str]:
    """The columns of both ends."""
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
            f"t{table.name[1:]}",
            stops=False,
        )
    refuse_weights([folded[name] for name in _WEIGHTS if name in folded], table.name, problems)
    unused = [name for name in columns if name not in (*pair, *_WEIGHTS)]
    if unused:
        some = ", ".join(map(shown, unused))
        problems.tell(f"Of the edges, nothing uses {some}", stops=False)
    return pair


def _rows(
    table: Table,
    pair: list[str],
    count: int,
    ids: pl.Series | None,
    rows_of: pl.DataFrame | None,
    problems: Problems,
    documents: str,
) -> NDArray[np.int64]:
    """The rows that each edge joins, ``[2, edges]``; -1 where it joins none."""
    import polars as pl

    ends = []
    for name, column in zip(ENDS, pair, strict=True):
        values = table.frame[column]
        end, remedy = f"the id of a document{documents}", "Remove the edge or add the document"
        if rows_of is None:
            numbers = values.cast(pl.Int64, strict=False)
            rows = numbers.fill_null(-1).to_numpy()
            rows = np.where(rows < count, rows, -1)
            end = f"a row of the {count} documents, counted from 0"
            remedy = "To name documents by id, give them ids"
        else:
            rows = codes(values, rows_of)
        missing = values.is_null().to_numpy()
        problems.rows(
            missing,
            f"The '{name}' of an edge must not be empty",
            lambda row: f"nothing in {table.place(row)}",
            f"Remove the edge{_CUT * table.from_file}",
        )
        wrong = (rows < 0) & ~missing
        if ids is not None and wrong.any():
            bare = values[int(wrong.argmax())].strip().removesuffix(".0")
            near = ids.filter(ids.str.strip_chars() == bare)
            if len(near):
                remedy = f"Did you mean {shown(near[0])}? Write ids the same way in both"
        problems.rows(
            wrong,
            f"The '{name}' of an edge must be {end}",
            partial(table.value, column),
            remedy + _CUT * table.from_file,
        )
        ends.append(rows)
    return np.stack(ends)


def edges_of_array(ends: Any, count: int, name: str) -> Edges:
    """Edges by the rows of their documents, as an array ``[2, edges]``."""
    ends, edges = np.asarray(ends), Edges(count)
    if ends.ndim != 2 or ends.shape[0] != 2:
        raise DataError(
            f"{name} must have the shape [2, edges], a row of sources above a row of targets. "
            f"Got {list(ends.shape)}. Turn it."
        )
    for begin in range(0, ends.shape[1], _AT_ONCE):
        own = ends[:, begin : begin + _AT_ONCE]
        wrong: Any = [own.dtype]
        if own.dtype.kind in "iu":
            wrong = own[(own < 0) | (own >= count)]
        if len(wrong):
            raise DataError(
                f"{name} must hold rows of the {count} documents, counted from 0. Got "
                f"{shown(wrong[0])[:80]}. Use whole numbers; to name documents by id, give "
                "them ids."
            )
        edges.add(*own)
    return edges


def edges_of(edges: Any, count: int, ids: pl.Series | None, problems: Problems) -> Edges:
    """Edges as somebody has them in memory.

    A matrix and an ``edge_index`` speak of rows; pairs and frames of ids, where ``ids`` has
    those of the documents.
    """
    if edges is None:
        return Edges(count)
    if hasattr(edges, "tocoo"):
        if edges.shape != (count, count):
            raise DataError(
                "A matrix of edges must have one row and one column for each of the "
                f"{count} documents. Got the shape {edges.shape}."
            )
        entries = edges.tocoo()
        present = entries.data != 0
        if len(np.unique(entries.data[present])) > 1:
            refuse_weights(["different values"], "A matrix", problems)
        ends = np.stack([entries.row[present], entries.col[present]])
        return edges_of_array(ends, count, "A matrix")
    if hasattr(edges, "detach"):
        return edges_of_array(edges.detach().cpu().numpy(), count, "An edge_index")
    if is_frame(edges):
        table = table_of_columns(columns_of(edges), "The frame of edges")
        return edges_of_tables([table], count, ids, problems)
    if isinstance(edges, np.ndarray) and edges.ndim == 2 and edges.dtype.kind in "iu":
        if edges.shape[0] == 2 != edges.shape[1]:
            return edges_of_array(edges, count, "An edge_index")
        if edges.shape[1] == 2 and ids is None:
            return edges_of_array(edges.T, count, "An array of edges")
    pairs = [tuple(pair) if hasattr(pair, "__iter__") else (pair,) for pair in edges]
    for number, pair in enumerate(pairs):
        if len(pair) != 2:
            refuse_weights(["a third value"] * (len(pair) == 3), "A list", problems)
            raise DataError(
                f"An edge must be a pair of documents. Edge {number} has {len(pair)} values."
            )
    columns = {name: [pair[side] for pair in pairs] for side, name in enumerate(ENDS)}
    table = table_of_columns(columns, "The list of edges")
    return edges_of_tables([table], count, ids, problems)


def refuse_weights(given: Sequence[str], name: str, problems: Problems) -> None:
    """Refuses what would be ignored."""
    if given:
        problems.tell(
            f"{name} must give edges no weights: every edge counts the same",
            given[0],
            remedy="Remove it, and the edges that are too weak to count",
        )
