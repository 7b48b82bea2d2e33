"""Bounds against identities and against mechanisms whose epsilon is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, norm

from privgcn.audit.bounds import (
    auc,
    epsilon_of_advantage,
    gaussian_mu,
    least_advantage,
    least_fraction,
    true_positives,
)
from privgcn.privacy.accounting import GaussianEvent, epsilon_of, gaussian_epsilon


@pytest.mark.parametrize(("successes", "trials"), [(1, 10), (7, 10), (990, 1000)])
def test_a_fraction_is_where_the_binomial_tail_reaches_the_level(
    successes: int, trials: int
) -> None:
    low = least_fraction(successes, trials, 0.95)
    assert binom.sf(successes - 1, trials, low) == pytest.approx(0.05)
    assert least_fraction(0, trials, 0.95) == 0.0
    assert least_fraction(trials, trials, 0.95) == pytest.approx(0.05 ** (1 / trials))


@pytest.mark.parametrize("ratio", [0.1, 0.27, 1.0, 4.0])
def test_the_exact_advantage_of_a_gaussian_gives_its_exact_epsilon_and_mu(ratio) -> None:
    advantage = 2 * norm.cdf(ratio / 2) - 1
    measured = epsilon_of_advantage(advantage, GaussianEvent(99.0, 7), 1e-5)
    assert measured == pytest.approx(gaussian_epsilon(ratio, 1e-5), rel=1e-6)
    assert gaussian_mu(measured, 1e-5) == pytest.approx(ratio, rel=1e-6)
    assert gaussian_mu(0.0, 1e-5) == 0.0
    # Fewer observed releases count for all of the claim.
    more = epsilon_of_advantage(advantage, GaussianEvent(99.0, 4), 1e-5, count=36)
    assert more == pytest.approx(gaussian_epsilon(3 * ratio, 1e-5), rel=1e-6)


@pytest.mark.parametrize(("rate", "sensitivity"), [(0.1, 1), (0.3, 1), (0.1, 2)])
def test_the_advantage_of_a_sampled_release_gives_its_epsilon(
    rate: float, sensitivity: int
) -> None:
    # One step: the distance between N(0) and the mixture, or between the two mixtures.
    noise = 1.5
    at = np.linspace(-30, 30, 600_001)
    if sensitivity == 1:
        gap = rate * (norm.pdf(at, 1, noise) - norm.pdf(at, 0, noise))
    else:
        gap = rate * (norm.pdf(at, 1, noise) - norm.pdf(at, -1, noise))
    advantage = np.abs(gap).sum() * (at[1] - at[0]) / 2
    release = GaussianEvent(77.0, 1, rate, sensitivity)
    measured = epsilon_of_advantage(float(advantage), release, 1e-5)
    true = epsilon_of(
        noise_multiplier=noise, steps=1, sampling_probability=rate, sensitivity=sensitivity
    )
    assert 0.98 * true < measured <= 1.001 * true


def test_chance_and_what_rounding_alone_would_give_prove_next_to_nothing() -> None:
    assert least_advantage(500, 1000, 0.95) == 0.0
    assert epsilon_of_advantage(0.0, GaussianEvent(4.0), 1e-5) == 0.0
    assert epsilon_of_advantage(1e-9, GaussianEvent(4.0, 50, 0.1), 1e-5) < 0.05


def test_a_gaussian_mechanism_is_measured_from_below_and_closely() -> None:
    random = np.random.default_rng(0)
    ratio, runs, above = 1.0, 4000, 0
    true = gaussian_epsilon(ratio, 1e-5)
    bounds = []
    for _ in range(200):
        hits = int((random.normal(ratio, 1, runs) > ratio / 2).sum())
        alarms = int((random.normal(0, 1, runs) > ratio / 2).sum())
        reached = least_advantage(hits + runs - alarms, 2 * runs, 0.95)
        bounds.append(epsilon_of_advantage(reached, GaussianEvent(1.0), 1e-5))
        above += bounds[-1] > true
    # At 95 % confidence ten of 200 are expected at most; twenty would be four deviations.
    assert above < 20
    assert np.mean(bounds) > 0.9 * true


def test_an_area_is_the_fraction_of_pairs_in_order() -> None:
    random = np.random.default_rng(0)
    first, second = random.normal(1, 1, 40).round(1), random.normal(0, 1, 50).round(1)
    pairs = first[:, None] - second
    told = auc(first, second)
    assert told.value == pytest.approx(((pairs > 0) + 0.5 * (pairs == 0)).mean())
    assert auc(second, first).value == pytest.approx(1 - told.value)
    # The interval holds the true area 19 times in 20.
    rows = [auc(*random.normal(size=(2, 60))) for _ in range(200)]
    assert sum(not row.low <= 0.5 <= row.high for row in rows) < 25


def test_scores_of_one_target_count_as_one() -> None:
    random = np.random.default_rng(0)
    first, second = random.normal(1.0, 1.0, 200), random.normal(0.0, 1.0, 200)
    once, again = auc(first, second), auc(np.tile(first, 8), np.tile(second, 8), copies=8)
    assert again == pytest.approx(once)
    rate = true_positives(first, second, 0.01)
    copied = true_positives(np.tile(first, 8), np.tile(second, 8), 0.01, copies=8)
    assert rate.value < 1.0
    assert (copied.high - copied.low) == pytest.approx(rate.high - rate.low, rel=0.1)


def test_true_positives_are_counted_above_the_allowed_false_ones() -> None:
    negatives = np.arange(1000.0)
    assert true_positives([995.0, 989.0, 5.0, 998.5], negatives, 0.01).value == 0.5
    assert true_positives([998.5, 2000.0], negatives, 0.001).value == 1.0
    assert true_positives([998.0, 2000.0], negatives, 0.0).value == 0.5
