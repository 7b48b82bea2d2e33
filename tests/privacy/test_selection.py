"""The price of a search, against the exact law of the best of a random number of runs."""

import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from time import process_time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import trapezoid
from scipy.special import ndtr
from scipy.stats import poisson

from privacy.plans import plan as training_plan
from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.mechanism import RandomSource
from privgcn.privacy.accounting import (
    ORDERS,
    GaussianEvent,
    curve_deltas,
    epsilon_of_events,
    renyi_curve,
)
from privgcn.privacy.ledger import Ledger
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.selection import (
    MOST_CANDIDATES,
    RunCount,
    Selection,
    calibrated_search,
)
from privgcn.privacy.statement import PrivacyStatement

Array = NDArray[np.float64]
SHORT, LONG = GaussianEvent(20.0, 10), GaussianEvent(40.0, 40)


def selection(**changes: Any) -> Selection:
    fields: dict[str, Any] = {
        "expected_runs": 5,
        "candidates": (SHORT, LONG),
        "score": GaussianEvent(8.0),
        "validation_units": 30,
    }
    return Selection(**{**fields, **changes})


def search_over(*candidates: GaussianEvent, mean: float) -> Selection:
    """A search with public validation."""
    public: dict[str, Any] = {"score": None, "validation_units": 0}
    return selection(candidates=candidates, expected_runs=mean, **public)


MEANS = (1.3, 3.0, 10.0, 200.0)
# Orders at which divergences are computed by brute force.
TRIED = [int(np.argmin(np.abs(ORDERS - order))) for order in (1.1, 1.5, 2, 4, 8, 16, 32)]


def divergences(first: Array, second: Array, grid: Array) -> Array:
    logs = np.log(first) - np.log(second)
    return np.array(
        [
            math.log(trapezoid(first * np.exp((ORDERS[i] - 1) * logs), grid)) / (ORDERS[i] - 1)
            for i in TRIED
        ]
    )


def gaussian_winner(
    runs: RunCount, shift: float, ratio: float, order: str
) -> tuple[Array, Array]:
    """Density of the best of K draws from N(shift, 1/ratio^2), on a grid in noise units."""
    grid = np.linspace(-14.0, 14.0, 20001)
    centred = grid - shift * ratio
    density = np.exp(-0.5 * centred**2) / math.sqrt(2 * math.pi)
    below = {
        "largest": ndtr(centred),
        "smallest": ndtr(-centred),
        "outermost": ndtr(np.abs(grid) - shift * ratio) - ndtr(-np.abs(grid) - shift * ratio),
    }[order]
    # Times the derivative of the law's generating function.
    return density * runs.expected * np.exp(runs.rate * (below - 1.0)), grid


# hazard 14
@pytest.mark.parametrize("mean", MEANS)
def test_the_number_of_runs_has_the_stated_law(mean: float) -> None:
    """Of a Poisson law, given that it is not zero."""
    runs, numbers = RunCount(mean), np.arange(1, 800)
    chances = poisson(runs.rate).pmf(numbers) / -math.expm1(-runs.rate)
    assert (numbers * chances).sum() == pytest.approx(mean, rel=1e-6)
    source = RandomSource.seeded(1, "runs")
    count = 2000 if mean < 100 else 400
    drawn = np.array([runs.draw(source) for _ in range(count)])
    assert drawn.min() >= 1
    spread = math.sqrt((numbers**2 * chances).sum() - mean**2)
    assert abs(drawn.mean() - mean) < 4 * spread / math.sqrt(count)
    assert (drawn == 1).mean() == pytest.approx(chances[0], abs=0.04)
    assert drawn.std() == pytest.approx(spread, rel=0.15)


# hazard 14
@pytest.mark.parametrize("mean", MEANS)
def test_no_number_of_runs_is_too_large(mean: float) -> None:
    runs = RunCount(mean)
    # Arrivals that follow each other so closely that there are a thousand of them.
    word = np.uint64(math.exp(-runs.rate / 1000.5) * 2.0**64)
    quick: Any = SimpleNamespace(words=lambda count: np.full(count, word))
    assert runs.draw(quick) == 1000


