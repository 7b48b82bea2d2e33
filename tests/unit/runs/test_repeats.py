"""Several seeds show how far a score varies; the model is that of the first."""

from __future__ import annotations

import pytest

from privgcn.config import make_settings
from privgcn.privacy.accounting.epsilon import epsilon_of_releases
from privgcn.runs.repeats import composed_epsilon, repeated_scores
from privgcn.runs.train import train
from unit.runs.small_corpus import small_corpus

PRIVATE = {"privacy.delta": 1e-3, "training.epochs": 3}


def test_the_first_seed_is_the_model_whatever_it_scores() -> None:
    settings = make_settings("auto", epsilon=1.0, seed=4, changes=PRIVATE)
    trial = train(small_corpus(texts=False), settings)
    before = trial.model.fitted.parameters[0].clone()
    found = repeated_scores(trial, 3)
    assert found["seeds"] == [4, 5, 6]
    assert found["model"] == 4
    assert bool((trial.model.fitted.parameters[0] == before).all())
    for mode, table in trial.scores[0].items():
        row = found["modes"][mode]["micro_f1"]
        assert row["values"][0] == table["micro_f1"]
        assert len(row["values"]) == 3
        low, high = row["interval"]
        assert low <= row["mean"] <= high


def test_other_seeds_are_other_runs() -> None:
    settings = make_settings(
        "auto", epsilon=0.05, changes={**PRIVATE, "privacy.reproducible": True}
    )
    found = repeated_scores(train(small_corpus(texts=False), settings), 4)
    assert len(set(found["modes"]["alone"]["micro_f1"]["values"])) > 1


def test_what_publishing_all_of_them_costs_is_composed() -> None:
    settings = make_settings("auto", epsilon=1.0, changes=PRIVATE)
    trial = train(small_corpus(texts=False), settings)
    plan = trial.plan
    assert plan is not None
    found = repeated_scores(trial, 5)["composed_epsilon"]
    assert found == composed_epsilon(plan, 5)
    assert found == epsilon_of_releases(
        [release for _ in range(5) for release in plan.releases], delta=1e-3, accountant="pld"
    )
    assert plan.epsilon < found < 5 * plan.epsilon
    assert composed_epsilon(plan, 1) == pytest.approx(plan.epsilon, rel=1e-6)


def test_a_plain_run_costs_nothing() -> None:
    settings = make_settings("plain", changes={"training.epochs": 3})
    found = repeated_scores(train(small_corpus(texts=False), settings), 2)
    assert found["composed_epsilon"] is None
