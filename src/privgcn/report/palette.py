"""Colours after Okabe and Ito, safe for colour-blind readers; shapes and hatches differ too."""

from __future__ import annotations

from collections.abc import Callable

from markupsafe import Markup

from privgcn.report.markup import coordinate, element

#: Ordered by contrast with a white page; yellow comes last. Pages override them by class, so
#: that dark pages get lighter ones.
COLOURS: tuple[str, ...] = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#F0E442",
)
REFERENCE = "#767B84"
DASHES: tuple[str | None, ...] = (None, "7 4", "2 3", "9 3 2 3", None, "4 4", "1 4", "12 4")

#: Of levels to compare with, which all are grey.
LEVEL_DASHES: tuple[str, ...] = ("3 4", "10 4", "1 4", "10 3 2 3")

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
SHAPES: tuple[Shape, ...] = (
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


def colour(index: int) -> str:
    """The colour of the ``index``-th series."""
    return COLOURS[index % len(COLOURS)]


def series_class(index: int, role: str) -> str:
    """The class by which a page gives a series its colour in dark mode."""
    return "ref" if role == "reference" else f"s{index % len(COLOURS)}"


def dash(index: int, role: str) -> str | None:
    """The dashes of the ``index``-th series, or of the ``index``-th level."""
    dashes = LEVEL_DASHES if role == "reference" else DASHES
    return dashes[index % len(dashes)]


def marker(index: int, x: float, y: float, radius: float) -> str:
    """The outline of the ``index``-th series' marker.

    After all colours are used the shapes move on by one, so no two of the first 64 series
    share both.
    """
    return SHAPES[(index + index // len(COLOURS)) % len(SHAPES)](x, y, radius)


def hatch(name: str, index: int) -> Markup:
    """A pattern of lines over a bar, for the ``index``-th series; the first has none."""
    angles = (None, 45, -45, 90, 0, 20, -20, 70)
    angle = angles[index % len(angles)]
    if angle is None:
        return Markup("")
    line = element("path", d="M0 0V7", stroke="#ffffff", stroke_width=2.4, class_="hatch")
    return element(
        "pattern",
        line,
        id=f"{name}-hatch-{index}",
        width=7,
        height=7,
        patternUnits="userSpaceOnUse",
        patternTransform=f"rotate({angle})",
    )
