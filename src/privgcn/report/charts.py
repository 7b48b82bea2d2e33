"""Charts as SVG: one drawing that is as wide as the page lets it be.

Positions along the width are percentages and text has a fixed size, so that a drawing serves a
desk and a phone alike. Pointing at a mark shows its value (``<title>``); the values also stand
beside the bars, or in a table below the lines, for keyboards and screen readers. Colours are
those of Okabe and Ito, safe for colour-blind readers, and dashes differ too (``chart.css``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from privgcn.files import write_atomically
from privgcn.report.tables import Table
from privgcn.report.text import between, clean, coordinate, element, joined, number, score

Ends = tuple[float, float] | None

_LINE, _HEIGHT, _BAR = 18.0, 280.0, 14.0
# What a phone shows of a text on one line, and of a drawing in pixels.
_CHARACTERS, _PHONE = 40, 290.0
# More positions than these get round ticks; from such a ratio on an axis is logarithmic.
_MOST_TICKS, _WIDE_RANGE = 8, 12.0
_COLOURS = 6


class Point(NamedTuple):
    """One value of a line or a bar.

    Attributes:
        x: A number or a name; ``None`` for a level that holds everywhere.
        y: The value.
        ends: The ends of its interval, where known.
    """

    x: float | str | None
    y: float
    ends: Ends = None

    def __str__(self) -> str:
        return score(self.y) + ("" if self.ends is None else f" ({between(self.ends)})")


@dataclass(frozen=True)
class Series:
    """Points of one name; a reference is grey."""

    name: str
    points: Sequence[Point]
    reference: bool = False


@dataclass(frozen=True)
class Figure:
    """A line chart, or one of horizontal bars, each under its name.

    Attributes:
        title: What the figure shows.
        series: What is drawn.
        x_label: Name of the horizontal axis of a line chart, of the bars of a bar chart.
        y_label: Name of the values; those of bars are fractions.
        bars: Whether these are bars.
        notes: Sentences below the figure.
    """

    title: str
    series: Sequence[Series]
    x_label: str = ""
    y_label: str = ""
    bars: bool = False
    notes: Sequence[str] = ()

    def svg(self) -> Markup:
        """The drawing; its label is what a screen reader announces."""
        return self._drawn()[0]

    def values_table(self) -> Table:
        """The same values as a table, for readers who do not see the drawing."""
        rows = [
            (one.name, "everywhere" if point.x is None else number(point.x), str(point))
            for one in self.series
            for point in one.points
        ]
        columns = ("series", self.x_label or "x", self.y_label or "value")
        return Table(f"{self.title}: values", columns, rows)

    def _drawn(self) -> tuple[Markup, float]:
        """The drawing and its height."""
        parts, height = _bars(self) if self.bars else _lines(self)
        drawing = element(
            "svg", joined(parts), xmlns="http://www.w3.org/2000/svg", width="100%",
            height=height, role="img", aria_label=self.title, font_size="12.5",
            class_="chart bar" if self.bars else "chart line", overflow="visible",
            font_family="system-ui, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif",
        )  # fmt: skip
        return drawing, height


class Scale(NamedTuple):
    """One axis: where values lie, as fractions of its length, and what its ticks say."""

    at: Callable[[float | str], float]
    ticks: Sequence[tuple[float, str]]

    @classmethod
    def of_values(cls, values: Sequence[float]) -> Scale:
        """Round ticks, and zero on every axis, so that lengths compare between charts."""
        low, high = min(0.0, *values), max(0.0, *values)
        if high - low <= 1e-300:
            low, high = 0.0, 1.0
        rough = (high - low) / 5
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough * (1 - 1e-9))
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        ticks = [(i / (last - first), f"{(first + i) * step:.{decimals}f}")
                 for i in range(last - first + 1)]  # fmt: skip
        return cls(lambda value: (float(value) / step - first) / (last - first), ticks)

    @classmethod
    def of_positions(cls, positions: Sequence[float | str]) -> Scale:
        """Numbers, or names in their order; numbers are names where an axis holds both."""
        if not positions or any(isinstance(position, str) for position in positions):
            names = list(dict.fromkeys(map(number, positions))) or ["everywhere"]
            spots = {name: (index + 0.5) / len(names) for index, name in enumerate(names)}
            return cls(lambda name: spots[number(name)], [(spots[n], n) for n in names])
        own = sorted({float(position) for position in positions})
        if len(own) > _MOST_TICKS and own[0] >= 0 and own[-1] <= 1:
            return cls.of_values(own)
        log = own[0] > 0 and own[-1] / own[0] >= _WIDE_RANGE
        along = math.log if log else float
        low, high = along(own[0]), along(own[-1])
        pad = 0.04 * (high - low) or 1.0

        def at(value: float | str) -> float:
            return (along(float(value)) - low + pad) / (high - low + 2 * pad)

        return cls(at, [(at(value), number(value)) for value in own])


def save_svg(figure: Figure, path: Path, *, width: float = 720.0) -> Path:
    """Writes a drawing to a file of its own, light or dark as the reader's system is."""
    drawing, height = figure._drawn()
    left, right = (16, 150) if figure.bars else (48, 24)
    rules = resources.files("privgcn.report").joinpath("templates/chart.css").read_text("utf-8")
    content = element(
        "svg", element("title", figure.title), element("style", Markup(_GROUND + rules)),
        element("rect", class_="ground", width="100%", height="100%", rx=6),
        element("svg", drawing, x=left, y=12, width=width - left - right, overflow="visible"),
        xmlns="http://www.w3.org/2000/svg", width=width, height=height + 24,
        viewBox=f"0 0 {width:g} {height + 24:g}",
    )  # fmt: skip
    write_atomically(path, f'<?xml version="1.0" encoding="UTF-8"?>\n{content}\n')
    return path


