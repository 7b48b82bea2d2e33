"""Tables as values, written as HTML that a phone can show, as Markdown, or on a terminal.

    >>> print(Table("Scores", ("mode", "micro-F1"), [("alone", 0.5)]).markdown())
    **Scores**
    <BLANKLINE>
    | mode | micro-F1 |
    | :-- | --: |
    | alone | 0.500 |
    <BLANKLINE>

A number beside ± is always the sample standard deviation (over n - 1) of repeated runs.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from privgcn.report.text import NOTHING, clean, element, is_number, joined, markdown_text

_MANY_COLUMNS = 7
_BRIEF = 24
_LONGEST_KEY = 80
_MOST_KEYS = 4


class MeanStd(NamedTuple):
    """A mean and its sample standard deviation; ``None`` where there was one run only."""

    mean: float
    std: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> MeanStd:
        """Mean and sample standard deviation of at least one value.

        Examples:
            >>> MeanStd.of([0.5, 0.7]).mean, MeanStd.of([0.5]).std
            (0.6, None)
        """
        std = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), std)

    def __str__(self) -> str:
        return f"{self.mean:.3f}" + ("" if self.std is None else f" ± {self.std:.3f}")


Cell = str | bool | int | float | MeanStd | None


@dataclass(frozen=True)
class Table:
    """A titled table.

    Attributes:
        title: What the table shows.
        columns: Distinct column names; the first column heads the rows.
        rows: One cell for each column.
        notes: Sentences below the table.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()

    def texts(self) -> list[list[str]]:
        """The cells of each row as a reader sees them."""
        return [[_text(cell) for cell in row] for row in self.rows]

    def numeric(self, index: int) -> bool:
        """Whether a column holds numbers only."""
        cells = [row[index] for row in self.rows if row[index] is not None]
        return bool(cells) and all(
            isinstance(cell, int | float | MeanStd) and not isinstance(cell, bool)
            for cell in cells
        )

    def markdown(self) -> str:
        """GitHub-flavoured Markdown, with user text escaped."""
        aligned = ["--:" if self.numeric(i) else ":--" for i in range(len(self.columns))]
        head, *body = [[*map(markdown_text, row)] for row in (self.columns, *self.texts())]
        rows = [f"| {' | '.join(row)} |" for row in (head, aligned, *body)]
        notes = [line for note in self.notes for line in ("", markdown_text(note))]
        return "\n".join([f"**{markdown_text(self.title)}**", "", *rows, *notes]) + "\n"

    def keys(self) -> range:
        """The columns after the first that only say which row it is; none if they are many."""
        end = 0
        while end < len(self.columns) and all(
            cell is None or (isinstance(cell, str | int) and len(str(cell)) <= _LONGEST_KEY)
            for cell in (row[end] for row in self.rows)
        ):
            end += 1
        return range(1, end if end <= _MOST_KEYS and end < len(self.columns) else 1)

    def html(self) -> Markup:
        """An HTML table: caption, row and column headers, numbers set to the right.

        The first column stays visible when a table is scrolled sideways. Where further columns
        say which row it is (a method, a setting), a phone shows them in the first one, so that
        a number never stands without its name.
        """
        keys = self.keys()
        kinds = [
            [name for name, here in (("n", self.numeric(i)), ("key", i in keys)) if here]
            for i in range(len(self.columns))
        ]
        head = [
            element("th", column, scope="col", class_=" ".join(kind) or None)
            for column, kind in zip(self.columns, kinds, strict=True)
        ]
        body = []
        for row, texts in zip(self.rows, self.texts(), strict=True):
            named = [
                f"{self.columns[i]} {texts[i]}" if is_number(row[i]) else texts[i]
                for i in keys
                if row[i] is not None
            ]
            inside = element("bdi", texts[0])
            if named:
                inside += element("span", ", ".join(named), class_="keys")
            cells = [element("th", inside, scope="row")]
            for text, names in zip(texts[1:], kinds[1:], strict=True):
                brief = ["brief"] if len(text) <= _BRIEF and "n" not in names else []
                cells.append(element("td", text, class_=" ".join(brief + names) or None))
            body.append(element("tr", joined(cells)))
        return element(
            "table",
            element("caption", element("span", self.title)),
            element("thead", element("tr", joined(head))),
            element("tbody", joined(body)),
            class_="dense" if len(self.columns) > _MANY_COLUMNS else None,
        )


def _text(cell: Cell) -> str:
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:.3f}" if is_number(cell) else NOTHING
    return NOTHING if cell is None else clean(cell)
