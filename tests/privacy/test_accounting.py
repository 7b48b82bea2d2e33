"""Epsilon: exact cases, grid, extremes, what is refused; the least noise for a target."""

import math
from typing import Any

import numpy as np
import pytest

from privgcn.errors import ConfigError, NotCalibratedError, PrivacyContractError
from privgcn.privacy import accounting
from privgcn.privacy.accounting import (
    ACCOUNTANTS,
    ORDERS,
    GaussianEvent,
    calibrate,
    epsilon_of,
    epsilon_of_events,
    gaussian_epsilon,
    log_moments,
    renyi_curve,
)


def gaussian_delta(epsilon: float, ratio: float) -> float:
    """Balle and Wang (2018), equation 6, written independently."""

    def cdf(x: float) -> float:
        return 0.5 * math.erfc(-x / math.sqrt(2.0))

    return cdf(ratio / 2 - epsilon / ratio) - math.exp(epsilon) * cdf(
        -ratio / 2 - epsilon / ratio
    )


@pytest.mark.parametrize("sensitivity", [1, 2])
def test_unsampled_epsilon_is_exact_and_never_below(sensitivity: int) -> None:
    for noise, steps in ((1.0, 1), (112.0, 2000), (5.0, 30)):
        epsilon = epsilon_of(noise_multiplier=noise, steps=steps, sensitivity=sensitivity)
        delta = gaussian_delta(epsilon, sensitivity * math.sqrt(steps) / noise)
        assert 0.9999e-5 < delta <= 1e-5


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
def test_the_closed_form_is_the_librarys(delta: float) -> None:
    from dp_accounting.gaussian_mechanism import get_epsilon_gaussian

    for ratio in (1e-4, 0.2, 1.0, 5.0, 27.0, 300.0):
        theirs = get_epsilon_gaussian(1.0 / ratio, delta)
        assert gaussian_epsilon(ratio, delta) == pytest.approx(theirs, rel=1e-9, abs=1e-11)


def distribution(event: GaussianEvent, delta: float = 1e-5, refine: int = 1) -> float:
    rough = accounting._rdp((event,), delta)
    composed, reserve = accounting._composed(0.0, (event,), delta, rough, refine)
    return float(composed.get_epsilon_for_delta(delta - reserve))


@pytest.mark.parametrize(
    ("noise", "steps", "rate", "sensitivity"),
    [
        (4.0, 1000, 0.1, 1),
        (4.0, 1000, 0.1, 2),
        (1.0, 20_000, 0.001, 2),
        (5.0, 6040, 1 / 1208, 1),
        (1.0, 1000, 1e-6, 2),
        (500.0, 250_000, 0.5, 1),
    ],
)
def test_halving_the_grid_moves_epsilon_by_less_than_a_thousandth(
    noise: float, steps: int, rate: float, sensitivity: int
) -> None:
    event = GaussianEvent(noise, steps, rate, sensitivity)
    assert abs(distribution(event) - distribution(event, refine=2)) < 1e-3


@pytest.mark.parametrize("delta", [1e-5, 1e-8])
@pytest.mark.parametrize(("noise", "steps"), [(10.0, 100), (300.0, 100_000)])
def test_rounding_never_takes_the_distribution_below_the_truth(
    noise: float, steps: int, delta: float
) -> None:
    # At a rate of almost 1 the exact Gaussian is the truth, to ten digits.
    for sensitivity in (1, 2):
        event = GaussianEvent(noise, steps, 1.0 - 1e-13, sensitivity)
        truth = gaussian_epsilon(sensitivity * math.sqrt(steps) / noise, delta)
        epsilon = distribution(event, delta)
        assert truth - 1e-9 <= epsilon
        assert epsilon <= truth * 1.002 or delta < 1e-6


def test_one_sampled_step_is_exact() -> None:
    # For one step, delta(epsilon) has a closed form: amplification by Poisson sampling.
    noise, rate = 1.0, 0.01
    epsilon = epsilon_of(noise_multiplier=noise, steps=1, sampling_probability=rate, delta=1e-4)
    unsampled = math.log1p(math.expm1(epsilon) / rate)
    assert rate * gaussian_delta(unsampled, 1 / noise) == pytest.approx(1e-4, rel=1e-3)


# hazard 12
@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_two_clip_norms_unsampled_are_half_the_noise(accountant: str) -> None:
    twice = epsilon_of(noise_multiplier=8.0, steps=10, sensitivity=2, accountant=accountant)
    half = epsilon_of(noise_multiplier=4.0, steps=10, accountant=accountant)
    assert twice == pytest.approx(half)


