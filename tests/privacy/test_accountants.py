"""What every accountant owes its caller, whichever it is."""

import math

import pytest

from privgcn.privacy.accounting import (
    ACCOUNTANTS,
    GaussianEvent,
    epsilon_of,
    epsilon_of_events,
)

NAMES = sorted(ACCOUNTANTS)
CASES = [
    {"noise_multiplier": 4.0, "steps": 1},
    {"noise_multiplier": 4.0, "steps": 500},
    {"noise_multiplier": 4.0, "steps": 500, "sampling_probability": 0.1},
    {"noise_multiplier": 0.8, "steps": 300, "sampling_probability": 0.01},
    {"noise_multiplier": 60.0, "steps": 100, "sensitivity": 2},
]


@pytest.fixture(params=NAMES)
def accountant(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_is_never_below_the_tight_one(accountant: str, case: dict[str, float]) -> None:
    tight = epsilon_of(**case, accountant="pld")
    assert epsilon_of(**case, accountant=accountant) >= tight * (1 - 1e-9)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_more_of_anything_costs_more(accountant: str, case: dict[str, float]) -> None:
    base = epsilon_of(**case, accountant=accountant)
    assert 0.0 < base < math.inf
    dearer = [
        {"steps": int(case["steps"]) * 2},
        {"noise_multiplier": case["noise_multiplier"] * 0.9},
        {"delta": 1e-6},
    ]
    if case.get("sampling_probability", 1.0) < 1.0:
        dearer.append({"sampling_probability": case["sampling_probability"] * 1.5})
    elif "sensitivity" not in case:
        dearer.append({"sensitivity": 2})
    for change in dearer:
        assert epsilon_of(**{**case, **change}, accountant=accountant) > base


def test_nothing_released_costs_nothing(accountant: str) -> None:
    assert epsilon_of_events([], delta=1e-5, accountant=accountant) == 0.0


def test_composition_is_at_most_the_sum_and_at_least_each(accountant: str) -> None:
    first, second = GaussianEvent(5.0, 10), GaussianEvent(3.0, 50, 0.1)
    both = epsilon_of_events([first, second], delta=2e-5, accountant=accountant)
    apart = [
        epsilon_of_events([release], delta=1e-5, accountant=accountant)
        for release in (first, second)
    ]
    alone = [
        epsilon_of_events([release], delta=2e-5, accountant=accountant)
        for release in (first, second)
    ]
    assert max(alone) < both < sum(apart)
