"""What line and bar charts share: their series, ends of whiskers, ticks and values."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from privgcn.report.chart_parts import MUTED, Key, label, shortened, text_width, value_target
from privgcn.report.figures import Figure, Point, Series
from privgcn.report.markup import joined
from privgcn.report.scales import Scale

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
    figure: Figure,
    here: Sequence[tuple[Series, Point]],
    target: Markup,
    x: float,
    y: float,
    width: int,
) -> Markup:
    """The value of a point, over an invisible target.

    Args:
        figure: Names the axes.
        here: The point with its series, and then those that its mark hides.
        target: The invisible shape.
        x: Where the value points to.
        y: Where the value points to.
        width: Of the chart.
    """
    series, point = here[0]
    where = _where(figure, point)
    lines = [part for part in (_value(point), where, series.name) if part]
    for other, hidden in here[1:]:
        place = _where(figure, hidden)
        apart = f", {place}" if place != where else ""
        lines.append(f"{_value(hidden)}{apart}, {other.name}")
    label_of = f"{figure.y_label or 'value'} {_value(point)}"
    spoken = ", ".join(part for part in (series.name, where, label_of) if part)
    return value_target(lines, spoken, target, x=x, y=y, width=width)


def _value(point: Point) -> str:
    return f"{point.y:.3f}" + ("" if point.std is None else f" ± {point.std:.3f}")


def _where(figure: Figure, point: Point) -> str:
    if point.x is None:
        return ""
    # What stands in brackets explains an axis; a value does not repeat it.
    axis = figure.x_label.split(" (")[0] or "x"
    return point.place if figure.kind == "bar" else f"{axis} {point.place}"
