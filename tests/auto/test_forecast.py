"""The forecast reads no data, covers what was held out, and says when a budget is too small."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest

from privgcn.auto.forecast import (
    COVERED,
    GUESSING,
    USEFUL,
    forecast,
    stored_curve,
    stored_table,
)
from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.privacy.plan import PoissonGroups

Run = dict[str, float | str]


def runs(part: str) -> list[Run]:
    table = stored_table()
    return [dict(zip(table["columns"], row, strict=True)) for row in table[part]]


def group(run: Run) -> str:
    """The corpus, whichever of its features were used."""
    return str(run["corpus"]).removesuffix("-text")


def signal(run: Run) -> float:
    units, classes, features, noise = (
        float(run[name]) for name in ("units", "classes", "features", "noise")
    )
    return units / (classes * noise * features**0.5)


def interval(run: Run) -> tuple[float, float]:
    return stored_curve().interval(signal(run), int(run["classes"]))


def test_the_plan_is_that_of_recipe_auto() -> None:
    made = forecast(2000, 5, 1.0, features=1000)
    assert made.plan.units == 2000
    assert made.plan.partition.kind == "each"
    assert made.plan.steps == 30
    assert 0.999 < made.plan.epsilon <= 1.0
    assert made.plan.sensitivity == 1
    person = forecast(2000, 5, 1.0, unit="person", relation="replace")
    assert person.plan.partition.by == "owner"
    assert person.plan.sensitivity == 2
    assert person.recovered < forecast(2000, 5, 1.0).recovered


def test_more_of_everything_good_raises_the_signal_and_the_score() -> None:
    base = forecast(1000, 5, 1.0, features=1000)
    more = forecast(2000, 5, 1.0, features=1000)
    assert more.signal == pytest.approx(2 * base.signal)
    assert more.recovered > base.recovered
    assert more.interval[0] > base.interval[0]
    assert more.interval[1] > base.interval[1]
    assert forecast(1000, 5, 2.0, features=1000).signal > base.signal
    assert forecast(1000, 10, 1.0, features=1000).signal == pytest.approx(base.signal / 2)
    assert forecast(1000, 5, 1.0, features=4000).signal == pytest.approx(base.signal / 2)
    assert forecast(1000, 5, 1.0, features=1000, delta=1e-7).signal < base.signal


def test_the_kind_says_how_many_features_there_are() -> None:
    assert forecast(1000, 5, 1.0) == forecast(1000, 5, 1.0, kind="minilm", features=384)
    assert forecast(1000, 5, 1.0, kind="hashing").features == 4096
    assert forecast(1000, 5, 1.0, features=1433).kind == "given"
    with pytest.raises(ConfigError, match="'features' of a forecast must be given"):
        forecast(1000, 5, 1.0, kind="transformer")


def test_the_interval_covers_four_of_five_runs_on_corpora_held_out() -> None:
    known, unseen = {group(run) for run in runs("measured")}, runs("held_out")
    names = sorted({group(run) for run in unseen})
    assert len(known) >= 8
    assert len(names) >= 7
    assert not known & set(names)
    inside: dict[str, list[bool]] = {name: [] for name in names}
    for run in unseen:
        low, high = interval(run)
        inside[group(run)].append(low <= float(run["own_graph"]) <= high)
    assert statistics.fmean(statistics.fmean(one) for one in inside.values()) >= COVERED
    widths = [high - low for low, high in map(interval, unseen)]
    assert statistics.fmean(widths) < 0.5, "an interval of everything covers too"


def test_what_is_recovered_is_what_was_measured() -> None:
    """The middle of the curve, over runs on corpora held out."""
    missed = []
    for run in runs("held_out"):
        way = float(run["plain"]) - float(run["majority"])
        gained = (float(run["own_graph"]) - float(run["majority"])) / way
        missed.append(gained - stored_curve().recovered(signal(run)))
    assert abs(statistics.median(missed)) < 0.1


def test_a_hopeless_budget_is_called_so_with_remedies_that_work() -> None:
    made = forecast(300, 10, 1.0, kind="hashing")
    assert made.recovered < GUESSING
    assert "300 documents at epsilon 1: expect no better than guessing" in made.advice[0]
    assert "a public encoder (--features minilm) would go" in made.advice[0]
    need = made.advice[0].split("; you need about ")[1]
    documents = int(need.split(" documents, or epsilon ")[0].replace(",", ""))
    epsilon = float(need.split(" epsilon ")[1].split(". ")[0])
    assert documents > 300
    assert forecast(documents, 10, 1.0, kind="hashing").recovered >= USEFUL
    assert forecast(9 * documents // 10, 10, 1.0, kind="hashing").recovered < USEFUL
    assert forecast(300, 10, epsilon, kind="hashing").recovered >= USEFUL
    assert "people" in forecast(300, 10, 1.0, kind="hashing", unit="person").advice[0]


def test_an_encoder_is_not_told_to_be_one() -> None:
    for kind in ("minilm", "static"):
        made = forecast(100, 20, 1.0, kind=kind)
        assert made.recovered < USEFUL
        assert "encoder" not in " ".join(made.advice)


def test_a_good_budget_needs_no_advice_and_what_was_not_measured_is_called_so() -> None:
    made = forecast(5_000, 3, 4.0)
    assert made.recovered >= USEFUL
    assert made.advice == ()
    unmeasured = forecast(10, 50, 0.1, kind="hashing")
    assert "outside the range of our measurements" in unmeasured.advice[-1]


def test_a_forecast_is_that_of_the_plan_that_will_run() -> None:
    """Samples of groups bring more noise to the mean than their noise multiplier says."""
    usual = forecast(2000, 5, 1.0)
    schedule = PoissonGroups(2000, sampling_probability=0.1)
    sampled = replace(usual, plan=replace(usual.plan, schedule=schedule))
    assert sampled.signal == pytest.approx(usual.signal / 10)
    fewer = replace(usual, plan=replace(usual.plan, steps=120))
    assert fewer.signal == pytest.approx(2 * usual.signal)


def test_nonsense_is_refused() -> None:
    with pytest.raises(ConfigError):
        forecast(100, 5, -1.0)
    with pytest.raises(PrivacyContractError):
        forecast(200_000, 5, 1.0)
    with pytest.raises(ConfigError, match="document or person"):
        forecast(100, 5, 1.0, unit="graph")
