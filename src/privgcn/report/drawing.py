"""The parts of a chart: colours and shapes, text of a known width, legends, values on demand.

Colours are those of Okabe and Ito, safe for colour-blind readers; shapes and hatches differ
too. A value appears when its point is pointed at, tapped or focused with the keyboard. That
needs no script: the marks are drawn first, and above them lie invisible targets that hold
their value and show it by style alone.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources

from markupsafe import Markup

from privgcn.report.figures import Figure
from privgcn.report.markup import clean, coordinate, element, joined

INK = "#1c2128"
MUTED = "#565d67"
GRID = "#dfe2e6"
FONT = 12.5
LINE = 17.0
# Mean width of a character over the font size; generous, as fonts differ by machine.
_CHARACTER = 0.56

#: Ordered by contrast with a white page; yellow comes last. Pages override them by class, so
#: that dark pages get lighter ones.
COLOURS: tuple[str, ...] = (
    "#0072B2", "#009E73", "#D55E00", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#F0E442",
)  # fmt: skip
REFERENCE = "#767B84"
_DASHES: tuple[str | None, ...] = (None, "7 4", "2 3", "9 3 2 3", None, "4 4", "1 4", "12 4")
# Of references, which all are grey.
_REFERENCE_DASHES: tuple[str, ...] = ("3 4", "10 4", "1 4", "10 3 2 3")
_HATCHES = (None, 45, -45, 90, 0, 20, -20, 70)

Shape = Callable[[float, float, float], str]


def _polygon(*corners: tuple[float, float]) -> Shape:
    def path(x: float, y: float, r: float) -> str:
        ends = [f"{coordinate(x + dx * r)} {coordinate(y + dy * r)}" for dx, dy in corners]
        return "M" + "L".join(ends) + "Z"

    return path


def _circle(x: float, y: float, r: float) -> str:
    left, d, h = coordinate(x - r), coordinate(2 * r), coordinate(r)
    return f"M{left} {coordinate(y)}a{h} {h} 0 1 0 {d} 0a{h} {h} 0 1 0 -{d} 0Z"


_P = 0.4
_SHAPES: tuple[Shape, ...] = (
    _circle,
    _polygon((-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)),
    _polygon((0, -1.15), (1.1, 0.85), (-1.1, 0.85)),
    _polygon((0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)),
    _polygon((0, 1.15), (1.1, -0.85), (-1.1, -0.85)),
    _polygon(
        (-_P, -1.15), (_P, -1.15), (_P, -_P), (1.15, -_P), (1.15, _P), (_P, _P),
        (_P, 1.15), (-_P, 1.15), (-_P, _P), (-1.15, _P), (-1.15, -_P), (-_P, -_P),
    ),
    _polygon((0, -1.2), (1.14, -0.37), (0.71, 0.97), (-0.71, 0.97), (-1.14, -0.37)),
    _polygon((-1.15, 0), (0.85, -1.1), (0.85, 1.1)),
)  # fmt: skip


@dataclass(frozen=True)
class Look:
    """How a series is drawn, by its place among the data or among the references."""

    name: str
    index: int
    reference: bool

    @property
    def colour(self) -> str:
        """The colour on a white page."""
        return REFERENCE if self.reference else COLOURS[self.index % len(COLOURS)]

    @property
    def style(self) -> str:
        """The class by which a page gives the series its colour in dark mode."""
        return "ref" if self.reference else f"s{self.index % len(COLOURS)}"

    @property
    def dash(self) -> str | None:
        """The dashes of its line."""
        dashes = _REFERENCE_DASHES if self.reference else _DASHES
        return dashes[self.index % len(dashes)]

    def marker(self, x: float, y: float, radius: float) -> str:
        """The outline of its marker.

        After all colours are used the shapes move on by one, so no two of the first 64
        series share both.
        """
        return _SHAPES[(self.index + self.index // len(COLOURS)) % len(_SHAPES)](x, y, radius)

    def hatch(self, name: str) -> Markup:
        """The pattern of lines over its bars; the first series and references have none."""
        if not self.hatched:
            return Markup("")
        line = element("path", d="M0 0V7", stroke="#ffffff", stroke_width=2.4, class_="hatch")
        angle = _HATCHES[self.index % len(_HATCHES)]
        return element(
            "pattern", line, id=f"{name}-hatch-{self.index}", width=7, height=7,
            patternUnits="userSpaceOnUse", patternTransform=f"rotate({angle})",
        )  # fmt: skip

    @property
    def hatched(self) -> bool:
        """Whether its bars have a pattern."""
        return not self.reference and self.index % len(_HATCHES) != 0


class Colours:
    """Gives a name the same look in all charts of a page, as long as colours last."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def looks(self, figure: Figure) -> list[Look]:
        """The look of each series of a figure."""
        data = [series.name for series in figure.series if series.role == "data"]
        for name in data:
            if name not in self._known:
                taken = set(self._known.values())
                if len(taken) >= len(COLOURS):
                    taken = {self._known[other] for other in data if other in self._known}
                self._known[name] = next(i for i in itertools.count() if i not in taken)
        references = itertools.count()
        return [
            Look(series.name, next(references), True)
            if series.role == "reference"
            else Look(series.name, self._known[series.name], False)
            for series in figure.series
        ]


def text_width(text: str) -> float:
    """About how wide a text is; wide scripts count double."""
    return sum(2.0 if ord(char) > 0x2E80 else 1.0 for char in text) * FONT * _CHARACTER


