"""Records that no run made, for tests of what is said about records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from privgcn.experiments.paper.emulation import KIND as AS_RELEASED
from privgcn.experiments.predictions import pack
from privgcn.experiments.store import RecordStore
from privgcn.experiments.tasks import make_task

SEEDS = (0, 1)
MODES = ("alone", "own-graph", "full-graph")
MAJORITY = 0.3


def result(kind: str, score: float | Mapping[str, float]) -> dict[str, Any]:
    """The result of a run with a score, the same in every mode or one for each.

    The first documents are right and the others wrong.
    """
    scores = dict(score) if isinstance(score, Mapping) else dict.fromkeys(MODES, score)
    made: dict[str, Any] = {
        "scores": {mode: {"micro_f1": one} for mode, one in scores.items()},
        "majority": MAJORITY,
        "classes": ["a", "b"],
        "truth": pack(np.zeros(100, dtype=np.int64)),
        "predicted": {
            mode: pack((np.arange(100) >= round(100 * one)).astype(np.int64))
            for mode, one in scores.items()
        },
    }
    return (
        {**made, "documents": {"train": 100, "test": 100, "train_links": 150}}
        if kind == "train"
        else made
    )


def record(
    store: RecordStore,
    kind: str,
    point: Mapping[str, Any],
    score: float | Mapping[str, float],
    seeds: Sequence[int] = SEEDS,
) -> None:
    """Stores runs of a point that all have the same result."""
    task = make_task(kind, point, seeds)
    store.add(task, [result(kind, score)] * len(seeds), 1.0)


def fill(store: RecordStore, name: str, *, sound: float, few: float, auto: float) -> None:
    """What the verdicts on a dataset need, at given scores."""
    for optimizer in ("sgd", "adam"):
        base = {"dataset": name, "optimizer": optimizer}
        record(store, "train", {**base, "recipe": "plain"}, 0.8)
        for epsilon in (2, 137):
            record(store, "train", {**base, "recipe": "paper-full", "epsilon": epsilon}, sound)
        point = {**base, "recipe": "paper-full", "epsilon": 2, "fraction": 0.25}
        record(store, "train", point, sound)
        for epsilon in (1, 2):
            point = {**base, "recipe": "paper-split", "epsilon": epsilon}
            record(store, "train", point, sound + 0.1)
        record(store, AS_RELEASED, {**base, "epsilon": 2}, 0.4)
    point = {"dataset": name, "recipe": "auto", "epsilon": 2}
    record(store, "train", point, auto)
    record(store, "train", {**point, "fraction": 0.25}, few)
