"""The same claim as an attack: how often it can be right, and mu of Gaussian DP.

Whoever wants to tell two neighbouring datasets apart chooses how often to raise a false alarm.
How often a true one is then raised is bounded by the trade-off function of what was released
(Dong, Roth and Su 2022). Where every group takes part in every step, that function is exactly
that of one Gaussian. Else it follows from the deltas at many epsilons, each of which bounds it:
detections are at most exp(epsilon) times the false alarms, plus delta; correct rejections are
at most exp(epsilon) times the misses, plus delta.

    >>> event = GaussianEvent(noise_multiplier=20.0, count=30)
    >>> [round(value, 3) for value in strength_of(event, 1e-5)]
    [0.274, 0.02]
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from privgcn.privacy.accounting import (
    Array,
    Event,
    GaussianEvent,
    deltas_of,
    epsilon_of_events,
    log_gaussian_delta,
    ratio_of,
    root,
    rounded_up,
)

#: The rate of false alarms at which detections are stated.
FALSE_ALARMS = 0.01
#: At how many epsilons the deltas of what was released are compared.
_POINTS = 24
_MOST_MU = 1e4


class Strength(NamedTuple):
    """What the best attack can do.

    Attributes:
        mu: No test tells more than one between normal distributions of variance one, this far
            apart. With sampling or a search: as long as its delta is not below that of the
            guarantee. ``None`` where no number below 10,000 is known.
        detections: The best attack's chance of a true alarm where a false one has a chance of
            ``FALSE_ALARMS``.
    """

    mu: float | None
    detections: float


@lru_cache(maxsize=64)
def strength_of(event: Event, delta: float) -> Strength:
    """Bounds on what any attack can do, from what was released; see the module.

    Guarantees:
        Upper bounds, computed from the same event as epsilon, by whatever accountant that is
        claimed: exact for a Gaussian without sampling, else from upper bounds on delta.
    """
    mu, accountant = math.inf, "rdp"
    if isinstance(event, GaussianEvent):
        mu, accountant = ratio_of((event,)), "pld"
    if event == event.without_amplification() and mu < math.inf:
        missed = NormalDist().cdf(NormalDist().inv_cdf(1.0 - FALSE_ALARMS) - mu)
    else:
        epsilon = epsilon_of_events([event], delta=delta, accountant=accountant)
        epsilons = np.linspace(0.0, epsilon, _POINTS)
        deltas = deltas_of(event, epsilons, delta)
        factors = np.exp(np.minimum(epsilons, 700.0))
        by_alarms = 1.0 - deltas - FALSE_ALARMS * factors
        missed = float(np.maximum(by_alarms, (1.0 - FALSE_ALARMS - deltas) / factors).max())
        mu = min(mu, _mu(epsilons, deltas))
    detections = min(1.0, rounded_up(1.0 - max(0.0, missed)))
    return Strength(rounded_up(mu) if mu < math.inf else None, detections)


def _mu(epsilons: Array, deltas: Array) -> float:
    """The least mu whose Gaussian has no smaller delta at any epsilon from first to last.

    As functions of exp(epsilon), deltas are convex: between two points they lie below the
    chord, and those of the Gaussian above their tangent in the middle. So it is enough that
    the tangent lies above the chord at both ends.
    """
    middles = 0.5 * (epsilons[1:] + epsilons[:-1])

    def too_small(mu: float) -> bool:
        for left, middle in enumerate(middles):
            slope = -NormalDist().cdf(-middle / mu - mu / 2.0)
            here = math.exp(log_gaussian_delta(mu, middle))
            for end in (left, left + 1):
                step = math.exp(epsilons[end]) - math.exp(middle)
                if here + slope * step < deltas[end]:
                    return True
        return False

    if epsilons[-1] > 700.0 or too_small(_MOST_MU):
        return math.inf
    return root(too_small, 1e-9, _MOST_MU)
