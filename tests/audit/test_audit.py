"""Audits of the engine as it is; those of planted defects are among the known defects."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from builders import small_corpus, small_graph, small_settings
from privgcn.audit import audit as audits
from privgcn.audit.attacks import trained_on
from privgcn.audit.audit import Audit, Target, audit, audit_target, generalisation
from privgcn.audit.canaries import column_case
from privgcn.config import Settings, make_settings
from privgcn.data import TEST, TRAIN
from privgcn.errors import ConfigError
from privgcn.mechanism import session
from privgcn.mechanism.fixed_point import Grid
from privgcn.privacy.plan import PrivacyPlan, plan_for
from privgcn.runs.prepare import prepare

# Bounds on secret noise: a test that fails by chance once in 50,000 calls.
SURE = 0.999


def made(
    recipe: str = "auto", *, epsilon: float, **changes: Any
) -> tuple[Settings, PrivacyPlan]:
    named = {name.replace("__", "."): value for name, value in changes.items()}
    optimizer = named.pop("optimizer", None)
    settings = make_settings(recipe, epsilon=epsilon, optimizer=optimizer, changes=named)
    assert settings.privacy is not None
    epochs = settings.training.epochs
    return settings, plan_for(settings.privacy, 100, epochs=epochs, seed=0, columns={})


def audited(recipe: str = "auto", *, dense: bool = False, runs: int, **changes: Any) -> Audit:
    settings, plan = made(recipe, **changes)
    return audit(settings, plan, dense=dense, runs=runs, confidence=SURE)


@pytest.mark.parametrize(
    ("unit", "dense"), [("document", False), ("person", False), ("person", True)]
)
def test_a_sound_engine_passes_and_half_of_its_claim_is_reached(unit: str, dense: bool) -> None:
    result = audited(epsilon=4.0, dense=dense, runs=2_000, privacy__unit=unit)
    assert result.broken == ()
    assert 0.5 < result.share <= 1.0
    assert 0.99 < result.largest_move <= 1.0


POISSON = {"privacy__sampling": "poisson"}
CASES: list[tuple[float, int, dict[str, Any]]] = [
    (2, 2, {"privacy__relation": "replace"}),
    (2, 2, {"privacy__unit": "person", "privacy__parts": 3, "privacy__sampling": "epoch"}),
    (1, 1, {**POISSON, "privacy__sampling_probability": 0.3}),
    # The mean over the documents of a group moves by one clip norm; two are accounted.
    (1, 2, {"privacy__parts": 4}),
    (1, 2, {**POISSON, "privacy__parts": 4}),
    (0.96, 2, {"dense": True, "privacy__sampling": "epoch", "privacy__parts": 3}),
    (0.96, 1, {"dense": True, **POISSON, "privacy__sampling_probability": 1.0}),
    (1, 1, {"recipe": "paper-split", "optimizer": "sgd"}),
    (2, 2, {"recipe": "paper-split", "optimizer": "sgd", "privacy__unit": "document"}),
    (1, 1, {"recipe": "paper-full", "optimizer": "adam"}),
    (2, 2, {"recipe": "paper-full", "optimizer": "sgd", "privacy__relation": "replace"}),
]


# hazard 12
@pytest.mark.parametrize(("moved", "sensitivity", "changes"), CASES)
def test_every_kind_of_plan_has_its_worst_case(
    moved: float, sensitivity: int, changes: dict[str, Any]
) -> None:
    runs = 10 if {"recipe", "dense"} & changes.keys() else 40
    result = audited(epsilon=3.0, runs=runs, **{"training__epochs": 2, **changes})
    assert result.broken == ()
    assert result.sensitivity == sensitivity
    assert 0.99 * moved < result.largest_move <= sensitivity
    assert result.epsilon <= result.claim


def test_room_that_a_claim_leaves_for_a_search_is_not_the_engines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exactly = session.noisy
    monkeypatch.setattr(
        session, "noisy", lambda t, g, s: 8 * t / g.unit + exactly(np.zeros_like(t), g, s)
    )
    settings, plan = made(epsilon=1.0)
    result = audit(settings, plan, dense=False, runs=400, claim=100.0)
    assert any(reason.endswith("not 1") for reason in result.broken)
    assert result.claim == 100.0


def test_long_plans_are_audited_by_fewer_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privgcn.audit.audit._RELEASES_OF_NETWORKS", 400)
    monkeypatch.setattr("privgcn.audit.audit._FEWEST_RUNS", 10)
    settings, plan = made("paper-full", epsilon=3.0, optimizer="sgd")
    result = audit(settings, plan, dense=False, confidence=SURE)
    assert result.broken == ()
    assert result.guesses == 20


def test_a_corpus_is_audited_against_its_own_plan() -> None:
    target = Target(prepare(small_corpus(), small_settings(epsilon=2.0)))
    result = audit_target(target, runs=20, confidence=SURE)
    assert (result.broken, result.claim) == ((), target.plan.epsilon)
    assert result.mu < result.claim_mu
    assert result.generalisation is not None
    assert 0.0 <= result.generalisation.unseen <= result.generalisation.allowed


def test_numbers_out_of_range_are_refused() -> None:
    settings, plan = made(epsilon=1.0)
    with pytest.raises(ConfigError, match="'confidence'"):
        audit(settings, plan, dense=False, runs=10, confidence=1.0)


# -- cases and sessions -----------------------------------------------------------------------


def test_sessions_of_one_key_draw_alike_and_no_two_runs_do() -> None:
    first, second = audits.twin_sources(2)
    assert first.releasable
    assert (first.words(50) == second.words(50)).all()
    assert (first.words(50) != audits.twin_sources(1)[0].words(50)).any()


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("relation", ["remove", "replace"])
def test_each_target_has_a_column_and_is_there_or_not(dense: bool, relation: str) -> None:
    settings, plan = made(epsilon=1.0, privacy__relation=relation)
    case = column_case(settings, plan, dense=dense, count=3)
    graph = case.graph(np.array([True, False, True]))
    rows = graph.features if dense else graph.features.toarray()
    gone = 0 if relation == "remove" else -1
    assert np.array_equal(np.sign(rows), np.diag([1, gone, 1]))
    assert (graph.labels >= 0).tolist() == [True, relation == "replace", True]
    assert case.plan.training == plan.training


# -- noise and guesses ------------------------------------------------------------------------


def noise_tests(values: list[np.ndarray]) -> list[str]:
    grid = Grid.of(4.0, 10)
    noises = [np.rint(noise * grid.unit) / grid.unit for noise in values]
    return audits.noise_defects(noises, 4.0, grid, 1 - 1e-6)


def test_gaussian_noise_on_the_grid_is_what_was_planned() -> None:
    random = np.random.default_rng(0)
    fresh = [4.0 * random.normal(size=500) for _ in range(40)]
    assert noise_tests(fresh) == []
    # hazard 3: no sample returns, not negated either
    assert "sampled before" in noise_tests([*fresh, -fresh[0]])[0]
    assert "of another one" in noise_tests([np.repeat(fresh[0], 2)])[0]
    assert "standard deviation" in noise_tests([0.9 * each for each in fresh])[0]
    # More of it breaks no claim.
    assert noise_tests([3.0 * each for each in fresh]) == []
    # hazard 5: shape and lowest bits
    uniform = [random.uniform(-8, 8, 500) for _ in range(40)]
    assert noise_tests(uniform) == ["noise is not Gaussian"]
    coarse = [each.astype(np.float32).astype(float) for each in fresh]
    assert noise_tests(coarse) == ["the lowest bits of noise are no coins"]


def test_a_model_that_learns_by_heart_contradicts_a_claim_and_a_private_one_does_not() -> None:
    graph = small_graph(400, features=300)
    labels = np.random.default_rng(0).integers(0, graph.classes, 400)
    split = np.where(np.arange(400) % 2, TEST, TRAIN).astype(np.int8)
    graph = replace(graph, labels=labels, split=split)
    rows = np.flatnonzero(split == TRAIN)
    by_heart = {"model.kind": "mlp", "model.dropout": 0.0, "training.epochs": 200}
    plain = make_settings("plain", changes={**by_heart, "training.patience": 0})
    settings, plan = made(epsilon=1.0)
    errors = [
        generalisation(trained_on(graph, rows, *each), graph, 1.0, 1e-5, 0.999)
        for each in ((plain, None), (settings, plan))
    ]
    assert errors[0].seen < 0.05
    assert errors[0].least > errors[0].allowed
    assert errors[1].least <= errors[1].unseen <= errors[1].allowed
    silent = replace(graph, labels=np.where(split == TEST, -1, labels))
    assert generalisation(trained_on(graph, rows, plain, None), silent, 1.0, 0.1, 0.9) is None
