"""Whatever holds documents or edges, as one table: files of a folder, and frames in memory.

A folder holds ``documents.jsonl``, ``.csv``, ``.tsv`` or ``.parquet`` (columns ``id`` and
``text``; optional ``label``, ``split``, ``owner`` and any others), optionally ``edges`` in one
of the same formats (``source``, ``target``), or ``edges.npy`` with two rows of document numbers
counted from 0, and optionally ``features.npy`` with one row for each document, which may stand
in for the texts. A frame is anything with named columns: of pandas, polars, pyarrow or Hugging
Face ``datasets``, or a mapping from names to columns; none of these libraries is imported here.

Files may come from anybody. Each must be a regular file that lies in the folder, and memory
stays within a constant times its size.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from privgcn import progress
from privgcn.data.corpus import Corpus, CorpusFacts, ReadReport, Strings
from privgcn.data.documents import RESERVED, Table, document_fields
from privgcn.data.edges import (
    ENDS,
    canonical_edges,
    no_edges,
    refuse_weights,
    rows_of_array,
    rows_of_matrix,
    rows_of_table,
)
from privgcn.data.parquet import memory_needed
from privgcn.errors import DataError, reason, shown
from privgcn.files import check_regular, read_bounded

if TYPE_CHECKING:
    import polars as pl

FORMATS = (".jsonl", ".csv", ".tsv", ".parquet")
_OTHER_NAMES = ("edge", "link", "links")
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

_MOST_VECTOR_BYTES = 64 << 30
# Numbers of a file that are taken into memory; those of larger files stay on disk.
_MOST_IN_MEMORY = 1 << 24
_MOST_CONVERTED = 1 << 28
_BYTES_AT_ONCE = 1 << 24


def load_folder(
    folder: Path,
    *,
    classes: Sequence[str] | None = None,
    seed: int = 0,
    require_labels: bool = True,
) -> Corpus:
    """Loads a folder of documents.

    Args:
        folder: Where the files are.
        classes: The class set, where it is public; read off the labels otherwise.
        seed: Of the random split, used when there is no ``split`` column.
        require_labels: Whether gaps in the ``label`` column and a single class are errors.

    Raises:
        DataError: A file breaks a rule.
    """
    path = _one_of(folder, "documents", FORMATS)
    if path is None:
        names = ", ".join("documents" + suffix for suffix in FORMATS)
        raise DataError(f"The folder {folder} must have one of {names}. Got none. Add one.")
    edge_path = _one_of(folder, "edges", (*FORMATS, ".npy"), _OTHER_NAMES)
    vector_path = _one_of(folder, "features", (".npy",))
    table = table_of_file(path)
    vectors = None if vector_path is None else _vectors(vector_path, len(table))
    fields = document_fields(
        table,
        classes=classes,
        seed=seed,
        needs_ids=True,
        needs_texts=vectors is None,
        require_labels=require_labels,
    )
    progress.begin("reading edges")
    count = len(table)
    unused: tuple[str, ...] = ()
    files = [path.name] * table.semicolons
    if edge_path is None:
        ends = no_edges()
    elif edge_path.suffix == ".npy":
        ends = rows_of_array(_array(edge_path, "iu"), count, f"The file {edge_path}")
    else:
        edge_table = table_of_file(edge_path)
        ends, unused = rows_of_table(edge_table, count, fields["ids"], f" in {path.name}")
        files += [edge_path.name] * edge_table.semicolons
    return _corpus(
        fields,
        table,
        ends,
        unused,
        tuple(files),
        name=folder.resolve().name,
        vectors=vectors,
        source=str(folder),
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
    names = column_names(frame)
    columns = {name: raw_column(frame, name) for name in names}
    for name, values in {"label": labels, "owner": owners}.items():
        if values is None:
            continue
        if name in names:
            raise DataError(
                f"The '{name}' must be given once. Got a column and an argument. Leave one of "
                "them out."
            )
        columns[name] = values
    table = table_of_columns(columns, "The frame of documents")
    fields = document_fields(table, classes=classes, seed=seed)
    ids = fields["ids"] if "id" in table.frame.columns else None
    ends, unused = edge_rows(edges, len(table), ids)
    return _corpus(
        fields, table, ends, unused, (), name="frame", source="", declared=classes is not None
    )


def edge_rows(
    edges: Any, count: int, ids: Strings | None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The rows that each edge joins, ``[2, edges]``, as given, and the unused columns.

    Args:
        edges: Pairs; a frame with the columns ``source`` and ``target``; a square sparse
            matrix; or an ``edge_index`` of the shape ``[2, edges]``. A matrix and an
            ``edge_index`` speak of rows, the others of ids where documents have ids.
        count: How many documents there are.
        ids: Their ids; None where documents are known by their row.

    Raises:
        DataError: An edge leads to no document, or has a weight.
    """
    if edges is None:
        return no_edges(), ()
    if hasattr(edges, "tocoo"):
        return rows_of_matrix(edges, count), ()
    if hasattr(edges, "detach"):
        return rows_of_array(edges.detach().cpu().numpy(), count, "An edge_index"), ()
    if is_frame(edges):
        columns = {name: raw_column(edges, name) for name in column_names(edges)}
        table = table_of_columns(columns, "The frame of edges")
        return rows_of_table(table, count, ids)
    if isinstance(edges, np.ndarray) and edges.ndim == 2 and edges.dtype.kind in "iu":
        if edges.shape[0] == 2 != edges.shape[1]:
            return rows_of_array(edges, count, "An edge_index"), ()
        if edges.shape[1] == 2 and ids is None:
            return rows_of_array(edges.T, count, "An array of edges"), ()
    pairs = [tuple(pair) for pair in edges]
    for number, pair in enumerate(pairs):
        if len(pair) != 2:
            refuse_weights(["a third value"] * (len(pair) == 3), "A list")
            raise DataError(
                f"An edge must be a pair of documents. Edge {number} has {len(pair)} values."
            )
    columns = {name: [pair[side] for pair in pairs] for side, name in enumerate(ENDS)}
    return rows_of_table(table_of_columns(columns, "The list of edges"), count, ids)


