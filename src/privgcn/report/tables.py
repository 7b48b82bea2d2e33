"""Tables as data: means with deviations, ours beside published; as Markdown, CSV and HTML."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from privgcn.errors import ConfigError, DataError
from privgcn.report.formats import NOTHING, is_number
from privgcn.report.markup import clean
from privgcn.report.table_markup import table_html

_MARKDOWN = re.compile(r"([\\`*_\[\]<>|~])")


@dataclass(frozen=True)
class MeanStd:
    """A mean over seeds with its standard deviation."""

    mean: float
    std: float


@dataclass(frozen=True)
class Difference:
    """Ours less published; written with its sign."""

    value: float


Cell = str | int | float | bool | MeanStd | Difference | None


@dataclass(frozen=True)
class Table:
    """A titled table.

    Attributes:
        title: What the table shows.
        columns: Column names; the first column heads the rows.
        rows: One cell for each column: text, numbers, ``MeanStd``, ``Difference`` or ``None``.
        notes: Sentences below the table.
        decimals: Decimals of floating-point cells, for all columns or by column name.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    decimals: int | Mapping[str, int] = 3

    @classmethod
    def from_dict(cls, record: Mapping[str, Any] | Table) -> Table:
        """Reads ``{"title", "columns", "rows", "notes", "decimals"}``.

        A row is a list of cells, or an object by column name. A cell is text, a number,
        ``None``, ``{"mean": m, "std": s}`` or ``{"difference": d}``.

        Raises:
            DataError: Naming the table and the rule that it breaks.
        """
        if isinstance(record, Table):
            return record
        if not isinstance(record, Mapping) or not isinstance(record.get("title"), str):
            raise DataError(
                "A table must be an object with a 'title'. "
                f"Got {str(record)[:80]!r}. Give it a title, columns and rows."
            )
        owner = f"the table {record['title']!r}"
        columns = record.get("columns")
        if (
            not isinstance(columns, list | tuple)
            or not columns
            or len(set(columns)) < len(columns)
        ):
            raise DataError(
                f"The 'columns' of {owner} must be a list of distinct names. Got {columns!r}."
            )
        names = tuple(str(column) for column in columns)
        rows = record.get("rows")
        if not isinstance(rows, list | tuple):
            raise DataError(f"The 'rows' of {owner} must be a list of rows. Got {rows!r}.")
        notes = record.get("notes") or ()
        return cls(
            title=record["title"],
            columns=names,
            rows=tuple(_row(row, names, owner) for row in rows),
            notes=(notes,) if isinstance(notes, str) else tuple(str(note) for note in notes),
            decimals=_decimals(record.get("decimals", 3), owner),
        )

    def with_difference(
        self, ours: str, published: str, name: str = "difference", digits: int | None = None
    ) -> Table:
        """The table with a column that says how far ours is from published.

        Args:
            ours: The column of our values.
            published: The column of published values.
            name: The new column, put after the later of the two.
            digits: Published values are rounded; so is ours, to this many decimals, before
                the two are compared. ``None`` compares as it is.
        """
        places = {}
        for column in (ours, published):
            if column not in self.columns:
                raise ConfigError(
                    f"The table {self.title!r} has no column {column!r}. "
                    f"It has {', '.join(self.columns)}."
                )
            places[column] = self.columns.index(column)
        at = max(places.values()) + 1
        rows = []
        for row in self.rows:
            mine, theirs = _middle(row[places[ours]]), _middle(row[places[published]])
            cell: Cell = None
            if mine is not None and theirs is not None:
                mine = mine if digits is None else round(mine, digits)
                cell = Difference(mine - theirs)
            rows.append((*row[:at], cell, *row[at:]))
        columns = (*self.columns[:at], name, *self.columns[at:])
        return replace(self, columns=columns, rows=tuple(rows))

    def text_of(self, cell: Cell, column: str) -> str:
        """A cell as a reader sees it."""
        decimals = self._decimals_of(column)
        if isinstance(cell, MeanStd):
            return f"{cell.mean:.{decimals}f} ± {cell.std:.{decimals}f}"
        if isinstance(cell, Difference):
            # What rounds to nothing has no sign; a true minus keeps the width of a plus.
            text = f"{cell.value:+.{decimals}f}"
            return text[1:] if float(text) == 0 else text.replace("-", "−")  # noqa: RUF001
        if isinstance(cell, bool):
            return "yes" if cell else "no"
        if isinstance(cell, float):
            return f"{cell:.{decimals}f}" if is_number(cell) else NOTHING
        return NOTHING if cell is None else clean(cell)

    def markdown(self) -> str:
        """GitHub-flavoured Markdown, with user text escaped."""
        aligned = [":--" if not self.numeric(i) else "--:" for i in range(len(self.columns))]
        lines = [f"**{markdown_text(self.title)}**", ""]
        lines.append(_markdown_row([markdown_text(column) for column in self.columns]))
        lines.append(_markdown_row(aligned))
        for row in self.rows:
            cells = zip(row, self.columns, strict=True)
            lines.append(_markdown_row([markdown_text(self.text_of(*pair)) for pair in cells]))
        for note in self.notes:
            lines += ["", markdown_text(note)]
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """CSV with full precision; a mean's deviation has a column of its own."""
        spread = [
            any(isinstance(row[i], MeanStd) for row in self.rows)
            for i in range(len(self.columns))
        ]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        header: list[str] = []
        for column, both in zip(self.columns, spread, strict=True):
            header += (
                [_csv_text(column), _csv_text(f"{column} std")] if both else [_csv_text(column)]
            )
        writer.writerow(header)
        for row in self.rows:
            line: list[str] = []
            for cell, both in zip(row, spread, strict=True):
                mean, std = _csv_cells(cell)
                line += [mean, std] if both else [mean]
            writer.writerow(line)
        return out.getvalue()

    def html(self, *, caption: bool = True) -> Markup:
        """An HTML table: caption, row and column headers, numbers set to the right."""
        return table_html(self, caption=caption)

    def numeric(self, index: int) -> bool:
        """Whether a column holds numbers only."""
        cells = [row[index] for row in self.rows if row[index] is not None]
        return bool(cells) and all(
            isinstance(cell, int | float | MeanStd | Difference) and not isinstance(cell, bool)
            for cell in cells
        )

    def _decimals_of(self, column: str) -> int:
        if isinstance(self.decimals, int):
            return self.decimals
        return self.decimals.get(column, 3)


