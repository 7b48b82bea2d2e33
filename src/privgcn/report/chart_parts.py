"""What all charts share: text of a known width, legends, and values that appear on demand.

A value appears when its point is pointed at, tapped or focused with the keyboard. That needs
no script: the marks are drawn first, and above them lie invisible targets that hold their
value and show it by style alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from privgcn.report import palette
from privgcn.report.markup import clean, element, joined

INK = "#1c2128"
MUTED = "#565d67"
GRID = "#dfe2e6"
FONT = 12.5
LINE = 17.0
# Mean width of a character over the font size; generous, as fonts differ by machine.
_CHARACTER = 0.56


@dataclass(frozen=True)
class Key:
    """One entry of a legend."""

    name: str
    index: int
    role: str


def text_width(text: str, size: float = FONT) -> float:
    """About how wide a text is; wide scripts count double."""
    return sum(2.0 if ord(char) > 0x2E80 else 1.0 for char in text) * size * _CHARACTER


def shortened(text: str, width: float, size: float = FONT) -> str:
    """The text, cut with an ellipsis where it would be wider than ``width``."""
    line = " ".join(clean(text).split())
    if text_width(line, size) <= width:
        return line
    while line and text_width(line + "…", size) > width:
        line = line[:-1]
    return line.rstrip() + "…"


def label(
    text: str,
    x: float,
    y: float,
    *,
    class_: str = "label",
    anchor: str = "start",
    fill: str = INK,
    weight: str | None = None,
    transform: str | None = None,
) -> Markup:
    """One line of text."""
    return element(
        "text",
        text,
        class_=class_,
        x=x,
        y=y,
        fill=fill,
        text_anchor=None if anchor == "start" else anchor,
        font_weight=weight,
        transform=transform,
    )


def line(
    x1: float, y1: float, x2: float, y2: float, **attributes: str | float | None
) -> Markup:
    """One straight line."""
    values: dict[str, str | float | None] = {"stroke": GRID, **attributes}
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, **values)


def legend(
    keys: Sequence[Key], left: float, top: float, width: float, *, bars: bool, name: str
) -> tuple[Markup, float]:
    """Names of the series, wrapped to the width; and how high they are together."""
    parts: list[Markup] = []
    x, y = left, top + LINE / 2
    for key in keys:
        words = shortened(key.name, width - 28)
        needed = 28 + text_width(words) + 18
        if x > left and x + needed - 18 > left + width:
            x, y = left, y + LINE + 5
        kind = palette.series_class(key.index, key.role)
        fill = palette.REFERENCE if key.role == "reference" else palette.colour(key.index)
        if bars:
            box = {"x": x + 2, "y": y - 6, "width": 16, "height": 12, "rx": 2}
            parts.append(element("rect", class_=f"fill {kind}", fill=fill, **box))
            if key.role != "reference" and key.index % 8:
                parts.append(element("rect", fill=f"url(#{name}-hatch-{key.index})", **box))
        else:
            dash = palette.dash(key.index, key.role)
            parts.append(
                line(x, y, x + 22, y, class_=f"stroke {kind}", stroke=fill, stroke_width=2,
                     stroke_dasharray=dash)
            )  # fmt: skip
            if key.role != "reference":
                shape = palette.marker(key.index, x + 11, y, 4.5)
                parts.append(element("path", d=shape, class_=f"fill {kind}", fill=fill))
        parts.append(label(words, x + 28, y + 4.3))
        x += needed
    return joined(parts), (y + LINE / 2 + 12 - top if keys else 0.0)


def value_target(
    lines: Sequence[str], spoken: str, target: Markup, *, x: float, y: float, width: float
) -> Markup:
    """An invisible target with the value that it shows when pointed at or focused.

    Args:
        lines: The value in short lines; the first is set bold.
        spoken: The value for those who hear the page.
        target: The invisible shape.
        x: Where the value points to.
        y: Where the value points to.
        width: Width of the chart, which the value stays inside.
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
