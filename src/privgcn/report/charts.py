"""Charts as SVG: one drawing that is as wide as the page lets it be.

Positions along the width are percentages and text has a fixed size, so that a drawing serves a
desk and a phone alike. Pointing at a mark shows its value (``<title>``); the values also stand
in a table beside the drawing, for keyboards and screen readers. Colours are those of Okabe and
Ito, safe for colour-blind readers; markers and dashes differ too, and each bar has its name.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple

from markupsafe import Markup

from privgcn.files import write_atomically
from privgcn.report.tables import MeanStd, Table
from privgcn.report.text import (
    Attribute,
    between,
    clean,
    coordinate,
    element,
    joined,
    number,
    score,
)

Role = Literal["data", "reference", "range"]

INK, MUTED, REFERENCE = "#1c2128", "#565d67", "#767B84"
_GRID = {"class_": "grid", "stroke": "#dfe2e6"}
_FONT, _LINE = 12.5, 18.0
# Mean width of a character over the font size; generous, as fonts differ by machine.
_CHARACTER = 0.56
# Text that must fit everywhere is cut to what a phone shows.
_PHONE = 290.0
_HEIGHT = 280.0
_BAR = 14.0
_MOST_TICKS = 12
# From here on equal distances would crowd the small values of an axis.
_WIDE_RANGE = 12.0
# Ordered by contrast with a white page; yellow comes last. Pages override them by class, so
# that dark pages get lighter ones.
_COLOURS = (
    "#0072B2", "#009E73", "#D55E00", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#F0E442",
)  # fmt: skip
_DASHES = (None, "7 4", "2 3", "9 3 2 3", None, "4 4", "1 4", "12 4")
_REFERENCE_DASHES = ("3 4", "10 4", "1 4", "10 3 2 3")
_VISIBLE = {"overflow": "visible"}
_ARC = "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0Z"
_MARKERS = (
    _ARC,
    "M-4.4 -4.4H4.4V4.4H-4.4Z",
    "M0 -5.8L5.5 4.3H-5.5Z",
    "M0 -6.3L6.3 0L0 6.3L-6.3 0Z",
    "M0 5.8L5.5 -4.3H-5.5Z",
    "M-2 -5.8H2V-2H5.8V2H2V5.8H-2V2H-5.8V-2H-2Z",
    "M0 -6L5.7 -1.9L3.6 4.9L-3.6 4.9L-5.7 -1.9Z",
    "M-5.8 0L4.3 -5.5V5.5Z",
)


class Point(NamedTuple):
    """One value of a series.

    Attributes:
        x: A number or a name; ``None`` for a level that holds everywhere.
        y: The value.
        std: Its sample standard deviation, where known.
        ends: The ends of its interval, where known.
    """

    x: float | str | None
    y: float
    std: float | None = None
    ends: tuple[float, float] | None = None

    @property
    def position(self) -> str:
        """Where the point lies, in words."""
        return "everywhere" if self.x is None else number(self.x)

    @property
    def span(self) -> tuple[float, float] | None:
        """The whisker."""
        if self.std is not None:
            return self.y - self.std, self.y + self.std
        return self.ends

    def __str__(self) -> str:
        if self.ends is None:
            return str(MeanStd(self.y, self.std))
        return f"{score(self.y)} ({between(self.ends)})"


@dataclass(frozen=True)
class Series:
    """Points of one name; a ``reference`` is grey, and of a ``range`` only the ends count."""

    name: str
    points: Sequence[Point]
    role: Role = "data"

    def shown(self, point: Point) -> str | None:
        """The value of a point in words."""
        return between(point.ends) if self.role == "range" else str(point)


@dataclass(frozen=True)
class Look:
    """How a series is drawn, by its rank among the data or among the references."""

    rank: int
    reference: bool = False

    @property
    def colour(self) -> str:
        """For a light page."""
        return REFERENCE if self.reference else _COLOURS[self.rank % len(_COLOURS)]

    @property
    def name(self) -> str:
        """The class by which a dark page gives it another colour."""
        return "ref" if self.reference else f"s{self.rank % len(_COLOURS)}"

    def line(self, x1: str, y1: float, x2: str, y2: float, *, whisker: bool = False) -> Markup:
        """A line between two points."""
        dashes = _REFERENCE_DASHES if self.reference else _DASHES
        return element(
            "line", x1=x1, y1=y1, x2=x2, y2=y2, class_=f"stroke {self.name}",
            stroke=self.colour, stroke_width=1.3 if whisker else 2.2,
            stroke_dasharray=None if whisker else dashes[self.rank % len(dashes)],
        )  # fmt: skip

    def marker(self, x: str, y: float) -> Markup:
        """The mark of a point."""
        # After all colours are used the shapes move on by one: no two of 64 series share both.
        shape = _MARKERS[(self.rank + self.rank // len(_COLOURS)) % len(_MARKERS)]
        path = element(
            "path", d=shape, class_=f"mark {self.name}", fill=self.colour, stroke="#ffffff",
            stroke_width=1.2,
        )  # fmt: skip
        return element("svg", path, x=x, y=y, **_VISIBLE)


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
    series: Sequence[Series]
    x_label: str = ""
    y_label: str = ""
    kind: Literal["line", "bar"] = "line"
    notes: Sequence[str] = ()

    def looks(self) -> list[tuple[Look, Series]]:
        """How each series is drawn: by its rank among the data or among the references."""
        ranks = {False: itertools.count(), True: itertools.count()}
        kinds = [(one.role != "data", one) for one in self.series]
        return [(Look(next(ranks[reference]), reference), one) for reference, one in kinds]

    def legend(self) -> list[tuple[Markup, str]]:
        """A swatch and a name for each series; none for bars, which have their names."""
        entries = []
        for look, series in self.looks() if self.kind == "line" else ():
            swatch = look.line("0", 8, "28", 8)
            swatch += Markup("") if look.reference else look.marker("14", 8)
            drawing = element("svg", swatch, width=28, height=16, aria_hidden="true")
            entries.append((drawing, series.name))
        return entries

    def svg(self) -> Markup:
        """The drawing; its label is what a screen reader announces."""
        return _drawn(self)[0]

    def values(self) -> list[float]:
        """Every value that an axis must hold, whiskers included."""
        points = [point for series in self.series for point in series.points]
        return [value for point in points for value in (point.y, *(point.span or ()))]

    def values_table(self) -> Table:
        """The same values as a table, for readers who do not see the drawing."""
        rows = [
            (one.name, point.position, one.shown(point))
            for one in self.series
            for point in one.points
        ]
        columns = ("series", self.x_label or "x", self.y_label or "value")
        return Table(f"{self.title}: values", columns, rows)

    def said(self, series: Series, point: Point) -> Markup:
        """What a reader who points at a mark is told."""
        # What stands in brackets explains an axis; a value does not repeat it.
        axis = "" if self.kind == "bar" else (self.x_label.split(" (")[0] or "x") + " "
        where = f", {axis}{point.position}"
        if point.x is None or point.position == series.name:
            where = ""
        return element("title", f"{series.name}{where}: {series.shown(point)}")


@dataclass(frozen=True)
class Scale:
    """One axis: where values lie, as fractions of its length, and what its ticks say.

    Attributes:
        low: The value at its beginning.
        high: The value at its end.
        ticks: Where, and in words.
        names: The positions, where they are names.
        log: Whether equal distances are equal ratios.
    """

    low: float = 0.0
    high: float = 1.0
    ticks: Sequence[tuple[float | str, str]] = ()
    names: Sequence[str] = ()
    log: bool = False

    def at(self, value: float | str) -> float:
        """How far along the axis a value lies."""
        if self.names:
            return (self.names.index(number(value)) + 0.5) / len(self.names)
        ends = (self.low, self.high, float(value))
        low, high, here = map(math.log, ends) if self.log else ends
        return (here - low) / (high - low)

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
        ticks = [(i * step, f"{i * step:.{decimals}f}") for i in range(first, last + 1)]
        return cls(first * step, last * step, ticks)

    @classmethod
    def of_positions(cls, positions: Sequence[float | str]) -> Scale:
        """Numbers, or names in their order; numbers are names where an axis holds both."""
        if not positions or any(isinstance(position, str) for position in positions):
            names = list(dict.fromkeys(map(number, positions))) or ["everywhere"]
            return cls(ticks=[(name, name) for name in names], names=names)
        own = sorted({float(position) for position in positions})
        ticks = [(mark, number(mark)) for mark in own[:: math.ceil(len(own) / _MOST_TICKS)]]
        low, high = own[0], own[-1]
        if low > 0 and high / low >= _WIDE_RANGE:
            return cls(low / 1.15, high * 1.15, ticks, log=True)
        pad = 0.04 * (high - low) or 1.0
        return cls(low - pad, high + pad, ticks)


_GROUND = """
:root { --ink: #1c2128; --muted: #565d67; --rule: #dfe2e6; --paper: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8eaed; --muted: #a9b1bb; --rule: #343a43; --paper: #14171b; }
}
.ground { fill: var(--paper); }
"""


def save_svg(figure: Figure, path: Path, *, width: float = 720.0) -> Path:
    """Writes a drawing to a file of its own, light or dark as the reader's system is."""
    top, head = 12.0, []
    for swatch, name in figure.legend():
        head += [element("svg", swatch, x=12, y=top), _text(name, "48", top + 12)]
        top += _LINE
    drawing, height = _drawn(figure)
    left, right = (48, 24) if figure.kind == "line" else (16, 150)
    rules = resources.files("privgcn.report").joinpath("templates/chart.css").read_text("utf-8")
    content = element(
        "svg", element("title", figure.title), element("style", Markup(_GROUND + rules)),
        element("rect", class_="ground", fill="#ffffff", width="100%", height="100%", rx=6),
        element("g", *head, class_="chart", font_size=_FONT, font_family="system-ui"),
        element("svg", drawing, x=left, y=top + 4, width=width - left - right, **_VISIBLE),
        xmlns="http://www.w3.org/2000/svg", width=width, height=top + height + 12,
        viewBox=f"0 0 {width:g} {top + height + 12:g}",
    )  # fmt: skip
    write_atomically(path, f'<?xml version="1.0" encoding="UTF-8"?>\n{content}\n')
    return path


