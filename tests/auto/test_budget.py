"""Advice on a budget reads no data, and names what would be enough."""

from dataclasses import replace

import pytest

from privgcn.auto.budget import ENOUGH, LITTLE, Budget
from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.privacy.plan import Schedule


def test_the_plan_is_that_of_recipe_auto():
    made = Budget.of(2000, 5, 1.0, features=1000)
    assert made.plan.units == 2000
    assert made.plan.partition.kind == "each"
    assert made.plan.steps == 30
    assert 0.999 < made.plan.epsilon <= 1.0
    assert made.plan.sensitivity == 1
    person = Budget.of(2000, 5, 1.0, unit="person", relation="replace")
    assert person.plan.partition.by == "owner"
    assert person.plan.sensitivity == 2
    assert person.signal < Budget.of(2000, 5, 1.0).signal


def test_more_of_everything_good_raises_the_signal():
    base = Budget.of(1000, 5, 1.0, features=1000)
    assert Budget.of(2000, 5, 1.0, features=1000).signal == pytest.approx(2 * base.signal)
    assert Budget.of(1000, 5, 2.0, features=1000).signal > base.signal
    assert Budget.of(1000, 10, 1.0, features=1000).signal == pytest.approx(base.signal / 2)
    assert Budget.of(1000, 5, 1.0, features=4000).signal == pytest.approx(base.signal / 2)
    assert Budget.of(1000, 5, 1.0, features=1000, delta=1e-7).signal < base.signal


def test_the_kind_says_how_many_features_there_are():
    assert Budget.of(1000, 5, 1.0) == Budget.of(1000, 5, 1.0, kind="both", features=640)
    assert Budget.of(1000, 5, 1.0, kind="hashing").features == 4096
    assert Budget.of(1000, 5, 1.0, features=1433).kind == "given"
    with pytest.raises(ConfigError, match="number of 'features' must be given"):
        Budget.of(1000, 5, 1.0, kind="transformer")


def test_a_hopeless_budget_is_called_so_with_remedies_that_work():
    made = Budget.of(300, 10, 1.0, kind="hashing")
    assert made.signal < LITTLE
    assert "300 documents at epsilon 1: expect noise to cost most of the" in made.advice[0]
    # What is spent is never said to be less.
    assert "at epsilon 1.01:" in Budget.of(300, 5, 1.003).advice[0]
    assert "a public encoder (--features both) needs 40% of that" in made.advice[0]
    need = made.advice[0].split("; you need about ")[1]
    documents = int(need.split(" documents, or epsilon ")[0].replace(",", ""))
    epsilon = float(need.split(" epsilon ")[1].split(". ")[0])
    assert documents > 300
    assert Budget.of(documents, 10, 1.0, kind="hashing").signal >= ENOUGH
    assert Budget.of(9 * documents // 10, 10, 1.0, kind="hashing").signal < ENOUGH
    assert Budget.of(300, 10, epsilon, kind="hashing").signal >= ENOUGH
    assert "people" in Budget.of(300, 10, 1.0, kind="hashing", unit="person").advice[0]


def test_an_encoder_is_not_told_to_be_one():
    for kind in ("both", "minilm", "static"):
        made = Budget.of(100, 20, 1.0, kind=kind)
        assert made.signal < ENOUGH
        assert "encoder" not in made.advice[0]


def test_a_good_budget_needs_no_advice():
    made = Budget.of(5_000, 3, 4.0)
    assert made.signal >= ENOUGH
    assert made.advice == ()


def test_a_signal_is_that_of_the_plan_that_will_run():
    """Samples of groups bring more noise to the mean than their noise multiplier says."""
    usual = Budget.of(2000, 5, 1.0)
    schedule = Schedule("poisson", 2000, sampling_probability=0.1)
    sampled = replace(usual, plan=replace(usual.plan, schedule=schedule))
    assert sampled.signal == pytest.approx(usual.signal / 10)
    fewer = replace(usual, plan=replace(usual.plan, steps=120))
    assert fewer.signal == pytest.approx(2 * usual.signal)


def test_nonsense_is_refused():
    with pytest.raises(ConfigError):
        Budget.of(100, 5, -1.0)
    with pytest.raises(PrivacyContractError):
        Budget.of(200_000, 5, 1.0)
    with pytest.raises(ConfigError, match="document or person"):
        Budget.of(100, 5, 1.0, unit="graph")
