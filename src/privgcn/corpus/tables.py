"""Reads tables of strings and says exactly where one is broken.

Documents in JSONL and CSV are read by the standard library, record by record: it knows the
line of a mistake, keeps ``007`` as it is and tells a missing field from an empty one, which
a columnar reader does not. Parquet and link lists, which can be long, go through polars.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privgcn.errors import DataError

Column = list[str | None]


@dataclass(frozen=True)
class Table:
    """Columns of strings, and where each record stands in the file.

    An empty string counts as missing, as it can not be told apart in a CSV file.
    """

    path: Path
    columns: dict[str, Column]
    places: list[str]

    def __len__(self) -> int:
        return len(self.places)


def read_documents(path: Path) -> Table:
    """Reads ``documents.jsonl``, ``.csv`` or ``.parquet``.

    Raises:
        DataError: The file is broken; the message names the place.
    """
    readers = {".jsonl": _read_jsonl, ".csv": _read_csv, ".parquet": _read_parquet}
    table = readers[path.suffix](path)
    if not len(table):
        raise DataError(f"The file {path} must hold at least one document. Got none.")
    return table


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, without a byte order mark.

    Raises:
        DataError: The file can not be read or is not UTF-8.
    """
    data = read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"The file {path} must be UTF-8. Line {line} has a byte that is not "
            f"(0x{data[error.start]:02x}). Save the file as UTF-8."
        ) from error


def read_bytes(path: Path) -> bytes:
    """The bytes of a file.

    Raises:
        DataError: The file can not be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"The file {path} can not be read: {error.strerror}.") from error


def _read_jsonl(path: Path) -> Table:
    columns: dict[str, Column] = {}
    places: list[str] = []
    # Only "\n" ends a record: str.splitlines would also cut at characters inside a text.
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        place = f"line {number}"
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise DataError(
                f"The file {path} must hold one JSON object on each line. {place.capitalize()} "
                f"is not one ({getattr(error, 'msg', 'nested too deeply')}). Correct the line; "
                "if it is the last one, the file may have been cut: write it again."
            ) from error
        if not isinstance(record, dict):
            raise DataError(
                f"The file {path} must hold one JSON object on each line. {place.capitalize()} "
                f'holds a {type(record).__name__}. Write {{"id": ..., "text": ...}}.'
            )
        for name in record.keys() - columns.keys():
            columns[name] = [None] * len(places)
        for name, values in columns.items():
            values.append(_as_text(record.get(name), path, place, name))
        places.append(place)
    return Table(path, columns, places)


def _as_text(value: Any, path: Path, place: str, name: str) -> str | None:
    """A JSON value as a string; ids and texts must not be guessed from other types."""
    if value is None or isinstance(value, str):
        return value or None
    if name == "text" or (
        name in ("id", "owner") and (isinstance(value, bool) or not isinstance(value, int))
    ):
        allowed = "a string" if name == "text" else "a string or an integer"
        raise DataError(
            f"The '{name}' of a document must be {allowed}. Got {json.dumps(value)[:80]} in "
            f"{place} of {path}. Put it in quotes."
        )
    return json.dumps(value)


def _read_csv(path: Path) -> Table:
    text = read_text(path)
    # Long texts exceed the module's default limit of 128 KiB for a field.
    limit = csv.field_size_limit(sys.maxsize)
    try:
        return _parse_csv(path, csv.reader(io.StringIO(text, newline=""), strict=True))
    finally:
        csv.field_size_limit(limit)


def _parse_csv(path: Path, reader: Any) -> Table:
    header: list[str] | None = None
    columns: list[Column] = []
    places: list[str] = []
    end = 0
    try:
        for record in reader:
            place, end = f"line {end + 1}", reader.line_num
            if not record:
                continue
            if header is None:
                header = [name.strip() for name in record]
                columns = [[] for _ in header]
                _check_header(path, header)
                continue
            if len(record) != len(header):
                raise DataError(
                    f"The file {path} must have {len(header)} fields in each record. "
                    f"{place.capitalize()} has {len(record)}. Put texts with commas in double "
                    "quotes; if it is the last line, the file may have been cut."
                )
            for values, value in zip(columns, record, strict=True):
                values.append(value or None)
            places.append(place)
    except csv.Error as error:
        raise DataError(
            f"The file {path} must be a well-formed CSV file. The record at line {end + 1} is "
            f"not ({error}). Close its quotes, doubling those inside a text; if it is the last "
            "one, the file may have been cut: write it again."
        ) from error
    return Table(path, dict(zip(header or [], columns, strict=True)), places)


def _check_header(path: Path, header: list[str]) -> None:
    for name in header:
        if header.count(name) > 1:
            raise DataError(
                f"The file {path} must name each column once. Got '{name}' twice. Rename one."
            )


def _read_parquet(path: Path) -> Table:
    import polars as pl

    frame = read_frame(path)
    columns: dict[str, Column] = {}
    for name in frame.columns:
        values = frame.get_column(name)
        if values.dtype.is_nested() or values.dtype in (pl.Object, pl.Binary):
            if name in ("id", "text", "label", "split", "owner"):
                raise DataError(
                    f"The column '{name}' of {path} must hold strings. Got {values.dtype}."
                )
            columns[name] = [
                None if value is None else json.dumps(value, default=str)
                for value in values.to_list()
            ]
        else:
            columns[name] = [value or None for value in values.cast(pl.String).to_list()]
    return Table(path, columns, [f"row {row}" for row in range(1, len(frame) + 1)])


def read_frame(path: Path) -> Any:
    """A polars frame of a Parquet file, or of a CSV file with every column as strings.

    Raises:
        DataError: The file is cut or no such file.
    """
    import polars as pl

    try:
        if path.suffix == ".parquet":
            return pl.read_parquet(io.BytesIO(read_bytes(path)))
        text = read_text(path)
        if not text.strip():
            raise DataError(f"The file {path} must have a header line. Got an empty file.")
        return pl.read_csv(io.BytesIO(text.encode()), infer_schema=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        kind = "Parquet" if path.suffix == ".parquet" else "CSV"
        reason = str(error).strip().splitlines()[0]
        raise DataError(
            f"The file {path} must be a well-formed {kind} file. It can not be read "
            f"({reason}). It may have been cut: write it again."
        ) from error
