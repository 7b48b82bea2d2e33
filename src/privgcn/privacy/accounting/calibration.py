"""The least noise that meets a target epsilon, and never less than that."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from privgcn.errors import ConfigError, NotCalibratedError
from privgcn.privacy.accounting.epsilon import check_delta, epsilon_of_releases
from privgcn.privacy.accounting.events import LEAST_NOISE, MOST_NOISE, GaussianRelease
from privgcn.privacy.accounting.selection import Release
from privgcn.privacy.checks import Check, Real

#: The search ends when epsilon lies between this share of the target and the target.
_CLOSE_ENOUGH = 1.0 - 1e-5
_MOST_ROUNDS = 200
_check_target = Check(Annotated[Real, Field(ge=1e-6, le=1e6)], "epsilon")

ReleasesFor = Callable[[float], Sequence[Release]]


@dataclass(frozen=True)
class Calibration:
    """A noise multiplier and the epsilon that it gives, which is at most the target."""

    noise_multiplier: float
    epsilon: float


def calibrate(
    *,
    epsilon: float,
    steps: int,
    sampling_probability: float = 1.0,
    sensitivity: int = 1,
    delta: float = 1e-5,
    accountant: str = "pld",
) -> Calibration:
    """Finds the noise multiplier for a target epsilon; arguments as in ``epsilon_of``.

    Guarantees:
        The resulting epsilon, computed by the same accountant, is at most the target, and
        within 0.001 % of it wherever epsilon does not jump.

    Raises:
        NotCalibratedError: too small for any noise, or so large that none is needed.

    Example:
        >>> found = calibrate(epsilon=1.0, steps=100)
        >>> found.epsilon <= 1.0
        True
    """

    def releases(noise_multiplier: float) -> list[GaussianRelease]:
        return [GaussianRelease(noise_multiplier, steps, sampling_probability, sensitivity)]

    return calibrate_releases(epsilon, releases, delta=delta, accountant=accountant)


def calibrate_releases(
    epsilon: float, releases: ReleasesFor, *, delta: float, accountant: str
) -> Calibration:
    """The same for any releases of a noise multiplier; more noise must cost less."""
    target = _check_target(epsilon, "a calibration")
    delta = check_delta(delta, "a calibration")

    def cost(noise_multiplier: float, by: str) -> float:
        try:
            return epsilon_of_releases(releases(noise_multiplier), delta=delta, accountant=by)
        except ConfigError:
            # Out of range inputs fail for every noise; too little noise for a finite epsilon
            # only for this one.
            releases(MOST_NOISE)
            return math.inf

    # The Renyi accountant answers in milliseconds and lies close by.
    scout = "rdp" if accountant == "pld" else accountant
    start = _search(target, lambda noise: cost(noise, scout), 1.0, loose=True)
    return _search(target, lambda noise: cost(noise, accountant), start.noise_multiplier)


def _search(
    target: float, cost: Callable[[float], float], start: float, *, loose: bool = False
) -> Calibration:
    """Brackets the target by doubling, then narrows with secants on logarithmic axes."""
    least, most = math.log(LEAST_NOISE), math.log(MOST_NOISE)
    low, high = -math.inf, math.inf
    low_cost, high_cost = math.inf, 0.0
    here, stride = math.log(start), 0.05
    for turn in range(_MOST_ROUNDS):
        found = cost(math.exp(here))
        if found <= target:
            high, high_cost = here, found
            if found >= target * _CLOSE_ENOUGH:
                break
        else:
            low, low_cost = here, found
        if high - low <= 1e-8:
            break
        here = _next(target, low, low_cost, high, high_cost, stride, bisect=turn % 3 == 2)
        here = min(max(here, least), most)
        stride *= 2.0
        if here in (low, high):
            break
    # A closed bracket without a close hit is a jump of epsilon: the least noise all the same.
    reached = high_cost >= target * _CLOSE_ENOUGH or math.isfinite(low)
    if math.isfinite(high) and (reached or loose):
        return Calibration(math.exp(high), high_cost)
    if loose:
        return Calibration(math.exp(most), math.inf)
    raise _not_calibrated(target, high, high_cost, low_cost)


def _next(
    target: float,
    low: float,
    low_cost: float,
    high: float,
    high_cost: float,
    stride: float,
    *,
    bisect: bool,
) -> float:
    """The next logarithm of a noise multiplier to try."""
    if math.isinf(high):
        return low + stride
    if math.isinf(low):
        return high - stride
    if bisect or math.isinf(low_cost) or high_cost <= 0.0:
        return 0.5 * (low + high)
    # Aim just under the target, from whichever side.
    aim = math.log(target * (1.0 + _CLOSE_ENOUGH) / 2.0)
    share = (math.log(low_cost) - aim) / (math.log(low_cost) - math.log(high_cost))
    return low + min(max(share, 1e-3), 1.0 - 1e-3) * (high - low)


def _not_calibrated(
    target: float, high: float, high_cost: float, low_cost: float
) -> NotCalibratedError:
    if math.isinf(high):
        return NotCalibratedError(
            "The 'epsilon' of a calibration must be reachable by some noise multiplier up to "
            f"{MOST_NOISE:g}. Got {target:g}, but the least epsilon found is {low_cost:.4g}. "
            "Use a larger epsilon or delta, fewer steps, or accountant 'pld'."
        )
    return NotCalibratedError(
        "The 'epsilon' of a calibration must need noise. "
        f"Got {target:g}, but noise multiplier {math.exp(high):.4g} already gives "
        f"{high_cost:.4g}, and less gives no epsilon near the target. Use a smaller epsilon, "
        "or a smaller delta: a delta above the chance of ever being sampled protects nobody."
    )
