"""Files of documents or edges as tables of strings, and where exactly one is broken.

JSONL, CSV and TSV are read by the standard library one record after the other: it knows the
line of a mistake, leaves ``007`` as it is and tells a missing field from an empty one. Parquet
is read by row groups. Files may come from anybody: memory stays within a constant times their
size.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import mmap
import re
import warnings
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from privgcn import progress
from privgcn.data.parquet import row_groups
from privgcn.data.problems import Problems
from privgcn.data.table import ENDS, RESERVED, Table, joined, must_be
from privgcn.errors import DataError, reason, shown
from privgcn.files import open_bounded

if TYPE_CHECKING:
    import polars as pl

FORMATS = (".jsonl", ".csv", ".tsv", ".parquet")
MOST_BYTES = 64 << 30
_SEPARATORS = {",": "Commas", ";": "Semicolons", "\t": "Tabs", "|": "Bars"}
_QUOTED = re.compile('"[^"]*"')
_MOST_RECORD = 64 << 20
_MOST_COLUMNS = 1_000
_ROWS_AT_ONCE = 1 << 13
_BYTES_AT_ONCE = 1 << 26

# No table of documents exceeds these; files made to fill memory do.
_FREE_CELLS = 1 << 20
_FREE_BYTES = 128 << 20
_MOST_GROWTH = 100

# A byte that is not UTF-8, as Python holds it, and half of a letter of two bytes.
_NO_UTF8 = re.compile("[\0\udc80-\udcff]")

# Each with the number of its line, or of the one on which it begins.
Lines = Iterator[tuple[int, str]]
Records = Iterator[tuple[int, dict[str, str | None]]]


def tables_of_file(
    path: Path,
    problems: Problems,
    encoding: str | None = None,
    meanings: Mapping[str, str] | None = None,
) -> Iterator[Table]:
    """A file in one of the ``FORMATS`` as tables, at least one.

    ``meanings`` says what columns mean whose own names do not say it.
    """
    if path.suffix not in FORMATS:
        raise DataError(
            f"The file {path} must end with one of {', '.join(FORMATS)}. Got "
            f"{shown(path.suffix)}. Save it so; spreadsheets write CSV."
        )
    with open_bounded(path, most=MOST_BYTES) as file:
        if path.suffix == ".parquet":
            tables = _parquet_tables(path, file, meanings or {})
        else:
            lines = _lines(path, file, encoding, problems)
            records = (
                _json_records(path, lines, meanings or {}, problems)
                if path.suffix == ".jsonl"
                else _csv_records(path, lines, problems)
            )
            tables = _text_tables(path, records)
        # A block has to be worth a search among all ids.
        held, size = list[Table](), 0
        for table in tables:
            held.append(table)
            # Each string has 16 bytes of its own beside its letters.
            size += int(table.frame.estimated_size()) + 16 * table.frame.width * len(table)
            if size > _BYTES_AT_ONCE:
                yield joined(held)
                held, size = [], 0
        if held:
            yield joined(held)


def _lines(path: Path, file: BinaryIO, encoding: str | None, problems: Problems) -> Lines:
    """The lines with their numbers, without a byte order mark.

    Where an encoding was named, the file must not be UTF-8: those of one byte read any bytes.
    """
    errors, other = "strict" if encoding else "surrogateescape", list[str]()
    # The csv module takes a carriage return for the end of a line, wherever it stands.
    ends = "\n" if path.suffix == ".jsonl" else ""
    try:
        with io.TextIOWrapper(file, encoding or "utf-8", errors, ends) as text:
            suspect = encoding and len("é".encode().decode(encoding, "replace")) == 2
            for number, line in enumerate(iter(lambda: text.readline(_MOST_RECORD), ""), 1):
                if number % _ROWS_AT_ONCE == 0:
                    progress.advance(file.tell(), path.stat().st_size)
                if len(line) == _MOST_RECORD:
                    raise DataError(
                        f"The file {path} must have shorter lines. Line {number} is longer "
                        f"than {_MOST_RECORD} characters. It may have been cut, or is no text."
                    )
                if encoding is None and (bad := _NO_UTF8.search(line)):
                    likely = "utf-16" if "\0" in line else "cp1252"
                    problems.add(
                        f"The file {path} must be UTF-8 text, unless its encoding is named",
                        f"the byte 0x{ord(bad[0]) & 0xFF:02x} in line {number}",
                        remedy=f"It looks like {likely}: --encoding {likely}, in Python "
                        f"encoding='{likely}'",
                        option=("encoding", likely),
                    )
                    if likely == "utf-16":
                        return
                    line = line.encode("utf-8", errors).decode("cp1252", "replace")
                if encoding and suspect and not line.isascii():
                    suspect = "\ufffd" not in line.encode(encoding).decode(errors="replace")
                    other = other or [f"UTF-8 in line {number}"]
                if number == 1:
                    mark = codecs.BOM_UTF8.decode(encoding, "replace") if encoding else ""
                    line = line.removeprefix("\ufeff").removeprefix(mark)
                yield number, line
            if suspect and other:
                problems.add(
                    f"The file {path} must be in the encoding that was named, "
                    f"{shown(encoding)[1:-1]}",
                    *other,
                    remedy="Name its own: --encoding utf-8, in Python encoding='utf-8'",
                    option=("encoding", "utf-8"),
                )
    except (LookupError, UnicodeError) as error:
        raise DataError(
            f"The file {path} must be text in the encoding that is named. Got "
            f"{shown(encoding)}: {reason(error)}. Name another."
        ) from None


def _text_tables(path: Path, records: Records) -> Iterator[Table]:
    """Records as tables of some thousand each: Python strings take much memory."""
    import polars as pl

    names, count, most = dict[str, None](), 0, 2 * path.stat().st_size + _FREE_CELLS
    while some := list(_some(records)):
        columns = dict.fromkeys(chain.from_iterable(values for _, values in some))
        names, count = names | columns, count + len(some)
        _check_columns(path, list(names))
        # Absent fields cost memory too: a file of empty records and one wide one is small.
        if count * len(names) > most:
            raise DataError(
                f"The file {path} must not leave most of its fields out. Got {len(names)} "
                f"columns for {count} records that are almost empty. Remove rare columns."
            )
        fields = {own: [values.get(own) for _, values in some] for own in columns}
        frame = pl.DataFrame(fields, schema=dict.fromkeys(columns, pl.String))
        yield Table(frame, np.array([line for line, _ in some]), f"The file {path}", "line")
    if not count:
        yield Table(pl.DataFrame(), np.empty(0, dtype=np.int64), f"The file {path}")


def _some(records: Records) -> Records:
    """The next records, as many as may be Python objects at the same time."""
    held = 0
    for record in islice(records, _ROWS_AT_ONCE):
        yield record
        held += sum(len(value) for value in record[1].values() if value)
        if held > _BYTES_AT_ONCE // 8:
            return


def _check_columns(path: Path, names: list[str]) -> None:
    if len(names) > _MOST_COLUMNS:
        raise DataError(
            f"The file {path} must have at most {_MOST_COLUMNS} columns. Got {len(names)}."
        )
    for name in names:
        if names.count(name) > 1:
            raise DataError(
                f"The file {path} must name each column once. Got {shown(name)} twice."
            )


def _json_records(
    path: Path, lines: Lines, meanings: Mapping[str, str], problems: Problems
) -> Records:
    for number, line in lines:
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            if not isinstance(record, dict):
                raise ValueError(f"it holds a {type(record).__name__}")
            if "\\u" in line:
                # JSON can spell half a character, which nothing could write again.
                json.dumps(record, ensure_ascii=False).encode()
            for name, value in record.items():
                if isinstance(value, str):
                    continue
                meaning = meanings.get(name, name.strip().casefold())
                if must := must_be(meaning, value):
                    problems.add(
                        f"The '{meaning}' must be {must}",
                        f"{shown(json.dumps(value))} in line {number} of {path}",
                        remedy="Write one string, in quotes",
                    )
                record[name] = None if value is None else json.dumps(value, allow_nan=False)
        except (ValueError, RecursionError) as error:
            deep = isinstance(error, RecursionError)
            why = "it is nested too deeply" if deep else reason(error)
            problems.add(
                f"The file {path} must hold one JSON object on each line",
                f"line {number}: {why}",
                remedy="Correct the line; if it is the last one, the file may have been cut: "
                "write it again",
            )
        else:
            yield number, record


def _csv_records(path: Path, lines: Lines, problems: Problems) -> Records:
    above, header = next((line for line in lines if line[1].strip()), (0, ""))
    if not header:
        raise DataError(
            f"The file {path} must not be empty. It may have been cut: write it again, with a "
            "header line."
        )
    # Spreadsheets write semicolons where a comma marks decimals.
    bare = _QUOTED.sub("", header)
    marks = "".join(_SEPARATORS) if path.suffix == ".csv" else "\t"
    separator = next((mark for mark in marks if mark in bare), marks[0])
    if separator not in (",", "\t"):
        problems.note(f"{_SEPARATORS[separator]} separate {shown(path.name)}")
    # Long texts exceed the module's default limit of 128 KiB for a field.
    csv.field_size_limit(_MOST_RECORD)
    pieces = chain([header], (line for _, line in lines))
    reader = csv.reader(pieces, strict=True, delimiter=separator)
    begin, after, names = above, above, list[str]()
    try:
        for record in reader:
            begin, after = after, above + reader.line_num
            if not names:
                names = [name.strip() for name in record]
                _check_columns(path, names)
            elif len(record) == len(names):
                yield begin, dict(zip(names, record, strict=True))
            elif record:
                problems.add(
                    f"The file {path} must have {len(names)} fields in each record",
                    f"{len(record)} in line {begin}",
                    remedy="Put a text that contains the separator "
                    f"{shown(separator)} in double quotes; if it is the last line, the file "
                    "may have been cut",
                )
    except csv.Error as error:
        raise DataError(
            f"The file {path} must be a well-formed CSV file. The record at line {after} is "
            f"not ({error}). Close its quotes, doubling those inside a text; if it is the last "
            "one, the file may have been cut: write it again."
        ) from error


def _parquet_tables(path: Path, file: BinaryIO, meanings: Mapping[str, str]) -> Iterator[Table]:
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
        for rows, _ in groups or [(0, 0)]:
            frame = scan.slice(done, rows).collect()
            if frame.height != rows:
                raise ValueError("a row group has another number of rows than it says")
            _check_columns(path, frame.columns)
            columns = [_strings(path, values, meanings) for values in frame]
            numbers = np.arange(done + 1, done + rows + 1)
            yield Table(pl.DataFrame(columns), numbers, f"The file {path}")
            done += rows
            progress.advance(done, sum(rows for rows, _ in groups))
    except (ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise DataError(
            f"The file {path} must be a well-formed Parquet file. It cannot be read "
            f"({reason(error)}). It may have been cut: write it again."
        ) from error


def _strings(path: Path, values: pl.Series, meanings: Mapping[str, str]) -> pl.Series:
    import polars as pl

    if not values.dtype.is_nested() and values.dtype not in (pl.Object, pl.Binary):
        return values.cast(pl.String)
    if meanings.get(values.name, values.name.strip().casefold()) in (*RESERVED, *ENDS):
        raise DataError(
            f"The column '{values.name}' of {path} must hold strings, single values. Got "
            f"{values.dtype}."
        )
    written = [None if v is None else json.dumps(v, default=str) for v in values.to_list()]
    return pl.Series(values.name, written, dtype=pl.String)


def numeric_array(path: Path, kinds: str) -> NDArray[Any]:
    """A table of numbers, mapped: a header that promises too much costs nothing."""
    open_bounded(path, most=MOST_BYTES).close()
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


def vectors_of_file(path: Path, count: int) -> NDArray[np.float32]:
    """Finite float32 rows: of a file that holds such, mapped and not in memory."""
    array = numeric_array(path, "fiub")
    if array.shape[0] != count or array.shape[1] == 0:
        raise DataError(
            f"The file {path} must have one row of numbers for each of the {count} documents, "
            f"in their order. Got the shape {array.shape}. Save it again from the same files."
        )
    mapped = array.dtype == np.float32 and array.flags.c_contiguous
    with np.errstate(over="ignore"):
        rows = array if mapped else np.array(array, dtype=np.float32, order="C")
    size = max(1, _BYTES_AT_ONCE // (8 * array.shape[1]))
    for begin in range(0, count, size):
        # Mapped anew for each block, so that its pages leave memory with it.
        block = np.load(path, mmap_mode="r") if mapped else rows
        bad = np.flatnonzero(~np.isfinite(block[begin : begin + size]).all(axis=1))
        if len(bad):
            raise DataError(
                f"The file {path} must hold finite numbers that fit float32. Row "
                f"{begin + bad[0]} (counted from 0) does not. Replace NaN and infinity before "
                "saving."
            )
    return rows
