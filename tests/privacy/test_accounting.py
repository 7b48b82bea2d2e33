"""Epsilon: exact cases, the library's numbers, extremes; the least noise for a target."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from privgcn.errors import ConfigError, NotCalibratedError, PrivacyContractError
from privgcn.privacy import accounting
from privgcn.privacy.accounting import (
    ACCOUNTANTS,
    ORDERS,
    GaussianEvent,
    calibrate,
    deltas_of,
    epsilon_of,
    epsilon_of_events,
    gaussian_deltas,
    gaussian_epsilon,
    log_gaussian_delta,
    log_moments,
    renyi_curve,
    strength_of,
)
from privgcn.privacy.selection import Selection


def gaussian_delta(epsilon: float, ratio: float) -> float:
    """Balle and Wang (2018), equation 6, written independently."""
    below = norm.logcdf(-ratio / 2 - epsilon / ratio) + epsilon
    return float(norm.cdf(ratio / 2 - epsilon / ratio) - np.exp(below))


noises, counts = st.floats(0.3, 2000.0), st.integers(1, 10_000)
rates = st.one_of(st.just(1.0), st.floats(1e-6, 0.999))
deltas = st.sampled_from([1e-9, 1e-6, 1e-5, 1e-2])
# A grid rounds up by a little more here than there.
SLACK, TINY = 1.002, 1e-4


@settings(max_examples=25)
@given(
    noises, counts, rates, st.sampled_from([1, 2]), deltas, st.sampled_from(list(ACCOUNTANTS))
)
def test_epsilon_is_monotone_finite_and_never_below_the_tight_one(
    noise: float, steps: int, rate: float, sensitivity: int, delta: float, accountant: str
) -> None:
    moments = accountant == "moments"
    base: dict[str, Any] = {
        "noise_multiplier": noise,
        "steps": steps,
        "sampling_probability": rate,
        "sensitivity": 1 if moments else sensitivity,
        "delta": delta,
    }
    epsilon = epsilon_of(**base, accountant=accountant)
    assert 0.0 <= epsilon < math.inf
    for factor in (1.1, 3.0):
        for change in (
            {"noise_multiplier": noise / factor},
            {"steps": math.ceil(steps * factor)},
            {"sampling_probability": min(1.0, rate * factor)},
            {"sensitivity": 2, **({"sampling_probability": 1.0} if moments else {})},
            {"delta": delta / factor},
        ):
            dearer = epsilon_of(**{**base, **change}, accountant=accountant)
            assert epsilon <= dearer * SLACK + TINY
    tight = epsilon_of(**base)
    unsampled = epsilon_of(**{**base, "sampling_probability": 1.0})
    assert tight <= min(epsilon, unsampled) * (1 + 1e-8) + 1e-11
    # One step reveals at least what its closed form says: Poisson amplification is exact.
    inner = math.log1p(math.expm1(min(tight, 700.0)) / rate)
    assert rate * gaussian_delta(inner, 1.0 / noise) <= delta * (1 + 1e-6) + 1e-15


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_composition_is_at_most_the_sum_and_at_least_each(accountant: str) -> None:
    def cost(*events: GaussianEvent, delta: float = 2e-5) -> float:
        return epsilon_of_events(events, delta=delta, accountant=accountant)

    first, second, rare = (
        GaussianEvent(5.0, 10),
        GaussianEvent(3.0, 50, 0.1),
        GaussianEvent(5.0, 1, 1e-7),
    )
    apart = cost(first, delta=1e-5) + cost(second, delta=1e-5)
    assert 0.0 == cost() < max(cost(first), cost(second)) < cost(first, second) < apart
    # An event that hardly ever happens hides no other.
    assert cost(first, rare) >= cost(first)


def test_events_compose_like_their_sum_where_the_sum_is_known() -> None:
    apart = [GaussianEvent(10.0, 3), GaussianEvent(20.0, 8), GaussianEvent(40.0, 2, 1.0, 2)]
    ratio = math.sqrt(3 / 100 + 8 / 400 + 2 * 4 / 1600)
    assert epsilon_of_events(apart, delta=1e-5) == pytest.approx(gaussian_epsilon(ratio, 1e-5))
    whole = epsilon_of(noise_multiplier=4.0, steps=1000, sampling_probability=0.1)
    for noise, close in ((4.0, 1e-12), (4.0 + 1e-9, 1e-3)):
        halves = [GaussianEvent(4.0, 400, 0.1), GaussianEvent(noise, 600, 0.1)]
        assert epsilon_of_events(halves, delta=1e-5) == pytest.approx(whole, rel=close)


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
def test_the_closed_form_is_exact_and_the_librarys(delta: float) -> None:
    from dp_accounting.gaussian_mechanism import get_epsilon_gaussian

    for ratio in (1e-4, 0.2, 1.0, 5.0, 27.0, 300.0):
        theirs = get_epsilon_gaussian(1.0 / ratio, delta)
        assert gaussian_epsilon(ratio, delta) == pytest.approx(theirs, rel=1e-9, abs=1e-11)
    for noise, steps, sensitivity in ((1.0, 1, 1), (112.0, 2000, 2), (5.0, 30, 1)):
        ratio = sensitivity * math.sqrt(steps) / noise
        epsilon = epsilon_of(
            noise_multiplier=noise, steps=steps, sensitivity=sensitivity, delta=delta
        )
        assert 0.9999 * delta < gaussian_delta(epsilon, ratio) <= delta * (1 + 1e-12)
        # Rounded up by more than a closed form errs.
        assert epsilon > gaussian_epsilon(ratio, delta) * (1 + 5e-10)


def test_the_deltas_of_a_gaussian_are_never_below_the_truth() -> None:
    ratios = np.geomspace(1e-14, 1.0, 200)
    truth = np.array([math.erf(ratio / math.sqrt(8.0)) for ratio in ratios])
    bounds = np.array([gaussian_deltas(ratio, np.zeros(1))[0] for ratio in ratios])
    assert (truth <= bounds).all()
    assert (bounds <= truth + 2e-15).all()
    # What the slack is for.
    bare = np.exp([log_gaussian_delta(ratio, 0.0) for ratio in ratios])
    assert 0.0 < (truth - bare).max() < 5e-16


@pytest.mark.parametrize("delta", [1e-5, 1e-8])
@pytest.mark.parametrize(("noise", "steps"), [(10.0, 100), (300.0, 100_000)])
@pytest.mark.parametrize("sensitivity", [1, 2])
def test_rounding_never_takes_the_distribution_below_the_truth(
    noise: float, steps: int, delta: float, sensitivity: int
) -> None:
    # At a rate of almost 1 the exact Gaussian is the truth, to ten digits.
    event = GaussianEvent(noise, steps, 1.0 - 1e-13, sensitivity)
    _, composed, reserve = accounting._composed((event,), delta)
    epsilon = float(composed.get_epsilon_for_delta(delta - reserve))
    truth = gaussian_epsilon(sensitivity * math.sqrt(steps) / noise, delta)
    assert truth - 1e-9 <= epsilon
    assert epsilon <= truth * 1.002 or delta < 1e-6
    # Nothing is read from a distribution where rounding is not small beside delta.
    assert accounting._composed((GaussianEvent(noise, steps, 0.5),), 5e-11)[1] is None


# hazard 12
def test_two_clip_norms() -> None:
    """Unsampled half the noise; sampled more than one, and less than a group of two."""
    for accountant in ACCOUNTANTS:
        twice = epsilon_of(noise_multiplier=8.0, steps=10, sensitivity=2, accountant=accountant)
        half = epsilon_of(noise_multiplier=4.0, steps=10, accountant=accountant)
        assert twice == pytest.approx(half)
    common: dict[str, Any] = {"steps": 1000, "sampling_probability": 0.1}
    once = epsilon_of(noise_multiplier=4.0, **common)
    twice = epsilon_of(noise_multiplier=4.0, sensitivity=2, **common)
    # Adding one of norm 2C, at half the noise, is another mechanism; replacing is between.
    assert 2 * once < twice < epsilon_of(noise_multiplier=2.0, **common) * 1.2
    with pytest.raises(PrivacyContractError, match="pld or rdp"):
        epsilon_of(noise_multiplier=4.0, **common, sensitivity=2, accountant="moments")


@pytest.mark.parametrize(
    ("noise", "steps", "rate", "delta"),
    [
        (0.01, 10_000_000, 1.0, 1e-5),
        (0.01, 1000, 0.5, 1e-5),
        (1e9, 1, 1.0, 1e-5),
        (1e9, 10_000_000, 0.3, 1e-5),
        (1.0, 1, 1e-12, 1e-300),
        (1.0, 10_000_000, 1e-300, 1e-12),
        (3.0, 1_000_000_000, 1.0 - 1e-16, 0.5),
        (0.01, 10, 1e-6, 1e-5),
    ],
)
@pytest.mark.parametrize("sensitivity", [1, 2])
def test_extremes_give_a_finite_bound(
    noise: float, steps: int, rate: float, delta: float, sensitivity: int
) -> None:
    event = GaussianEvent(noise, steps, rate, sensitivity)
    pld, rdp = (epsilon_of_events([event], delta=delta, accountant=a) for a in ("pld", "rdp"))
    assert 0.0 <= pld <= rdp * (1 + 1e-9) < math.inf
    mu, detected = strength_of(event, delta)
    # Who knows every sample is as strong as anybody can be.
    known = sensitivity * math.sqrt(event.count) / event.noise_multiplier
    assert 0.0 < (mu or known) <= known * (1 + 1e-8) + 2e-12
    assert 0.01 <= detected <= 1.0


def test_bad_values_are_named_and_not_searched() -> None:
    for name, value in (
        ("noise_multiplier", math.nan),
        ("noise_multiplier", 0.001),
        ("steps", 1.5),
        ("sampling_probability", 0.0),
        ("sensitivity", 3),
        ("delta", 1.0),
        ("accountant", "gdp"),
    ):
        given: dict[str, Any] = {"noise_multiplier": 4.0, "steps": 10, name: value}
        with pytest.raises(ConfigError, match=name):
            epsilon_of(**given)
    with pytest.raises(ConfigError, match="epsilon"):
        calibrate(epsilon=0.0, steps=10)


def test_divergences_and_their_epsilon_are_the_librarys() -> None:
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant, compute_epsilon

    # Tiny rates do not round to nothing. The leading term: q^2 a (a-1) / 2 (exp(1/s^2) - 1).
    (moment,) = log_moments(1.0, 1e-12, np.array([4]))
    assert moment == pytest.approx(1e-24 * 6 * math.expm1(1.0), rel=1e-6)

    whole = (ORDERS >= 2) & (ORDERS <= 64) & (ORDERS % 1 == 0)
    for noise, rate in ((4.0, 0.1), (1.0, 0.01), (30.0, 0.3), (8.0, 1.0)):
        library = RdpAccountant(orders=ORDERS[whole])
        library.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), 100)
        event = GaussianEvent(noise, 100, rate)
        curve = renyi_curve((event,))
        assert curve[whole] == pytest.approx(library.rdp, rel=1e-6)
        for delta in (1e-9, 1e-5, 1e-2):
            theirs, _ = compute_epsilon(list(ORDERS), list(curve), delta)
            ours = epsilon_of_events([event], delta=delta, accountant="rdp")
            assert ours == pytest.approx(theirs)


# hazard 12
def test_group_bound_dominates_the_replacement_divergence() -> None:
    # The library's accountant would read a plain Gaussian of 2C as one of C.
    for rate in (1.0 - 1e-12, 1.0):
        curve = renyi_curve((GaussianEvent(3.0, 1, rate, 2),))
        assert curve == pytest.approx(ORDERS * 2.0 / 9.0, rel=1e-6)
    noise, rate = 1.0, 0.2
    points = np.linspace(-60, 60, 600_001)
    upper, lower = (
        (1 - rate) * norm.pdf(points, 0, noise) + rate * norm.pdf(points, mean, noise)
        for mean in (1.0, -1.0)
    )
    inside = (upper > 1e-300) & (lower > 1e-300)
    log_ratio = np.log(upper[inside]) - np.log(lower[inside])
    curve = renyi_curve((GaussianEvent(noise, 1, rate, 2),))
    for order in (1.5, 2.0, 3.0, 5.5):
        moment = np.sum(np.exp(order * log_ratio) * lower[inside]) * (points[1] - points[0])
        assert math.log(moment) / (order - 1) <= curve[order == ORDERS][0]


# hazard 13
@pytest.mark.parametrize(
    ("accountant", "rate", "target"),
    [
        ("pld", 1.0, 1e-4),
        ("pld", 1.0, 400.0),
        ("pld", 0.05, 1.0),
        ("rdp", 1.0, 0.5),
        ("rdp", 0.05, 8.0),
        ("moments", 1.0, 8.0),
        ("moments", 0.05, 0.5),
    ],
)
def test_the_target_is_met_and_nearly_used_up(
    target: float, accountant: str, rate: float
) -> None:
    common: dict[str, Any] = {"steps": 200, "sampling_probability": rate}
    common["accountant"] = accountant
    made = calibrate(epsilon=target, **common)
    assert epsilon_of(noise_multiplier=made.noise_multiplier, **common) == made.epsilon
    assert target * 0.9999 < made.epsilon <= target


# hazard 13
@settings(max_examples=8)
@given(st.floats(0.1, 10.0), st.integers(1, 500), st.sampled_from([1.0, 0.3, 0.02]), deltas)
def test_calibration_never_returns_too_little_noise(
    target: float, steps: int, rate: float, delta: float
) -> None:
    common: dict[str, Any] = {"steps": steps, "sampling_probability": rate, "delta": delta}
    found = calibrate(epsilon=target, **common)
    assert epsilon_of(noise_multiplier=found.noise_multiplier, **common) == found.epsilon
    # Where delta nearly covers being sampled at all, epsilon jumps to 0.
    assert found.epsilon <= target
    assert target * 0.99 <= found.epsilon or steps * rate <= 4 * delta


def test_targets_that_no_noise_reaches_or_that_need_none_and_a_jump_of_epsilon() -> None:
    # Distributions end at a loss of 600; the bound that follows is coarser.
    for target in (450.0, 700.0):
        found = calibrate(epsilon=target, steps=100, sampling_probability=0.1)
        assert found.epsilon <= target
    with pytest.raises(NotCalibratedError, match="larger epsilon or delta"):
        calibrate(epsilon=0.35, steps=100, accountant="moments")
    assert calibrate(epsilon=1e6, steps=1).noise_multiplier == pytest.approx(0.01)


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
        mu, detected = strength_of(GaussianEvent(noise, count, 1.0, sensitivity), 1e-5)
        assert mu == pytest.approx(sensitivity * math.sqrt(count) / noise, rel=1e-8, abs=2e-12)
        assert detected == pytest.approx(norm.sf(norm.isf(0.01) - mu), rel=1e-8)
    # At a rate of almost 1, deltas at a few epsilons must nearly give the same.
    mu, detected = strength_of(GaussianEvent(20.0, 30, 1.0 - 1e-13), 1e-5)
    exact = strength_of(GaussianEvent(20.0, 30), 1e-5)
    assert exact.mu <= mu * (1 + 1e-9) <= 1.01 * exact.mu
    assert exact.detections <= detected <= 1.01 * exact.detections


@pytest.mark.parametrize("sensitivity", [1, 2])
@pytest.mark.parametrize(("noise", "rate"), [(1.0, 0.1), (0.6, 0.5), (3.0, 0.3)])
def test_no_test_of_one_sampled_sum_beats_the_bound(
    noise: float, rate: float, sensitivity: int
) -> None:
    bound = strength_of(GaussianEvent(noise, 1, rate, sensitivity), 1e-5).detections
    assert best_attack(noise, rate, sensitivity) <= bound * (1 + 1e-6)
    assert bound <= best_attack(noise, rate, sensitivity) * 1.02


SEARCH = Selection(
    expected_runs=5.0,
    candidates=(GaussianEvent(20.0, 10), GaussianEvent(40.0, 40)),
    score=GaussianEvent(8.0),
    validation_units=30,
)


@pytest.mark.parametrize(
    "event",
    [
        GaussianEvent(4.0, 1000, 0.1),
        GaussianEvent(2.0, 50, 0.3, 2),
        GaussianEvent(1.0, 300, 0.01),
        SEARCH,
    ],
    ids=["sampled", "replaced", "rare", "search"],
)
def test_the_gaussian_of_mu_has_no_smaller_delta_anywhere(event: Any) -> None:
    gaussian = isinstance(event, GaussianEvent)
    epsilon = epsilon_of_events([event], delta=1e-5, accountant="pld" if gaussian else "rdp")
    mu, detected = strength_of(event, 1e-5)
    assert mu is not None
    epsilons = np.linspace(0.0, epsilon, 31)
    # And nearly all of mu is needed: it is no looser than one that the claim itself needs.
    theirs, fewer = (
        norm.cdf(m / 2 - epsilons / m) - np.exp(epsilons) * norm.cdf(-m / 2 - epsilons / m)
        for m in (mu, 0.9 * mu)
    )
    deltas = deltas_of(event, epsilons, 1e-5)
    assert (deltas <= theirs * (1 + 1e-6)).all()
    assert deltas[-1] == pytest.approx(1e-5, rel=0.1)
    assert (deltas > fewer).any()
    # Whoever has epsilon alone can say no more than this.
    assert 0.01 < detected <= min(1.0, 0.01 * math.exp(epsilon) + 1e-5) * (1 + 1e-6)
