"""Figures as data: checked on the way in, drawn as SVG, read back as a table of values.

Experiments hand over plain dictionaries, so that they need not know how a figure is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from privgcn.errors import DataError
from privgcn.report.chart_bars import draw_bars
from privgcn.report.chart_lines import draw_lines
from privgcn.report.formats import is_number, number
from privgcn.report.tables import MeanStd, Table
from privgcn.report.writing import write_text

KINDS = ("line", "bar")
ROLES = ("data", "reference")


@dataclass(frozen=True)
class Point:
    """One value of a series.

    Attributes:
        x: A number or a name; ``None`` for a level that holds everywhere.
        y: The value.
        std: Its standard deviation over seeds, where known.
    """

    x: float | str | None
    y: float
    std: float | None = None


@dataclass(frozen=True)
class Series:
    """Points of one name; ``reference`` series are drawn in grey, as something to beat."""

    name: str
    points: tuple[Point, ...]
    role: str = "data"


@dataclass(frozen=True)
class Figure:
    """A line or bar chart.

    Attributes:
        title: What the figure shows.
        series: What is drawn.
        x_label: Name of the horizontal axis of a line chart, of the bars of a bar chart.
        y_label: Name of the values.
        kind: ``line`` or ``bar``.
        notes: Sentences below the figure.
    """

    title: str
    series: tuple[Series, ...]
    x_label: str = ""
    y_label: str = ""
    kind: str = "line"
    notes: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, record: Mapping[str, Any] | Figure) -> Figure:
        """Reads ``{"title", "series": [{"name", "points": [[x, y, std]]}], ...}``.

        Further keys: ``x_label`` and ``y_label`` (or ``x`` and ``y``), ``kind`` and ``notes``;
        a series may have a ``role``.

        Raises:
            DataError: Naming the figure and the rule that it breaks.
        """
        if isinstance(record, Figure):
            return record
        if not isinstance(record, Mapping) or not isinstance(record.get("title"), str):
            raise DataError(
                "A figure must be an object with a 'title'. "
                f"Got {str(record)[:80]!r}. Give it a title and a list of series."
            )
        owner = f"the figure {record['title']!r}"
        kind = _choice(record.get("kind", "line"), "kind", owner, KINDS)
        listed = record.get("series")
        if not isinstance(listed, list | tuple) or not listed:
            raise DataError(
                f"The 'series' of {owner} must be a list with at least one series. "
                f"Got {listed!r}. Leave the figure out where there is nothing to draw."
            )
        series = _same_places(tuple(_series(one, owner) for one in listed))
        notes = record.get("notes") or ()
        return cls(
            title=record["title"],
            series=series,
            x_label=str(record.get("x_label") or record.get("x") or ""),
            y_label=str(record.get("y_label") or record.get("y") or ""),
            kind=kind,
            notes=(notes,) if isinstance(notes, str) else tuple(str(note) for note in notes),
        )

    def svg(self, *, width: int = 720, name: str = "figure", values: bool = True) -> Markup:
        """The drawing.

        Args:
            width: In pixels; text keeps its size, so a phone gets a narrower drawing rather
                than a smaller one.
            name: Distinguishes the drawings of one page.
            values: Whether each point shows its value when pointed at or focused.
        """
        draw = draw_lines if self.kind == "line" else draw_bars
        return draw(self, width=width, name=name, values=values)

    def save_svg(self, path: str | Path, *, width: int = 720) -> Path:
        """Writes a vector file for a paper: no hover values, no page around it."""
        svg = self.svg(width=width, values=False)
        return write_text(path, f'<?xml version="1.0" encoding="UTF-8"?>\n{svg}\n')

    def values_table(self) -> Table:
        """The same values as a table, for readers who do not see the drawing."""
        rows: list[tuple[Any, ...]] = []
        for series in self.series:
            for point in series.points:
                x = "everywhere" if point.x is None else point.x
                x = number(x) if is_number(x) else x
                y = point.y if point.std is None else MeanStd(point.y, point.std)
                rows.append((series.name, x, y))
        columns = ("series", self.x_label or "x", self.y_label or "value")
        return Table(title=f"{self.title}: values", columns=columns, rows=tuple(rows))


def _series(record: Any, owner: str) -> Series:
    if not isinstance(record, Mapping) or "name" not in record:
        raise DataError(
            f"Each of the 'series' of {owner} must be an object with a 'name' and 'points'. "
            f"Got {str(record)[:80]!r}."
        )
    owner = f"series {record['name']!r} of {owner}"
    role = _choice(record.get("role", "data"), "role", owner, ROLES)
    points = record.get("points")
    if not isinstance(points, list | tuple) or not points:
        raise DataError(
            f"The 'points' of {owner} must be a list of [x, y] or [x, y, std]. Got {points!r}. "
            "Leave out a series without points."
        )
    return Series(str(record["name"]), tuple(_point(one, owner) for one in points), role)


def _point(record: Any, owner: str) -> Point:
    shaped = isinstance(record, list | tuple) and len(record) in (2, 3)
    x, y, std = (*record, None)[:3] if shaped else (None, None, None)
    placed = x is None or isinstance(x, str) or is_number(x)
    spread = std is None or (is_number(std) and std >= 0)
    if not (placed and is_number(y) and spread):
        raise DataError(
            f"A point of {owner} must be [x, y] or [x, y, std] with finite numbers (x may be a "
            f"name). Got {record!r}. Leave out points without a value."
        )
    return Point(
        x=x if x is None or isinstance(x, str) else float(x),
        y=float(y),
        std=None if std is None else float(std),
    )


def _same_places(series: tuple[Series, ...]) -> tuple[Series, ...]:
    """Numbers become names where an axis holds both (parts 1, 2, ... and ``each``)."""
    places = [point.x for one in series for point in one.points]
    if not any(isinstance(x, str) for x in places):
        return series
    return tuple(
        Series(
            one.name,
            tuple(
                Point(number(p.x) if isinstance(p.x, float) else p.x, p.y, p.std)
                for p in one.points
            ),
            one.role,
        )
        for one in series
    )


def _choice(value: Any, name: str, owner: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise DataError(
            f"The '{name}' of {owner} must be one of {', '.join(allowed)}. Got {value!r}."
        )
    return str(value)