@pytest.mark.parametrize("mean", MEANS[:-1])
@pytest.mark.parametrize("ratio", [0.2, 1.0])
def test_no_gaussian_winner_exceeds_the_bound(mean: float, ratio: float) -> None:
    runs = RunCount(mean)
    claimed = search_over(GaussianEvent(1.0 / ratio), mean=runs.expected).curve()[TRIED]
    worst = np.zeros(len(TRIED))
    for order in ("largest", "smallest", "outermost"):
        here, grid = gaussian_winner(runs, 0.0, ratio, order)
        there, _ = gaussian_winner(runs, 1.0, ratio, order)
        for pair in ((here, there), (there, here)):
            worst = np.maximum(worst, divergences(*pair, grid))
    assert (worst <= claimed + 1e-9).all()
    # Forgetting the search is noticed: the winner exceeds what one run costs.
    assert (worst > renyi_curve((GaussianEvent(1.0 / ratio),))[TRIED] * 1.05).any()


def test_it_is_the_librarys_bound_but_for_the_chance_of_no_run() -> None:
    from dp_accounting.rdp import rdp_privacy_accountant as library

    runs, curve = RunCount(60.0), renyi_curve((GaussianEvent(4.0, 3, 0.2),))
    epsilons = np.log1p(1.0 / (ORDERS - 1.0))
    deltas = curve_deltas(curve, epsilons)
    # The library may also use a second bound on deltas; ours is never smaller.
    for at in TRIED:
        assert deltas[at] >= library.compute_delta(ORDERS, curve, epsilons[at])[0] - 1e-15
    ours = runs.bound(curve, deltas)
    theirs = library._compute_rdp_repeat_and_select(ORDERS, curve, 60.0, math.inf)
    theirs = np.minimum.accumulate(theirs[::-1])[::-1]
    assert (ours >= theirs - 1e-9).all()
    assert ours[ORDERS > 4] == pytest.approx(theirs[ORDERS > 4], rel=1e-3)


def cost(*events: Any) -> float:
    return epsilon_of_events(events, delta=1e-5, accountant="rdp")


def test_a_search_costs_more_than_a_run_and_less_than_without_sampling() -> None:
    run, sampled = GaussianEvent(5.0, 10), GaussianEvent(4.0, 100, 0.1)
    search = search_over(sampled, mean=5.0)
    assert cost(sampled) < cost(search) < cost(search.without_amplification())
    # Two searches with the same settings, in one ledger, are two.
    one = search_over(run, mean=4.0)
    costs = [cost(one), cost(one, run), cost(one, one), cost(one, run, one)]
    assert all(less < more for less, more in pairwise(costs))
    with pytest.raises(PrivacyContractError, match="must be rdp"):
        epsilon_of_events([one], delta=1e-5)


def test_the_worst_alternative_counts_at_every_order() -> None:
    """Rare events are dear at high orders, frequent ones at low orders."""
    rare, frequent = GaussianEvent(1.0, 1, 1e-4), GaussianEvent(8.0)
    each = [search_over(one, mean=5.0).curve() for one in (rare, frequent)]
    assert each[0][0] < each[1][0]
    assert each[0][-1] > each[1][-1]
    both = search_over(rare, frequent, mean=5.0).curve()
    assert (both >= np.maximum(*each) - 1e-12).all()


# --- a search in plan, statement and ledger -------------------------------------------------


def plan(**changes: Any) -> PrivacyPlan:
    fields = {"noise_multiplier": 20.0, "steps": 10, "delta": 1e-4, "accountant": "rdp"}
    return training_plan(**{**fields, "selection": selection(), **changes})


