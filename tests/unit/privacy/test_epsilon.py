"""Epsilon: exact cases, the grid, extremes, and what is refused."""

import math

import pytest

from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.privacy.accounting.distribution import distribution_epsilon
from privgcn.privacy.accounting.epsilon import (
    ACCOUNTANTS,
    epsilon_of,
    epsilon_of_releases,
    gaussian_epsilon,
)
from privgcn.privacy.accounting.events import GaussianRelease
from privgcn.privacy.accounting.renyi import renyi_epsilon


def gaussian_delta(epsilon: float, ratio: float) -> float:
    """Balle and Wang (2018), equation 6, written independently of the library."""

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


@pytest.mark.parametrize(
    ("noise", "steps", "rate", "sensitivity"),
    [
        (4.0, 1000, 0.1, 1),
        (4.0, 1000, 0.1, 2),
        (1.0, 200_000, 0.001, 1),
        (1.0, 200_000, 0.001, 2),
        (5.0, 6040, 1 / 1208, 1),
        (1.0, 1000, 1e-6, 2),
        (1000.0, 1_000_000, 0.5, 1),
    ],
)
def test_halving_the_grid_moves_epsilon_by_less_than_a_thousandth(
    noise: float, steps: int, rate: float, sensitivity: int
) -> None:
    releases = (GaussianRelease(noise, steps, rate, sensitivity),)
    rough = renyi_epsilon(releases, 1e-5)
    coarse = distribution_epsilon(releases, 1e-5, rough=rough)
    fine = distribution_epsilon(releases, 1e-5, rough=rough, refine=2)
    assert abs(coarse - fine) < 1e-3


@pytest.mark.parametrize("delta", [1e-5, 1e-8])
@pytest.mark.parametrize(
    ("noise", "steps"), [(10.0, 100), (300.0, 100_000), (3000.0, 10_000_000)]
)
def test_rounding_never_takes_the_distribution_below_the_truth(
    noise: float, steps: int, delta: float
) -> None:
    # At a rate of almost 1 the exact Gaussian is the truth, to ten digits.
    rate = 1.0 - 1e-13
    for sensitivity in (1, 2):
        releases = (GaussianRelease(noise, steps, rate, sensitivity),)
        truth = gaussian_epsilon(sensitivity * math.sqrt(steps) / noise, delta)
        found = distribution_epsilon(releases, delta, rough=renyi_epsilon(releases, delta))
        assert truth - 1e-9 <= found
        assert found <= truth * 1.002 or delta < 1e-6


def test_one_sampled_step_is_exact() -> None:
    # For one step, delta(epsilon) has a closed form: amplification by Poisson sampling.
    noise, rate = 1.0, 0.01
    epsilon = epsilon_of(noise_multiplier=noise, steps=1, sampling_probability=rate, delta=1e-4)
    unsampled = math.log1p(math.expm1(epsilon) / rate)
    assert rate * gaussian_delta(unsampled, 1 / noise) == pytest.approx(1e-4, rel=1e-3)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_two_clip_norms_unsampled_are_half_the_noise(accountant: str) -> None:
    twice = epsilon_of(noise_multiplier=8.0, steps=10, sensitivity=2, accountant=accountant)
    half = epsilon_of(noise_multiplier=4.0, steps=10, accountant=accountant)
    assert twice == pytest.approx(half)


def test_two_clip_norms_sampled_cost_more_than_one_and_less_than_a_group_of_two() -> None:
    common = {"steps": 1000, "sampling_probability": 0.1}
    once = epsilon_of(noise_multiplier=4.0, **common)
    twice = epsilon_of(noise_multiplier=4.0, sensitivity=2, **common)
    # Adding one of norm 2C, at half the noise, is another mechanism; replacing is between.
    assert 2 * once < twice < epsilon_of(noise_multiplier=2.0, **common) * 1.2


def test_mixed_releases_compose_like_their_sum_where_the_sum_is_known() -> None:
    apart = [
        GaussianRelease(10.0, 3),
        GaussianRelease(20.0, 8),
        GaussianRelease(40.0, 2, 1.0, 2),
    ]
    ratio = math.sqrt(3 / 100 + 8 / 400 + 2 * 4 / 1600)
    assert epsilon_of_releases(apart, delta=1e-5) == pytest.approx(
        gaussian_epsilon(ratio, 1e-5)
    )


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_a_side_query_costs_and_the_order_does_not_matter(accountant: str) -> None:
    training = GaussianRelease(4.0, 100, 0.1, 2)
    query = GaussianRelease(10.0)
    alone = epsilon_of_releases([training], delta=1e-5, accountant=accountant)
    both = epsilon_of_releases([training, query], delta=1e-5, accountant=accountant)
    turned = epsilon_of_releases([query, training], delta=1e-5, accountant=accountant)
    assert alone < both < alone + 2 * gaussian_epsilon(0.1, 1e-6)
    assert both == pytest.approx(turned, rel=1e-6)


