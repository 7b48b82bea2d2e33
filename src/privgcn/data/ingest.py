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
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privgcn import progress
from privgcn.data.corpus import Corpus, CorpusFacts, ReadReport
from privgcn.data.documents import document_fields
from privgcn.data.edges import Edges, edges_of, edges_of_array, edges_of_tables
from privgcn.data.frames import columns_of, table_of_columns
from privgcn.data.problems import Problems
from privgcn.data.readers import FORMATS, MOST_BYTES, tables_of_file
from privgcn.data.table import Table, joined
from privgcn.errors import DataError, reason, shown
from privgcn.files import check_regular

if TYPE_CHECKING:
    import polars as pl

_OTHER_NAMES = ("edge", "link", "links")
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
    vectors = None if vector_path is None else partial(_vectors, vector_path)

    def list_edges(count: int, ids: pl.Series | None) -> Edges:
        if edge_path is None:
            return Edges(count)
        if edge_path.suffix == ".npy":
            return edges_of_array(_array(edge_path, "iu"), count, f"The file {edge_path}")
        tables = tables_of_file(edge_path, problems, encoding)
        return edges_of_tables(tables, count, ids, problems, f" in {path.name}")

    return corpus_fields(
        tables_of_file(path, problems, encoding, meanings),
        list_edges,
        problems,
        name=source.resolve().name if source.is_dir() else source.stem,
        source=str(source),
        named=columns,
        required=["id", "text"] if vectors is None else ["id"],
        vectors=vectors,
        classes=classes,
        seed=seed,
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
    return Corpus(
        **corpus_fields(
            iter([table_of_columns(columns, "The frame of documents")]),
            lambda count, ids: edges_of(edges, count, ids, problems),
            problems,
            name="frame",
            classes=classes,
            seed=seed,
        )
    )


def corpus_fields(
    tables: Iterator[Table],
    list_edges: Callable[[int, pl.Series | None], Edges],
    problems: Problems,
    *,
    name: str,
    source: str = "",
    named: Mapping[str, str | None] = MappingProxyType({}),
    required: Sequence[str] = ("text",),
    vectors: Callable[[int], Any] | None = None,
    classes: Sequence[Any] | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """All fields of a ``Corpus``: the one way in, whatever documents and edges come from.

    Args:
        tables: The documents.
        list_edges: Their edges, given how many documents there are and their ids, if any.
        problems: Who is told what is wrong.
        name: Of the corpus.
        source: As the user gave it.
        named: Columns of the tables, by their meaning.
        required: The meanings that must have a column.
        vectors: One row for each document, given how many documents there are.
        classes: The class set, where it was declared.
        seed: Of a random split.
    """
    first = next(tables)
    chosen = first.columns_of_meanings(named, required, problems)
    blocks = (table.renamed(chosen) for table in chain([first], tables))
    table = joined(blocks, texts="text" in chosen)
    count, ids = len(table), table.frame["id"] if "id" in chosen else None
    rows = None if vectors is None else vectors(count)
    fields = document_fields(table, problems, classes=classes, seed=seed)
    # Strings that have become numbers need not lie beside the edges.
    del table, first, blocks
    progress.begin("reading edges")
    listed = list_edges(count, ids)
    edges = listed.canonical()
    left_out = {"repeated": listed.repeated, "of a document with itself": listed.to_self}
    some = ", ".join(f"{number:,} {which}" for which, number in left_out.items() if number)
    if some:
        problems.tell(f"Edges that were left out: {some}", stops=False)
    owners = fields["owner_names"]
    return {
        **fields,
        "name": name,
        "vectors": rows,
        "edges": edges,
        "facts": CorpusFacts(
            source=source,
            classes_declared=classes is not None,
            split_origin="given" if "split" in chosen else "random",
        ),
        "read_report": ReadReport(
            documents=count,
            owners=None if owners is None else len(owners),
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
    check_regular(path, most=MOST_BYTES)
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
