"""The privacy-utility curve: what a smaller epsilon costs in score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from privgcn.errors import DataError
from privgcn.report.formats import is_number

TITLE = "Score against epsilon"


def curve_figure(
    curve: Sequence[Mapping[str, Any]], *, own: tuple[float, float] | None = None
) -> dict[str, Any]:
    """A figure of points ``{"epsilon", "score"}``, optionally with ``std`` and ``series``.

    A point whose epsilon is ``None`` or infinite is non-private: a level to compare with.

    Args:
        curve: The points.
        own: Epsilon and score of the run that the page is about, drawn as its own series.

    Raises:
        DataError: A point without a usable epsilon or score.
    """
    named: dict[str, list[list[Any]]] = {}
    levels: dict[str, list[list[Any]]] = {}
    for point in curve:
        epsilon, value, std = _checked(point)
        name = str(point.get("series") or "trained privately")
        if epsilon is None:
            label = str(point.get("series") or "without privacy")
            levels.setdefault(label, []).append([None, value, std])
        else:
            named.setdefault(name, []).append([epsilon, value, std])
    series: list[dict[str, Any]] = [
        {"name": name, "points": sorted(points, key=lambda p: float(p[0]))}
        for name, points in named.items()
    ]
    if own is not None:
        series.append({"name": "this run", "points": [[own[0], own[1], None]]})
    series += [
        {"name": name, "points": points, "role": "reference"} for name, points in levels.items()
    ]
    return {
        "title": TITLE,
        "x_label": "epsilon (smaller is more private)",
        "y_label": "score",
        "series": series,
    }


def _checked(point: Any) -> tuple[float | None, float, float | None]:
    if isinstance(point, Mapping):
        epsilon, value, std = (point.get(key) for key in ("epsilon", "score", "std"))
        open_ended = epsilon is None or (isinstance(epsilon, float) and math.isinf(epsilon))
        private = is_number(epsilon) and float(epsilon or 0) > 0
        spread = std is None or is_number(std)
        if (open_ended or private) and is_number(value) and spread:
            return (
                None if open_ended else float(epsilon or 0),
                float(value or 0),
                None if std is None else float(std),
            )
    raise DataError(
        "A point of the privacy-utility curve must be an object with an 'epsilon' above 0 (or "
        f"nothing, without privacy) and a 'score'. Got {point!r}."
    )