def test_two_clip_norms_sampled_cost_more_than_one_and_less_than_a_group_of_two() -> None:
    common: dict[str, Any] = {"steps": 1000, "sampling_probability": 0.1}
    once = epsilon_of(noise_multiplier=4.0, **common)
    twice = epsilon_of(noise_multiplier=4.0, sensitivity=2, **common)
    # Adding one of norm 2C, at half the noise, is another mechanism; replacing is between.
    assert 2 * once < twice < epsilon_of(noise_multiplier=2.0, **common) * 1.2


def test_events_compose_like_their_sum_where_the_sum_is_known() -> None:
    apart = [GaussianEvent(10.0, 3), GaussianEvent(20.0, 8), GaussianEvent(40.0, 2, 1.0, 2)]
    ratio = math.sqrt(3 / 100 + 8 / 400 + 2 * 4 / 1600)
    assert epsilon_of_events(apart, delta=1e-5) == pytest.approx(gaussian_epsilon(ratio, 1e-5))
    whole = epsilon_of(noise_multiplier=4.0, steps=1000, sampling_probability=0.1)
    halves = [GaussianEvent(4.0, 400, 0.1), GaussianEvent(4.0, 600, 0.1)]
    assert epsilon_of_events(halves, delta=1e-5) == whole
    nearly = [GaussianEvent(4.0, 400, 0.1), GaussianEvent(4.0 + 1e-9, 600, 0.1)]
    assert epsilon_of_events(nearly, delta=1e-5) == pytest.approx(whole, rel=1e-3)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_an_event_that_hardly_ever_happens_hides_no_other(accountant: str) -> None:
    certain, rare = GaussianEvent(5.0), GaussianEvent(5.0, 1, 1e-7)
    alone = epsilon_of_events([certain], delta=1e-5, accountant=accountant)
    both = epsilon_of_events([certain, rare], delta=1e-5, accountant=accountant)
    assert both >= alone > 0.1


def test_never_sampled_but_with_probability_delta_is_epsilon_zero() -> None:
    assert epsilon_of(noise_multiplier=0.01, steps=10, sampling_probability=1e-6) == 0.0
    assert epsilon_of(noise_multiplier=0.01, steps=11, sampling_probability=1e-6) > 0.0


@pytest.mark.parametrize(
    ("noise", "steps", "rate", "delta"),
    [
        (0.01, 1, 1.0, 1e-5),
        (0.01, 10_000_000, 1.0, 1e-5),
        (0.01, 1000, 0.5, 1e-5),
        (1e9, 1, 1.0, 1e-5),
        (1e9, 10_000_000, 0.3, 1e-5),
        (1.0, 1, 1e-12, 1e-300),
        (1.0, 10_000_000, 1e-300, 1e-12),
        (3.0, 1_000_000_000, 1.0 - 1e-16, 0.5),
        (0.05, 100, 1e-6, 1e-5),
    ],
)
@pytest.mark.parametrize("sensitivity", [1, 2])
def test_extremes_give_a_finite_bound(
    noise: float, steps: int, rate: float, delta: float, sensitivity: int
) -> None:
    pld, rdp = (
        epsilon_of(
            noise_multiplier=noise,
            steps=steps,
            sampling_probability=rate,
            sensitivity=sensitivity,
            delta=delta,
            accountant=accountant,
        )
        for accountant in ("pld", "rdp")
    )
    assert 0.0 <= pld <= rdp * (1 + 1e-9)
    assert math.isfinite(rdp)


@pytest.mark.parametrize(
    "change",
    [
        {"noise_multiplier": -1.0},
        {"noise_multiplier": math.nan},
        {"noise_multiplier": 0.001},
        {"steps": 0},
        {"steps": 1.5},
        {"steps": 10**10},
        {"sampling_probability": 0.0},
        {"sampling_probability": 1.5},
        {"sensitivity": 0},
        {"sensitivity": 3},
        {"delta": 0.0},
        {"delta": 1.0},
        {"accountant": "gdp"},
    ],
    ids=str,
)
def test_bad_values_are_refused(change: dict[str, object]) -> None:
    values: dict[str, Any] = {"noise_multiplier": 4.0, "steps": 10}
    with pytest.raises(ConfigError, match=next(iter(change))):
        epsilon_of(**{**values, **change})


# --- Renyi divergences ----------------------------------------------------------------------


def test_tiny_rates_do_not_round_to_nothing() -> None:
    # The leading term: q^2 a (a-1) / 2 (exp(1/s^2) - 1).
    (moment,) = log_moments(1.0, 1e-12, np.array([4]))
    assert moment == pytest.approx(1e-24 * 6 * math.expm1(1.0), rel=1e-6)


