"""Files of documents or edges as tables of strings, and where exactly one is broken.

JSONL, CSV and TSV are read by the standard library one record after the other: it knows the
line of a mistake, leaves ``007`` as it is and tells a missing field from an empty one. Parquet
stays columnar.

Files may come from anybody. Each must be a regular file, and memory stays within a constant
times its size.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from privgcn import progress
from privgcn.data.documents import RESERVED, Table, without_empty
from privgcn.data.edges import ENDS
from privgcn.data.parquet import memory_needed
from privgcn.errors import DataError, reason, shown
from privgcn.files import read_bounded

if TYPE_CHECKING:
    import polars as pl

FORMATS = (".jsonl", ".csv", ".tsv", ".parquet")
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_QUOTED = re.compile('"[^"]*"')
_MOST_BYTES = 4 << 30
_MOST_RECORD = 64 << 20
_MOST_COLUMNS = 1_000
_MOST_DIGITS = 100
_ROWS_AT_ONCE = 1 << 13

# Bounds that no table of documents reaches, and that files made to fill memory do.
_FREE_CELLS = 1 << 20
_FREE_BYTES = 128 << 20
_MOST_GROWTH = 100


def table_of_file(path: Path) -> Table:
    """Reads a file in one of the ``FORMATS``.

    Raises:
        DataError: The file is broken; the message names the place.
    """
    if path.suffix == ".parquet":
        return _of_parquet(path)
    data = read_bounded(path, most=_MOST_BYTES)
    return (_of_jsonl if path.suffix == ".jsonl" else _of_csv)(path, data)


class _Rows:
    """Records of a file on their way into a frame, some thousand at a time."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.columns: dict[str, None] = {}
        self._most_cells = 2 * size + _FREE_CELLS
        self._pending: dict[str, list[str | None]] = {}
        self._lines: list[int] = []
        self._frames: list[pl.DataFrame] = []
        self._line_blocks: list[NDArray[np.int64]] = []
        self._count = 0

    def add(self, line: int, values: Mapping[str, str | None]) -> None:
        """One more record, which may have other columns than the others."""
        waiting = len(self._lines)
        for name in values:
            if name not in self._pending:
                self._pending[name] = [None] * waiting
        if len(self._pending) > len(self.columns):
            self.columns |= dict.fromkeys(self._pending)
            if len(self.columns) > _MOST_COLUMNS:
                _check_columns(self.path, list(self.columns))
        for name, column in self._pending.items():
            column.append(values.get(name))
        self._lines.append(line)
        self._count += 1
        if len(self._lines) == _ROWS_AT_ONCE:
            self._pack()

    def table(self, hint: str = "", semicolons: bool = False) -> Table:
        """All records."""
        import polars as pl

        self._pack()
        frame = pl.concat(self._frames, how="diagonal")
        for name in self.columns:
            if name not in frame.columns:
                frame = frame.with_columns(pl.lit(None, pl.String).alias(name))
        lines = np.concatenate(self._line_blocks)
        return Table(
            frame.select(list(self.columns)),
            f"The file {self.path}",
            lambda row: f"line {lines[row]} of {self.path}",
            hint=hint,
            semicolons=semicolons,
        )

    def _pack(self) -> None:
        import polars as pl

        # Absent fields cost memory too: a file of empty records and one wide one is small.
        if self._count * len(self.columns) > self._most_cells:
            raise DataError(
                f"The file {self.path} must not leave most of its fields out. Got "
                f"{len(self.columns)} columns for {self._count} records that are almost empty. "
                "Remove rare columns."
            )
        schema = dict.fromkeys(self._pending, pl.String)
        self._frames.append(pl.DataFrame(self._pending, schema=schema))
        self._line_blocks.append(np.array(self._lines, dtype=np.int64))
        self._pending, self._lines = {}, []