def test_the_plan_costs_what_the_search_costs() -> None:
    assert plan().epsilon > plan(selection=None).epsilon
    assert plan().epsilon_without_amplification == plan().epsilon
    assert plan().protected_units == 130
    # A dearer candidate that did not win counts too, and so does a dear score.
    weak = selection(candidates=(SHORT, GaussianEvent(2.0, 10)))
    assert plan(selection=weak).epsilon > plan().epsilon
    assert plan(selection=selection(score=GaussianEvent(0.5))).epsilon > plan().epsilon


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"accountant": "pld"}, "must be rdp"),
        ({"steps": 11}, "one of the candidates"),
        ({"relation": "replace"}, "one of the candidates"),
        ({"unit": "part", "relation": "remove"}, "document or person"),
        ({"selection": {"expected_runs": 5.0}}, "must be an instance of Selection"),
        ({"delta": 1 / 120}, "1/130"),
    ],
)
def test_a_plan_refuses_a_search_it_did_not_run(changes: dict[str, Any], words: str) -> None:
    with pytest.raises((ConfigError, PrivacyContractError), match=words):
        plan(**changes)


def test_a_search_refuses_nonsense() -> None:
    for change in (
        *({"expected_runs": 1}, {"expected_runs": 1e4}, {"score": None}),
        *({"candidates": ()}, {"candidates": (SHORT, SHORT)}, {"validation_units": 0}),
    ):
        with pytest.raises(ConfigError):
            selection(**change)


# hazard 30
def test_many_candidates_are_verified_or_refused_quickly() -> None:
    many = tuple(GaussianEvent(20.0 + at, 10, 0.1, 2) for at in range(MOST_CANDIDATES - 1))
    claimed = PrivacyStatement.of(
        plan(selection=selection(candidates=(SHORT, *many))), releasable=True
    )
    text = claimed.to_json()
    record = json.loads(text)
    begin = process_time()
    PrivacyStatement.from_json(text).verify()
    one = record["plan"]["selection"]["candidates"][1]
    record["plan"]["selection"]["candidates"] = [
        {**one, "noise_multiplier": 20.0 + at} for at in range(1000)
    ]
    with pytest.raises(PrivacyContractError, match="at most 100 items"):
        PrivacyStatement.from_json(json.dumps(record))
    assert process_time() - begin < 1.0


# hazard 13
@pytest.mark.parametrize("units", [0, 30])
def test_calibration_keeps_the_budget(units: int) -> None:
    shapes = [
        GaussianEvent(1.0, 30),
        GaussianEvent(1.0, 90, 1.0, 2),
        GaussianEvent(1.0, 300, 0.1),
    ]
    found, trainings = calibrated_search(
        1.0, shapes, RunCount(5.0), validation_units=units, delta=1e-5
    )
    assert 0.999 < cost(found) <= 1.0
    assert found.candidates == trainings
    assert [replace(one, noise_multiplier=1.0) for one in trainings] == shapes
    # Candidates without sampling cost the same, and so does a score.
    first, second, _ = (one.noise_multiplier for one in trainings)
    assert second == pytest.approx(first * 2 * 3**0.5, rel=1e-4)
    assert (found.score is None) == (units == 0)
    if found.score is not None:
        assert found.score.noise_multiplier == pytest.approx(first / 30**0.5, rel=1e-4)


def test_the_statement_and_the_ledger_carry_the_search(tmp_path: Path) -> None:
    statement = PrivacyStatement.of(plan(), releasable=True, model_sha256="ab" * 32)
    again = PrivacyStatement.from_json(statement.to_json())
    assert again == statement
    again.verify()
    text = " ".join(statement.text().split())
    assert "secret number of runs, 5 on average (Poisson)" in text
    assert "30 more documents, protected as well" in text
    # Forgetting a part of the search is noticed even with a new digest.
    for changed in (None, selection(expected_runs=2)):
        forged = replace(statement, plan=replace(statement.plan, selection=changed))
        with pytest.raises(PrivacyContractError, match="'epsilon'"):
            replace(forged, digest=forged.computed_digest()).verify()
    # The ledger adds it to other releases.
    ledger = Ledger(tmp_path / "ledger.jsonl")
    other = replace(plan(selection=None), accountant="pld")
    first = ledger.record(PrivacyStatement.of(other, releasable=True))
    assert first < statement.epsilon < ledger.record(statement) == ledger.spent(1e-4)
