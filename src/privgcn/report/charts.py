"""Figures as SVG drawings: lines over an axis, or horizontal bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from privgcn.files import write_atomically
from privgcn.report.drawing import (
    FONT,
    INK,
    MUTED,
    Colours,
    Look,
    canvas,
    label,
    legend,
    line,
    on_a_ground,
    shortened,
    text_width,
    value_target,
)
from privgcn.report.figures import Figure, Point, Series
from privgcn.report.markup import coordinate, element, joined
from privgcn.report.scales import Scale, Value, position_scale, value_scale

# Narrower drawings are for phones.
_NARROW = 480
_BAR = 20.0
_MARKER = 5.0
_LARGEST_TARGET = 13.0
_LEVEL_TARGET = 8.0
_THINNEST_TARGET = 3.0


def svg(
    figure: Figure,
    *,
    width: int = 720,
    name: str = "figure",
    values: bool = True,
    colours: Colours | None = None,
) -> Markup:
    """The drawing of a figure.

    Text keeps its size, so a phone gets a narrower drawing. The name tells the drawings of a
    page apart; with ``values``, points show theirs when pointed at or focused.
    """
    looks = (colours or Colours()).looks(figure)
    draw = _lines if figure.kind == "line" else _bars
    return draw(figure, looks, width, name, values)


def save_svg(
    figure: Figure, path: Path, *, framed: bool = False, colours: Colours | None = None
) -> Path:
    """Writes a vector file for a paper: no hover values, no page around it.

    With ``framed`` it is for a page of any colour: it has a ground of its own, light or dark
    as the reader's system is.
    """
    drawing = svg(figure, values=False, colours=colours)
    drawing = on_a_ground(drawing) if framed else drawing
    write_atomically(path, f'<?xml version="1.0" encoding="UTF-8"?>\n{drawing}\n')
    return path


def _lines(
    figure: Figure, looks: Sequence[Look], width: int, name: str, values: bool
) -> Markup:
    """Lines with markers and whiskers for the standard deviation."""
    narrow = width < _NARROW
    levels = [] if narrow else [series for series in figure.series if _is_level(series)]
    gutter = min(max([text_width(s.name) + 10 for s in levels], default=14.0), 0.28 * width)
    left, right = 48.0, width - gutter
    drawn = list(zip(looks, figure.series, strict=True))
    named = [look for look, series in drawn if series not in levels]
    head, top = legend(named, 2, 4, width - 4, bars=False, name=name)
    top += 10
    if figure.y_label:
        words = shortened(figure.y_label, width - 10)
        head += label(words, 2, top + 4, class_="axis", fill=MUTED)
        top += 18
    bottom = top + (250.0 if narrow else 300.0)
    vertical = value_scale(_reach(figure), bottom, top)
    places = [p.x for s in figure.series for p in s.points if p.x is not None]
    across = position_scale(places or ["everywhere"], left, right)
    parts = [head, _grid(vertical, left, right), _ticks_below(across, bottom)]
    height = bottom + 26.0
    if figure.x_label:
        parts.append(_axis_name(figure.x_label, width - 60, (left + right) / 2, bottom + 42))
        height += 24
    spots: list[_Spot] = []
    # References lie below, so that they never hide a value of the data.
    for look, series in sorted(drawn, key=lambda pair: not pair[0].reference):
        parts += _line_marks(series, look, across, vertical, left, right)
        for point in series.points:
            x = None if point.x is None else across.place(point.x)
            spots.append(_Spot(series, point, x, vertical.place(point.y)))
    parts.append(_level_names(levels, vertical, right + 8, gutter - 8))
    if values:
        parts += _line_targets(figure, spots, left, right, width)
    return canvas(parts, width=width, height=height, title=figure.title, values=values)


def _bars(figure: Figure, looks: Sequence[Look], width: int, name: str, values: bool) -> Markup:
    """Horizontal bars, grouped by name: names of any length fit, also on a phone.

    A reference for groups of bars is a line across each, one without a place across all.
    """
    narrow = width < _NARROW
    drawn = list(zip(looks, figure.series, strict=True))
    levels = [(look, series) for look, series in drawn if _is_crossing(figure, series)]
    drawn = [pair for pair in drawn if pair not in levels]
    groups = list(dict.fromkeys(p.place for _, s in drawn for p in s.points))
    widest = max(text_width(group) for group in groups)
    left = 10.0 if narrow else min(max(widest + 16, 60), 0.34 * width)
    spread = any(p.std is not None for s in figure.series for p in s.points)
    right = width - (92.0 if spread else 54.0)
    # A series that is named like its bar needs no further name.
    named = [look for look in looks if look.name not in groups]
    head, y = Markup(""), 4.0
    if named and len(looks) > 1:
        head, y = legend(
            named, 2, 4, width - 4, bars=True, name=name, lines=[k for k, _ in levels]
        )
        y += 10
    scale = value_scale(_reach(figure), left, right)
    top = y
    marks: list[Markup] = []
    numbers: list[Markup] = []
    targets: list[Markup] = []
    for group in groups:
        bars = [
            (look, series, point)
            for look, series in drawn
            for point in series.points
            if point.place == group
        ]
        begin = y + (20 if narrow else 0)
        if narrow:
            marks.append(label(shortened(group, width - 10), left, y + 14, weight="600"))
            y += 20
        else:
            middle = y + len(bars) * (_BAR + 3) / 2
            words = shortened(group, left - 14)
            marks.append(label(words, left - 12, middle + 3, anchor="end"))
        for look, series, point in bars:
            bar, number = _bar(look, point, scale, y, name)
            marks.append(bar)
            numbers.append(number)
            target = element(
                "rect", x=left, y=y - 1, width=width - left - 2, height=_BAR + 2, rx=3,
                class_="target", fill="transparent",
            )  # fmt: skip
            tip_x = (left + scale.place(point.y)) / 2
            targets.append(_value_of(figure, [(series, point)], target, tip_x, y, width))
            y += _BAR + 3
        for look, series in levels:
            for point in series.points:
                if point.place == group or point.x is None:
                    marks.append(_crossing(look, scale.place(point.y), begin, y))
                    x = scale.place(point.y)
                    target = element(
                        "rect", x=x - 4, y=begin - 3, width=8, height=y - begin + 3,
                        class_="target", fill="transparent",
                    )  # fmt: skip
                    here = [(series, point._replace(x=group))]
                    targets.append(_value_of(figure, here, target, x, begin, width))
        y += 12 if len(bars) > 1 or narrow else 7
    y -= 4
    grid = [
        line(scale.place(value), top - 2, scale.place(value), y, class_="grid")
        for value, _ in scale.ticks
    ]
    hatches = joined([look.hatch(name) for look in looks])
    parts = [
        element("defs", hatches),
        head,
        *grid,
        *marks,
        *numbers,
        _ticks_below(scale, y - 4),
    ]
    height = y + 22.0
    if figure.y_label:
        parts.append(_axis_name(figure.y_label, width - 20, (left + right) / 2, y + 37))
        height += 22
    if values:
        parts += targets
    return canvas(parts, width=width, height=height, title=figure.title, values=values)


def _is_crossing(figure: Figure, series: Series) -> bool:
    """Whether a reference lies across bars of others, instead of being a bar of its own."""
    places = {point.place for point in series.points}
    others = {
        point.place for other in figure.series if other.role == "data" for point in other.points
    }
    return (
        series.role == "reference" and bool(others) and (_is_level(series) or places <= others)
    )


def _crossing(look: Look, x: float, top: float, bottom: float) -> Markup:
    """A dashed line with a rim, so that it is seen on bars of any colour."""
    ends = (x, top - 3, x, bottom)
    rim = line(*ends, class_="rim", stroke="#ffffff", stroke_width=4)
    return rim + line(
        *ends, class_="whisker", stroke=INK, stroke_width=1.8, stroke_dasharray=look.dash
    )


def _reach(figure: Figure) -> list[float]:
    """Every value that an axis must hold, whiskers included."""
    return [end for series in figure.series for point in series.points for end in _ends(point)]


def _ends(point: Point) -> tuple[float, ...]:
    return (point.y,) if point.std is None else (point.y - point.std, point.y + point.std)


def _value(point: Point) -> str:
    return f"{point.y:.3f}" + ("" if point.std is None else f" ± {point.std:.3f}")


def _is_level(series: Series) -> bool:
    return all(point.x is None for point in series.points)


def _axis_name(words: str, room: float, x: float, y: float) -> Markup:
    return label(shortened(words, room), x, y, class_="axis", anchor="middle", fill=MUTED)


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


def _grid(scale: Scale, left: float, right: float) -> Markup:
    parts = []
    for value, words in scale.ticks:
        y = scale.place(value)
        parts.append(line(left, y, right, y, class_="grid"))
        parts.append(label(words, left - 8, y + 4.3, class_="tick", anchor="end", fill=MUTED))
    return joined(parts)


def _level_names(levels: Sequence[Series], vertical: Scale, x: float, width: float) -> Markup:
    """Names of levels at the right end of their lines, moved apart where they would touch."""
    parts = []
    last = -1e9
    for y, name in sorted((vertical.place(s.points[0].y), s.name) for s in levels):
        last = max(y, last + 14)
        parts.append(label(shortened(name, width), x, last + 4, class_="level", fill=MUTED))
    return joined(parts)


def _skips(across: Scale, first: Value | None, second: Value | None) -> bool:
    """Whether a named place between two points has none: a line must not guess it."""
    names = across.names
    return bool(names) and names.index(str(second)) - names.index(str(first)) > 1


def _line_marks(
    series: Series, look: Look, across: Scale, vertical: Scale, left: float, right: float
) -> list[Markup]:
    stroke: dict[str, str | float] = {
        "class_": f"stroke {look.style}",
        "stroke": look.colour,
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
            marks.append(line(left, y, right, y, stroke_dasharray=look.dash, **stroke))
    if len(spots) > 1:
        path = ""
        for before, (x, y, point) in zip([None, *placed], spots, strict=False):
            begins = before is None or _skips(across, before.x, point.x)
            path += f"{'M' if begins else 'L'}{coordinate(x)} {coordinate(y)}"
        marks.append(
            element("path", d=path, fill="none", stroke_dasharray=look.dash,
                    stroke_linejoin="round", **stroke)
        )  # fmt: skip
    for x, y, point in spots:
        if point.std is not None:
            low, high = (coordinate(vertical.place(end)) for end in _ends(point))
            path = f"M{coordinate(x)} {low}V{high}"
            path += "".join(f"M{coordinate(x - 4)} {end}h8" for end in (low, high))
            marks.append(
                element("path", d=path, fill="none", **{**stroke, "stroke_width": 1.3})
            )
        marks.append(
            element("path", d=look.marker(x, y, _MARKER), class_=f"mark {look.style}",
                    fill=look.colour, stroke="#ffffff", stroke_width=1.2)
        )  # fmt: skip
    return marks


def _bar(look: Look, point: Point, scale: Scale, y: float, name: str) -> tuple[Markup, Markup]:
    """A bar with its whisker, and its number, which nothing may cover."""
    zero, end = scale.place(0.0), scale.place(point.y)
    start, size = min(zero, end), max(abs(end - zero), 1.0)
    box = {"x": start, "y": y, "width": size, "height": _BAR, "rx": 2.5}
    parts = [element("rect", class_=f"fill {look.style}", fill=look.colour, **box)]
    if look.hatched:
        parts.append(element("rect", fill=f"url(#{name}-hatch-{look.index})", **box))
    edge, middle = end, y + _BAR / 2
    if point.std is not None:
        low, high = (scale.place(value) for value in _ends(point))
        path = f"M{coordinate(low)} {coordinate(middle)}H{coordinate(high)}"
        for at in (low, high):
            path += f"M{coordinate(at)} {coordinate(middle - 4)}v8"
        parts.append(
            element("path", d=path, class_="whisker", stroke=INK, stroke_width=1.3, fill="none")
        )
        edge = max(high, end)
    number = label(_value(point), edge + 7, middle + FONT * 0.35, class_="number")
    return joined(parts), number


@dataclass(frozen=True)
class _Spot:
    """A point and where it is drawn; without ``x`` it is a level over the whole width."""

    series: Series
    point: Point
    x: float | None
    y: float

    def distance(self, other: _Spot) -> float:
        """How far two points, or two levels, are apart; a point and a level never meet."""
        if self.x is None or other.x is None:
            return abs(self.y - other.y) if self.x is other.x else math.inf
        return math.hypot(self.x - other.x, self.y - other.y)


def _line_targets(
    figure: Figure, spots: Sequence[_Spot], left: float, right: float, width: int
) -> list[Markup]:
    """One target for each spot, levels first so that points lie above them.

    A target shrinks to half the way to its nearest neighbour. Marks that nevertheless overlap
    cannot be pointed at one by one: each of them then shows the values of all.
    """
    targets = []
    for spot in sorted(spots, key=lambda spot: spot.x is not None):
        others = [other for other in spots if other is not spot]
        gap = min((spot.distance(other) for other in others), default=math.inf)
        least, most = _THINNEST_TARGET, _LEVEL_TARGET
        if spot.x is not None:
            least, most = _MARKER, _LARGEST_TARGET
        reach = min(max(gap / 2, least), most)
        hidden = [other for other in others if spot.distance(other) < 2 * least]
        if spot.x is None:
            x = right - 24
            shape = element(
                "rect", x=left, y=spot.y - reach, width=right - left, height=2 * reach,
                class_="target", fill="transparent",
            )  # fmt: skip
        else:
            x = spot.x
            shape = element(
                "circle", cx=x, cy=spot.y, r=reach, class_="target", fill="transparent"
            )
        here = [(near.series, near.point) for near in (spot, *hidden)]
        targets.append(_value_of(figure, here, shape, x, spot.y, width))
    return targets


def _value_of(
    figure: Figure,
    here: Sequence[tuple[Series, Point]],
    target: Markup,
    x: float,
    y: float,
    width: int,
) -> Markup:
    """The value of a point, and of those that its mark hides, over an invisible target."""
    series, point = here[0]
    where = _where(figure, point)
    names = [where] if where == series.name else [where, series.name]
    lines = [_value(point), *filter(None, names)]
    for other, hidden in here[1:]:
        place = _where(figure, hidden)
        apart = f", {place}" if place != where else ""
        lines.append(f"{_value(hidden)}{apart}, {other.name}")
    measured = f"{figure.y_label or 'value'} {_value(point)}"
    spoken = ", ".join(filter(None, [*reversed(names), measured]))
    return value_target(lines, spoken, target, x=x, y=y, width=width)


def _where(figure: Figure, point: Point) -> str:
    if point.x is None:
        return ""
    # What stands in brackets explains an axis; a value does not repeat it.
    axis = figure.x_label.split(" (")[0] or "x"
    return point.place if figure.kind == "bar" else f"{axis} {point.place}"