def _drawn(figure: Figure) -> tuple[Markup, float]:
    """The drawing and its height."""
    parts, height = _lines(figure) if figure.kind == "line" else _bars(figure)
    drawing = element(
        "svg", joined(parts), xmlns="http://www.w3.org/2000/svg", width="100%", height=height,
        role="img", aria_label=figure.title, class_=f"chart {figure.kind}",
        font_family="system-ui, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif",
        font_size=_FONT, overflow="visible",
    )  # fmt: skip
    return drawing, height


def _lines(figure: Figure) -> tuple[list[Markup], float]:
    """Lines with markers, and whiskers for the spread."""
    positions = [p.x for s in figure.series for p in s.points if p.x is not None]
    across, vertical = Scale.of_positions(positions), Scale.of_values(figure.values())
    top = 30.0 if figure.y_label else 8.0
    bottom = top + _HEIGHT

    def y(value: float) -> float:
        return bottom - vertical.at(value) * _HEIGHT

    parts = [_text(_shortened(figure.y_label, _PHONE), "-36", 12, class_="axis", fill=MUTED)]
    for level, words in vertical.ticks:
        parts.append(_line("0", y(float(level)), "100%", y(float(level)), _GRID))
        parts.append(
            _text(words, "-8", y(float(level)) + 4, class_="tick", anchor="end", fill=MUTED)
        )
    below, height = _axis_below(across, figure.x_label, bottom)
    parts += below
    # References lie below, so that they never hide a value of the data.
    for look, series in sorted(figure.looks(), key=lambda pair: not pair[0].reference):
        for point in (point for point in series.points if point.x is None):
            line = look.line("0", y(point.y), "100%", y(point.y))
            parts.append(element("g", figure.said(series, point), line))
        spots = [(across.at(p.x), y(p.y), p) for p in series.points if p.x is not None]
        spots.sort(key=lambda spot: spot[0])
        step = 1.5 / len(across.names) if across.names else 2
        for (x1, y1, _), (x2, y2, _) in itertools.pairwise(spots):
            # A named position between two points that has none: a line must not guess it.
            if x2 - x1 < step:
                parts.append(look.line(_percent(x1), y1, _percent(x2), y2))
        for x, here, point in spots:
            at, marks = _percent(x), [figure.said(series, point)]
            if point.span is not None:
                low, high = map(y, point.span)
                marks.append(look.line(at, low, at, high, whisker=True))
                cap = look.line("-4", 0, "4", 0, whisker=True)
                marks += [element("svg", cap, x=at, y=end, **_VISIBLE) for end in (low, high)]
            marks.append(look.marker(at, here))
            marks.append(element("circle", cx=at, cy=here, r=13, fill="transparent"))
            parts.append(element("g", *marks))
    return parts, bottom + height


