"""One release's losses: against formulas in many digits, and against the library."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from privgcn.privacy.accounting.events import GaussianRelease
from privgcn.privacy.accounting.hockey_stick import (
    _adding,
    _removing,
    _replacing,
    removal_losses,
    replacement_losses,
)

mpmath = pytest.importorskip("mpmath", reason="many digits need mpmath (comes with torch)")


def exact(kind: str, loss: float, noise: float, rate: float) -> float:
    """P(loss above) - exp(loss) Q(loss above), in fifty digits."""
    with mpmath.workdps(50):
        growth, q, s = mpmath.exp(mpmath.mpf(loss)), mpmath.mpf(rate), mpmath.mpf(noise)

        def cdf(x: object) -> object:
            return mpmath.ncdf(x / s)

        if kind == "remove":
            cut = -s * s * mpmath.log((growth - 1 + q) / q) - mpmath.mpf(1) / 2
            value = (1 - q) * cdf(cut) + q * cdf(cut + 1) - growth * cdf(cut)
        elif kind == "add":
            inner = (1 / growth - 1 + q) / q
            if inner <= 0:
                return 0.0
            cut = s * s * mpmath.log(inner) + mpmath.mpf(1) / 2
            value = cdf(cut) - growth * ((1 - q) * cdf(cut) + q * cdf(cut - 1))
        else:
            scale = mpmath.exp(1 / (2 * s * s)) * (1 - q) / q
            half = mpmath.mpf(loss) / 2
            cut = s * s * (mpmath.asinh(-mpmath.sinh(half) * scale) - half)
            upper = (1 - q) * cdf(cut) + q * cdf(cut + 1)
            value = upper - growth * ((1 - q) * cdf(cut) + q * cdf(cut - 1))
        return float(value)


@pytest.mark.parametrize("rate", [1e-9, 1e-3, 0.5, 0.99])
@pytest.mark.parametrize("noise", [0.2, 1.0, 30.0, 1e5])
@pytest.mark.parametrize(
    ("kind", "curve"), [("remove", _removing), ("add", _adding), ("replace", _replacing)]
)
def test_curves_keep_their_digits(
    kind: str, curve: Callable[..., np.ndarray], noise: float, rate: float
) -> None:
    losses = np.array([0.0, 0.01, 1.0, 10.0]) * rate / noise
    got = curve(losses, noise, rate)
    wanted = [exact(kind, loss, noise, rate) for loss in losses]
    # The error must shrink with the rate and with the noise, or a fine grid magnifies it.
    assert np.abs(got - wanted).max() < 1e-14 * rate * min(1.0, 1.0 / noise)


@pytest.mark.parametrize("sensitivity", [1, 2])
@pytest.mark.parametrize(("noise", "rate"), [(4.0, 0.1), (1.0, 0.01), (0.5, 0.5)])
def test_losses_equal_the_librarys(noise: float, rate: float, sensitivity: int) -> None:
    from dp_accounting.pld import privacy_loss_distribution as library
    from dp_accounting.privacy_accountant import NeighboringRelation

    grid = 1e-3
    release = GaussianRelease(noise, 1, rate, sensitivity)
    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    ours = removal_losses(release, grid) if sensitivity == 1 else ()
    if sensitivity == 2:
        relation = NeighboringRelation.REPLACE_ONE
        ours = (replacement_losses(release, grid),)
    theirs = library.from_gaussian_mechanism(
        noise,
        sampling_prob=rate,
        value_discretization_interval=grid,
        neighboring_relation=relation,
    )
    for epsilon in (-0.5, -0.01, 0.0, 0.0101, 0.2, 1.0):
        deltas = []
        for losses in ours:
            places = (losses.start + np.arange(losses.masses.size)) * grid
            above = places > epsilon
            gain = -np.expm1(epsilon - places[above])
            deltas.append(losses.infinite + float(gain @ losses.masses[above]))
        assert max(deltas) == pytest.approx(theirs.get_delta_for_epsilon(epsilon), abs=1e-9)


def test_masses_are_a_distribution_and_never_lose_mass() -> None:
    for rate, noise in ((1e-6, 1.0), (0.3, 0.3), (0.9, 1000.0)):
        for losses in removal_losses(GaussianRelease(noise, 1, rate), rate / (20 * noise)):
            total = float(losses.masses.sum()) + losses.infinite
            assert (losses.masses >= 0).all()
            assert total == pytest.approx(1.0, abs=1e-9)
            assert losses.excess < 1e-9
            assert math.isfinite(losses.second_moment)
