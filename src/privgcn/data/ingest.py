"""Whatever holds documents or edges, as one table: files of a folder, and frames in memory.

A folder holds ``documents.jsonl``, ``.csv``, ``.tsv`` or ``.parquet`` (columns ``id`` and
``text``; optional ``label``, ``split``, ``owner`` and any others), optionally ``edges`` in one
of the same formats (``source``, ``target``), or ``edges.npy`` with two rows of document numbers
counted from 0, and optionally ``features.npy`` with one row for each document, which may stand
in for the texts. A frame is anything with named columns: of pandas, polars, pyarrow or Hugging
Face ``datasets``, or a mapping from names to columns; none of these libraries is imported here.

Each file must lie in the folder: none is read through a symbolic link.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privgcn import progress
from privgcn.data.corpus import Corpus, CorpusFacts, ReadReport, Strings
from privgcn.data.documents import document_fields, without_empty
from privgcn.data.edges import (
    ENDS,
    canonical_edges,
    no_edges,
    refuse_weights,
    rows_of_array,
    rows_of_table,
)
from privgcn.data.problems import Problems
from privgcn.data.readers import FORMATS, table_of_file
from privgcn.data.table import Table
from privgcn.errors import DataError, reason, shown
from privgcn.files import check_regular

if TYPE_CHECKING:
    import polars as pl

_OTHER_NAMES = ("edge", "link", "links")
_MOST_VECTOR_BYTES = 64 << 30
# Numbers of a file that are taken into memory; those of larger files stay on disk.
_MOST_IN_MEMORY = 1 << 24
_BYTES_AT_ONCE = 1 << 24


def read_documents(
    source: Path,
    problems: Problems,
    *,
    classes: Sequence[str] | None = None,
    seed: int = 0,
    edges: str | None = None,
    encoding: str | None = None,
    **columns: str | None,
) -> dict[str, Any]:
    """The fields of a ``Corpus`` that a folder or a file of documents has.

    Args:
        source: The folder or file.
        problems: Who is told what is wrong.
        classes: As in ``load_corpus``.
        seed: Of a random split.
        edges: A file of edges, instead of that in the folder.
        encoding: Of text files.
        columns: The names of columns, by their meaning.
    """
    path, edge_path, vector_path = source, None, None
    if source.is_dir():
        wanted = _one_of(source, "documents", FORMATS, problems)
        if wanted is None:
            names = ", ".join("documents" + suffix for suffix in FORMATS)
            raise DataError(f"The folder {source} must have one of {names}. Got none. Add one.")
        path, vector_path = wanted, _one_of(source, "features", (".npy",), problems)
        if edges is None:
            edge_path = _one_of(source, "edges", (*FORMATS, ".npy"), problems, _OTHER_NAMES)
    if edges is not None:
        edge_path = Path(edges).expanduser()
    for file, suffixes in ((path, FORMATS), (edge_path, (*FORMATS, ".npy"))):
        if file is not None and file.suffix not in suffixes:
            raise DataError(
                f"The file {file} must end with one of {', '.join(suffixes)}. Got "
                f"{shown(file.suffix)}. Save it so; spreadsheets write CSV."
            )
    meanings = {column: meaning for meaning, column in columns.items() if column}
    table = table_of_file(path, problems, encoding, meanings)
    vectors = None if vector_path is None else _vectors(vector_path, len(table))
    required = ["id"] if vectors is not None else ["id", "text"]
    table = table.with_meanings(columns, required, problems)
    fields = document_fields(table, problems, classes=classes, seed=seed)
    progress.begin("reading edges")
    if edge_path is None:
        ends = no_edges()
    elif edge_path.suffix == ".npy":
        numbers = _array(edge_path, "iu")
        ends = rows_of_array(numbers, len(table), f"The file {edge_path}")
    else:
        # The names of both ends are the largest thing in memory.
        edge_table, ids = table_of_file(edge_path, problems, encoding), fields["ids"]
        if problems.collect:
            ids = Strings(ids.column.unique(maintain_order=True))
        ends = rows_of_table(edge_table, len(table), ids, problems, f" in {path.name}")
        del edge_table
    return _completed(
        fields,
        ends,
        problems,
        given_split="split" in table.frame.columns,
        name=source.resolve().name if source.is_dir() else source.stem,
        vectors=vectors,
        source=str(source),
        declared=classes is not None,
    )


def corpus_of_frame(
    frame: Any,
    *,
    labels: Any = None,
    edges: Any = None,
    owners: Any = None,
    classes: Sequence[Any] | None = None,
    seed: int = 0,
) -> Corpus:
    """The documents of a frame; see ``Corpus.from_frame``."""
    columns, problems = columns_of(frame), Problems()
    for name, values in {"label": labels, "owner": owners}.items():
        if values is None:
            continue
        if name in columns:
            raise DataError(
                f"The '{name}' must be given once. Got a column and an argument. Leave one of "
                "them out."
            )
        columns[name] = values
    table = table_of_columns(columns, "The frame of documents")
    table = table.with_meanings({}, ["text"], problems)
    fields = document_fields(table, problems, classes=classes, seed=seed)
    ids = fields["ids"] if "id" in table.frame.columns else None
    return Corpus(
        **_completed(
            fields,
            edge_rows(edges, len(table), ids, problems),
            problems,
            given_split="split" in table.frame.columns,
            name="frame",
            source="",
            declared=classes is not None,
        )
    )


def edge_rows(
    edges: Any, count: int, ids: Strings | None, problems: Problems
) -> NDArray[np.int64]:
    """The rows that each edge joins, ``[2, edges]``, as given.

    A matrix and an ``edge_index`` speak of rows; pairs and frames of ids, where ``ids`` has
    those of the documents.
    """
    if edges is None:
        return no_edges()
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
        return np.stack([entries.row[present], entries.col[present]]).astype(np.int64)
    if hasattr(edges, "detach"):
        return rows_of_array(edges.detach().cpu().numpy(), count, "An edge_index")
    if is_frame(edges):
        table = table_of_columns(columns_of(edges), "The frame of edges")
        return rows_of_table(table, count, ids, problems)
    if isinstance(edges, np.ndarray) and edges.ndim == 2 and edges.dtype.kind in "iu":
        if edges.shape[0] == 2 != edges.shape[1]:
            return rows_of_array(edges, count, "An edge_index")
        if edges.shape[1] == 2 and ids is None:
            return rows_of_array(edges.T, count, "An array of edges")
    pairs = [tuple(pair) if hasattr(pair, "__iter__") else (pair,) for pair in edges]
    for number, pair in enumerate(pairs):
        if len(pair) != 2:
            refuse_weights(["a third value"] * (len(pair) == 3), "A list", problems)
            raise DataError(
                f"An edge must be a pair of documents. Edge {number} has {len(pair)} values."
            )
    columns = {name: [pair[side] for pair in pairs] for side, name in enumerate(ENDS)}
    table = table_of_columns(columns, "The list of edges")
    return rows_of_table(table, count, ids, problems)


def is_frame(value: Any) -> bool:
    """Whether a value has named columns."""
    if hasattr(value, "tocoo"):  # some sparse matrices are mappings
        return False
    named = hasattr(value, "columns") or hasattr(value, "column_names")
    return isinstance(value, Mapping) or (named and hasattr(value, "__getitem__"))


def columns_of(frame: Any) -> dict[str, Any]:
    """The columns of a frame by name, each as its library has it."""
    # A pyarrow table has columns without names, beside their names.
    named = getattr(frame, "column_names", None) or getattr(frame, "columns", frame)
    return {str(name): frame[name] for name in named}


def plain_list(values: Any) -> list[Any]:
    """The values of a series, array or list, None where one is missing."""
    if isinstance(values, str):
        raise DataError("A column must have one value for each document. Got a single text.")
    for way in ("to_list", "to_pylist", "tolist"):
        if hasattr(values, way):
            values = getattr(values, way)()
            break
    return [None if is_missing(value) else value for value in values]


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or what pandas writes for a missing one."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def table_of_columns(columns: Mapping[str, Any], name: str) -> Table:
    """Columns in memory, of any library, as a table."""
    import polars as pl

    made: dict[str, pl.Series] = {}
    labels: tuple[Any, ...] | None = None
    for column, given in columns.items():
        values, meaning = plain_list(given), column.strip().casefold()
        for row, value in enumerate(values):
            if meaning == "text" and value is not None and not isinstance(value, str):
                raise DataError(
                    f"The 'text' of a document must be a string. Got {shown(value)}, of type "
                    f"{type(value).__name__}, in row {row}. Write it as one."
                )
            if meaning == "label" and isinstance(value, list | tuple | dict | set | np.ndarray):
                raise DataError(
                    "The 'label' of a document must be a single value. Got "
                    f"{shown(value)}. Give one class for each document."
                )
        if meaning == "label":
            labels = tuple(dict.fromkeys(value for value in values if value not in (None, "")))
        strings = [None if value is None else str(value) for value in values]
        try:
            made[column] = without_empty(pl.Series(column, strings, dtype=pl.String))
        except UnicodeEncodeError as error:
            raise DataError(
                f"The '{column}' must be text that can be written as UTF-8. Got half a "
                f"character ({reason(error)}). Remove it."
            ) from None
    count = len(made["text"] if "text" in made else next(iter(made.values()), ()))
    kind = "edges" if set(ENDS) & set(made) else "documents"
    for column, series in made.items():
        if len(series) != count:
            raise DataError(
                f"The '{column}' must be given for each of the {count} {kind}, one entry "
                f"for each. Got {len(series)}."
            )
    return Table(pl.DataFrame(made), name, lambda row: f"row {row}", labels)


def _completed(
    fields: dict[str, Any],
    ends: NDArray[np.int64],
    problems: Problems,
    *,
    given_split: bool,
    source: str,
    declared: bool,
    **others: Any,
) -> dict[str, Any]:
    """All fields of a corpus, with what was read in numbers."""
    count, names = len(fields["ids"]), fields["owner_names"]
    to_self = int((ends[0] == ends[1]).sum())
    edges = canonical_edges(ends[0], ends[1], count)
    repeated = ends.shape[1] - edges.shape[1] - to_self
    left_out = {"repeated": repeated, "of a document with itself": to_self}
    some = ", ".join(f"{number:,} {which}" for which, number in left_out.items() if number)
    if some:
        problems.tell(f"Edges that were left out: {some}", stops=False)
    return {
        **fields,
        **others,
        "edges": edges,
        "facts": CorpusFacts(
            source=source,
            classes_declared=declared,
            split_origin="given" if given_split else "random",
        ),
        "read_report": ReadReport(
            documents=count,
            owners=None if names is None else len(names),
            classes=len(fields["classes"]),
            edges=edges.shape[1],
            remarks=problems.remarks,
        ),
    }


def _one_of(
    folder: Path,
    stem: str,
    suffixes: tuple[str, ...],
    problems: Problems,
    others: tuple[str, ...] = (),
) -> Path | None:
    """The file of that name; in no known format, or by another name, it is not ignored."""
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError as error:
        raise DataError(f"The folder {folder} cannot be read: {error.strerror}.") from error
    near = [name for name in names if name.partition(".")[0].casefold() == stem]
    allowed = [stem + suffix for suffix in suffixes]
    exact = [name for name in near if name in allowed]
    if near and len(exact) != 1:
        problems.tell(
            f"The folder {folder} must have one of {', '.join(allowed)}",
            " and ".join(map(shown, (exact or near)[:5])),
            remedy="Remove all but one, or write it again in one of these formats",
        )
    for name in names if not near else ():
        bare, _, ending = name.casefold().partition(".")
        if bare in others and f".{ending}" in suffixes:
            problems.tell(
                f"The folder {folder} must call this file {stem}.{ending}",
                shown(name),
                remedy="Rename it, or move it away if it holds something else",
            )
    if not exact:
        return None
    path = folder / exact[0]
    if not path.is_symlink():
        return path
    problems.tell(
        f"The file {path} must be a regular file of this folder",
        "a symbolic link",
        remedy="Copy the file into the folder, or name the folder that it lies in",
    )
    return None


def _vectors(path: Path, count: int) -> NDArray[np.float32]:
    """Finite float32 rows: of a large file that holds such, mapped and not in memory."""
    array = _array(path, "fiub")
    if array.shape[0] != count or array.shape[1] == 0:
        raise DataError(
            f"The file {path} must have one row of numbers for each of the {count} documents, "
            f"in their order. Got the shape {array.shape}. Save it again from the same files."
        )
    mapped = array.size > _MOST_IN_MEMORY and array.dtype == np.float32
    mapped = mapped and array.flags.c_contiguous
    made = array if mapped else np.empty(array.shape, dtype=np.float32)
    size = max(1, _BYTES_AT_ONCE // (8 * array.shape[1]))
    for begin in range(0, count, size):
        # Mapped anew for each block, so that its pages leave memory with it.
        block = np.load(path, mmap_mode="r")[begin : begin + size]
        with np.errstate(over="ignore"):
            rows = block.astype(np.float32, copy=False)
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if len(bad):
            raise DataError(
                f"The file {path} must hold finite numbers that fit float32. Row "
                f"{begin + bad[0]} (counted from 0) does not. Replace NaN and infinity before "
                "saving."
            )
        if not mapped:
            made[begin : begin + size] = rows
    return made


def _array(path: Path, kinds: str) -> NDArray[Any]:
    """A table of numbers, mapped: a header that promises too much costs nothing."""
    check_regular(path, most=_MOST_VECTOR_BYTES)
    try:
        with warnings.catch_warnings(), np.errstate(over="raise"):
            warnings.simplefilter("ignore")
            # Nothing that is written to the array reaches the file.
            array: NDArray[Any] = np.lib.format.open_memmap(path, mode="c")
    # A header is Python source: numpy passes on whatever its parser says of a broken one.
    except Exception as error:
        raise DataError(
            f"The file {path} must be a numeric array saved by numpy.save. It cannot be read "
            f"({reason(error)}). It may have been cut: save it again, as float32."
        ) from error
    if array.ndim != 2 or array.dtype.kind not in kinds:
        raise DataError(
            f"The file {path} must hold a two-dimensional numeric array. Got "
            f"{shown(str(array.dtype))[1:-1]} {shown(str(array.shape))[1:-1]}."
        )
    return array