def _bars(figure: Figure) -> tuple[list[Markup], float]:
    """Horizontal bars under their names, so that names of any length fit, also on a phone."""
    scale = Scale.of_values(figure.values())
    drawn = figure.looks()
    groups = dict.fromkeys(point.position for _, series in drawn for point in series.points)
    y = 4.0
    marks: list[Markup] = []
    for group in groups:
        bars = [(k, s, p) for k, s in drawn for p in s.points if p.position == group]
        several = len(bars) > 1
        if several:
            marks.append(_text(_shortened(group, _PHONE), "0", y + 13, weight="600"))
            y += _LINE
        for look, series, point in bars:
            name = group if series.name == group else f"{group} ({series.name})"
            name = series.name if several else name
            marks.append(_text(_shortened(name, _PHONE), "0", y + 13))
            marks.append(_bar(figure, look, series, point, scale, y + _LINE))
            y += _LINE + _BAR + (5 if several else 9)
        y += 6 if several else 0
    ends = [_percent(scale.at(value)) for value, _ in scale.ticks]
    below, height = _axis_below(scale, figure.y_label, y - 4)
    return [*(_line(at, 0, at, y, _GRID) for at in ends), *marks, *below], y - 4 + height


def _bar(
    figure: Figure, look: Look, series: Series, point: Point, scale: Scale, y: float
) -> Markup:
    """A bar with its whisker and its number, or an outline between the ends of a range."""
    ends = sorted(map(scale.at, point.span or (point.y, point.y)))
    start, end = sorted((scale.at(0.0), scale.at(point.y)))
    style: dict[str, Attribute] = {"class_": f"fill {look.name}", "fill": look.colour}
    words, middle, whisker = str(MeanStd(point.y, point.std)), y + _BAR / 2, []
    if series.role == "range":
        start, end = ends
        style = {"class_": "range", "fill": "none", "stroke": MUTED, "stroke_dasharray": "3 3"}
        words = str(between(point.ends))
    elif point.span is not None:
        low, high = map(_percent, ends)
        lines = [(low, middle, high, middle)]
        lines += [(at, middle - 4, at, middle + 4) for at in (low, high)]
        whisker = [_line(*line, {"class_": "whisker", "stroke": INK}) for line in lines]
    width = _percent(max(end - start, 0.003))
    box = element("rect", x=_percent(start), y=y, width=width, height=_BAR, rx=2, **style)
    after = _percent(max(end, ends[1]))
    value = _text(words, after, middle + 4.5, class_="number", dx=7)
    return element("g", figure.said(series, point), box, *whisker, value)


