"""Reads tables of strings and says exactly where one is broken.

Records in JSONL, and documents in CSV and TSV, are read by the standard library one by one:
it knows the line of a mistake, keeps ``007`` as it is and tells a missing field from an empty
one, which a columnar reader does not. Parquet and link lists, which can be long, go through
polars.

Files may come from anybody. Each must be a regular file, and its size, the length of a record
and the number of columns have a limit.
"""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from privgcn.errors import DataError, reason, shown
from privgcn.files import read_bounded
from privgcn.progress import counted

if TYPE_CHECKING:
    import polars as pl

Column = list[str | None]

FORMATS = (".jsonl", ".csv", ".tsv", ".parquet")
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_QUOTED = re.compile('"[^"]*"')
_MOST_BYTES = 4 << 30
_MOST_RECORD = 64 << 20
_MOST_COLUMNS = 1_000
_MOST_DIGITS = 100


@dataclass(frozen=True)
class Table:
    """Columns of strings, and where each record stands in the file.

    An empty string counts as missing, as it cannot be told apart in a CSV file.

    Attributes:
        path: The file.
        columns: The values of each column.
        lines: The line on which each record starts; its number in a Parquet file.
        semicolons: Whether semicolons separate the fields, not commas.
    """

    path: Path
    columns: dict[str, Column]
    lines: list[int]
    semicolons: bool = False

    def __len__(self) -> int:
        return len(self.lines)

    def place(self, row: int) -> str:
        """Where a record stands, in words."""
        kind = "row" if self.path.suffix == ".parquet" else "line"
        return f"{kind} {self.lines[row]} of {self.path}"


def read_documents(path: Path) -> Table:
    """Reads documents in one of the ``FORMATS``.

    Raises:
        DataError: The file is broken; the message names the place.
    """
    if path.suffix == ".jsonl":
        table = _read_jsonl(path)
    elif path.suffix == ".parquet":
        table = _read_parquet(path)
    else:
        table = _read_csv(path)
    if not len(table):
        raise DataError(f"The file {path} must hold at least one document. Got none.")
    return table


def read_links(path: Path) -> tuple[pl.DataFrame, bool]:
    """Reads links in one of the ``FORMATS``, every column as strings.

    Returns:
        The links, and whether semicolons separate their fields.

    Raises:
        DataError: The file is broken.
    """
    import polars as pl

    if path.suffix == ".jsonl":
        found = _read_jsonl(path).columns or {"source": [], "target": []}
        return pl.DataFrame(found, schema=dict.fromkeys(found, pl.String)), False
    frame, separator = _read_frame(path)
    names = [name.strip() for name in frame.columns]
    _check_columns(path, names)
    frame.columns = names
    for name in frame.columns:
        if frame.schema[name].is_nested():
            raise DataError(f"The column {shown(name)} of {path} must hold single values.")
    return frame.cast(pl.String), separator == ";"


def separator_hint(path: Path, columns: list[str]) -> str:
    """What a header suggests that has another separator inside a name; empty otherwise."""
    if path.suffix in _SEPARATORS:
        for mark, name in ((";", "semicolons"), ("\t", "tabs"), (",", "commas"), ("|", "bars")):
            if mark != _SEPARATORS[path.suffix] and any(mark in column for column in columns):
                wanted = "commas" if path.suffix == ".csv" else "tabs"
                other = " or rename it to .tsv" if mark == "\t" else ""
                return f" Its fields seem to be separated by {name}: use {wanted}{other}."
    return ""


def _separator(path: Path, text: str) -> str:
    """What separates the fields of a text.

    Spreadsheets write semicolons to CSV files where a comma marks decimals. A header with
    semicolons and no commas, quoted names apart, can mean nothing else.
    """
    bare = _QUOTED.sub("", text.lstrip("\r\n").partition("\n")[0])
    if path.suffix == ".csv" and ";" in bare and "," not in bare:
        return ";"
    return _SEPARATORS[path.suffix]


def _read_text(path: Path) -> str:
    """The text of a UTF-8 file, without a byte order mark."""
    data = read_bounded(path, most=_MOST_BYTES)
    try:
        text = data.decode("utf-8-sig")
        bad = data.find(b"\0")
    except UnicodeDecodeError as error:
        bad = error.start
    if bad >= 0:
        line = data.count(b"\n", 0, bad) + 1
        raise DataError(
            f"The file {path} must be UTF-8 text. Line {line} has a byte that is not "
            f"(0x{data[bad]:02x}). Save the file as UTF-8."
        )
    return text


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value; write null for a missing one")


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits; put it in quotes")
    return int(digits)


_JSON = json.JSONDecoder(parse_constant=_no_constant, parse_int=_whole)


def _read_jsonl(path: Path) -> Table:
    columns: dict[str, Column] = {}
    lines: list[int] = []
    # Only "\n" ends a record: str.splitlines would also cut at characters inside a text.
    for number, line in enumerate(counted(_read_text(path).split("\n")), start=1):
        if not line.strip():
            continue
        place = f"line {number} of {path}"
        try:
            if len(line) > _MOST_RECORD:
                raise ValueError(f"it is longer than {_MOST_RECORD} characters")
            record = _JSON.decode(line)
            if not isinstance(record, dict):
                raise ValueError(f"it holds a {type(record).__name__}")
            values = {
                str(_as_text(name, place, "") or ""): _as_text(value, place, name)
                for name, value in record.items()
            }
        except (ValueError, RecursionError) as error:
            deep = isinstance(error, RecursionError)
            found = "it is nested too deeply" if deep else reason(error)
            raise DataError(
                f"The file {path} must hold one JSON object on each line. Line {number} is not "
                f"one ({found}). Correct the line; if it is the last one, the file may have "
                "been cut: write it again."
            ) from error
        for name in values:
            if name not in columns:
                columns[name] = [None] * len(lines)
        if len(columns) > _MOST_COLUMNS:
            _check_columns(path, list(columns))
        for name, column in columns.items():
            column.append(values.get(name))
        lines.append(number)
    return Table(path, columns, lines)


