"""Which documents a release may see, after a centre and after a stop as well."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from brute_force import random_graph
from privgcn.config import Settings, parse_settings
from privgcn.graph import DenseRows, TextGraph
from privgcn.privacy.mechanism.part_gradients import StackGradients
from privgcn.privacy.schedule import EpochParts
from privgcn.training.checkpoint import Checkpoint
from privgcn.training.fit import fit

DOCUMENTS = 12


class Stopped(Exception):
    """The machine went down."""


def one_way(seed: int = 0) -> TextGraph:
    """Dense rows that all point much the same way: their centre is worth taking off."""
    graph = random_graph(DOCUMENTS, 6, 3, sparse=False, seed=seed, unlabelled=0.0)
    return replace(graph, features=DenseRows(0.2 * graph.features.dense() + 1.0))


def settings(**changes: Any) -> Settings:
    tree: dict[str, Any] = {
        "model": {"kind": "linear", "hops": 0, "dropout": 0.0},
        "training": {
            "optimizer": "sgd",
            "reach": 1.5,
            "epochs": 2,
            "patience": 0,
        },
        "privacy": {
            "noise_multiplier": 0.02,
            "delta": 1e-2,
            "parts": "each",
            "sampling": "epoch",
            "reproducible": True,
        },
    }
    return parse_settings(tree).changed(changes)


def test_under_epoch_the_centre_sees_the_first_part_only() -> None:
    graph, chosen = one_way(), settings()
    centre = fit(graph, chosen).centre
    assert centre is not None
    assert float(centre.norm()) > 0.3
    for changed in range(DOCUMENTS):
        rows = graph.features.dense().clone()
        rows[changed] = -rows[changed] + 0.5
        other = fit(replace(graph, features=DenseRows(rows)), chosen).centre
        assert other is not None
        # Document i is part i, and the first release uses part 0.
        assert torch.equal(other, centre) == (changed != 0)


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("stop", [None, 1, 7, 13, 20])
@pytest.mark.parametrize("epochs", [1, 2])
def test_under_epoch_no_part_is_used_more_often_than_accounted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, centre: bool, stop: int | None, epochs: int
) -> None:
    used: Counter[int] = Counter()
    sample = EpochParts.sample

    def spy(self: EpochParts, step: int, source: Any) -> Any:
        found = sample(self, step, source)
        assert found is not None
        used.update(found.tolist())
        return found

    def progress(done: int, total: int) -> None:
        if done == stop:
            raise Stopped

    monkeypatch.setattr(EpochParts, "sample", spy)
    monkeypatch.setattr(Checkpoint, "offer", lambda self, state: self.write(state()))
    usual = {} if centre else {"training.reach": None, "training.learning_rate": 0.1}
    chosen = settings(**{**usual, "training.epochs": epochs})
    try:
        fitted = fit(one_way(), chosen, checkpoint_folder=tmp_path, progress=progress)
    except Stopped:
        fitted = fit(one_way(), chosen, checkpoint_folder=tmp_path)
    plan = fitted.plan
    assert plan is not None
    assert sum(used.values()) == plan.steps
    assert max(used.values()) <= plan.schedule.composition(plan.steps).count
    assert used == Counter(dict.fromkeys(range(DOCUMENTS), epochs))


@pytest.mark.parametrize("sampling", ["all", "poisson", "epoch"])
def test_training_takes_off_the_released_centre_and_no_other(
    monkeypatch: pytest.MonkeyPatch, sampling: str
) -> None:
    """What a row becomes may follow from itself and from what was released, from no other."""
    seen: list[Any] = []
    gradients = StackGradients.__init__

    def spy(self: StackGradients, model: Any, graph: Any, *args: Any, **options: Any) -> None:
        seen.append(graph)
        gradients(self, model, graph, *args, **options)

    monkeypatch.setattr(StackGradients, "__init__", spy)
    graph = one_way()
    fitted = fit(graph, settings(**{"privacy.sampling": sampling}))
    (trained,) = seen
    expected = fitted.seen(graph).features.dense()[trained.order]
    np.testing.assert_allclose(trained.features.dense(), expected, atol=1e-6)