def markdown_text(text: object) -> str:
    """Text that Markdown shows as it is, on one line."""
    line = " ".join(clean(text).split())
    return _MARKDOWN.sub(r"\\\1", line.replace("&", "&amp;"))


def _row(row: Any, columns: tuple[str, ...], owner: str) -> tuple[Cell, ...]:
    if isinstance(row, Mapping):
        unknown = sorted(set(map(str, row)) - set(columns))
        if unknown:
            raise DataError(
                f"A row of {owner} must use the table's columns. Got {unknown[0]!r}."
            )
        row = [row.get(column) for column in columns]
    if not isinstance(row, list | tuple) or len(row) != len(columns):
        raise DataError(
            f"A row of {owner} must have {len(columns)} cells, one for each column. "
            f"Got {row!r}."
        )
    return tuple(_cell(cell, owner) for cell in row)


def _cell(cell: Any, owner: str) -> Cell:
    if cell is None or isinstance(cell, str | int | float | MeanStd | Difference):
        return cell
    if isinstance(cell, Mapping):
        if set(cell) == {"mean", "std"} and is_number(cell["mean"]):
            if cell["std"] is None:
                return float(cell["mean"])
            if is_number(cell["std"]):
                return MeanStd(float(cell["mean"]), float(cell["std"]))
        if set(cell) == {"difference"} and is_number(cell["difference"]):
            return Difference(float(cell["difference"]))
    raise DataError(
        f"A cell of {owner} must be text, a number, nothing, {{'mean', 'std'}} or "
        f"{{'difference'}} with finite numbers. Got {cell!r}."
    )


def _decimals(value: Any, owner: str) -> int | dict[str, int]:
    values: Sequence[Any] = list(value.values()) if isinstance(value, Mapping) else [value]
    if not all(isinstance(v, int) and not isinstance(v, bool) and 0 <= v <= 12 for v in values):
        raise DataError(
            f"The 'decimals' of {owner} must be a whole number from 0 to 12, or one for each "
            f"column. Got {value!r}."
        )
    return dict(value) if isinstance(value, Mapping) else int(value)


def _middle(cell: Cell) -> float | None:
    if isinstance(cell, MeanStd):
        return cell.mean
    return float(cell) if is_number(cell) else None  # type: ignore[arg-type]


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _csv_cells(cell: Cell) -> tuple[str, str]:
    if isinstance(cell, MeanStd):
        return repr(cell.mean), repr(cell.std)
    if isinstance(cell, Difference):
        return repr(round(cell.value, 12)), ""
    if cell is None:
        return "", ""
    if isinstance(cell, bool):
        return "yes" if cell else "no", ""
    return (_csv_text(cell) if isinstance(cell, str) else repr(cell)), ""


def _csv_text(text: str) -> str:
    # A spreadsheet would run text that begins like this as a formula; a lone dash is none.
    if text == "-":
        return text
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else clean(text)
