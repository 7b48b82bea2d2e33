"""Edges between documents, in every form that people have them in.

Whatever the form, edges become pieces ``[2, some]`` of document rows, and those one array.

Examples:
    >>> canonical_edges([3, 1, 1, 2], [1, 3, 1, 0], 4).tolist()
    [[0, 1], [2, 3]]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privgcn.data.documents import codes, numbered
from privgcn.data.frames import columns_of, is_frame, table_of_columns
from privgcn.data.problems import Problems
from privgcn.data.readers import numeric_array, tables_of_file
from privgcn.data.table import ENDS, Table
from privgcn.errors import DataError, shown

if TYPE_CHECKING:
    import polars as pl

_WEIGHTS = ("weight", "weights")
_AT_ONCE = 1 << 22
_CUT = "; a last line may have been cut"

Pieces = Iterable[NDArray[Any]]
"""Edges as arrays ``[2, some]`` of the rows of their documents."""


def canonical_edges(source: ArrayLike, target: ArrayLike, count: int) -> NDArray[np.int64]:
    """Undirected edges, each once with the smaller row first; self-loops are dropped.

    A repeated edge and an edge of a document with itself carry no information here, because
    propagation adds its own self-loops.
    """
    first, second = np.asarray(source), np.asarray(target)
    begins = range(0, len(first), _AT_ONCE)
    return gathered(
        (np.stack([first[at : at + _AT_ONCE], second[at : at + _AT_ONCE]]) for at in begins),
        count,
    )[0]


def gathered(pieces: Pieces, count: int) -> tuple[NDArray[np.int64], int]:
    """All edges as ``canonical_edges`` has them, and how many were left out.

    Args:
        pieces: The edges; eight bytes each are held until all are known.
        count: How many documents there are.
    """
    keys, listed, count = np.empty(0, dtype=np.int64), 0, max(count, 1)
    for piece in pieces:
        listed += piece.shape[1]
        own = _keys(piece, count)
        # Nobody else has the array, so it grows in its place.
        keys.resize(len(keys) + len(own), refcheck=False)
        keys[len(keys) - len(own) :] = own
        # Not beside the next one.
        del piece, own
    keys.sort()
    first_of_its_kind = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=first_of_its_kind[1:])
    keys = keys[first_of_its_kind]
    edges = np.empty((2, len(keys)), dtype=np.int64)
    np.divmod(keys, count, out=(edges[0], edges[1]))
    return edges, listed - len(keys)


def _keys(piece: NDArray[Any], count: int) -> NDArray[np.int64]:
    """One integer for each pair: sorting and duplicates are one pass over flat memory then."""
    ends = np.sort(piece.astype(np.int64, copy=False), axis=0)
    keys: NDArray[np.int64] = (ends[0] * count + ends[1])[ends[0] != ends[1]]
    return keys


def edges_of(
    edges: Any,
    count: int,
    ids: pl.Series | None,
    problems: Problems,
    *,
    documents: str = "",
    encoding: str | None = None,
) -> Pieces:
    """Edges as somebody has them, in a file or in memory.

    A matrix, a ``.npy`` file and an ``edge_index`` speak of rows; pairs, tables and frames of
    ids, where ``ids`` has those of the documents.

    Args:
        edges: A file, frame, sparse matrix, tensor, array, pairs, or None.
        count: How many documents there are.
        ids: Their ids, if they have some.
        problems: Who is told what is wrong.
        documents: Says in messages where the documents are.
        encoding: Of a text file.
    """
    if edges is None:
        return ()
    if isinstance(edges, Path):
        if edges.suffix == ".npy":
            return _of_rows(numeric_array(edges, "iu"), count, f"The file {edges}")
        tables = tables_of_file(edges, problems, encoding)
        return _of_tables(tables, count, ids, problems, documents)
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
        return _of_rows(ends, count, "A matrix")
    if hasattr(edges, "detach"):
        return _of_rows(edges.detach().cpu().numpy(), count, "An edge_index")
    if isinstance(edges, np.ndarray) and edges.ndim == 2 and edges.dtype.kind in "iu":
        if edges.shape[0] == 2 != edges.shape[1]:
            return _of_rows(edges, count, "An edge_index")
        if edges.shape[1] == 2 and ids is None:
            return _of_rows(edges.T, count, "An array of edges")
    name = "The frame of edges"
    if not is_frame(edges):
        pairs, name = list(edges), "The list of edges"
        for number, pair in enumerate(pairs):
            size = len(pair) if hasattr(pair, "__len__") else 1
            if size != 2:
                raise DataError(
                    "An edge must be a pair of documents, without a weight. Edge "
                    f"{number} has {size} values. Every edge counts the same: give pairs."
                )
        edges = {end: [pair[side] for pair in pairs] for side, end in enumerate(ENDS)}
    table = table_of_columns(columns_of(edges), name)
    return _of_tables([table], count, ids, problems, documents)


def refuse_weights(given: Sequence[str], name: str, problems: Problems) -> None:
    """Refuses what would be ignored."""
    if given:
        problems.tell(
            f"{name} must give edges no weights: every edge counts the same",
            given[0],
            remedy="Remove it, and the edges that are too weak to count",
        )


def _of_rows(ends: Any, count: int, name: str) -> Iterator[NDArray[Any]]:
    """Edges by the rows of their documents, as an array ``[2, edges]``."""
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
        yield own


def _of_tables(
    tables: Iterable[Table],
    count: int,
    ids: pl.Series | None,
    problems: Problems,
    documents: str,
) -> Iterator[NDArray[np.int64]]:
    """Edges that tables list, by id, or by row where there are no ids."""
    known = None if ids is None else numbered(ids)
    for table in tables:
        rows = _rows_of_table(table, count, ids, known, problems, documents)
        yield rows[:, (rows >= 0).all(axis=0)]
        # Not beside the next one.
        del rows


def _rows_of_table(
    table: Table,
    count: int,
    ids: pl.Series | None,
    known: pl.DataFrame | None,
    problems: Problems,
    documents: str,
) -> NDArray[np.int64]:
    """The rows that each edge of a table joins; -1 where it joins none."""
    import polars as pl

    rows = [np.empty(0, dtype=np.int64)] * 2
    for side, column in enumerate(_pair(table, problems)):
        name, values = ENDS[side], table.frame[column]
        if known is None:
            numbers = values.cast(pl.Int64, strict=False).fill_null(-1).to_numpy()
            rows[side] = np.where(numbers < count, numbers, -1)
            end = f"a row of the {count} documents, counted from 0"
            remedy = "To name documents by id, give them ids"
        else:
            rows[side] = codes(values, known)
            end = f"the id of a document{documents}"
            remedy = "Remove the edge or add the document"
        missing = values.is_null().to_numpy()
        wrong = (rows[side] < 0) & ~missing
        if ids is not None and wrong.any():
            bare = values[int(wrong.argmax())].strip().removesuffix(".0")
            near = ids.filter(ids.str.strip_chars() == bare)
            if len(near):
                remedy = f"Did you mean {shown(near[0])}? Write ids the same way in both"
        problems.rows(
            missing,
            f"The '{name}' of an edge must not be empty",
            lambda row: f"nothing in {table.place(row)}",
            f"Remove the edge{_CUT * table.from_file}",
        )
        problems.rows(
            wrong,
            f"The '{name}' of an edge must be {end}",
            partial(table.value, column),
            remedy + _CUT * table.from_file,
        )
    return np.stack(rows)


def _pair(table: Table, problems: Problems) -> list[str]:
    """The columns of both ends: ``source`` and ``target``, or else the first two.

    There are none in a file without a record.
    """
    columns = table.frame.columns
    folded = {column.strip().casefold(): column for column in reversed(columns)}
    named = [folded[name] for name in ENDS if name in folded]
    pair = named if len(named) == 2 else columns[:2]
    if not columns:
        return []
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