def test_splitting_a_run_in_two_costs_the_same() -> None:
    whole = epsilon_of(noise_multiplier=4.0, steps=1000, sampling_probability=0.1)
    halves = [GaussianRelease(4.0, 400, 0.1), GaussianRelease(4.0, 600, 0.1)]
    assert epsilon_of_releases(halves, delta=1e-5) == whole
    nearly = [GaussianRelease(4.0, 400, 0.1), GaussianRelease(4.0 + 1e-9, 600, 0.1)]
    assert epsilon_of_releases(nearly, delta=1e-5) == pytest.approx(whole, rel=1e-3)


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
        (1.0, 1_000_000, 1e-9, 1e-10),
        (1.0, 10_000_000, 1e-300, 1e-12),
        (3.0, 1_000_000_000, 1.0 - 1e-16, 0.5),
        (0.05, 100, 1e-6, 1e-5),
    ],
)
@pytest.mark.parametrize("sensitivity", [1, 2])
def test_extremes_give_a_finite_bound(
    noise: float, steps: int, rate: float, delta: float, sensitivity: int
) -> None:
    found = {}
    for accountant in ("pld", "rdp"):
        found[accountant] = epsilon_of(
            noise_multiplier=noise,
            steps=steps,
            sampling_probability=rate,
            sensitivity=sensitivity,
            delta=delta,
            accountant=accountant,
        )
        assert math.isfinite(found[accountant])
        assert found[accountant] >= 0.0
    assert found["pld"] <= found["rdp"] * (1 + 1e-9)


@pytest.mark.parametrize(
    "change",
    [
        {"noise_multiplier": 0.0},
        {"noise_multiplier": -1.0},
        {"noise_multiplier": math.nan},
        {"noise_multiplier": math.inf},
        {"noise_multiplier": 0.001},
        {"noise_multiplier": "4"},
        {"steps": 0},
        {"steps": -1},
        {"steps": 1.5},
        {"steps": True},
        {"steps": 10**10},
        {"sampling_probability": 0.0},
        {"sampling_probability": 1.5},
        {"sampling_probability": math.nan},
        {"sensitivity": 0},
        {"sensitivity": 3},
        {"sensitivity": 1.0},
        {"delta": 0.0},
        {"delta": 1.0},
        {"delta": -1e-5},
        {"delta": math.nan},
        {"accountant": "gdp"},
        {"accountant": None},
    ],
    ids=str,
)
def test_bad_values_are_refused(change: dict[str, object]) -> None:
    values: dict[str, object] = {"noise_multiplier": 4.0, "steps": 10}
    with pytest.raises(ConfigError, match=next(iter(change))):
        epsilon_of(**{**values, **change})  # type: ignore[arg-type]


def test_a_release_that_pretends_to_be_another_is_refused() -> None:
    class Cheap(GaussianRelease):
        def __hash__(self) -> int:
            return hash(GaussianRelease(1e9))

        def __eq__(self, other: object) -> bool:
            return True

    with pytest.raises(ConfigError, match="GaussianRelease"):
        epsilon_of_releases([Cheap(1.0)], delta=1e-5)


def test_moments_refuses_what_it_cannot_bound() -> None:
    with pytest.raises(PrivacyContractError):
        epsilon_of(
            noise_multiplier=4.0,
            steps=10,
            sampling_probability=0.1,
            sensitivity=2,
            accountant="moments",
        )


@pytest.mark.parametrize("sensitivity", [1, 2])
def test_two_hundred_thousand_steps_can_be_accounted_for(sensitivity: int) -> None:
    half, whole = (
        epsilon_of(
            noise_multiplier=1.0 + 1e-9,
            steps=steps,
            sampling_probability=0.001,
            sensitivity=sensitivity,
        )
        for steps in (100_000, 200_000)
    )
    # More than half as many steps cost, less than twice that.
    assert half < whole < 2 * half


@pytest.mark.parametrize("accountant", ["pld", "rdp", "moments"])
def test_a_release_that_is_hardly_ever_made_hides_no_other(accountant: str) -> None:
    certain, rare = GaussianRelease(5.0), GaussianRelease(5.0, 1, 1e-7)
    alone = epsilon_of_releases([certain], delta=1e-5, accountant=accountant)
    both = epsilon_of_releases([certain, rare], delta=1e-5, accountant=accountant)
    assert both >= alone > 0.1
