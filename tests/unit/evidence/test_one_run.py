"""Canaries among documents, in one run."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from brute_force import random_graph
from privgcn.config import make_settings
from privgcn.errors import PrivacyContractError
from privgcn.evidence.one_run import canary_scores, one_run
from privgcn.training.planning import plan_for_units


def scored(epsilon: float, *, sparse: bool = True, relation: str = "remove"):
    changes = {"privacy.relation": relation, "training.epochs": 5}
    settings = make_settings(epsilon=epsilon, changes=changes)
    plan = plan_for_units(settings.privacy, 300, epochs=5, seed=0, columns={})
    graph = random_graph(60, 12, 4, sparse=sparse)
    there = np.arange(240) % 2 == 0
    return canary_scores(graph, settings, plan, columns={}, there=there)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("relation", ["remove", "replace"])
def test_with_little_noise_canaries_tell_themselves(sparse: bool, relation: str) -> None:
    found = scored(80.0, sparse=sparse, relation=relation)
    right = (found.releases > 0) == found.there
    assert right.mean() > 0.95
    inside, outside = found.predictions[found.there], found.predictions[~found.there]
    assert np.median(inside) > np.median(outside)


def test_with_much_noise_they_do_not() -> None:
    found = scored(0.05)
    right = (found.releases > 0) == found.there
    # Six deviations of a coin.
    assert abs(right.mean() - 0.5) < 6 * 0.5 / np.sqrt(240)


def test_one_canary_in_ten_is_guessed_about() -> None:
    settings = make_settings(epsilon=60.0, changes={"training.epochs": 5})
    plan = plan_for_units(settings.privacy, 300, epochs=5, seed=0, columns={})
    releases, predictions = one_run(
        random_graph(60, 12, 4), settings, plan, columns={}, canaries=200
    )
    assert (releases.canaries, releases.guesses) == (200, 20)
    assert releases.correct >= 19
    assert predictions.guesses == 20


def test_the_documents_themselves_are_left_as_they_are() -> None:
    from privgcn.evidence.one_run import _joined

    for sparse in (True, False):
        graph = random_graph(20, 5, 3, sparse=sparse)
        there = np.array([True, False, True])
        joined = _joined(graph, torch.tensor([2, 1, 0]), there, "remove")
        dense = joined.features.dense()
        assert torch.equal(dense[:20, :5], graph.features.dense())
        assert torch.equal(dense[20:, 5:] != 0, torch.diag(torch.tensor([True, False, True])))
        assert not dense[:20, 5:].any()
        assert joined.labels[20:].tolist() == [2, -1, 0]
        assert torch.equal(joined.edges, graph.edges)


def test_parts_of_several_units_hold_no_canaries() -> None:
    settings = make_settings("paper-split", epsilon=1.0)
    plan = plan_for_units(settings.privacy, 60, epochs=5, seed=0, columns={})
    with pytest.raises(PrivacyContractError, match="linear model, parts 'each'"):
        one_run(random_graph(60, 12, 4), settings, plan, columns={}, canaries=10)
