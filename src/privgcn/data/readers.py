"""Files of documents or edges as tables of strings, and where exactly one is broken.

JSONL, CSV and TSV are read by the standard library one record after the other: it knows the
line of a mistake, leaves ``007`` as it is and tells a missing field from an empty one. Parquet
stays columnar.

Files may come from anybody. Each must be a regular file, and memory stays within a constant
times its size.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from privgcn import progress
from privgcn.data.documents import without_empty
from privgcn.data.edges import ENDS
from privgcn.data.parquet import memory_needed
from privgcn.data.problems import Problems
from privgcn.data.table import RESERVED, Table
from privgcn.errors import DataError, reason, shown
from privgcn.files import read_bounded

FORMATS = (".jsonl", ".csv", ".tsv", ".parquet")
_SEPARATORS = {",": "Commas", ";": "Semicolons", "\t": "Tabs", "|": "Bars"}
# Letters of European languages, quotes, dashes and signs.
_USUAL = frozenset(
    "äöüÄÖÜßéèêëàâáãçñíîïóôõúùûåæøÅÆØÉÈÀÇÑ°§µ·«»\xa0\u20ac\u2026"
    "\u2013\u2014\u2018\u2019\u201c\u201d\u201e"
)
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

# The line on which a record begins, and its fields.
Records = Iterator[tuple[int, dict[str, str | None]]]


def table_of_file(
    path: Path,
    problems: Problems,
    encoding: str | None = None,
    meanings: Mapping[str, str] | None = None,
) -> Table:
    """Reads a file in one of the ``FORMATS``.

    Args:
        path: The file.
        problems: Who is told what is wrong.
        encoding: Of a text file, if it is not UTF-8.
        meanings: What columns mean whose own names do not say it.
    """
    data, meanings = read_bounded(path, most=_MOST_BYTES), meanings or {}
    if path.suffix == ".parquet":
        return _of_parquet(path, data, meanings)
    data = _in_utf8(path, data, encoding, problems)
    if path.suffix == ".jsonl":
        # A file without records can name no columns.
        columns = ENDS if path.stem == "edges" else ("id", "text")
        return _packed(path, len(data), _json_records(path, data, meanings), columns)
    # Spreadsheets write semicolons where a comma marks decimals. A header with one of these
    # marks and no commas, quoted names apart, can mean nothing else.
    first = next((line for line in io.BytesIO(data) if line.strip()), b"")
    bare = _QUOTED.sub("", first.decode("utf-8", "replace"))
    marks = "".join(_SEPARATORS) if path.suffix == ".csv" else "\t"
    separator = next((mark for mark in marks if mark in bare), marks[0])
    records = _csv_records(path, data, separator)
    header = next(records, None)
    if header is None:
        raise DataError(
            f"The file {path} must not be empty. It may have been cut: write it again, with a "
            "header line."
        )
    if separator not in (",", "\t"):
        problems.tell(f"{_SEPARATORS[separator]} separate {shown(path.name)}", stops=False)
    return _packed(path, len(data), records, tuple(header[1]))


def _in_utf8(path: Path, data: bytes, encoding: str | None, problems: Problems) -> bytes:
    if encoding is None:
        number, bad = _bad_byte(data)
        if bad is None:
            return data
        encoding = likely_encoding(data)
        problems.tell(
            f"The file {path} must be UTF-8 text, unless its encoding is named",
            f"0x{bad:02x}. Line {number} has this byte",
            remedy=f"It looks like {encoding}: --encoding {encoding}, in Python "
            f"encoding='{encoding}'",
            option=("encoding", encoding),
        )
    try:
        decoded = data.decode(encoding).encode()
    except (LookupError, UnicodeError) as error:
        raise DataError(
            f"The file {path} must be text in the encoding that is named. Got "
            f"{shown(encoding)}: {reason(error)}. It looks like {likely_encoding(data)}."
        ) from None
    if b"\0" in decoded:
        raise DataError(
            f"The file {path} must be text. Got a zero byte in the encoding {encoding}. It "
            f"looks like {likely_encoding(data)}."
        )
    return decoded


def _bad_byte(data: bytes) -> tuple[int, int | None]:
    """The first byte that no UTF-8 text has there, and its line."""
    for number, line in enumerate(() if data.isascii() else io.BytesIO(data), start=1):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            return number, line[error.start]
    at = data.find(b"\0")
    return data.count(b"\n", 0, max(at, 0)) + 1, None if at < 0 else 0


def likely_encoding(data: bytes) -> str:
    """What text that is not UTF-8 is most likely in.

    Examples:
        >>> likely_encoding("caf\u00e9, 5 \u20ac".encode("cp1252"))
        'cp1252'
        >>> likely_encoding("caf\u00e9 \u00e0 la cr\u00e8me".encode("mac-roman"))
        'mac-roman'
    """
    head = data[: 1 << 20]
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    big, little = head[::2].count(0), head[1::2].count(0)
    if max(big, little) > len(head) // 8:
        return "utf-16-be" if big > little else "utf-16-le"
    high = data.translate(None, bytes(range(128)))[: 1 << 16]

    def usual(encoding: str) -> int:
        text = high.decode(encoding, "replace")
        return sum((c in _USUAL) - 9 * (c == "\ufffd") for c in text)

    return max("cp1252", "latin-1", "mac-roman", key=usual)


def _packed(
    path: Path,
    size: int,
    records: Records,
    columns: tuple[str, ...],
) -> Table:
    """Records as a table, some thousand at a time: Python strings take ten times the memory."""
    import polars as pl

    names: dict[str, None] = {}
    frames, lines = [], [np.empty(0, dtype=np.int64)]
    count = 0
    while some := list(islice(records, _ROWS_AT_ONCE)):
        present = dict.fromkeys(chain.from_iterable(values for _, values in some))
        names |= present
        _check_columns(path, list(names))
        count += len(some)
        # Absent fields cost memory too: a file of empty records and one wide one is small.
        if count * len(names) > 2 * size + _FREE_CELLS:
            raise DataError(
                f"The file {path} must not leave most of its fields out. Got {len(names)} "
                f"columns for {count} records that are almost empty. Remove rare columns."
            )
        fields = {name: [values.get(name) for _, values in some] for name in present}
        frames.append(pl.DataFrame(fields, schema=dict.fromkeys(present, pl.String)))
        lines.append(np.array([line for line, _ in some], dtype=np.int64))
    empty = pl.DataFrame(schema=dict.fromkeys(names or columns, pl.String))
    line_of = np.concatenate(lines)
    return Table(
        pl.concat([empty, *frames], how="diagonal"),
        f"The file {path}",
        lambda row: f"line {line_of[row]} of {path}",
    )


def _check_columns(path: Path, names: list[str]) -> None:
    if len(names) > _MOST_COLUMNS:
        raise DataError(
            f"The file {path} must have at most {_MOST_COLUMNS} columns. Got {len(names)}."
        )
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DataError(
            f"The file {path} must name each column once. Got {shown(twice[0])} twice. Rename "
            "one."
        )


def _lines(data: bytes) -> Iterator[tuple[int, str]]:
    """The lines of UTF-8 text with their numbers, without a byte order mark."""
    done = 0
    for number, raw in enumerate(io.BytesIO(data), start=1):
        if number % _ROWS_AT_ONCE == 0:
            progress.advance(done, len(data))
        done += len(raw)
        yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value; write null for a missing one")


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits; put it in quotes")
    return int(digits)


_JSON = json.JSONDecoder(parse_constant=_no_constant, parse_int=_integer)


def _json_records(path: Path, data: bytes, meanings: Mapping[str, str]) -> Records:
    for number, line in _lines(data):
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
                str(_json_text(name, place, "") or ""): _json_text(
                    value, place, meanings.get(name, name.strip().casefold())
                )
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
        yield number, values


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
    allowed = ""
    if name == "text":
        allowed = "a string"
    elif name in ("id", "owner", *ENDS) and not whole:
        allowed = "a string or an integer"
    elif name in ("label", "split") and isinstance(value, list | dict):
        allowed = "a single value"
    if allowed:
        raise DataError(
            f"The '{name}' must be {allowed}. Got {shown(json.dumps(value))} in {place}. Write "
            "one string, in quotes."
        )
    return json.dumps(value, allow_nan=False)


def _csv_records(path: Path, data: bytes, separator: str) -> Records:
    """The header, as a record without values, and then the records."""
    # The csv module takes a carriage return for the end of a line, wherever it stands.
    pieces = (
        piece
        for _, line in _lines(data)
        for piece in (io.StringIO(line, newline="") if "\r" in line[:-2] else (line,))
    )
    # Long texts exceed the module's default limit of 128 KiB for a field.
    limit = csv.field_size_limit(_MOST_RECORD)
    reader, names, line = csv.reader(pieces, strict=True, delimiter=separator), None, 1
    try:
        for record in reader:
            begin, line = line, reader.line_num + 1
            if not record:
                continue
            if names is None:
                names = [name.strip() for name in record]
                _check_columns(path, names)
                yield begin, dict.fromkeys(names)
            elif len(record) == len(names):
                values = [value or None for value in record]
                yield begin, dict(zip(names, values, strict=True))
            else:
                raise DataError(
                    f"The file {path} must have {len(names)} fields in each record. Line "
                    f"{begin} has {len(record)}. Put a text that contains the separator "
                    f"{shown(separator)} in double quotes; if it is the last line, the file "
                    "may have been cut."
                )
    except csv.Error as error:
        raise DataError(
            f"The file {path} must be a well-formed CSV file. The record at line {line} is "
            f"not ({error}). Close its quotes, doubling those inside a text; if it is the last "
            "one, the file may have been cut: write it again."
        ) from error
    finally:
        csv.field_size_limit(limit)


def _of_parquet(path: Path, data: bytes, meanings: Mapping[str, str]) -> Table:
    import polars as pl

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
    _check_columns(path, frame.columns)
    columns = []
    for values in frame:
        if not values.dtype.is_nested() and values.dtype not in (pl.Object, pl.Binary):
            columns.append(without_empty(values.cast(pl.String)))
            continue
        if meanings.get(values.name, values.name.strip().casefold()) in (*RESERVED, *ENDS):
            raise DataError(
                f"The column '{values.name}' of {path} must hold strings, single values. Got "
                f"{values.dtype}."
            )
        written = [None if v is None else json.dumps(v, default=str) for v in values.to_list()]
        columns.append(pl.Series(values.name, written, dtype=pl.String))
    return Table(
        pl.DataFrame(columns), f"The file {path}", lambda row: f"row {row + 1} of {path}"
    )
