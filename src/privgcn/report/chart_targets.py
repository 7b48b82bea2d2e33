"""Where to point for a value of a line chart, so that no value hides under another's target.

A target shrinks to half the way to its nearest neighbour. Marks that nevertheless overlap
cannot be pointed at one by one: each of them then shows the values of all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from privgcn.report.chart_axes import target_of
from privgcn.report.figures import Figure, Point, Series
from privgcn.report.markup import element

MARKER = 5.0
_LARGEST = 13.0
_LEVEL = 8.0
_THINNEST = 3.0


@dataclass(frozen=True)
class Spot:
    """A point and where it is drawn; without ``x`` it is a level over the whole width."""

    series: Series
    point: Point
    x: float | None
    y: float

    def distance(self, other: Spot) -> float:
        """How far two points, or two levels, are apart; a point and a level never meet."""
        if self.x is None or other.x is None:
            return abs(self.y - other.y) if self.x is other.x else math.inf
        return math.hypot(self.x - other.x, self.y - other.y)


def value_targets(
    figure: Figure, spots: Sequence[Spot], left: float, right: float, width: int
) -> list[Markup]:
    """One target for each spot, levels first so that points lie above them."""
    targets = []
    for spot in sorted(spots, key=lambda spot: spot.x is not None):
        others = [other for other in spots if other is not spot]
        gap = min((spot.distance(other) for other in others), default=math.inf)
        least, most = (_THINNEST, _LEVEL) if spot.x is None else (MARKER, _LARGEST)
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
        targets.append(target_of(figure, here, shape, x, spot.y, width))
    return targets
