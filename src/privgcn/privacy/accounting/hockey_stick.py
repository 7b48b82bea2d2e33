"""The loss distribution of one Poisson-sampled Gaussian release, without lost digits.

For neighbouring data the output of a step is, along one line, a mixture of Gaussians, and
everything about its privacy is in the curve

    divergence(loss) = max over events of P(event) - exp(loss) Q(event).

"Connect the dots" (Doroshenko et al. 2022) turns values of this curve on a grid into a
discrete distribution that dominates the true one. dp_accounting does the same from plain
differences of distribution functions. Those are wrong by about 1e-16, which a grid of width
``d`` magnifies to ``1e-16 / d`` in every point: at sampling probability 1e-6 more than the
steps add up to. Here each formula is arranged so that its error shrinks with the sampling
probability and with the noise; the tests compare both on common ground.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from privgcn.privacy.accounting.events import GaussianRelease

    Array = npt.NDArray[np.float64]
    Curve = Callable[[Array], Array]

#: Losses beyond this many standard deviations count as infinite: a mass of 1e-19.
_TAIL = 9.0
_NARROW = 0.1
_FAINT = 1e-40


@dataclass(frozen=True)
class SteppedLosses:
    """Probabilities on the losses ``start * grid, (start + 1) * grid, ...`` and at infinity."""

    start: int
    masses: Array
    infinite: float

    @property
    def excess(self) -> float:
        """How much mass beyond 1 rounding has added."""
        return max(0.0, float(self.masses.sum()) + self.infinite - 1.0)

    @property
    def second_moment(self) -> float:
        """The mean squared finite loss, in units of the grid."""
        places = self.start + np.arange(self.masses.size, dtype=np.float64)
        return float(np.dot(self.masses, places * places))


def removal_losses(
    release: GaussianRelease, grid: float
) -> tuple[SteppedLosses, SteppedLosses]:
    """Losses for sensitivity 1: with the unit against without it, and the other way round."""
    noise, probability = release.noise_multiplier, release.sampling_probability
    removing = partial(_removing, noise=noise, probability=probability)
    adding = partial(_adding, noise=noise, probability=probability)
    largest = largest_loss(release)
    # Where the unit's absence shows most: at -log(1 - p) at the latest.
    smallest = -math.log1p(probability * math.expm1(-(_TAIL * noise + 0.5) / (noise * noise)))
    return (
        _connect_dots(removing, adding, largest, smallest, grid),
        _connect_dots(adding, removing, smallest, largest, grid),
    )


def replacement_losses(release: GaussianRelease, grid: float) -> SteppedLosses:
    """Losses for sensitivity 2: mixtures with means -1 and +1, in units of the clip norm."""
    replacing = partial(
        _replacing, noise=release.noise_multiplier, probability=release.sampling_probability
    )
    largest = largest_loss(release)
    return _connect_dots(replacing, replacing, largest, largest, grid)


def largest_loss(release: GaussianRelease) -> float:
    """The largest loss that is not counted as infinite."""
    noise, probability = release.noise_multiplier, release.sampling_probability
    at = (_TAIL * noise + 0.5) / (noise * noise)
    # log(1 - p + p exp(at)) without overflow.
    largest = float(np.logaddexp(math.log1p(-probability), math.log(probability) + at))
    if release.sensitivity == 2:
        largest -= math.log1p(
            probability * math.expm1(-(_TAIL * noise + 1.5) / (noise * noise))
        )
    return largest


def _connect_dots(
    forward: Curve, backward: Curve, largest: float, smallest: float, grid: float
) -> SteppedLosses:
    """The dominating distribution for losses in ``[-smallest, largest]``.

    Args:
        forward: the divergence at losses of at least 0.
        backward: the divergence of the exchanged pair at losses of at least 0.
        largest: where infinite loss begins.
        smallest: minus the loss that all smaller ones are rounded up to.
        grid: the distance between neighbouring losses.
    """
    top = max(1, math.ceil(largest / grid))
    bottom = max(1, math.ceil(smallest / grid))
    above = forward(np.arange(top + 1, dtype=np.float64) * grid)
    # For a negative loss the divergence is 1 - exp(loss) + exp(loss) * backward(-loss), and
    # the first two terms put no mass on the grid. Leaving them out keeps the digits.
    losses = np.arange(-bottom, 1, dtype=np.float64) * grid
    below = np.exp(losses) * backward(-losses)
    rise, fall = math.expm1(grid), math.expm1(-grid)
    steps_above, steps_below = np.diff(above), np.diff(below)
    masses = np.zeros(bottom + top + 1)
    masses[:bottom] += steps_below / rise
    masses[0] -= below[0]
    masses[1 : bottom + 1] += steps_below / fall
    masses[bottom] += 1.0
    masses[bottom:-1] += steps_above / rise
    masses[bottom + 1 :] += steps_above / fall
    # Denormal masses trouble the library's logarithms; at infinity they are on the safe side.
    faint = masses < _FAINT
    infinite = max(0.0, float(above[-1])) + float(np.maximum(masses[faint], 0.0).sum())
    return SteppedLosses(-bottom, np.where(faint, 0.0, masses), infinite)


def _removing(loss: Array, noise: float, probability: float) -> Array:
    """(1-p) N(0) + p N(-1) against N(0), at losses of at least 0."""
    growth = np.expm1(loss)
    cut = -0.5 / noise - noise * np.log1p(growth / probability)
    gain: Array = probability * _interval(cut, 1.0 / noise) - growth * _below(cut)
    return np.maximum(gain, 0.0)


def _adding(loss: Array, noise: float, probability: float) -> Array:
    """N(0) against (1-p) N(0) + p N(+1), at losses of at least 0."""
    shrink = np.expm1(-loss)
    inside = -shrink < probability
    cut = np.full_like(loss, -np.inf)
    cut[inside] = 0.5 / noise + noise * np.log1p(shrink[inside] / probability)
    gain = probability * _interval(cut - 1.0 / noise, 1.0 / noise) + shrink * _below(cut)
    result: Array = np.exp(loss) * np.where(inside, np.maximum(gain, 0.0), 0.0)
    return result


def _replacing(loss: Array, noise: float, probability: float) -> Array:
    """(1-p) N(0) + p N(-1) against (1-p) N(0) + p N(+1), at losses of at least 0."""
    # The cut solves sinh(loss/2 + cut/s^2) = -exp(1/(2 s^2)) sinh(loss/2) (1-p)/p.
    with np.errstate(divide="ignore"):
        log_sinh = 0.5 * loss + np.log(-np.expm1(-loss)) - math.log(2.0)
    log_ratio = math.log1p(-probability) - math.log(probability) + 0.5 / (noise * noise)
    size = log_sinh + log_ratio
    arsinh = np.logaddexp(0.5 * np.logaddexp(0.0, 2.0 * size), size)
    cut = -noise * (arsinh + 0.5 * loss)
    moved = probability * _interval(cut - 1.0 / noise, 2.0 / noise)
    paid = (1.0 - probability) * _below(cut) + probability * _below(cut - 1.0 / noise)
    gain: Array = moved - np.expm1(loss) * paid
    return np.maximum(gain, 0.0)


def _below(point: Array) -> Array:
    """The standard normal's mass below ``point``."""
    from scipy.special import ndtr

    return np.asarray(ndtr(point), dtype=np.float64)


def _interval(left: Array, width: float) -> Array:
    """The standard normal's mass on ``[left, left + width]``, to full relative precision."""
    if width > _NARROW:
        right = left + width
        # Differences of upper tails where the lower ones are close to 1.
        flip = left > 0.0
        wide: Array = _below(np.where(flip, -left, right)) - _below(
            np.where(flip, -right, left)
        )
        return wide
    nodes, weights = np.polynomial.legendre.leggauss(5)
    total = np.zeros_like(left)
    for node, weight in zip(nodes, weights, strict=True):
        point = left + 0.5 * width * (1.0 + node)
        total += weight * np.exp(-0.5 * point * point)
    return total * (0.5 * width / math.sqrt(2.0 * math.pi))
