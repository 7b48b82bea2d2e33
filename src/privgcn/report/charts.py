"""Draws figures: lines over an axis, and bars that leave room for long names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from privgcn.report import palette
from privgcn.report.chart_parts import (
    FONT,
    INK,
    MUTED,
    Key,
    canvas,
    label,
    legend,
    line,
    shortened,
    text_width,
    value_target,
)
from privgcn.report.formats import number
from privgcn.report.markup import coordinate, element, joined
from privgcn.report.scales import Scale, position_scale, value_scale

if TYPE_CHECKING:
    from privgcn.report.figures import Figure, Point, Series

_PLOT_HEIGHT = {True: 250.0, False: 300.0}
_NARROW = 480
_MARKER = 5.0
_TARGET = 13.0
_BAR = 20.0


def draw_lines(figure: Figure, *, width: int, name: str, values: bool) -> Markup:
    """Lines with markers and whiskers for the standard deviation."""
    narrow = width < _NARROW
    left, right = 48.0, width - 14.0
    keys = _keys(figure)
    head, top = legend(keys, 2, 4, width - 4, bars=False, name=name)
    top += 10
    if figure.y_label:
        head += label(
            shortened(figure.y_label, width - 10), 2, top + 4, class_="axis", fill=MUTED
        )
        top += 18
    bottom = top + _PLOT_HEIGHT[narrow]
    spread = [y for s in figure.series for p in s.points for y in _ends(p)]
    vertical = value_scale(spread, bottom, top)
    places = [p.x for s in figure.series for p in s.points if p.x is not None]
    across = position_scale(places or ["everywhere"], left, right)
    parts = [head, _grid(vertical, left, right), _ticks_below(across, bottom)]
    height = bottom + 26.0
    if figure.x_label:
        words = shortened(figure.x_label, width - 60)
        parts.append(
            label(words, (left + right) / 2, bottom + 42, class_="axis", anchor="middle",
                  fill=MUTED)
        )  # fmt: skip
        height += 24
    marks: list[Markup] = []
    targets: list[Markup] = []
    for key, series in zip(keys, figure.series, strict=True):
        marks += _line_marks(series, key, across, vertical, left, right)
        for point in series.points:
            y = vertical.place(point.y)
            x = right - 24 if point.x is None else across.place(point.x)
            if point.x is None:
                target = element(
                    "rect", x=left, y=y - 8, width=right - left, height=16, class_="target",
                    fill="transparent",
                )  # fmt: skip
            else:
                target = element(
                    "circle", cx=x, cy=y, r=_TARGET, class_="target", fill="transparent"
                )
            targets.append(_target(figure, series, point, target, x, y, width))
    parts += marks
    if values:
        parts += targets
    return canvas(parts, width=width, height=height, title=figure.title, values=values)


def draw_bars(figure: Figure, *, width: int, name: str, values: bool) -> Markup:
    """Horizontal bars, grouped by name: names of any length fit, also on a phone."""
    narrow = width < _NARROW
    groups = list(dict.fromkeys(_place(p) for s in figure.series for p in s.points))
    widest = max(text_width(group) for group in groups)
    left = 4.0 if narrow else min(max(widest + 16, 60), 0.34 * width)
    right = width - (92.0 if _has_spread(figure) else 54.0)
    keys = _keys(figure)
    head, y = Markup(""), 4.0
    if len(keys) > 1:
        head, y = legend(keys, 2, 4, width - 4, bars=True, name=name)
        y += 10
    ends = [end for s in figure.series for p in s.points for end in _ends(p)]
    scale = value_scale(ends, left, right, from_zero=True)
    hatches = [palette.hatch(name, key.index) for key in keys if key.role == "data"]
    top = y
    marks: list[Markup] = []
    targets: list[Markup] = []
    for group in groups:
        bars = [
            (key, series, point)
            for key, series in zip(keys, figure.series, strict=True)
            for point in series.points
            if _place(point) == group
        ]
        if narrow:
            marks.append(label(shortened(group, width - 10), left, y + 14, weight="600"))
            y += 20
        else:
            middle = y + len(bars) * (_BAR + 3) / 2
            words = shortened(group, left - 14)
            marks.append(label(words, left - 12, middle + 3, anchor="end"))
        for key, series, point in bars:
            marks.append(_bar(key, point, scale, y, name))
            target = element(
                "rect", x=left, y=y - 1, width=width - left - 2, height=_BAR + 2, rx=3,
                class_="target", fill="transparent",
            )  # fmt: skip
            tip_x = (left + scale.place(point.y)) / 2
            targets.append(_target(figure, series, point, target, tip_x, y, width))
            y += _BAR + 3
        y += 12 if len(bars) > 1 or narrow else 7
    y -= 4
    grid = [
        line(scale.place(value), top - 2, scale.place(value), y, class_="grid")
        for value, _ in scale.ticks
    ]
    parts = [element("defs", joined(hatches)), head, *grid, *marks]
    parts.append(_ticks_below(scale, y - 4))
    height = y + 22.0
    if figure.y_label:
        words = shortened(figure.y_label, width - 20)
        parts.append(
            label(words, (left + right) / 2, y + 37, class_="axis", anchor="middle", fill=MUTED)
        )
        height += 22
    if values:
        parts += targets
    return canvas(parts, width=width, height=height, title=figure.title, values=values)


def _keys(figure: Figure) -> list[Key]:
    keys: list[Key] = []
    count = 0
    for series in figure.series:
        keys.append(Key(series.name, count, series.role))
        count += series.role == "data"
    return keys


def _ends(point: Point) -> tuple[float, ...]:
    return (point.y,) if point.std is None else (point.y - point.std, point.y + point.std)


def _has_spread(figure: Figure) -> bool:
    return any(p.std is not None for s in figure.series for p in s.points)


def _place(point: Point) -> str:
    if point.x is None:
        return "everywhere"
    return point.x if isinstance(point.x, str) else number(point.x)


def _grid(scale: Scale, left: float, right: float) -> Markup:
    parts = []
    for value, words in scale.ticks:
        y = scale.place(value)
        parts.append(line(left, y, right, y, class_="grid"))
        parts.append(label(words, left - 8, y + 4.3, class_="tick", anchor="end", fill=MUTED))
    return joined(parts)


def _ticks_below(scale: Scale, bottom: float) -> Markup:
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


def _line_marks(
    series: Series, key: Key, across: Scale, vertical: Scale, left: float, right: float
) -> list[Markup]:
    kind = palette.series_class(key.index, key.role)
    reference = key.role == "reference"
    fill = palette.REFERENCE if reference else palette.colour(key.index)
    dash = "3 4" if reference else palette.DASHES[key.index % len(palette.DASHES)]
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
            element("path", d=palette.marker(key.index, x, y, _MARKER), class_=f"mark {kind}",
                    fill=fill, stroke="#ffffff", stroke_width=1.2)
        )  # fmt: skip
    return marks


def _whisker(point: Point, x: float, vertical: Scale, kind: str, stroke: str) -> Markup:
    low, high = (vertical.place(end) for end in _ends(point))
    path = f"M{coordinate(x)} {coordinate(low)}V{coordinate(high)}"
    for end in (low, high):
        path += f"M{coordinate(x - 4)} {coordinate(end)}h8"
    return element("path", d=path, class_=kind, stroke=stroke, stroke_width=1.3, fill="none")


def _bar(key: Key, point: Point, scale: Scale, y: float, name: str) -> Markup:
    kind = palette.series_class(key.index, key.role)
    fill = palette.REFERENCE if key.role == "reference" else palette.colour(key.index)
    zero, end = scale.place(0.0), scale.place(point.y)
    start, size = min(zero, end), max(abs(end - zero), 1.0)
    box = {"x": start, "y": y, "width": size, "height": _BAR, "rx": 2.5}
    parts = [element("rect", class_=f"fill {kind}", fill=fill, **box)]
    if key.role == "data" and key.index % len(palette.COLOURS):
        parts.append(element("rect", fill=f"url(#{name}-hatch-{key.index})", **box))
    words = f"{point.y:.3f}"
    edge = end
    if point.std is not None:
        low, high = (scale.place(value) for value in _ends(point))
        middle = coordinate(y + _BAR / 2)
        path = f"M{coordinate(low)} {middle}H{coordinate(high)}"
        for at in (low, high):
            path += f"M{coordinate(at)} {coordinate(y + _BAR / 2 - 4)}v8"
        parts.append(
            element("path", d=path, class_="whisker", stroke=INK, stroke_width=1.3, fill="none")
        )
        words, edge = f"{point.y:.3f} ± {point.std:.3f}", max(high, end)
    parts.append(label(words, edge + 7, y + _BAR / 2 + FONT * 0.35, class_="number"))
    return joined(parts)


def _target(
    figure: Figure, series: Series, point: Point, target: Markup, x: float, y: float, width: int
) -> Markup:
    value = f"{point.y:.3f}" + ("" if point.std is None else f" ± {point.std:.3f}")
    place = _place(point)
    where = place if figure.kind == "bar" else f"{figure.x_label or 'x'} {place}"
    if point.x is None:
        where = ""
    lines = [value, " · ".join(part for part in (series.name, where) if part)]
    spoken = ", ".join(
        part for part in (series.name, where, f"{figure.y_label or 'value'} {value}") if part
    )
    return value_target(lines, spoken, target, x=x, y=y, width=width)
