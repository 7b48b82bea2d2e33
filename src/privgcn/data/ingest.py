"""Whatever holds documents and edges, as the fields of a corpus.

A folder holds ``documents.jsonl``, ``.csv``, ``.tsv`` or ``.parquet`` (columns ``id`` and
``text``; optional ``label``, ``split``, ``owner`` and any others), optionally ``edges`` in one
of the same formats (``source``, ``target``), or ``edges.npy`` with two rows of document numbers
counted from 0, and optionally ``features.npy`` with one row for each document, which may stand
in for the texts.

Each file must lie in the folder: none is read through a symbolic link.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from privgcn import progress
from privgcn.data.corpus import CorpusFacts, SplitOrigin, Strings
from privgcn.data.documents import document_fields
from privgcn.data.edges import edges_of, gathered
from privgcn.data.problems import Problems
from privgcn.data.readers import FORMATS, tables_of_file, vectors_of_file
from privgcn.data.table import RANDOM, Table, columns_of_meanings, joined
from privgcn.errors import DataError, shown

if TYPE_CHECKING:
    import polars as pl


def read_documents(
    source: Path,
    problems: Problems,
    *,
    edges: str | os.PathLike[str] | None = None,
    encoding: str | None = None,
    classes: Sequence[str] | None = None,
    seed: int = 0,
    **columns: str | None,
) -> dict[str, Any]:
    """The fields of a ``Corpus`` that a folder or a file has; options as in ``load_corpus``."""
    path, vectors = source, None
    edge_path = None if edges is None else Path(edges).expanduser()
    if source.is_dir():
        wanted = _one_of(source, "documents", FORMATS, problems)
        if wanted is None:
            names = ", ".join("documents" + suffix for suffix in FORMATS)
            raise DataError(f"The folder {source} must have one of {names}. Got none. Add one.")
        path, vectors = wanted, _one_of(source, "features", (".npy",), problems)
        edge_path = edge_path or _one_of(source, "edges", (*FORMATS, ".npy"), problems)
        known = ("documents", "features", "edges")
        others = [path for path in sorted(source.iterdir()) if path.stem not in known]
        others = [path for path in others if path.suffix.casefold() in (*FORMATS, ".npy")]
        if others and edge_path is None:
            problems.note(
                f"There are no edges, and nothing is read from {shown(others[0].name)}",
                remedy="If the file lists edges, name it with --edges",
            )
    meanings = {column: meaning for meaning, column in columns.items() if column}
    return corpus_fields(
        tables_of_file(path, problems, encoding, meanings),
        edge_path,
        problems,
        name=source.resolve().name if source.is_dir() else source.stem,
        source=str(source),
        named=columns,
        vectors=vectors,
        classes=classes,
        seed=seed,
        encoding=encoding,
    )


def corpus_fields(
    tables: Iterator[Table],
    edges: Any,
    problems: Problems,
    *,
    name: str,
    source: str = "",
    named: Mapping[str, str | None] = MappingProxyType({}),
    vectors: Path | None = None,
    classes: Sequence[Any] | None = None,
    seed: int = 0,
    encoding: str | None = None,
) -> dict[str, Any]:
    """All fields of a ``Corpus``: the one way in, whatever documents and edges come from."""
    first = next(tables)
    if not len(first):
        raise DataError(f"{first.name} must hold at least one document. Got none.")
    # Rows can stand in for the ids of a frame, and vectors for texts.
    required = ["id"] * first.from_file + ["text"] * (vectors is None)
    chosen = columns_of_meanings(first, named, required, problems)
    # A column "split" that is not meant would be read as if it were.
    ignored = {*chosen, *chosen.values(), *(["split"] if named.get("split") == RANDOM else [])}
    table, texts = _without_texts(chain([first], tables), chosen, ignored, problems)
    rows = None if vectors is None else vectors_of_file(vectors, len(table))
    count, ids = len(table), table.frame["id"] if "id" in chosen else None
    split_origin: SplitOrigin = "given" if "split" in table.frame.columns else "random"
    fields = document_fields(table, problems, classes=classes, seed=seed)
    # Strings that have become numbers need not lie beside the edges.
    del table, first
    progress.begin("reading edges")
    pieces = edges_of(edges, count, ids, problems, encoding)
    listed, left_out = gathered(pieces, count)
    if left_out:
        problems.note(
            f"Edges that were left out, repeated or of a document with itself: {left_out:,}"
        )
    return {
        **fields,
        "name": name,
        "texts": texts,
        "vectors": rows,
        "edges": listed,
        "facts": CorpusFacts(
            source=source,
            classes_declared=classes is not None,
            split_origin=split_origin,
        ),
        "remarks": problems.remarks,
    }


def _without_texts(
    tables: Iterator[Table], chosen: Mapping[str, str], ignored: set[str], problems: Problems
) -> tuple[Table, Strings | None]:
    """The tables as one, whose columns are called by their meaning, and the texts beside it."""
    import polars as pl

    rests: list[Table] = []

    def texts() -> Iterator[pl.Series]:
        for table in tables:
            columns = table.frame.columns
            names = {column: column for column in columns if column not in ignored}
            names |= {meaning: own for meaning, own in chosen.items() if own in columns}
            # A CSV file cannot tell what is missing from what is empty.
            given = [pl.col(own).replace("", None).alias(n) for n, own in names.items()]
            table = replace(table, frame=table.frame.select(given))
            if "text" in chosen:
                none = pl.repeat(None, len(table), dtype=pl.String, eager=True)
                own = table.frame.get_column("text", default=none)
                problems.rows(
                    own.fill_null("").str.strip_chars() == "",
                    "The 'text' of a document must not be empty",
                    partial(table.value, "id"),
                    "Give it a text or remove the document",
                )
                yield own
                table = replace(table, frame=table.frame.drop("text", strict=False))
            rests.append(table)

    made = Strings.of(texts())
    return joined(rests), made if "text" in chosen else None


def _one_of(
    folder: Path, stem: str, suffixes: Sequence[str], problems: Problems
) -> Path | None:
    """The file of that name; one in another format is not ignored."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise DataError(f"The folder {folder} cannot be read: {error.strerror}.") from error
    near = [name for name in names if name.partition(".")[0].casefold() == stem]
    allowed = [stem + suffix for suffix in suffixes]
    exact = [name for name in near if name in allowed]
    if near and len(exact) != 1:
        problems.add(
            f"The folder {folder} must have one of {', '.join(allowed)}",
            " and ".join(map(shown, (exact or near)[:5])),
            remedy="Remove all but one, or write it again in one of these formats",
        )
    if exact and (folder / exact[0]).is_symlink():
        problems.add(
            f"The file {folder / exact[0]} must be a regular file of this folder",
            "a symbolic link",
            remedy="Copy the file into the folder, or name the folder that it lies in",
        )
        return None
    return folder / exact[0] if exact else None