def test_divergences_agree_with_the_librarys() -> None:
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant

    whole = (ORDERS >= 2) & (ORDERS <= 64) & (ORDERS % 1 == 0)
    for noise, rate in ((4.0, 0.1), (1.0, 0.01), (30.0, 0.3), (8.0, 1.0)):
        library = RdpAccountant(orders=ORDERS[whole])
        library.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), 100)
        ours = renyi_curve((GaussianEvent(noise, 100, rate),))[whole]
        assert ours == pytest.approx(library.rdp, rel=1e-6)


def test_a_curve_becomes_the_librarys_epsilon() -> None:
    from dp_accounting.rdp import compute_epsilon

    event = GaussianEvent(4.0, 1000, 0.1)
    curve = renyi_curve((event,))
    for delta in (1e-9, 1e-5, 1e-2):
        theirs, _ = compute_epsilon(list(ORDERS), list(curve), delta)
        ours = epsilon_of_events([event], delta=delta, accountant="rdp")
        assert ours == pytest.approx(theirs)


# hazard 12
def test_group_bound_at_full_rate_is_capped_by_the_exact_divergence() -> None:
    """The library's accountant would read a plain Gaussian of 2C as one of C."""
    for rate in (1.0 - 1e-12, 1.0):
        curve = renyi_curve((GaussianEvent(3.0, 1, rate, 2),))
        assert curve == pytest.approx(ORDERS * 2.0 / 9.0, rel=1e-6)


def test_group_bound_dominates_the_replacement_divergence() -> None:
    noise, rate = 1.0, 0.2
    points = np.linspace(-60, 60, 600_001)

    def mixture(mean: float) -> Any:
        parts = [np.exp(-0.5 * ((points - at) / noise) ** 2) for at in (0.0, mean)]
        return ((1 - rate) * parts[0] + rate * parts[1]) / (noise * math.sqrt(2 * math.pi))

    upper, lower = mixture(1.0), mixture(-1.0)
    inside = (upper > 1e-300) & (lower > 1e-300)
    log_ratio = np.log(upper[inside]) - np.log(lower[inside])
    curve = renyi_curve((GaussianEvent(noise, 1, rate, 2),))
    for order in (1.5, 2.0, 3.0, 5.5):
        moment = np.sum(np.exp(order * log_ratio) * lower[inside]) * (points[1] - points[0])
        assert math.log(moment) / (order - 1) <= curve[order == ORDERS][0]


def test_moments_refuses_two_clip_norms_under_sampling_only() -> None:
    twice = epsilon_of(noise_multiplier=10.0, steps=5, sensitivity=2, accountant="moments")
    assert twice == epsilon_of(noise_multiplier=5.0, steps=5, accountant="moments")
    for use in (epsilon_of, lambda **fields: calibrate(epsilon=1.0, **fields)):
        fields: dict[str, Any] = {"steps": 5, "sampling_probability": 0.5, "sensitivity": 2}
        if use is epsilon_of:
            fields["noise_multiplier"] = 10.0
        with pytest.raises(PrivacyContractError, match="pld or rdp"):
            use(**fields, accountant="moments")


# --- calibration ----------------------------------------------------------------------------


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
    common: dict[str, Any] = {
        "steps": 200,
        "sampling_probability": rate,
        "accountant": accountant,
    }
    made = calibrate(epsilon=target, **common)
    assert epsilon_of(noise_multiplier=made.noise_multiplier, **common) == made.epsilon
    assert target * 0.9999 < made.epsilon <= target


# hazard 13
@pytest.mark.parametrize("target", [450.0, 700.0])
def test_a_jump_of_epsilon_still_gives_enough_noise(target: float) -> None:
    # Distributions end at a loss of 600; the bound that follows is coarser.
    found = calibrate(epsilon=target, steps=100, sampling_probability=0.1)
    assert found.epsilon <= target


def test_what_no_noise_can_reach() -> None:
    with pytest.raises(NotCalibratedError, match="larger epsilon or delta"):
        calibrate(epsilon=0.1, steps=100, accountant="moments")


def test_a_target_that_needs_no_noise() -> None:
    with pytest.raises(NotCalibratedError, match="protects nobody"):
        calibrate(epsilon=1.0, steps=1, sampling_probability=1e-6)
    with pytest.raises(NotCalibratedError):
        calibrate(epsilon=1e6, steps=1)


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.0},
        {"epsilon": float("nan")},
        {"epsilon": "1"},
        {"steps": 0},
        {"delta": 0.0},
        {"sampling_probability": 2.0},
        {"sensitivity": 3},
    ],
)
def test_bad_settings_are_named_and_not_searched(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(change))):
        calibrate(**{"epsilon": 1.0, "steps": 10, **change})
