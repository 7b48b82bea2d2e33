"""A real, tiny training for experiments in tests: least squares on a seeded line.

In a file of its own because every worker imports it: with what tests import, that would take
seconds each time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

KIND = "line_task"


def resolve(point: dict[str, Any]) -> dict[str, Any]:
    return dict(point)


def run(settings: dict[str, Any], seeds: tuple[int, ...]) -> list[dict[str, Any]]:
    if settings["noise"] == "broken":
        raise ArithmeticError("no line to fit")
    results = []
    for seed in seeds:
        draw = np.random.default_rng(seed)
        x = draw.normal(size=50)
        y = (x + settings["noise"] * draw.normal(size=50)) > 0
        slope = float(x @ (2.0 * y - 1.0))
        score = float(((slope * x > 0) == y).mean())
        results.append({"scores": {"full-graph": {"micro_f1": score}}})
    return results