def shortened(text: str, width: float) -> str:
    """The text, cut with an ellipsis where it would be wider than ``width``."""
    line = " ".join(clean(text).split())
    if text_width(line) <= width:
        return line
    while line and text_width(line + "…") > width:
        line = line[:-1]
    return line.rstrip() + "…"


def label(
    text: str,
    x: float,
    y: float,
    *,
    class_: str = "label",
    anchor: str | None = None,
    fill: str = INK,
    weight: str | None = None,
) -> Markup:
    """One line of text."""
    return element(
        "text", text, class_=class_, x=x, y=y, fill=fill, text_anchor=anchor,
        font_weight=weight,
    )  # fmt: skip


def line(
    x1: float, y1: float, x2: float, y2: float, **attributes: str | float | None
) -> Markup:
    """One straight line."""
    values: dict[str, str | float | None] = {"stroke": GRID, **attributes}
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, **values)


def legend(
    looks: Sequence[Look],
    left: float,
    top: float,
    width: float,
    *,
    bars: bool,
    name: str,
    lines: Sequence[Look] = (),
) -> tuple[Markup, float]:
    """Names of the series, wrapped to the width; and how high they are together.

    Of bars, some may be ``lines`` all the same.
    """
    parts: list[Markup] = []
    x, y = left, top + LINE / 2
    for look in looks:
        words = shortened(look.name, width - 28)
        needed = 28 + text_width(words) + 18
        if x > left and x + needed - 18 > left + width:
            x, y = left, y + LINE + 5
        if bars and look not in lines:
            box = {"x": x + 2, "y": y - 6, "width": 16, "height": 12, "rx": 2}
            parts.append(element("rect", class_=f"fill {look.style}", fill=look.colour, **box))
            if look.hatched:
                parts.append(element("rect", fill=f"url(#{name}-hatch-{look.index})", **box))
        else:
            kind, colour = f"stroke {look.style}", look.colour
            if look in lines:
                kind, colour = "whisker", INK
            parts.append(
                line(x, y, x + 22, y, class_=kind, stroke=colour, stroke_width=2,
                     stroke_dasharray=look.dash)
            )  # fmt: skip
            if not look.reference:
                shape = look.marker(x + 11, y, 4.5)
                kind = f"fill {look.style}"
                parts.append(element("path", d=shape, class_=kind, fill=look.colour))
        parts.append(label(words, x + 28, y + 4.3))
        x += needed
    return joined(parts), (y + LINE / 2 + 12 - top if looks else 0.0)


def value_target(
    lines: Sequence[str], spoken: str, target: Markup, *, x: float, y: float, width: float
) -> Markup:
    """An invisible target with the value that it shows when pointed at or focused.

    The value points to ``x`` and ``y``, stays inside the ``width`` of the chart and has its
    first line in bold; ``spoken`` is for those who hear the page.
    """
    room = min(420.0, width - 24)
    words = [shortened(text, room - 20) for text in lines]
    wide = min(
        room,
        max(text_width(text) * (1.06 if i == 0 else 1) for i, text in enumerate(words)) + 22,
    )
    high = LINE * len(words) + 13
    left = min(max(x - wide / 2, 2), width - wide - 2)
    top = y - high - 11 if y - high - 11 > 0 else y + 13
    texts = [
        label(text, left + 11, top + 20 + i * LINE, class_="tip-text", fill="#ffffff",
              weight="600" if i == 0 else None)
        for i, text in enumerate(words)
    ]  # fmt: skip
    box = element("rect", x=left, y=top, width=wide, height=high, rx=6, class_="tip-box")
    tip = element("g", box, joined(texts), class_="tip", aria_hidden="true")
    return element("g", target, tip, class_="value", tabindex=0, role="img", aria_label=spoken)


_RIM = 12
_GROUND = """
:root { --ink: #1c2128; --muted: #565d67; --rule: #dfe2e6; --paper: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8eaed; --muted: #a9b1bb; --rule: #343a43; --paper: #14171b; }
}
.ground { fill: var(--paper); }
"""


def on_a_ground(drawing: Markup) -> Markup:
    """A drawing on an opaque ground that follows the colour scheme of the reader's system."""
    head, sign, rest = str(drawing).partition(">")
    ((box, *sides),) = re.findall(r'(viewBox="0 0 (\S+) (\S+)")', head)
    corner, wide, high = -_RIM, *(float(side) + 2 * _RIM for side in sides)
    larger = f'viewBox="{corner:g} {corner:g} {wide:g} {high:g}"'
    rules = resources.files("privgcn.report").joinpath("templates/chart.css").read_text("utf-8")
    style = element("style", Markup(_GROUND + rules))
    ground = element(
        "rect", class_="ground", fill="#ffffff", x=corner, y=corner, width=wide, height=high,
        rx=6,
    )  # fmt: skip
    return Markup(head.replace(box, larger) + sign) + style + ground + Markup(rest)


def canvas(
    parts: Sequence[Markup], *, width: float, height: float, title: str, values: bool
) -> Markup:
    """The drawing; its title is what a screen reader announces."""
    return element(
        "svg",
        # A file for a paper names itself; in a page the heading does.
        Markup("") if values else element("title", title),
        joined(list(parts)),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        role="group" if values else "img",
        aria_label=title,
        class_="chart",
        font_family="system-ui, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif",
        font_size=FONT,
    )
