from __future__ import annotations

import pytest

from privgcn.config import MODES
from privgcn.errors import ConfigError
from privgcn.evaluation.references import REFERENCES
from privgcn.experiments.tasks import label, make_task, run_task


def test_the_best_reference_is_recorded_for_every_mode(letters: str) -> None:
    point = {"dataset": letters, "features": "hashing"}
    task = make_task("references", point, (0, 1))
    results = run_task(task.kind, task.settings, task.seeds)
    for one in results:
        assert set(one["best"]) == set(one["scores"]) == set(MODES)
        assert set(one["best"].values()) <= set(REFERENCES)
        assert one["scores"]["own-graph"]["micro_f1"] > 0.9
    assert label(task.kind, task.settings).startswith("references, ")
    assert task.weight > make_task("train", {**point, "recipe": "plain"}, (0, 1)).weight


def test_a_budget_is_no_axis_of_references() -> None:
    with pytest.raises(ConfigError, match="'references'"):
        make_task("references", {"dataset": "cora", "epsilon": 1}, (0,))