def with_edges(corpus: Corpus, edges: Any) -> Corpus:
    """The same documents, which are known by their row, with the given edges."""
    ends, _ = edge_rows(edges, len(corpus), None)
    return replace(corpus, edges=canonical_edges(ends[0], ends[1], len(corpus)))


def is_frame(value: Any) -> bool:
    """Whether a value has named columns."""
    if hasattr(value, "tocoo"):  # some sparse matrices are mappings
        return False
    named = hasattr(value, "columns") or hasattr(value, "column_names")
    return isinstance(value, Mapping) or (named and hasattr(value, "__getitem__"))


def column_names(frame: Any) -> list[str]:
    """The names of the columns of a frame."""
    return [str(name) for name in _names(frame)]


def raw_column(frame: Any, name: str) -> Any:
    """A column of a frame as its library has it."""
    return frame[next(key for key in _names(frame) if str(key) == name)]


def plain_list(values: Any) -> list[Any]:
    """The values of a series, array or list, None where one is missing.

    Raises:
        DataError: It is a single text.
    """
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
    """Columns in memory, of any library, as a table.

    Raises:
        DataError: Columns differ in length, or hold what their name does not allow.
    """
    import polars as pl

    made: dict[str, pl.Series] = {}
    labels: tuple[Any, ...] | None = None
    for column, values in columns.items():
        if column == "label":
            made[column], labels = _label_strings(plain_list(values))
        else:
            made[column] = _strings(column, values)
    count = len(made["text"] if "text" in made else next(iter(made.values()), ()))
    for column, series in made.items():
        if len(series) != count:
            raise DataError(
                f"The '{column}' must be given for each of the {count} documents, one entry "
                f"for each. Got {len(series)}."
            )
    return Table(pl.DataFrame(made), name, lambda row: f"row {row}", labels)


def table_of_file(path: Path) -> Table:
    """Reads a file in one of the ``FORMATS``.

    Raises:
        DataError: The file is broken; the message names the place.
    """
    if path.suffix == ".parquet":
        return _of_parquet(path)
    data = read_bounded(path, most=_MOST_BYTES)
    return (_of_jsonl if path.suffix == ".jsonl" else _of_csv)(path, data)


def _corpus(
    fields: dict[str, Any],
    table: Table,
    ends: NDArray[np.int64],
    unused: tuple[str, ...],
    semicolons: tuple[str, ...],
    *,
    source: str,
    declared: bool,
    **others: Any,
) -> Corpus:
    count, read = len(table), ends.shape[1]
    to_self = int((ends[0] == ends[1]).sum())
    edges = canonical_edges(ends[0], ends[1], count)
    names = fields["owner_names"]
    return Corpus(
        **fields,
        **others,
        edges=edges,
        facts=CorpusFacts(
            source=source,
            classes_declared=declared,
            split_origin="given" if "split" in table.frame.columns else "random",
        ),
        read_report=ReadReport(
            documents=count,
            owners=None if names is None else len(names),
            classes=len(fields["classes"]),
            edges_read=read,
            edges_stored=edges.shape[1],
            edges_repeated=read - edges.shape[1] - to_self,
            edges_to_self=to_self,
            unused_columns=unused,
            semicolons=semicolons,
        ),
    )


def _names(frame: Any) -> list[Any]:
    if isinstance(frame, Mapping):
        return list(frame)
    # A pyarrow table has columns without names, beside their names.
    return list(frame.column_names if hasattr(frame, "column_names") else frame.columns)


