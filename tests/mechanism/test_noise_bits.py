"""The attack on noisy sums: it decides where noise is a float, and never on one grid."""

import json
import math

import bit_attack
import numpy as np
import pytest
from noise_bits import decide

TRIALS = 20
H = 2.0**-38
RANDOM = np.random.default_rng(7)


def sums(trial, spacing=H):
    """Sums of 3000 coordinates on a grid; one document touches a hundred of them."""
    random = np.random.default_rng(trial)
    absent, own = 3 * random.normal(size=3000), random.normal(size=100)
    present = absent.copy()
    present[:100] += own / np.linalg.norm(own)
    return np.trunc(present / spacing) * spacing, np.trunc(absent / spacing) * spacing


def gaussian(scale, size):
    return scale * RANDOM.normal(size=size)


def rounded_half_up(values, spacing):
    return np.floor(values / spacing + 0.5) * spacing


def as_float32(noise):
    return noise.astype(np.float32).astype(np.float64)


# Of a sum and noise, and how fine the grid of sums is: a sum on a coarse one hides in float64
# noise, a sum as float64 makes it does not.
FLOATS = {
    "float32 noise": (lambda total, noise: as_float32(noise) + total, H),
    "float32 result": (lambda total, noise: as_float32(as_float32(noise) + total), H),
    "float32 noise on the grid": (
        lambda total, noise: rounded_half_up(as_float32(noise), H) + total,
        H,
    ),
    "float64 noise off the grid": (lambda total, noise: noise + total, 2.0**-60),
}


@pytest.mark.parametrize("name", FLOATS)
def test_noise_that_is_no_finer_than_a_float_decides_and_is_never_wrong(name):
    noisy, spacing = FLOATS[name]
    verdicts = []
    for trial in range(TRIALS):
        pair, there = sums(trial, spacing), trial % 2 == 0
        released = noisy(pair[0 if there else 1], gaussian(4.0, 3000))
        verdicts.append((decide(released, *pair), there))
    assert all(verdict in (None, there) for verdict, there in verdicts)
    assert sum(verdict is not None for verdict, _ in verdicts) >= 0.9 * TRIALS


# hazard 6
@pytest.mark.parametrize("scale", [0.01, 4.0, 200.0, 1e9])
@pytest.mark.parametrize("rounded", [False, True])
def test_noise_on_the_grid_of_the_sums_decides_nothing(scale, rounded):
    spacing = max(H, 2.0 ** (math.ceil(math.log2(scale)) - 45))
    for trial in range(TRIALS):
        pair = sums(trial, spacing)
        total = pair[trial % 2]
        released = total + rounded_half_up(gaussian(scale, len(total)), spacing)
        released = released.astype(np.float32) if rounded else released
        assert decide(released, *pair) is None
        assert decide(released, *pair, spacing=spacing) is None


def test_sums_off_the_grid_and_noise_beyond_its_largest_are_told():
    present, absent = sums(0)
    released = present + rounded_half_up(gaussian(0.01, len(present)), H)
    off = absent.copy()
    off[0] += H / 2
    assert decide(released, present, off, spacing=H) is True
    assert decide(released, off, present, spacing=H) is False
    assert decide(released, present, absent) is None
    assert decide(released, present, absent, farthest=0.0866) is True


@pytest.mark.parametrize("weak", [True, False])
def test_float32_noise_put_back_tells_the_document_and_ours_does_not(weak, capsys):
    options = ["--float32-noise"] if weak else []
    bit_attack.main(["toy", "--epsilon", "1", "--runs", "4", "--json", *options])
    counts = json.loads(capsys.readouterr().out)
    assert counts == {"runs": 4, "decided": 4 if weak else 0, "wrong": 0}