def _as_text(value: Any, place: str, name: str) -> str | None:
    """A JSON value as a string; ids and texts must not be guessed from other types."""
    if isinstance(value, str):
        if not value.isascii():
            # JSON can spell half a character, which nothing could write again.
            value.encode()
        return value or None
    if value is None:
        return None
    whole = isinstance(value, int) and not isinstance(value, bool)
    if name == "text" or (name in ("id", "owner", "source", "target") and not whole):
        allowed = "a string" if name == "text" else "a string or an integer"
        raise DataError(
            f"The '{name}' must be {allowed}. Got {shown(json.dumps(value))} in {place}. Put "
            "it in quotes."
        )
    if name in ("label", "split") and isinstance(value, list | dict):
        raise DataError(
            f"The '{name}' must be a single value. Got {shown(json.dumps(value))} in {place}. "
            "Write one string."
        )
    return json.dumps(value, allow_nan=False)


def _read_csv(path: Path) -> Table:
    text = _read_text(path)
    separator = _separator(path, text)
    # Long texts exceed the module's default limit of 128 KiB for a field.
    limit = csv.field_size_limit(_MOST_RECORD)
    columns: dict[str, Column] = {}
    lines: list[int] = []
    end = 0
    try:
        read = counted(io.StringIO(text, newline="").readlines())
        reader = csv.reader(read, strict=True, delimiter=separator)
        for record in reader:
            start, end = end + 1, reader.line_num
            if not record:
                continue
            if not columns:
                header = [name.strip() for name in record]
                _check_columns(path, header)
                columns = {name: [] for name in header}
                continue
            if len(record) != len(columns):
                hint = separator_hint(path, list(columns))
                if hint and len(columns) == 1:
                    raise DataError(
                        f"The file {path} has one column, {shown(next(iter(columns)))}, and "
                        f"{len(record)} fields in line {start}.{hint}"
                    )
                raise DataError(
                    f"The file {path} must have {len(columns)} fields in each record. Line "
                    f"{start} has {len(record)}. Put a text that contains the separator "
                    f"{shown(separator)} in double quotes; if it is the last line, the file "
                    "may have been cut."
                )
            for values, value in zip(columns.values(), record, strict=True):
                values.append(value or None)
            lines.append(start)
    except csv.Error as error:
        raise DataError(
            f"The file {path} must be a well-formed CSV file. The record at line {end + 1} is "
            f"not ({error}). Close its quotes, doubling those inside a text; if it is the last "
            "one, the file may have been cut: write it again."
        ) from error
    finally:
        csv.field_size_limit(limit)
    return Table(path, columns, lines, semicolons=separator == ";")


def _check_columns(path: Path, names: list[str]) -> None:
    if len(names) > _MOST_COLUMNS:
        raise DataError(
            f"The file {path} must have at most {_MOST_COLUMNS} columns. Got {len(names)}."
        )
    for name in names:
        if names.count(name) > 1:
            raise DataError(
                f"The file {path} must name each column once. Got {shown(name)} twice. Rename "
                "one."
            )


def _read_parquet(path: Path) -> Table:
    import polars as pl

    frame, _ = _read_frame(path)
    _check_columns(path, frame.columns)
    columns: dict[str, Column] = {}
    for name in frame.columns:
        values = frame.get_column(name)
        if not values.dtype.is_nested() and values.dtype not in (pl.Object, pl.Binary):
            values = values.cast(pl.String)
            if int(values.str.len_bytes().sum()) > _MOST_BYTES:
                raise DataError(
                    f"The column {shown(name)} of {path} must have at most {_MOST_BYTES} bytes."
                )
            columns[name] = [value or None for value in values.to_list()]
        elif name in ("id", "text", "label", "split", "owner"):
            raise DataError(
                f"The column '{name}' of {path} must hold strings. Got {values.dtype}."
            )
        else:
            columns[name] = [
                None if value is None else json.dumps(value, default=str)
                for value in values.to_list()
            ]
    return Table(path, columns, list(range(1, len(frame) + 1)))


def _read_frame(path: Path) -> tuple[pl.DataFrame, str]:
    """A Parquet file, or a CSV or TSV file with every column as strings; its separator."""
    import polars as pl

    parquet, separator = path.suffix == ".parquet", ""
    if parquet:
        data = read_bounded(path, most=_MOST_BYTES)
    else:
        text = _read_text(path)
        data, separator = text.encode(), _separator(path, text)
    if not data.strip():
        raise DataError(
            f"The file {path} must not be empty. It may have been cut: write it again, with a "
            "header line."
        )
    try:
        if parquet:
            return pl.read_parquet(io.BytesIO(data)), separator
        found = pl.read_csv(io.BytesIO(data), infer_schema=False, separator=separator)
        return found, separator
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        kind = "Parquet" if parquet else path.suffix[1:].upper()
        raise DataError(
            f"The file {path} must be a well-formed {kind} file. It cannot be read "
            f"({reason(error)}). It may have been cut: write it again."
        ) from error