def _label_strings(values: list[Any]) -> tuple[pl.Series, tuple[Any, ...]]:
    """Labels as strings, and the different ones with their own type."""
    for value in values:
        if isinstance(value, list | tuple | dict | set | np.ndarray):
            raise DataError(
                f"The 'label' of a document must be a single value. Got {shown(value)}. Give "
                "one class for each document."
            )
    different = tuple(dict.fromkeys(value for value in values if value not in (None, "")))
    return _series("label", [None if v is None else str(v) for v in values]), different


def _strings(name: str, values: Any) -> pl.Series:
    import polars as pl

    if isinstance(values, pl.Series):
        dtype = values.dtype
        text = dtype in (pl.String, pl.Categorical, pl.Enum)
        if text or (name != "text" and (dtype.is_numeric() or dtype == pl.Boolean)):
            if dtype.is_float():
                values = values.fill_nan(None)
            return _without_empty(values.cast(pl.String))
    plain = plain_list(values)
    if name == "text":
        for row, value in enumerate(plain):
            if value is not None and not isinstance(value, str):
                raise DataError(
                    f"The 'text' of a document must be a string. Got {shown(value)}, of type "
                    f"{type(value).__name__}, in row {row}. Write it as one."
                )
    return _series(name, [None if value is None else str(value) for value in plain])


def _series(name: str, values: list[str | None]) -> pl.Series:
    import polars as pl

    try:
        return _without_empty(pl.Series(name, values, dtype=pl.String))
    except UnicodeEncodeError as error:
        raise DataError(
            f"The '{name}' must be text that can be written as UTF-8. Got half a character "
            f"({reason(error)}). Remove it."
        ) from None


def _without_empty(values: pl.Series) -> pl.Series:
    import polars as pl

    empty = values == ""
    return values.set(empty, None) if empty.any() else values.cast(pl.String)


def _one_of(
    folder: Path, stem: str, suffixes: tuple[str, ...], others: tuple[str, ...] = ()
) -> Path | None:
    """The file of that name; in no known format, or by another name, it is not ignored."""
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError as error:
        raise DataError(f"The folder {folder} cannot be read: {error.strerror}.") from error
    near = [name for name in names if name.partition(".")[0].casefold() == stem]
    allowed = [stem + suffix for suffix in suffixes]
    exact = [name for name in near if name in allowed]
    if len(exact) == 1:
        path = folder / exact[0]
        if path.is_symlink():
            raise DataError(
                f"The file {path} must be a regular file of this folder. Got a symbolic link. "
                "Copy the file into the folder, or name the folder that it lies in."
            )
        return path
    for name in names:
        bare, _, ending = name.partition(".")
        if not near and bare.casefold() in others and f".{ending.casefold()}" in suffixes:
            raise DataError(
                f"The folder {folder} must call this file {stem}.{ending}. Got {shown(name)}. "
                "Rename it, or move it away if it holds something else."
            )
    if near:
        raise DataError(
            f"The folder {folder} must have one of {', '.join(allowed)}. Got "
            f"{' and '.join(shown(name) for name in (exact or near)[:5])}. Remove all but one, "
            "or write it again in one of these formats."
        )
    return None


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
        return _without_empty(values.cast(pl.String))
    if single:
        raise DataError(
            f"The column '{values.name}' of {path} must hold strings, single values. Got "
            f"{values.dtype}."
        )
    written = [
        None if value is None else json.dumps(value, default=str) for value in values.to_list()
    ]
    return pl.Series(values.name, written, dtype=pl.String)


def _vectors(path: Path, count: int) -> NDArray[np.float32]:
    array = _array(path, "fiub")
    if array.shape[0] != count or array.shape[1] == 0:
        raise DataError(
            f"The file {path} must have one row of numbers for each of the {count} documents, "
            f"in their order. Got the shape {array.shape}. Save it again from the same files."
        )
    on_disk = array.size > _MOST_IN_MEMORY
    ready = array.dtype == np.float32 and array.flags.c_contiguous
    if on_disk and not ready and array.size > _MOST_CONVERTED:
        raise DataError(
            f"The file {path} must hold float32 in the order of C, as it is too large to be "
            f"converted in memory. Got {array.dtype}. Save it again, as float32."
        )
    made = None if on_disk and ready else np.empty(array.shape, dtype=np.float32)
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
        if made is not None:
            made[begin : begin + size] = rows
    return array if made is None else made


def _array(path: Path, kinds: str) -> NDArray[Any]:
    """A table of numbers, mapped: a header that promises too much costs nothing."""
    check_regular(path, most=_MOST_VECTOR_BYTES)
    try:
        # Nothing that is written to the array reaches the file.
        array: NDArray[Any] = _quietly(lambda: np.lib.format.open_memmap(path, mode="c"))
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


def _quietly(read: Callable[[], Any]) -> Any:
    import warnings

    with warnings.catch_warnings(), np.errstate(over="raise"):
        warnings.simplefilter("ignore")
        return read()
