"""Edges between documents, in every form that people have them in.

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

from privgcn.data.documents import Names
from privgcn.data.frames import columns_of, is_frame, table_of_columns
from privgcn.data.problems import Problems
from privgcn.data.readers import numeric_array, tables_of_file
from privgcn.data.table import ENDS, Table
from privgcn.errors import DataError, shown
from privgcn.storage import in_order, joined_edges

if TYPE_CHECKING:
    import polars as pl

_WEIGHTS = ("weight", "weights")
_AT_ONCE = 1 << 22

Pieces = Iterable[NDArray[Any]]
"""Edges as arrays ``[2, some]`` of the rows of their documents."""


def canonical_edges(source: ArrayLike, target: ArrayLike, count: int) -> NDArray[np.int64]:
    """Undirected edges, each once with the smaller row first; self-loops are dropped."""
    return gathered(_pieces(np.asarray(source), np.asarray(target)), count)[0]


def gathered(pieces: Pieces, count: int) -> tuple[NDArray[np.int64], int]:
    """All edges as ``canonical_edges`` has them, and how many were left out."""
    listed, count = 0, max(count, 1)

    def keys() -> Iterator[NDArray[np.int64]]:
        nonlocal listed
        for piece in pieces:
            listed += piece.shape[1]
            # One integer for each pair, to be sorted and compared.
            ends = piece.astype(np.int64, copy=False)
            low, high = np.minimum(*ends), np.maximum(*ends)
            yield (low * count + high)[low != high]

    # In order, so that equal ones are neighbours.
    blocks = (own[np.diff(own, prepend=-1) > 0] for own in in_order(keys(), count * count))
    edges = joined_edges(np.divmod(own, count) for own in blocks)
    return edges, listed - edges.shape[1]


def _pieces(source: NDArray[Any], target: NDArray[Any]) -> Iterator[NDArray[Any]]:
    for begin in range(0, len(source), _AT_ONCE):
        own = slice(begin, begin + _AT_ONCE)
        yield np.stack([source[own], target[own]])


def edges_of(
    edges: Any,
    count: int,
    ids: pl.Series | None,
    problems: Problems,
    encoding: str | None = None,
) -> Pieces:
    """Edges as somebody has them: a file, frame, sparse matrix, tensor, array, pairs, or None.

    A matrix, a ``.npy`` file and an ``edge_index`` speak of rows; pairs, tables and frames of
    the ``ids`` of the ``count`` documents, if they have some.
    """
    if edges is None:
        return ()
    if isinstance(edges, Path) and edges.suffix == ".npy":
        return _of_rows(numeric_array(edges, "iu"), count, f"The file {edges}")
    if hasattr(edges, "tocoo"):
        return _of_rows(_ends_of_matrix(edges, count, problems), count, "A matrix")
    if hasattr(edges, "detach"):
        return _of_rows(edges.detach().cpu().numpy(), count, "An edge_index")
    if isinstance(edges, np.ndarray) and edges.ndim == 2 and edges.dtype.kind in "iu":
        if edges.shape[0] == 2 != edges.shape[1]:
            return _of_rows(edges, count, "An edge_index")
        if edges.shape[1] == 2 and ids is None:
            return _of_rows(edges.T, count, "An array of edges")
    if isinstance(edges, Path):
        tables = tables_of_file(edges, problems, encoding)
    else:
        columns = columns_of(edges) if is_frame(edges) else _ends_of_pairs(edges)
        tables = iter([table_of_columns(columns, "The table of edges")])
    return _of_tables(tables, count, ids, problems)


def _refuse_weights(given: Sequence[str], name: str, problems: Problems) -> None:
    if given:
        problems.add(
            f"{name} must give edges no weights: every edge counts the same",
            given[0],
            remedy="Remove it, and the edges that are too weak to count",
        )


def _ends_of_matrix(matrix: Any, count: int, problems: Problems) -> NDArray[Any]:
    if matrix.shape != (count, count):
        raise DataError(
            "A matrix of edges must have one row and one column for each of the "
            f"{count} documents. Got the shape {matrix.shape}."
        )
    entries = matrix.tocoo()
    present = entries.data != 0
    if len(np.unique(entries.data[present])) > 1:
        _refuse_weights(["different values"], "A matrix", problems)
    return np.stack([entries.row[present], entries.col[present]])


def _ends_of_pairs(edges: Iterable[Any]) -> dict[str, Any]:
    pairs = list(edges)
    for number, pair in enumerate(pairs):
        if not hasattr(pair, "__len__") or len(pair) != 2:
            raise DataError(
                f"An edge must be a pair of documents, without a weight. Got {shown(pair)} as "
                f"edge {number}. Every edge counts the same: give pairs."
            )
    return {end: [pair[side] for pair in pairs] for side, end in enumerate(ENDS)}


def _of_rows(ends: Any, count: int, name: str) -> Iterator[NDArray[Any]]:
    if ends.ndim != 2 or ends.shape[0] != 2 or ends.dtype.kind not in "iu":
        raise DataError(
            f"{name} must hold whole numbers in the shape [2, edges], a row of sources above "
            f"a row of targets. Got {ends.dtype} in the shape {list(ends.shape)}."
        )
    for own in _pieces(*ends):
        wrong = own[(own < 0) | (own >= count)]
        if len(wrong):
            raise DataError(
                f"{name} must hold rows of the {count} documents, counted from 0. Got "
                f"{wrong[0]}. To name documents by id, give them ids."
            )
        yield own


def _of_tables(
    tables: Iterable[Table], count: int, ids: pl.Series | None, problems: Problems
) -> Iterator[NDArray[np.int64]]:
    """Edges that tables list, by id, or by row where there are no ids."""
    import polars as pl

    known = None if ids is None else Names(ids)
    end = f"a row of the {count} documents, counted from 0"
    remedy = "To name documents by id, give them ids"
    if known is not None:
        end = "the id of a document"
        remedy = "Write ids the same way in both, remove the edge or add the document"
    for table in tables:
        if not len(table):
            continue
        cut = "; a last line may have been cut" * table.from_file
        sides = []
        for name, column in zip(ENDS, _pair(table, problems), strict=True):
            values = table.frame[column]
            if known is None:
                rows = values.cast(pl.Int64, strict=False).fill_null(-1).to_numpy()
                rows = np.where(rows < count, rows, -1)
            else:
                rows = known.codes(values)
            problems.rows(
                rows < 0,
                f"The '{name}' of an edge must be {end}",
                partial(table.value, column),
                remedy + cut,
            )
            sides.append(rows)
        ends = np.stack(sides)
        yield ends[:, (ends >= 0).all(axis=0)]


def _pair(table: Table, problems: Problems) -> list[str]:
    """The columns of both ends: ``source`` and ``target``, or else the first two."""
    columns = table.frame.columns
    folded = {column.strip().casefold(): column for column in reversed(columns)}
    pair = [folded[name] for name in ENDS if name in folded]
    if len(pair) < 2:
        pair = columns[:2]
        if len(pair) < 2:
            raise DataError(
                f"{table.name} must have the columns 'source' and 'target'. Got "
                f"{table.got()}. Rename the columns, or add them."
            )
        problems.note(
            f"Edges lead from {shown(pair[0])} to {shown(pair[1])}, the first two columns of "
            f"t{table.name[1:]}"
        )
    _refuse_weights([folded[name] for name in _WEIGHTS if name in folded], table.name, problems)
    return pair
