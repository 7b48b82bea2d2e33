"""Records of runs that nobody made: scores that follow from the run, for tables and pages."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from privgcn_paper.claims import published
from privgcn_paper.experiments import Point, experiments
from privgcn_paper.results import PAPER_MODE, Runs, write_record

TESTS = 8


def record(point: Point, seed: int = 0, **facts: Any) -> dict[str, Any]:
    """What a run leaves."""
    draw = np.random.default_rng([zlib.crc32(repr(sorted(point.items())).encode()), seed])
    modes = ("alone", "own-graph", PAPER_MODE)
    if point["recipe"] == "as-released":
        modes = (PAPER_MODE,)
    if point["dataset"] == "mnist":
        modes = ("alone",)
    return {
        "point": point,
        "seed": seed,
        "scores": {mode: {"micro": draw.random(), "macro": 0.25} for mode in modes},
        "errors": np.flatnonzero(draw.random(TESTS) < 0.5).tolist(),
        "majority": 0.375,
        **{"classes": 3, "train": 12, "test": TESTS},
        **published()["dataset_sizes"].get(point["dataset"], {}),
        "seconds": 1.5,
        "device": "cpu",
        "code": "0+test",
        **facts,
    }


def records(points: Iterable[Point], seeds: int = 2) -> Iterator[dict[str, Any]]:
    """One for each run and seed."""
    for point in points:
        for seed in range(seeds):
            yield record(point, seed)


def all_points(*, quick: bool = False) -> list[Point]:
    """The runs of all experiments."""
    return [point for one in experiments().values() for point in one.points(quick=quick)]


def all_runs() -> Runs:
    """The table of all of them."""
    return Runs.of_records(records(all_points()))


def fill(folder: Path, points: Iterable[Point], seeds: int = 2) -> Path:
    """A folder of records."""
    folder.mkdir(parents=True, exist_ok=True)
    for one in records(points, seeds):
        write_record(folder, one)
    return folder
