"""Files of documents or edges as tables of strings, and where exactly one is broken.

JSONL, CSV and TSV are read by the standard library one record after the other: it knows the
line of a mistake, leaves ``007`` as it is and tells a missing field from an empty one. Parquet
is read by row groups. Large files come as several tables.

Files may come from anybody. Each must be a regular file, and memory stays within a constant
times its size.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import mmap
import re
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import numpy as np

from privgcn import progress
from privgcn.data.parquet import row_groups
from privgcn.data.problems import Problems
from privgcn.data.table import ENDS, RESERVED, Table, without_empty
from privgcn.errors import DataError, reason, shown
from privgcn.files import open_bounded

if TYPE_CHECKING:
    import polars as pl

FORMATS = (".jsonl", ".csv", ".tsv", ".parquet")
MOST_BYTES = 64 << 30
_SEPARATORS = {",": "Commas", ";": "Semicolons", "\t": "Tabs", "|": "Bars"}
# Letters of European languages, quotes, dashes and signs.
_USUAL = frozenset(
    "äöüÄÖÜßéèêëàâáãçñíîïóôõúùûåæøÅÆØÉÈÀÇÑ°§µ·«»\xa0\u20ac\u2026"
    "\u2013\u2014\u2018\u2019\u201c\u201d\u201e"
)
_QUOTED = re.compile('"[^"]*"')
_MOST_RECORD = 64 << 20
_MOST_COLUMNS = 1_000
_MOST_DIGITS = 100
_ROWS_AT_ONCE = 1 << 13
_BYTES_AT_ONCE = 1 << 26

# Bounds that no table of documents reaches, and that files made to fill memory do.
_FREE_CELLS = 1 << 20
_FREE_BYTES = 128 << 20
_MOST_GROWTH = 100

# Each with the number of its line, or of the one on which it begins.
Lines = Iterator[tuple[int, str]]
Records = Iterator[tuple[int, dict[str, str | None]]]


def tables_of_file(
    path: Path,
    problems: Problems,
    encoding: str | None = None,
    meanings: Mapping[str, str] | None = None,
) -> Iterator[Table]:
    """Reads a file in one of the ``FORMATS``, at least one table of it.

    Args:
        path: The file.
        problems: Who is told what is wrong.
        encoding: Of a text file, if it is not UTF-8.
        meanings: What columns mean whose own names do not say it.
    """
    meanings = meanings or {}
    with open_bounded(path, most=MOST_BYTES) as file:
        if path.suffix == ".parquet":
            yield from _of_parquet(path, file, meanings)
            return
        encoding = _checked_encoding(path, file, encoding, problems)
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        # The csv module takes a carriage return for the end of a line, wherever it stands.
        ends = "\n" if path.suffix == ".jsonl" else ""
        with io.TextIOWrapper(file, encoding, newline=ends) as text:
            lines = _lines(path, file, text, size)
            if path.suffix == ".jsonl":
                records = _json_records(path, lines, meanings, problems)
                # A file without records can name no columns.
                columns: tuple[str, ...] = ENDS if path.stem == "edges" else ("id", "text")
            else:
                records = _csv_records(path, lines, problems)
                columns = tuple(next(records)[1])
            yield from _tables(path, file, size, records, columns)


def _checked_encoding(
    path: Path, file: BinaryIO, encoding: str | None, problems: Problems
) -> str:
    """The encoding of a text file, once all of it is known to be text in it."""
    line, at, bad = 1, 0, 0
    chunk = head = file.read(1 << 20)
    try:
        decoder = codecs.getincrementaldecoder(encoding or "utf-8")()
        while True:
            if "\0" in decoder.decode(chunk, final=not chunk):
                # Of two bytes for each letter, one is often zero.
                at = max(0, chunk.find(b"\0"))
                raise UnicodeError("it holds a zero byte")
            if not chunk:
                return encoding or "utf-8"
            line += chunk.count(b"\n")
            chunk = file.read(1 << 20)
    except (LookupError, UnicodeError) as error:
        likely = likely_encoding(head)
        if encoding is not None:
            raise DataError(
                f"The file {path} must be text in the encoding that is named. Got "
                f"{shown(encoding)}: {reason(error)}. It looks like {likely}."
            ) from None
        if isinstance(error, UnicodeDecodeError):
            chunk, at, bad = error.object, error.start, error.object[error.start]
    line += chunk.count(b"\n", 0, at)
    problems.tell(
        f"The file {path} must be UTF-8 text, unless its encoding is named",
        f"0x{bad:02x}. Line {line} has this byte",
        remedy=f"It looks like {likely}: --encoding {likely}, in Python encoding='{likely}'",
        option=("encoding", likely),
    )
    file.seek(0)
    return _checked_encoding(path, file, likely, problems)


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


def _lines(path: Path, file: BinaryIO, text: io.TextIOWrapper, size: int) -> Lines:
    """The lines with their numbers, without a byte order mark."""
    number = 0
    while line := text.readline(_MOST_RECORD):
        number += 1
        if number % _ROWS_AT_ONCE == 0:
            progress.advance(file.tell(), size)
        if len(line) == _MOST_RECORD:
            raise DataError(
                f"The file {path} must have shorter lines. Line {number} is longer than "
                f"{_MOST_RECORD} characters. It may have been cut, or is no text."
            )
        yield number, line.removeprefix("\ufeff") if number == 1 else line


def _tables(
    path: Path, file: BinaryIO, size: int, records: Records, columns: tuple[str, ...]
) -> Iterator[Table]:
    """Records as tables, made of some thousand each: Python strings take much memory."""
    import polars as pl

    def table() -> Table:
        empty = pl.DataFrame(schema=dict.fromkeys(names or columns, pl.String))
        frame = pl.concat([empty, *frames], how="diagonal")
        return Table(frame, f"The file {path}", "line", np.concatenate(lines))

    names: dict[str, None] = {}
    frames, lines, count, made = list[pl.DataFrame](), [np.empty(0, np.int64)], 0, 0
    begin = file.tell()
    while some := list(_some(records, file)):
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
        fields = {name: [values.get(name) or None for _, values in some] for name in present}
        frames.append(pl.DataFrame(fields, schema=dict.fromkeys(present, pl.String)))
        lines.append(np.array([line for line, _ in some], dtype=np.int64))
        if file.tell() - begin > _BYTES_AT_ONCE:
            yield table()
            frames, lines, begin, made = [], [np.empty(0, np.int64)], file.tell(), made + 1
    if frames or not made:
        yield table()


def _some(records: Records, file: BinaryIO) -> Records:
    """The next records, as many as may be Python objects at the same time."""
    begin = file.tell()
    for record in islice(records, _ROWS_AT_ONCE):
        yield record
        if file.tell() - begin > _BYTES_AT_ONCE // 8:
            return


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


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value; write null for a missing one")


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits; put it in quotes")
    return int(digits)


_JSON = json.JSONDecoder(parse_constant=_no_constant, parse_int=_integer)


def _json_records(
    path: Path, lines: Lines, meanings: Mapping[str, str], problems: Problems
) -> Records:
    for number, line in lines:
        if not line.strip():
            continue
        try:
            record = _JSON.decode(line)
            if not isinstance(record, dict):
                raise ValueError(f"it holds a {type(record).__name__}")
            if "\\u" in line:
                # JSON can spell half a character, which nothing could write again.
                json.dumps(record, ensure_ascii=False).encode()
            for name, value in record.items():
                if type(value) is str:
                    continue
                meaning = meanings.get(name, name.strip().casefold())
                if rule := _broken_rule(value, meaning):
                    problems.tell(
                        f"The '{meaning}' must be {rule}",
                        f"{shown(json.dumps(value))} in line {number} of {path}",
                        remedy="Write one string, in quotes",
                    )
                record[name] = None if value is None else json.dumps(value, allow_nan=False)
        except (ValueError, RecursionError) as error:
            deep = isinstance(error, RecursionError)
            why = "it is nested too deeply" if deep else reason(error)
            problems.tell(
                f"The file {path} must hold one JSON object on each line",
                f"line {number}: {why}",
                remedy="Correct the line; if it is the last one, the file may have been cut: "
                "write it again",
            )
        else:
            yield number, record


def _broken_rule(value: Any, meaning: str) -> str:
    """What a JSON value that is no string must be: ids and texts must not be guessed."""
    if value is None:
        return ""
    if meaning == "text":
        return "a string"
    if meaning in ("id", "owner", *ENDS) and type(value) is not int:
        return "a string or an integer"
    return "a single value" * (meaning in ("label", "split") and isinstance(value, list | dict))


def _csv_records(path: Path, lines: Lines, problems: Problems) -> Records:
    """The header, as a record without values, and then the records."""
    head: list[str] = []
    while not head or not head[-1].strip():
        head.append(next(lines, (0, ""))[1])
        if not head[-1]:
            raise DataError(
                f"The file {path} must not be empty. It may have been cut: write it again, "
                "with a header line."
            )
    # Spreadsheets write semicolons where a comma marks decimals. A header with one of these
    # marks and no commas, quoted names apart, can mean nothing else.
    bare = _QUOTED.sub("", head[-1])
    marks = "".join(_SEPARATORS) if path.suffix == ".csv" else "\t"
    separator = next((mark for mark in marks if mark in bare), marks[0])
    if separator not in (",", "\t"):
        problems.tell(f"{_SEPARATORS[separator]} separate {shown(path.name)}", stops=False)
    # Long texts exceed the module's default limit of 128 KiB for a field.
    limit = csv.field_size_limit(_MOST_RECORD)
    pieces = chain(head, (line for _, line in lines))
    reader = csv.reader(pieces, strict=True, delimiter=separator)
    names, line = None, 1
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
                yield begin, dict(zip(names, record, strict=True))
            else:
                problems.tell(
                    f"The file {path} must have {len(names)} fields in each record",
                    f"{len(record)} in line {begin}",
                    remedy="Put a text that contains the separator "
                    f"{shown(separator)} in double quotes; if it is the last line, the file "
                    "may have been cut",
                )
    except csv.Error as error:
        raise DataError(
            f"The file {path} must be a well-formed CSV file. The record at line {line} is "
            f"not ({error}). Close its quotes, doubling those inside a text; if it is the last "
            "one, the file may have been cut: write it again."
        ) from error
    finally:
        csv.field_size_limit(limit)


def _of_parquet(path: Path, file: BinaryIO, meanings: Mapping[str, str]) -> Iterator[Table]:
    import polars as pl

    try:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            groups, size = row_groups(data), len(data)
        needed = sum(memory for _, memory in groups)
        if needed > _FREE_BYTES + _MOST_GROWTH * size:
            raise DataError(
                f"The file {path} must not take more than {_MOST_GROWTH} times its size in "
                f"memory. It has {size} bytes and takes at least {needed}. Write it again "
                "without compression."
            )
        scan, done = pl.scan_parquet(path.absolute(), glob=False, hive_partitioning=False), 0
        for rows in _blocks(groups):
            frame = scan.slice(done, rows).collect()
            if frame.height != rows:
                raise ValueError("a row group has another number of rows than it says")
            _check_columns(path, frame.columns)
            columns = [_strings(path, values, meanings) for values in frame]
            yield Table(pl.DataFrame(columns), f"The file {path}", "row", done + 1)
            done += rows
            progress.advance(done, sum(rows for rows, _ in groups))
    except (ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise DataError(
            f"The file {path} must be a well-formed Parquet file. It cannot be read "
            f"({reason(error)}). It may have been cut: write it again."
        ) from error


def _blocks(groups: list[tuple[int, int]]) -> Iterator[int]:
    """How many rows to read at once: whole row groups, and of small ones several."""
    rows, held = 0, 0
    for own, memory in groups:
        if held + memory > _BYTES_AT_ONCE and rows:
            yield rows
            rows, held = 0, 0
        rows, held = rows + own, held + memory
    yield rows


def _strings(path: Path, values: pl.Series, meanings: Mapping[str, str]) -> pl.Series:
    """A column of a Parquet file as strings."""
    import polars as pl

    if not values.dtype.is_nested() and values.dtype not in (pl.Object, pl.Binary):
        return without_empty(values.cast(pl.String))
    if meanings.get(values.name, values.name.strip().casefold()) in (*RESERVED, *ENDS):
        raise DataError(
            f"The column '{values.name}' of {path} must hold strings, single values. Got "
            f"{values.dtype}."
        )
    written = [None if v is None else json.dumps(v, default=str) for v in values.to_list()]
    return pl.Series(values.name, written, dtype=pl.String)
