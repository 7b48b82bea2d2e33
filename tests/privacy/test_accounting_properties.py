"""Epsilon rises with steps, rate and sensitivity, falls with noise, and is never too small."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from privgcn.errors import NotCalibratedError
from privgcn.privacy.accounting import calibrate, epsilon_of

quick = settings(max_examples=25)
noises = st.floats(0.3, 2000.0)
rates = st.one_of(st.just(1.0), st.floats(1e-6, 0.999))
counts = st.integers(1, 10_000)
deltas = st.sampled_from([1e-9, 1e-6, 1e-5, 1e-2])
accountants = st.sampled_from(["pld", "rdp"])
growth = st.floats(1.0, 3.0)

# A grid rounds up by a little more here than there.
SLACK = 1.002
TINY = 1e-4


@quick
@given(noises, counts, rates, st.sampled_from([1, 2]), deltas, accountants, growth)
def test_epsilon_is_monotone(
    noise: float,
    steps: int,
    rate: float,
    sensitivity: int,
    delta: float,
    accountant: str,
    factor: float,
) -> None:
    base = {
        "noise_multiplier": noise,
        "steps": steps,
        "sampling_probability": rate,
        "sensitivity": sensitivity,
        "delta": delta,
        "accountant": accountant,
    }
    epsilon = epsilon_of(**base)
    assert math.isfinite(epsilon)
    assert epsilon >= 0.0
    for change in (
        {"noise_multiplier": noise / factor},
        {"steps": math.ceil(steps * factor)},
        {"sampling_probability": min(1.0, rate * factor)},
        {"sensitivity": 2},
        {"delta": delta / factor},
    ):
        assert epsilon <= epsilon_of(**{**base, **change}) * SLACK + TINY


@quick
@given(noises, counts, rates, st.sampled_from([1, 2]), deltas)
def test_sampling_never_costs_and_tighter_is_never_looser(
    noise: float, steps: int, rate: float, sensitivity: int, delta: float
) -> None:
    common = {
        "noise_multiplier": noise,
        "steps": steps,
        "sensitivity": sensitivity,
        "delta": delta,
    }
    sampled = epsilon_of(**common, sampling_probability=rate)
    assert sampled <= epsilon_of(**common) * (1 + 1e-8) + 1e-11
    assert sampled <= epsilon_of(**common, sampling_probability=rate, accountant="rdp") * (
        1 + 1e-8
    )


@quick
@given(noises, counts, st.floats(1e-6, 0.999), deltas)
def test_epsilon_is_at_least_that_of_a_single_step(
    noise: float, steps: int, rate: float, delta: float
) -> None:
    epsilon = epsilon_of(
        noise_multiplier=noise, steps=steps, sampling_probability=rate, delta=delta
    )
    # One step reveals at least what its closed form says (Poisson amplification is exact).

    def cdf(x: float) -> float:
        return 0.5 * math.erfc(-x / math.sqrt(2.0))

    inner = math.log1p(math.expm1(min(epsilon, 700.0)) / rate)
    ratio = 1.0 / noise
    below = cdf(-ratio / 2 - inner / ratio)
    one_step = cdf(ratio / 2 - inner / ratio) - (
        math.exp(inner) * below if below > 0.0 else 0.0
    )
    assert rate * one_step <= delta * (1 + 1e-6) + 1e-15


@settings(max_examples=8)
@given(st.floats(0.1, 10.0), st.integers(1, 500), st.sampled_from([1.0, 0.3, 0.02]), deltas)
def test_calibration_never_returns_too_little_noise(
    target: float, steps: int, rate: float, delta: float
) -> None:
    try:
        found = calibrate(epsilon=target, steps=steps, sampling_probability=rate, delta=delta)
    except NotCalibratedError:
        # Only where even almost no noise would do: delta covers being sampled at all.
        assert steps * rate <= 4 * delta
        return
    again = epsilon_of(
        noise_multiplier=found.noise_multiplier,
        steps=steps,
        sampling_probability=rate,
        delta=delta,
    )
    assert again == found.epsilon
    assert target * 0.99 <= again <= target
