"""Tables as values: numbers with their deviations, written as Markdown, CSV or LaTeX.

A number beside ± is always the sample standard deviation (over n - 1) of repeated runs.
"""

from __future__ import annotations

import csv
import io
import re
import statistics
from collections.abc import Iterable, Sequence
from typing import Annotated, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)
from pydantic.dataclasses import dataclass

from privgcn.report.formats import NOTHING, is_number
from privgcn.report.markup import clean

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Deviation = Annotated[Number, Field(ge=0)]
_LATEX = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "±": r"$\pm$",
    "\u2212": "$-$",
    "\u2013": "--",
}
_SPACE = re.compile("[^\\S\u00a0]+")
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|~])")


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class MeanStd:
    """A mean and its sample standard deviation; ``None`` where there was one run only."""

    mean: Number
    std: Deviation | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> MeanStd:
        """Mean and sample standard deviation of at least one value.

        Examples:
            >>> MeanStd.of([0.5, 0.7]).mean, MeanStd.of([0.5]).std
            (0.6, None)
        """
        std = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), std)


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Difference:
    """Ours less published; written with its sign."""

    difference: Number


Cell = StrictStr | StrictBool | StrictInt | StrictFloat | MeanStd | Difference | None
Decimals = Annotated[int, Field(strict=True, ge=0, le=12)]


class Table(BaseModel):
    """A titled table; ``model_dump(mode="json")`` stores it, ``model_validate`` reads it.

    Attributes:
        title: What the table shows.
        columns: Distinct column names; the first column heads the rows.
        rows: One cell for each column: text, a number, ``MeanStd``, ``Difference`` or ``None``.
        notes: Sentences below the table.
        decimals: Decimals of floating-point cells, for all columns or by column name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    columns: tuple[str, ...] = Field(min_length=1)
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    decimals: Decimals | dict[str, Decimals] = 3

    @model_validator(mode="after")
    def _is_rectangular(self) -> Self:
        if len(set(self.columns)) < len(self.columns):
            raise ValueError(f"column names must be distinct, not {', '.join(self.columns)}")
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"a row must have {len(self.columns)} cells, one for each column, "
                    f"not {len(row)}"
                )
        return self

    def text_of(self, cell: Cell, column: str) -> str:
        """A cell as a reader sees it."""
        decimals = self.decimals
        if isinstance(decimals, dict):
            decimals = decimals.get(column, 3)
        if isinstance(cell, MeanStd):
            spread = "" if cell.std is None else f" ± {cell.std:.{decimals}f}"
            return f"{cell.mean:.{decimals}f}{spread}"
        if isinstance(cell, Difference):
            # What rounds to zero has no sign; a true minus sign is as wide as a plus.
            text = f"{cell.difference:+.{decimals}f}"
            return text[1:] if float(text) == 0 else text.replace("-", "−")  # noqa: RUF001
        if isinstance(cell, bool):
            return "yes" if cell else "no"
        if isinstance(cell, float):
            return f"{cell:.{decimals}f}" if is_number(cell) else NOTHING
        return NOTHING if cell is None else clean(cell)

    def texts(self, row: Sequence[Cell]) -> list[str]:
        """The cells of a row as a reader sees them."""
        return [self.text_of(*pair) for pair in zip(row, self.columns, strict=True)]

    def numeric(self, index: int) -> bool:
        """Whether a column holds numbers only."""
        cells = [row[index] for row in self.rows if row[index] is not None]
        return bool(cells) and all(
            isinstance(cell, int | float | MeanStd | Difference) and not isinstance(cell, bool)
            for cell in cells
        )

    def markdown(self) -> str:
        """GitHub-flavoured Markdown, with user text escaped."""
        aligned = ["--:" if self.numeric(i) else ":--" for i in range(len(self.columns))]
        lines = [f"**{markdown_text(self.title)}**", ""]
        lines += [_markdown_row(map(markdown_text, self.columns)), _markdown_row(aligned)]
        lines += [_markdown_row(map(markdown_text, self.texts(row))) for row in self.rows]
        for note in self.notes:
            lines += ["", markdown_text(note)]
        return "\n".join(lines) + "\n"

    def latex(self) -> str:
        """A LaTeX ``table`` with rules of the package booktabs, and user text escaped."""
        aligned = "".join("r" if self.numeric(i) else "l" for i in range(len(self.columns)))
        rows = [self.columns, *(self.texts(row) for row in self.rows)]
        head, *body = [" & ".join(map(latex_text, row)) + r" \\" for row in rows]
        notes = [rf"\par\smallskip{{\footnotesize {latex_text(note)}}}" for note in self.notes]
        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{latex_text(self.title)}}}",
            rf"\begin{{tabular}}{{{aligned}}}",
            *(r"\toprule", head, r"\midrule", *body, r"\bottomrule"),
            r"\end{tabular}",
            *notes,
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """CSV with full precision; a mean's deviation has a column of its own."""
        lines = [[(_csv_text(name), _csv_text(f"{name} std")) for name in self.columns]]
        lines += [[_csv_cells(cell) for cell in row] for row in self.rows]
        spread = [any(line[i][1] for line in lines[1:]) for i in range(len(self.columns))]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        for line in lines:
            pairs = zip(line, spread, strict=True)
            writer.writerow([text for pair, both in pairs for text in pair[: 1 + both]])
        return out.getvalue()


def markdown_text(text: object) -> str:
    """Text that Markdown shows as it is, on one line; spaces that hold words together stay."""
    line = _SPACE.sub(" ", clean(text)).strip()
    return _MARKDOWN.sub(r"\\\1", line.replace("&", "&amp;"))


def latex_text(text: object) -> str:
    """Text that LaTeX shows as it is, on one line."""
    line = " ".join(clean(text).split())
    return "".join(_LATEX.get(letter, letter) for letter in line)


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _csv_cells(cell: Cell) -> tuple[str, str]:
    """The value, and its deviation where it has one."""
    if isinstance(cell, MeanStd):
        return repr(cell.mean), "" if cell.std is None else repr(cell.std)
    if isinstance(cell, Difference):
        return repr(round(cell.difference, 12)), ""
    if isinstance(cell, bool):
        return "yes" if cell else "no", ""
    if isinstance(cell, str):
        return _csv_text(cell), ""
    return "" if cell is None else repr(cell), ""


def _csv_text(text: str) -> str:
    # A spreadsheet would run text that begins like this as a formula; a lone dash is none.
    if text == "-":
        return text
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else clean(text)