def _lines(path: Path, data: bytes) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file with their numbers, without a byte order mark."""
    done = 0
    for number, raw in enumerate(io.BytesIO(data), start=1):
        if number % _ROWS_AT_ONCE == 0:
            progress.advance(done, len(data))
        done += len(raw)
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            bad = raw.find(b"\0")
        except UnicodeDecodeError as error:
            bad, text = error.start, ""
        if bad >= 0:
            raise DataError(
                f"The file {path} must be UTF-8 text. Line {number} has a byte that is not "
                f"(0x{raw[bad]:02x}). Save the file as UTF-8."
            )
        yield number, text


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value; write null for a missing one")


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits; put it in quotes")
    return int(digits)


_JSON = json.JSONDecoder(parse_constant=_no_constant, parse_int=_integer)


def _of_jsonl(path: Path, data: bytes) -> Table:
    rows = _Rows(path, len(data))
    for number, line in _lines(path, data):
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
                str(_json_text(name, place, "") or ""): _json_text(value, place, name)
                for name, value in record.items()
            }
        except (ValueError, RecursionError) as error:
            deep = isinstance(error, RecursionError)
            why = "it is nested too deeply" if deep else reason(error)
            raise DataError(
                f"The file {path} must hold one JSON object on each line. Line {number} is not "
                f"one ({why}). Correct the line; if it is the last one, the file may have "
                "been cut: write it again."
            ) from error
        rows.add(number, values)
    if not rows.columns:
        rows.columns = dict.fromkeys(_expected(path))
    return rows.table()


def _json_text(value: Any, place: str, name: str) -> str | None:
    """A JSON value as a string; ids and texts must not be guessed from other types."""
    if isinstance(value, str):
        if not value.isascii():
            # JSON can spell half a character, which nothing could write again.
            value.encode()
        return value or None
    if value is None:
        return None
    whole = isinstance(value, int) and not isinstance(value, bool)
    if name == "text" or (name in ("id", "owner", *ENDS) and not whole):
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


def _of_csv(path: Path, data: bytes) -> Table:
    if not data.strip():
        raise DataError(
            f"The file {path} must not be empty. It may have been cut: write it again, with a "
            "header line."
        )
    lines = _lines(path, data)
    first = next((line for line in lines if line[1].strip("\r\n")), (1, ""))
    separator = _separator(path, first[1])
    begun = [0]

    def pieces() -> Iterator[str]:
        # The csv module takes a carriage return for the end of a line, wherever it stands.
        for begun[0], line in _chained(first, lines):
            yield from io.StringIO(line, newline="") if "\r" in line[:-2] else (line,)

    rows, names, start = _Rows(path, len(data)), None, first[0]
    # Long texts exceed the module's default limit of 128 KiB for a field.
    limit = csv.field_size_limit(_MOST_RECORD)
    try:
        for record in csv.reader(pieces(), strict=True, delimiter=separator):
            begin, start = start, begun[0] + 1
            if not record:
                continue
            if names is None:
                names = [name.strip() for name in record]
                _check_columns(path, names)
                rows.columns = dict.fromkeys(names)
                continue
            if len(record) != len(names):
                raise _ragged(path, names, len(record), begin, separator)
            rows.add(
                begin, {name: value or None for name, value in zip(names, record, strict=True)}
            )
    except csv.Error as error:
        raise DataError(
            f"The file {path} must be a well-formed CSV file. The record at line {start} is "
            f"not ({error}). Close its quotes, doubling those inside a text; if it is the last "
            "one, the file may have been cut: write it again."
        ) from error
    finally:
        csv.field_size_limit(limit)
    return rows.table(_separator_hint(path, names or []), separator == ";")


def _chained(
    first: tuple[int, str], rest: Iterator[tuple[int, str]]
) -> Iterator[tuple[int, str]]:
    yield first
    yield from rest


def _ragged(path: Path, names: list[str], fields: int, line: int, separator: str) -> DataError:
    hint = _separator_hint(path, names)
    if hint and len(names) == 1:
        return DataError(
            f"The file {path} has one column, {shown(names[0])}, and {fields} fields in line "
            f"{line}.{hint}"
        )
    return DataError(
        f"The file {path} must have {len(names)} fields in each record. Line {line} has "
        f"{fields}. Put a text that contains the separator {shown(separator)} in double "
        "quotes; if it is the last line, the file may have been cut."
    )


def _separator(path: Path, header: str) -> str:
    """What separates the fields of a text.

    Spreadsheets write semicolons to CSV files where a comma marks decimals. A header with
    semicolons and no commas, quoted names apart, can mean nothing else.
    """
    bare = _QUOTED.sub("", header)
    if path.suffix == ".csv" and ";" in bare and "," not in bare:
        return ";"
    return _SEPARATORS[path.suffix]


def _separator_hint(path: Path, columns: list[str]) -> str:
    """What a header suggests that has another separator inside a name; empty otherwise."""
    for mark, name in ((";", "semicolons"), ("\t", "tabs"), (",", "commas"), ("|", "bars")):
        if mark != _SEPARATORS[path.suffix] and any(mark in column for column in columns):
            wanted = "commas" if path.suffix == ".csv" else "tabs"
            other = " or rename it to .tsv" if mark == "\t" else ""
            return f" Its fields seem to be separated by {name}: use {wanted}{other}."
    return ""


def _expected(path: Path) -> tuple[str, ...]:
    """The columns of a file without records, which can name none."""
    return ENDS if path.stem == "edges" else ("id", "text")


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


def _of_parquet(path: Path) -> Table:
    import polars as pl

    data = read_bounded(path, most=_MOST_BYTES)
    try:
        needed = memory_needed(data)
        if needed > _FREE_BYTES + _MOST_GROWTH * len(data):
            raise DataError(
                f"The file {path} must not take more than {_MOST_GROWTH} times its size in "
                f"memory. It has {len(data)} bytes and takes at least {needed}. Write it again "
                "without compression."
            )
        frame = pl.read_parquet(io.BytesIO(data))
    except (ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise DataError(
            f"The file {path} must be a well-formed Parquet file. It cannot be read "
            f"({reason(error)}). It may have been cut: write it again."
        ) from error
    del data
    names = [name.strip() for name in frame.columns] if path.stem == "edges" else frame.columns
    _check_columns(path, names)
    frame.columns = names
    single = (*RESERVED, *ENDS)
    columns = [_plain_column(path, frame[name], name in single) for name in names]
    return Table(
        pl.DataFrame(columns), f"The file {path}", lambda row: f"row {row + 1} of {path}"
    )


def _plain_column(path: Path, values: pl.Series, single: bool) -> pl.Series:
    import polars as pl

    if not values.dtype.is_nested() and values.dtype not in (pl.Object, pl.Binary):
        return without_empty(values.cast(pl.String))
    if single:
        raise DataError(
            f"The column '{values.name}' of {path} must hold strings, single values. Got "
            f"{values.dtype}."
        )
    written = [
        None if value is None else json.dumps(value, default=str) for value in values.to_list()
    ]
    return pl.Series(values.name, written, dtype=pl.String)
