"""The ways in which documents and edges come: four kinds of files and three kinds of frames."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

from privgcn.data import Corpus, load_corpus
from privgcn.errors import DataError

FILES = ("csv", "tsv", "jsonl", "parquet")
FRAMES = {"polars": pl.DataFrame, "pandas": pd.DataFrame, "mapping": dict}
WAYS = (*FILES, *FRAMES)

Columns = dict[str, list[Any]]


def write(
    folder: Path, stem: str, way: str, columns: Columns, row_group_size: int | None = None
) -> Path:
    """A file of a folder, with nothing where a value is None."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{stem}.{way}"
    rows = list(zip(*columns.values(), strict=True))
    if way == "parquet":
        pl.DataFrame(columns).write_parquet(
            path, compression="uncompressed", row_group_size=row_group_size
        )
    elif way == "jsonl":
        lines = [json.dumps(dict(zip(columns, row, strict=True))) for row in rows]
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter="," if way == "csv" else "\t")
            writer.writerows([list(columns), *rows])
    return path


def read(
    way: str,
    folder: Path,
    columns: Columns,
    edges: Columns | None = None,
    row_group_size: int | None = None,
    **options: Any,
) -> Corpus:
    """The corpus of the columns, whichever way they come."""
    if way in FRAMES:
        make = FRAMES[way]
        own = None if edges is None else make(edges)
        return Corpus.from_frame(make(columns), edges=own, **options)
    write(folder, "documents", way, columns, row_group_size)
    if edges is not None:
        write(folder, "edges", way, edges, row_group_size)
    return load_corpus(folder, **options)


def place(way: str, row: int) -> str:
    """How an error calls a row, counted from 0, where every value is on one line."""
    first = {"csv": "line 2", "tsv": "line 2", "jsonl": "line 1", "parquet": "row 1"}
    kind, number = first.get(way, "row 0").split()
    return f"{kind} {int(number) + row}"


def refused(way: str, folder: Path, *words: str, **arguments: Any) -> str:
    """The message of the one error that this way gives."""
    with pytest.raises(DataError) as caught:
        read(way, folder, **arguments)
    return checked(caught.value, *words)


def checked(error: DataError, *words: str) -> str:
    """A message on one line with these words in it."""
    message = str(error)
    assert error.exit_code == 2
    assert message.isprintable()
    assert len(message) < 1_000
    for word in words:
        assert word.lower() in message.lower(), message
    return message
