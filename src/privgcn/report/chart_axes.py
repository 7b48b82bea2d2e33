"""What line and bar charts share: their series, ends of whiskers, ticks and values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from privgcn.report.chart_parts import MUTED, Key, label, shortened, text_width, value_target
from privgcn.report.formats import number
from privgcn.report.markup import joined
from privgcn.report.scales import Scale

if TYPE_CHECKING:
    from privgcn.report.figures import Figure, Point, Series

#: Narrower drawings are for phones.
NARROW = 480


def keys_of(figure: Figure) -> list[Key]:
    """The series with their places in the palette; levels to compare with take none."""
    keys: list[Key] = []
    counts = {"data": 0, "reference": 0}
    for series in figure.series:
        keys.append(Key(series.name, counts[series.role], series.role))
        counts[series.role] += 1
    return keys


def ends(point: Point) -> tuple[float, ...]:
    """How far a point reaches, with its deviation."""
    return (point.y,) if point.std is None else (point.y - point.std, point.y + point.std)


def place_of(point: Point) -> str:
    """Where a point lies, in words."""
    if point.x is None:
        return "everywhere"
    return point.x if isinstance(point.x, str) else number(point.x)


def ticks_below(scale: Scale, bottom: float) -> Markup:
    """Tick labels under an axis; one that would touch its neighbour is left out."""
    parts = []
    taken = -1e9
    room = (scale.end - scale.start) / max(1, len(scale.names)) if scale.names else 1e9
    for value, words in scale.ticks:
        x = scale.place(value)
        shown = shortened(words, max(room - 6, 14))
        half = text_width(shown) / 2
        if x - half < taken + 4:
            continue
        taken = x + half
        parts.append(label(shown, x, bottom + 19, class_="tick", anchor="middle", fill=MUTED))
    return joined(parts)


def target_of(
    figure: Figure, series: Series, point: Point, target: Markup, x: float, y: float, width: int
) -> Markup:
    """The value of a point, over an invisible target."""
    value = f"{point.y:.3f}" + ("" if point.std is None else f" ± {point.std:.3f}")
    place = place_of(point)
    # What stands in brackets explains an axis; a value does not repeat it.
    axis = figure.x_label.split(" (")[0] or "x"
    where = place if figure.kind == "bar" else f"{axis} {place}"
    if point.x is None:
        where = ""
    lines = [part for part in (value, where, series.name) if part]
    spoken = ", ".join(
        part for part in (series.name, where, f"{figure.y_label or 'value'} {value}") if part
    )
    return value_target(lines, spoken, target, x=x, y=y, width=width)
