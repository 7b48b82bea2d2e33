"""The least noise for a target, and never less."""

import pytest

from privgcn.errors import ConfigError, NotCalibratedError, PrivacyContractError
from privgcn.privacy.accounting.calibration import calibrate
from privgcn.privacy.accounting.epsilon import ACCOUNTANTS, epsilon_of


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize("target", [0.5, 1.0, 8.0])
@pytest.mark.parametrize("rate", [1.0, 0.05])
def test_the_target_is_met_and_nearly_used_up(
    target: float, accountant: str, rate: float
) -> None:
    found = calibrate(
        epsilon=target, steps=200, sampling_probability=rate, accountant=accountant
    )
    again = epsilon_of(
        noise_multiplier=found.noise_multiplier,
        steps=200,
        sampling_probability=rate,
        accountant=accountant,
    )
    assert again == found.epsilon
    assert target * 0.9999 < found.epsilon <= target


@pytest.mark.parametrize("rate", [1.0, 0.1])
def test_two_clip_norms_take_more_noise(rate: float) -> None:
    once = calibrate(epsilon=1.0, steps=100, sampling_probability=rate)
    twice = calibrate(epsilon=1.0, steps=100, sampling_probability=rate, sensitivity=2)
    assert twice.epsilon <= 1.0
    assert twice.noise_multiplier > 1.5 * once.noise_multiplier


@pytest.mark.parametrize("target", [1e-4, 0.01, 50.0, 400.0])
def test_targets_far_from_usual(target: float) -> None:
    found = calibrate(epsilon=target, steps=100)
    assert target * 0.9999 < found.epsilon <= target


def test_a_jump_of_epsilon_still_gives_enough_noise() -> None:
    # Distributions end at a loss of 600; the bound that follows is coarser.
    for target in (300.0, 700.0, 1000.0):
        found = calibrate(epsilon=target, steps=1000, sampling_probability=0.1)
        assert found.epsilon <= target


def test_what_no_noise_can_reach() -> None:
    with pytest.raises(NotCalibratedError, match="larger epsilon or delta"):
        calibrate(epsilon=0.1, steps=100, accountant="moments")


def test_a_target_that_needs_no_noise() -> None:
    with pytest.raises(NotCalibratedError, match="protects nobody"):
        calibrate(epsilon=1.0, steps=1, sampling_probability=1e-6)
    with pytest.raises(NotCalibratedError):
        calibrate(epsilon=1e6, steps=1)


@pytest.mark.parametrize("target", [0.0, -1.0, float("nan"), float("inf"), "1"])
def test_bad_targets(target: float) -> None:
    with pytest.raises(ConfigError, match="epsilon"):
        calibrate(epsilon=target, steps=10)


@pytest.mark.parametrize(
    "change", [{"steps": 0}, {"delta": 0.0}, {"sampling_probability": 2.0}, {"sensitivity": 3}]
)
def test_bad_settings_are_named_and_not_searched(change: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(change))):
        calibrate(**{"epsilon": 1.0, "steps": 10, **change})  # type: ignore[arg-type]


def test_moments_refuses_two_clip_norms_under_sampling() -> None:
    with pytest.raises(PrivacyContractError):
        calibrate(
            epsilon=1.0, steps=9, sampling_probability=0.5, sensitivity=2, accountant="moments"
        )
