"""Draws horizontal bars, which leave room for long names."""

from __future__ import annotations

from markupsafe import Markup

from privgcn.report import palette
from privgcn.report.chart_axes import (
    NARROW,
    ends,
    keys_of,
    target_of,
    ticks_below,
)
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
)
from privgcn.report.figures import Figure, Point
from privgcn.report.markup import coordinate, element, joined
from privgcn.report.scales import Scale, value_scale

_BAR = 20.0


def draw_bars(figure: Figure, *, width: int, name: str, values: bool) -> Markup:
    """Horizontal bars, grouped by name: names of any length fit, also on a phone."""
    narrow = width < NARROW
    groups = list(dict.fromkeys(p.place for s in figure.series for p in s.points))
    widest = max(text_width(group) for group in groups)
    left = 10.0 if narrow else min(max(widest + 16, 60), 0.34 * width)
    right = width - (92.0 if _has_spread(figure) else 54.0)
    keys = keys_of(figure)
    head, y = Markup(""), 4.0
    if len(keys) > 1:
        head, y = legend(keys, 2, 4, width - 4, bars=True, name=name)
        y += 10
    reach = [end for s in figure.series for p in s.points for end in ends(p)]
    scale = value_scale(reach, left, right, from_zero=True)
    hatches = [palette.hatch(name, key.index) for key in keys if key.role == "data"]
    top = y
    marks: list[Markup] = []
    targets: list[Markup] = []
    for group in groups:
        bars = [
            (key, series, point)
            for key, series in zip(keys, figure.series, strict=True)
            for point in series.points
            if point.place == group
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
            targets.append(target_of(figure, [(series, point)], target, tip_x, y, width))
            y += _BAR + 3
        y += 12 if len(bars) > 1 or narrow else 7
    y -= 4
    grid = [
        line(scale.place(value), top - 2, scale.place(value), y, class_="grid")
        for value, _ in scale.ticks
    ]
    parts = [element("defs", joined(hatches)), head, *grid, *marks]
    parts.append(ticks_below(scale, y - 4))
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


def _has_spread(figure: Figure) -> bool:
    return any(p.std is not None for s in figure.series for p in s.points)


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
        low, high = (scale.place(value) for value in ends(point))
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
