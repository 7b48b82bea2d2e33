"""Charts as SVG: one drawing that is as wide as the page lets it be.

Here is decided where things lie; ``lines.svg`` and ``bars.svg`` draw them. Positions along the
width are percentages and text has a fixed size, for desk and phone alike. Colours are those of
Okabe and Ito, safe for the colour-blind (``chart.css``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from markupsafe import Markup

from privgcn.report.tables import Table
from privgcn.report.text import between, number, rendered, score, shortened

_LINE, _HEIGHT, _BAR = 18, 280, 40
# What a phone shows of a drawing, in pixels.
_PHONE = 290.0
# More positions than these get round ticks; from such a ratio on an axis is logarithmic.
_MOST_TICKS, _WIDE_RANGE = 8, 12.0
_COLOURS = 6


class Point(NamedTuple):
    """A value at a number, at a name or, with None, everywhere; and its interval."""

    x: float | str | None
    y: float
    ends: Sequence[float] | None = None

    def __str__(self) -> str:
        return score(self.y) + ("" if self.ends is None else f" ({between(self.ends)})")


class Series(NamedTuple):
    """Points of one name; a reference is grey."""

    name: str
    points: Sequence[Point]
    reference: bool = False

    def title(self, point: Point) -> str:
        """What pointing at a mark shows."""
        where = "" if point.x is None else f", {number(point.x)}"
        return f"{self.name}{where}: {point}"


@dataclass(frozen=True)
class Figure:
    """A line chart, or one of horizontal bars, which are fractions, each under its name."""

    title: str
    series: Sequence[Series]
    x_label: str = ""
    y_label: str = ""
    bars: bool = False
    notes: Sequence[str] = ()

    def svg(self) -> Markup:
        """The drawing."""
        template, more = ("bars.svg", {}) if self.bars else ("lines.svg", self._axes())
        return Markup(rendered(template, figure=self, looks=list(self._looks()), **more))

    def values_table(self) -> Table:
        """The same values as a table, for readers who do not see the drawing."""
        rows = [
            (one.name, "everywhere" if point.x is None else number(point.x), str(point))
            for one in self.series
            for point in one.points
        ]
        columns = ("series", self.x_label or "x", self.y_label or "value")
        return Table(f"{self.title}: values", columns, rows)

    @property
    def height(self) -> int:
        """Of the drawing, in pixels."""
        if self.bars:
            return _LINE + 6 + _BAR * sum(len(one.points) for one in self.series)
        return _LINE * len(self.series) + _HEIGHT + 80

    def _looks(self) -> Iterator[tuple[str, Series]]:
        # Colours first, and dashes once all colours are used; references are grey.
        for rank, one in enumerate(x for x in self.series if not x.reference):
            yield f"s{rank % _COLOURS} d{rank // _COLOURS % 4}", one
        for rank, one in enumerate(x for x in self.series if x.reference):
            yield f"ref d{(rank + 1) % 4}", one

    def _axes(self) -> dict[str, Any]:
        points = [point for one in self.series for point in one.points]
        across = Scale.of_positions([point.x for point in points if point.x is not None])
        upward = Scale.of_values([v for p in points for v in (p.y, *(p.ends or ()))])
        bottom, ticks, taken = self.height - 50, [], -math.inf
        for fraction, words in across.ticks:
            # A tick that would touch its neighbour on a phone is left out.
            shown = shortened(words, max(6, 36 // len(across.ticks)))
            half = 3.5 * len(shown)
            if fraction * _PHONE - half >= taken + 4:
                taken = fraction * _PHONE + half
                ticks.append((f"{100 * fraction:.2f}%", shown))

        def height_of(fraction: float) -> float:
            return round(bottom - fraction * _HEIGHT, 2)

        return {
            "bottom": bottom,
            "x": lambda value: f"{100 * across.at(value):.2f}%",
            "y": lambda value: height_of(upward.at(value)),
            "across": ticks,
            "upward": [(height_of(fraction), words) for fraction, words in upward.ticks],
            "sorted_points": lambda series: sorted(
                (p for p in series.points if p.x is not None), key=lambda p: across.at(p.x)
            ),
        }


class Scale(NamedTuple):
    """One axis: where values lie, as fractions of its length, and its ticks."""

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
        ticks = [
            (index / (last - first), f"{(first + index) * step:.{decimals}f}")
            for index in range(last - first + 1)
        ]
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
