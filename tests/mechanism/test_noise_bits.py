"""The attack on noisy sums: it decides where noise is a float, and never on one grid."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from noise_bits import decide, spacing_of

pytestmark = pytest.mark.quick

TRIALS = 20
H = 2.0**-38
RANDOM = np.random.default_rng(7)


def sums(trial: int, spacing: float = H) -> tuple[np.ndarray, np.ndarray]:
    """Sums of 3000 coordinates on a grid; one document touches a hundred of them."""
    random = np.random.default_rng(trial)
    absent, own = 3 * random.normal(size=3000), random.normal(size=100)
    present = absent.copy()
    present[:100] += own / np.linalg.norm(own)
    return np.trunc(present / spacing) * spacing, np.trunc(absent / spacing) * spacing


def gaussian(scale: float, size: int) -> np.ndarray:
    return scale * RANDOM.normal(size=size)


def rounded_half_up(values: np.ndarray, spacing: float) -> np.ndarray:
    return np.floor(values / spacing + 0.5) * spacing


def as_float32_noise(total: np.ndarray, scale: float) -> np.ndarray:
    return gaussian(scale, len(total)).astype(np.float32).astype(np.float64) + total


def as_float32_result(total: np.ndarray, scale: float) -> np.ndarray:
    return as_float32_noise(total, scale).astype(np.float32)


def as_float32_noise_on_the_grid(total: np.ndarray, scale: float) -> np.ndarray:
    noise = gaussian(scale, len(total)).astype(np.float32).astype(np.float64)
    return rounded_half_up(noise, H) + total


def as_float64_off_the_grid(total: np.ndarray, scale: float) -> np.ndarray:
    return gaussian(scale, len(total)) + total


@pytest.mark.parametrize(
    "noisy",
    [
        as_float32_result,
        as_float32_noise,
        as_float32_noise_on_the_grid,
        as_float64_off_the_grid,
        lambda total, scale: as_float32_result(total, scale).astype(np.float64),
        lambda total, scale: as_float32_noise_on_the_grid(total, scale).astype(np.float32),
    ],
)
def test_noise_that_is_no_finer_than_a_float_decides_and_is_never_wrong(
    noisy: Callable[[np.ndarray, float], np.ndarray],
) -> None:
    # A sum on a coarse grid hides in float64 noise; a sum as float64 makes it does not.
    spacing = 2.0**-60 if noisy is as_float64_off_the_grid else H
    verdicts = []
    for trial in range(TRIALS):
        pair = sums(trial, spacing)
        there = trial % 2 == 0
        verdicts.append((decide(noisy(pair[0 if there else 1], 4.0), *pair), there))
    assert all(verdict in (None, there) for verdict, there in verdicts)
    assert sum(verdict is not None for verdict, _ in verdicts) >= 0.9 * TRIALS


# hazard 6
@pytest.mark.parametrize("scale", [0.01, 4.0, 200.0, 1e9])
@pytest.mark.parametrize("rounded", [False, True])
def test_noise_on_the_grid_of_the_sums_decides_nothing(scale: float, rounded: bool) -> None:
    spacing = max(H, 2.0 ** (math.ceil(math.log2(scale)) - 45))
    for trial in range(TRIALS):
        pair = sums(trial, spacing)
        total = pair[trial % 2]
        released = total + rounded_half_up(gaussian(scale, len(total)), spacing)
        released = released.astype(np.float32) if rounded else released
        assert decide(released, *pair) is None
        assert decide(released, *pair, spacing=spacing) is None


def test_a_sum_between_two_grid_values_is_told() -> None:
    present, absent = sums(0)
    released = present + rounded_half_up(gaussian(4.0, len(present)), H)
    off = absent.copy()
    off[0] += H / 2
    assert decide(released, present, off, spacing=H) is True
    assert decide(released, off, present, spacing=H) is False


def test_noise_beyond_its_largest_rules_a_sum_out() -> None:
    present, absent = sums(0)
    released = absent + rounded_half_up(gaussian(0.01, len(absent)), H)
    assert decide(released, present, absent) is None
    assert decide(released, present, absent, farthest=0.0866) is False


def test_the_spacing_is_the_largest_power_of_two_that_fits_up_to_one() -> None:
    assert spacing_of([np.array([0.0, -3 * 2.0**-20, 5 * 2.0**-18]), np.ones(2)]) == 2.0**-20
    assert spacing_of([np.full(2, 6.0)]) == 1.0
    assert spacing_of([np.array([-0.1])]) == 2.0**-55