_GROUND = """
:root { --ink: #1c2128; --muted: #565d67; --rule: #dfe2e6; --paper: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8eaed; --muted: #a9b1bb; --rule: #343a43; --paper: #14171b; }
}
.ground { fill: var(--paper); }
"""


def _looks(figure: Figure) -> Iterator[tuple[str, Series]]:
    """The classes of each series: its colour, and its dashes once all colours are used."""
    ranks = {False: itertools.count(), True: itertools.count()}
    for one in figure.series:
        rank = next(ranks[one.reference])
        colour, dash = ("ref", rank + 1) if one.reference else (
            f"s{rank % _COLOURS}", rank // _COLOURS)  # fmt: skip
        yield f"{colour} d{dash % 4}", one


def _lines(figure: Figure) -> tuple[list[Markup], float]:
    """Lines with markers, and whiskers for intervals; the legend stands above."""
    points = [point for series in figure.series for point in series.points]
    across = Scale.of_positions([point.x for point in points if point.x is not None])
    upward = Scale.of_values([v for p in points for v in (p.y, *(p.ends or ()))])
    looks, parts, top = list(_looks(figure)), [], 0.0
    for look, series in looks:
        swatch = [_line("-36", top + 8, "-8", top + 8)]
        swatch.append(_text(series.name, "0", top + 12))
        parts.append(element("g", *swatch, class_=look))
        top += _LINE
    parts.append(_text(figure.y_label, "-36", top + 16, "axis"))
    top += 30.0
    bottom = top + _HEIGHT

    def y(value: float) -> float:
        return bottom - upward.at(value) * _HEIGHT

    for fraction, words in upward.ticks:
        level = bottom - fraction * _HEIGHT
        parts.append(_line("0", level, "100%", level, "grid"))
        parts.append(_text(words, "-8", level + 4, "tick", anchor="end"))
    taken = -math.inf
    for fraction, words in across.ticks:
        # A tick that would touch its neighbour on a phone is left out.
        shown = _shortened(words, max(6, 36 // len(across.ticks)))
        half = 3.5 * len(shown)
        if fraction * _PHONE - half >= taken + 4:
            taken = fraction * _PHONE + half
            parts.append(_text(shown, _percent(fraction), bottom + 19, "tick", "middle"))
    parts.append(_text(figure.x_label, "50%", bottom + 41, "axis", "middle"))
    # References lie below, so that they never hide a value of the data.
    for look, series in sorted(looks, key=lambda pair: not pair[1].reference):
        marks = [
            element("g", _title(series, p), _line("0", y(p.y), "100%", y(p.y)))
            for p in series.points
            if p.x is None
        ]
        known = [(across.at(p.x), p) for p in series.points if p.x is not None]
        spots = sorted(known, key=lambda spot: spot[0])
        for (x1, one), (x2, two) in itertools.pairwise(spots):
            marks.append(_line(_percent(x1), y(one.y), _percent(x2), y(two.y)))
        for x, point in spots:
            at, here = _percent(x), y(point.y)
            mark = [_title(series, point)]
            if point.ends is not None:
                mark.append(_line(at, y(point.ends[0]), at, y(point.ends[1]), "whisker"))
            if not series.reference:
                mark.append(element("circle", class_="mark", cx=at, cy=here, r=5))
            mark.append(element("circle", cx=at, cy=here, r=13, fill="transparent"))
            marks.append(element("g", *mark))
        parts.append(element("g", *marks, class_=look))
    return parts, bottom + 50.0


def _bars(figure: Figure) -> tuple[list[Markup], float]:
    """Bars between 0 and 1 under their names, so that names of any length fit."""
    y, parts = 0.0, [_text(figure.y_label, "0", 12, "axis")] if figure.y_label else []
    y += (_LINE + 6) * len(parts)
    for look, series in _looks(figure):
        for point in series.points:
            name = series.name if point.x is None else f"{number(point.x)}: {series.name}"
            middle, bar = y + _LINE + _BAR / 2, min(1.0, max(0.003, point.y))
            box = {"y": y + _LINE, "height": _BAR, "rx": 2}
            marks = [
                _title(series, point),
                _text(name, "0", y + 13),
                element("rect", class_="full", width="100%", **box),
                element("rect", class_="fill", width=_percent(bar), **box),
            ]
            if point.ends is not None:
                low, high = map(_percent, point.ends)
                marks.append(_line(low, middle, high, middle, "whisker"))
            after = _text(score(point.y), "100%", middle + 4.5, "number", dx=7)
            parts.append(element("g", *marks, after, class_=look))
            y += _LINE + _BAR + 8
    return parts, y


def _title(series: Series, point: Point) -> Markup:
    """What a reader who points at a mark is told."""
    where = "" if point.x is None else f", {number(point.x)}"
    return element("title", f"{series.name}{where}: {point}")


def _shortened(text: str, characters: int = _CHARACTERS) -> str:
    """The text on one line, cut with an ellipsis where it would be longer."""
    line = " ".join(clean(text).split())
    return line if len(line) <= characters else line[: characters - 1].rstrip() + "…"


def _percent(fraction: float) -> str:
    return f"{coordinate(100 * fraction)}%"


def _text(
    words: str, x: str, y: float, class_: str = "label", anchor: str | None = None,
    dx: float | None = None,
) -> Markup:  # fmt: skip
    shown = _shortened(words)
    return element("text", shown, class_=class_, x=x, y=y, dx=dx, text_anchor=anchor)


def _line(x1: str, y1: float, x2: str, y2: float, class_: str = "stroke") -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)
