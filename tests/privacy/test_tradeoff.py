"""What the best attack can do, against exact laws and against the claim itself."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from privgcn.privacy.accounting import GaussianEvent, deltas_of, epsilon_of_events, strength_of
from privgcn.privacy.selection import Selection

DELTA = 1e-5


def best_attack(noise: float, rate: float, sensitivity: int, alarms: float = 0.01) -> float:
    """Detections of the likelihood ratio test of one sampled sum, in the worse direction."""
    points = np.linspace(-14 * noise, 14 * noise, 400_001)

    def law(mean: float) -> Any:
        at = norm.pdf(points, mean, noise)
        return (1 - rate) * norm.pdf(points, 0, noise) + rate * at

    here, there = law(1.0), law(-1.0 if sensitivity == 2 else 0.0)
    best = 0.0
    for truth, other in ((here, there), (there, here)):
        order = np.argsort(-(truth / other))
        false = np.cumsum(other[order]) * (points[1] - points[0])
        true = np.cumsum(truth[order]) * (points[1] - points[0])
        best = max(best, float(np.interp(alarms, false, true)))
    return best


def test_a_gaussian_is_exact() -> None:
    for noise, count, sensitivity in ((20.0, 30, 1), (8.0, 1, 2), (1.0, 4, 1), (1e6, 1, 1)):
        mu, detected = strength_of(GaussianEvent(noise, count, 1.0, sensitivity), DELTA)
        assert mu == pytest.approx(sensitivity * math.sqrt(count) / noise, rel=1e-8, abs=2e-12)
        assert detected == pytest.approx(norm.sf(norm.isf(0.01) - mu), rel=1e-8)
    # At a rate of almost 1, deltas at a few epsilons must nearly give the same.
    mu, detected = strength_of(GaussianEvent(20.0, 30, 1.0 - 1e-13), DELTA)
    exact = strength_of(GaussianEvent(20.0, 30), DELTA)
    assert exact.mu <= mu * (1 + 1e-9) <= 1.01 * exact.mu
    assert exact.detections <= detected <= 1.01 * exact.detections


@pytest.mark.parametrize("sensitivity", [1, 2])
@pytest.mark.parametrize(("noise", "rate"), [(1.0, 0.1), (0.6, 0.5), (3.0, 0.3)])
def test_no_test_of_one_sampled_sum_beats_the_bound(
    noise: float, rate: float, sensitivity: int
) -> None:
    bound = strength_of(GaussianEvent(noise, 1, rate, sensitivity), DELTA).detections
    assert best_attack(noise, rate, sensitivity) <= bound * (1 + 1e-6)
    assert bound <= best_attack(noise, rate, sensitivity) * 1.02


@pytest.mark.parametrize(
    "event",
    [
        GaussianEvent(4.0, 1000, 0.1),
        GaussianEvent(2.0, 50, 0.3, 2),
        GaussianEvent(1.0, 300, 0.01),
        Selection(
            expected_runs=5.0,
            candidates=(GaussianEvent(20.0, 10), GaussianEvent(40.0, 40)),
            score=GaussianEvent(8.0),
            validation_units=30,
        ),
    ],
    ids=["sampled", "replaced", "rare", "search"],
)
def test_the_gaussian_of_mu_has_no_smaller_delta_anywhere(event: Any) -> None:
    gaussian = isinstance(event, GaussianEvent)
    epsilon = epsilon_of_events([event], delta=DELTA, accountant="pld" if gaussian else "rdp")
    mu, detected = strength_of(event, DELTA)
    assert mu is not None
    epsilons = np.linspace(0.0, epsilon, 31)
    # And nearly all of mu is needed: it is no looser than one that the claim itself needs.
    theirs, fewer = (
        norm.cdf(m / 2 - epsilons / m) - np.exp(epsilons) * norm.cdf(-m / 2 - epsilons / m)
        for m in (mu, 0.9 * mu)
    )
    deltas = deltas_of(event, epsilons, DELTA)
    assert (deltas <= theirs * (1 + 1e-6)).all()
    assert deltas[-1] == pytest.approx(DELTA, rel=0.1)
    assert (deltas > fewer).any()
    # Whoever has epsilon alone can say no more than this.
    assert 0.01 < detected <= min(1.0, 0.01 * math.exp(epsilon) + DELTA) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("event", "most_detected"),
    [
        (GaussianEvent(0.01, 1000, 0.5), 1.0),
        (GaussianEvent(0.01, 10, 1e-6), 1.0),
        (GaussianEvent(1.0, 10_000_000, 0.3), 1.0),
        (GaussianEvent(1e9, 1), 0.0101),
    ],
)
def test_extremes_have_bounds(event: GaussianEvent, most_detected: float) -> None:
    mu, detected = strength_of(event, DELTA)
    # Who knows every sample is as strong as anybody can be.
    known = math.sqrt(event.count) / event.noise_multiplier
    assert 0.0 < mu <= known * (1 + 1e-8) + 2e-12
    assert 0.01 <= detected <= most_detected
