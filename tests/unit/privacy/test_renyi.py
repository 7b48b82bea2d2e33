"""The Renyi curve and its group bound."""

import math

import numpy as np
import pytest

from privgcn.errors import PrivacyContractError
from privgcn.privacy.accounting.events import GaussianRelease
from privgcn.privacy.accounting.renyi import (
    _HALF_ORDERS,
    ORDERS,
    _half_order_curve,
    _log_moments,
    _sampled_curve,
    moments_epsilon,
    renyi_epsilon,
)


def test_moments_match_a_numerical_integral() -> None:
    noise, rate = 1.3, 0.2
    points = np.linspace(-40, 60, 400_001)
    density = np.exp(-0.5 * (points / noise) ** 2) / (noise * math.sqrt(2 * math.pi))
    ratio = 1 - rate + rate * np.exp((2 * points - 1) / (2 * noise**2))
    for order, found in zip((2, 3, 7), _log_moments(noise, rate, (2, 3, 7)), strict=True):
        wanted = math.log(np.sum(density * ratio**order) * (points[1] - points[0]))
        assert found == pytest.approx(wanted, rel=1e-9)


def test_tiny_rates_do_not_round_to_nothing() -> None:
    # The leading term: q^2 a (a-1) / 2 (exp(1/s^2) - 1).
    (found,) = _log_moments(1.0, 1e-12, (4,))
    assert found == pytest.approx(1e-24 * 6 * math.expm1(1.0), rel=1e-6)


def test_epsilon_agrees_with_the_librarys_accountant() -> None:
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    for noise, steps, rate in ((4.0, 1000, 0.1), (1.0, 20_000, 0.001), (30.0, 500, 0.3)):
        accountant = RdpAccountant()
        step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
        accountant.compose(dp_accounting.SelfComposedDpEvent(step, steps))
        ours = renyi_epsilon((GaussianRelease(noise, steps, rate),), 1e-5)
        assert ours == pytest.approx(accountant.get_epsilon(1e-5), rel=0.01)


def test_group_bound_at_full_rate_is_the_exact_divergence_times_its_factor() -> None:
    release = GaussianRelease(3.0, 1, 1.0 - 1e-12, 2)
    exact = _HALF_ORDERS * 2.0 / 9.0
    factor = 1 + 1 / (4 * _HALF_ORDERS * (_HALF_ORDERS - 1))
    assert np.allclose(_half_order_curve(release), exact * factor, rtol=1e-6)
    # Sampling never costs: the exact divergence caps the bound.
    assert np.allclose(_sampled_curve(release), ORDERS * 2.0 / 9.0, rtol=1e-6)


def test_group_bound_dominates_the_replacement_divergence() -> None:
    noise, rate = 1.0, 0.2
    points = np.linspace(-60, 60, 600_001)
    width = points[1] - points[0]

    def mixture(mean: float) -> np.ndarray:
        def normal(at: float) -> np.ndarray:
            return np.exp(-0.5 * ((points - at) / noise) ** 2) / (
                noise * math.sqrt(2 * math.pi)
            )

        return (1 - rate) * normal(0.0) + rate * normal(mean)

    upper, lower = mixture(1.0), mixture(-1.0)
    curve = _half_order_curve(GaussianRelease(noise, 1, rate, 2))
    inside = (upper > 1e-300) & (lower > 1e-300)
    for place in (0, 1, 3, 8):
        order = _HALF_ORDERS[place]
        log_ratio = np.log(upper[inside]) - np.log(lower[inside])
        moment = np.sum(np.exp(order * log_ratio) * lower[inside]) * width
        assert math.log(moment) / (order - 1) <= curve[place]


def test_moments_refuses_two_clip_norms_under_sampling_only() -> None:
    assert moments_epsilon((GaussianRelease(10.0, 5, 1.0, 2),), 1e-5) == pytest.approx(
        moments_epsilon((GaussianRelease(5.0, 5, 1.0, 1),), 1e-5)
    )
    with pytest.raises(PrivacyContractError, match="pld or rdp"):
        moments_epsilon((GaussianRelease(10.0, 5, 0.5, 2),), 1e-5)
