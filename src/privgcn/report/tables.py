"""Tables as values, written on a page (``blocks.html``), as Markdown, or on a terminal.

A number beside ± is always the sample standard deviation (over n - 1) of repeated runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from privgcn.report.text import NOTHING, clean, markdown_text, score


class MeanStd(NamedTuple):
    """A mean and its sample standard deviation; ``None`` where there was one run only."""

    mean: float
    std: float | None = None

    def __str__(self) -> str:
        return f"{self.mean:.3f}" + ("" if self.std is None else f" ± {self.std:.3f}")


Cell = str | int | float | MeanStd | None


@dataclass(frozen=True)
class Table:
    """A titled table, with sentences below; the first column heads the rows."""

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
        return bool(cells) and all(isinstance(cell, int | float | MeanStd) for cell in cells)

    def markdown(self) -> str:
        """GitHub-flavoured Markdown, with user text escaped."""
        aligned = ["--:" if self.numeric(i) else ":--" for i in range(len(self.columns))]
        head, *body = [[*map(markdown_text, row)] for row in (self.columns, *self.texts())]
        rows = [f"| {' | '.join(row)} |" for row in (head, aligned, *body)]
        notes = [line for note in self.notes for line in ("", markdown_text(note))]
        return "\n".join([f"**{markdown_text(self.title)}**", "", *rows, *notes]) + "\n"


def _text(cell: Cell) -> str:
    if isinstance(cell, float):
        return score(cell)
    return NOTHING if cell is None else clean(cell)