def _axis_below(scale: Scale, words: str, bottom: float) -> tuple[list[Markup], float]:
    """The ticks and the name of an axis, and how high they are.

    A tick that would touch its neighbour on a phone is left out.
    """
    style: dict[str, Any] = {"anchor": "middle", "fill": MUTED}
    parts, taken = [], -math.inf
    room = max(_PHONE / max(1, len(scale.ticks)) - 6, 40.0)
    for value, said in scale.ticks:
        at, shown = scale.at(value), _shortened(said, room)
        half = _width(shown) / 2
        if at * _PHONE - half >= taken + 4:
            taken = at * _PHONE + half
            parts.append(_text(shown, _percent(at), bottom + 19, class_="tick", **style))
    if not words:
        return parts, 26.0
    parts.append(_text(_shortened(words, _PHONE), "50%", bottom + 41, class_="axis", **style))
    return parts, 50.0


def _width(text: str) -> float:
    """About how wide a text is; wide scripts count double."""
    return sum(2.0 if ord(char) > 0x2E80 else 1.0 for char in text) * _FONT * _CHARACTER


def _shortened(text: str, width: float) -> str:
    """The text, cut with an ellipsis where it would be wider than ``width``."""
    line = " ".join(clean(text).split())
    if _width(line) <= width:
        return line
    while line and _width(line + "…") > width:
        line = line[:-1]
    return line.rstrip() + "…"


def _percent(fraction: float) -> str:
    return f"{coordinate(100 * fraction)}%"


def _text(
    words: str, x: str, y: float, *, class_: str = "label", anchor: str | None = None,
    fill: str = INK, weight: str | None = None, dx: float | None = None,
) -> Markup:  # fmt: skip
    return element(
        "text", words, class_=class_, x=x, y=y, dx=dx, fill=fill, text_anchor=anchor,
        font_weight=weight,
    )  # fmt: skip


def _line(x1: str, y1: float, x2: str, y2: float, style: Mapping[str, Attribute]) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke_width=1.3, **style)
