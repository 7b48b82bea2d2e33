"""Draws lines over an axis, with whiskers and with levels to compare with."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from privgcn.report import palette
from privgcn.report.chart_axes import NARROW, ends, keys_of, ticks_below
from privgcn.report.chart_parts import (
    MUTED,
    Key,
    canvas,
    label,
    legend,
    line,
    shortened,
    text_width,
)
from privgcn.report.chart_targets import MARKER, Spot, value_targets
from privgcn.report.figures import Figure, Point, Series
from privgcn.report.markup import coordinate, element, joined
from privgcn.report.scales import Scale, position_scale, value_scale

_PLOT_HEIGHT = {True: 250.0, False: 300.0}


def draw_lines(figure: Figure, *, width: int, name: str, values: bool) -> Markup:
    """Lines with markers and whiskers for the standard deviation."""
    narrow = width < NARROW
    levels = [] if narrow else [series for series in figure.series if _is_level(series)]
    gutter = min(max([text_width(s.name) + 10 for s in levels], default=14.0), 0.28 * width)
    left, right = 48.0, width - gutter
    keys = keys_of(figure)
    named = [k for k, s in zip(keys, figure.series, strict=True) if s not in levels]
    head, top = legend(named, 2, 4, width - 4, bars=False, name=name)
    top += 10
    if figure.y_label:
        head += label(
            shortened(figure.y_label, width - 10), 2, top + 4, class_="axis", fill=MUTED
        )
        top += 18
    bottom = top + _PLOT_HEIGHT[narrow]
    spread = [y for s in figure.series for p in s.points for y in ends(p)]
    vertical = value_scale(spread, bottom, top)
    places = [p.x for s in figure.series for p in s.points if p.x is not None]
    across = position_scale(places or ["everywhere"], left, right)
    parts = [head, _grid(vertical, left, right), ticks_below(across, bottom)]
    height = bottom + 26.0
    if figure.x_label:
        words = shortened(figure.x_label, width - 60)
        parts.append(
            label(words, (left + right) / 2, bottom + 42, class_="axis", anchor="middle",
                  fill=MUTED)
        )  # fmt: skip
        height += 24
    marks: list[Markup] = []
    spots: list[Spot] = []
    # Levels to compare with lie below, so that they never hide a value of the data.
    for key, series in sorted(
        zip(keys, figure.series, strict=True), key=lambda pair: pair[0].role == "data"
    ):
        marks += _line_marks(series, key, across, vertical, left, right)
        for point in series.points:
            x = None if point.x is None else across.place(point.x)
            spots.append(Spot(series, point, x, vertical.place(point.y)))
    targets = value_targets(figure, spots, left, right, width) if values else []
    parts += [_level_names(levels, vertical, right + 8, gutter - 8), *marks, *targets]
    return canvas(parts, width=width, height=height, title=figure.title, values=values)


def _is_level(series: Series) -> bool:
    """Whether a series holds everywhere; its line then bears its name itself."""
    return all(point.x is None for point in series.points)


def _level_names(levels: Sequence[Series], vertical: Scale, x: float, width: float) -> Markup:
    """Names of levels at the right end of their lines, moved apart where they would touch."""
    parts = []
    last = -1e9
    for y, name in sorted((vertical.place(s.points[0].y), s.name) for s in levels):
        last = max(y, last + 14)
        parts.append(label(shortened(name, width), x, last + 4, class_="level", fill=MUTED))
    return joined(parts)


def _grid(scale: Scale, left: float, right: float) -> Markup:
    parts = []
    for value, words in scale.ticks:
        y = scale.place(value)
        parts.append(line(left, y, right, y, class_="grid"))
        parts.append(label(words, left - 8, y + 4.3, class_="tick", anchor="end", fill=MUTED))
    return joined(parts)


def _line_marks(
    series: Series, key: Key, across: Scale, vertical: Scale, left: float, right: float
) -> list[Markup]:
    kind = palette.series_class(key.index, key.role)
    reference = key.role == "reference"
    fill = palette.REFERENCE if reference else palette.colour(key.index)
    dash = palette.dash(key.index, key.role)
    stroke: dict[str, str | float] = {
        "class_": f"stroke {kind}",
        "stroke": fill,
        "stroke_width": 2.2,
    }
    marks: list[Markup] = []
    placed = [p for p in series.points if p.x is not None]
    if across.kind != "names":
        placed = sorted(placed, key=lambda p: float(p.x or 0))
    spots = [(across.place(p.x), vertical.place(p.y), p) for p in placed if p.x is not None]
    for point in series.points:
        if point.x is None:
            y = vertical.place(point.y)
            marks.append(line(left, y, right, y, stroke_dasharray=dash, **stroke))
    if len(spots) > 1:
        path = "M" + "L".join(f"{coordinate(x)} {coordinate(y)}" for x, y, _ in spots)
        marks.append(
            element("path", d=path, fill="none", stroke_dasharray=dash,
                    stroke_linejoin="round", **stroke)
        )  # fmt: skip
    for x, y, point in spots:
        if point.std is not None:
            marks.append(_whisker(point, x, vertical, f"stroke {kind}", fill))
        marks.append(
            element("path", d=palette.marker(key.index, x, y, MARKER), class_=f"mark {kind}",
                    fill=fill, stroke="#ffffff", stroke_width=1.2)
        )  # fmt: skip
    return marks


def _whisker(point: Point, x: float, vertical: Scale, kind: str, stroke: str) -> Markup:
    low, high = (vertical.place(end) for end in ends(point))
    path = f"M{coordinate(x)} {coordinate(low)}V{coordinate(high)}"
    for end in (low, high):
        path += f"M{coordinate(x - 4)} {coordinate(end)}h8"
    return element("path", d=path, class_=kind, stroke=stroke, stroke_width=1.3, fill="none")
