"""From counts of right guesses to a lower bound on epsilon, and how well scores tell.

Bounds hold with the stated confidence for any mechanism that keeps its claim, and prove none.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privgcn.privacy.accounting import (
    LEAST_NOISE,
    GaussianEvent,
    gaussian_epsilon,
    log_gaussian_delta,
    loss_distribution,
    root,
)

# Rates of false positives at which true positives are counted.
FALSE_POSITIVES = (0.01, 0.001)
# Of losses, what rounding adds to an advantage makes a bound smaller; and of the logarithm of
# the factor of two within which a noise multiplier is searched for.
_GRID, _HALVINGS = 1e-3, 10
_NORMAL_95, _TWO_SIDED_95 = 1.959964, 0.975


class Measured(NamedTuple):
    """A number and the ends of its 95 % interval."""

    value: float
    low: float
    high: float


def least_fraction(successes: float, trials: float, confidence: float) -> float:
    """The lower end of a one-sided Clopper-Pearson interval of a success probability.

    Counts need not be whole: trials that depend on each other count for less than one.
    """
    from scipy.stats import beta

    if successes == 0:
        return 0.0
    return float(beta.ppf(1.0 - confidence, successes, trials - successes + 1))


def least_advantage(correct: int, guesses: int, confidence: float) -> float:
    """The least total variation distance that so many right guesses leave plausible.

    A guess between two equally likely worlds is right with a probability of at most
    (1 + distance) / 2. Half of the runs are from each world, so the count has a lighter tail
    than a binomial one (Hoeffding 1956).
    """
    return max(0.0, 2.0 * least_fraction(correct, guesses, confidence) - 1.0)


def epsilon_of_advantage(
    advantage: float, event: GaussianEvent, delta: float, count: int | None = None
) -> float:
    """The epsilon of an event like this one with as much noise as the advantage allows.

    An advantage that only less noise explains (Nasr et al. 2023) is one over the claim.
    ``count`` is of the claim, where fewer releases were observed.
    """
    from scipy.special import ndtri

    if advantage <= 0.0:
        return 0.0
    count = event.count if count is None else count
    if event.sampling_probability == 1.0:
        mu = 2.0 * float(ndtri((1.0 + advantage) / 2.0))
        return gaussian_epsilon(mu * math.sqrt(count / event.count), delta)

    def explained(noise: float) -> bool:
        return _sampled(replace(event, noise_multiplier=noise), delta)[0] >= advantage

    # From the claim's own noise: the composition of far less takes long. Of far more, what is
    # left of an advantage is rounding.
    most, hidden = event.noise_multiplier, 100.0 * math.sqrt(event.count) * event.sensitivity
    while most < hidden and explained(most):
        most *= 2.0
    # In ever smaller steps, on the side of more noise: less would be a larger bound.
    for step in (2.0 ** (0.5**halving) for halving in range(_HALVINGS)):
        while most / step > LEAST_NOISE and not explained(most / step):
            most /= step
    return _sampled(replace(event, noise_multiplier=most, count=count), delta)[1]


@lru_cache(maxsize=256)
def _sampled(event: GaussianEvent, delta: float) -> tuple[float, float]:
    """Advantage and epsilon of a sampled event, by the library alone; both from above."""
    composed = loss_distribution(event, _GRID).self_compose(event.count)
    return composed.get_delta_for_epsilon(0.0), composed.get_epsilon_for_delta(delta)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The mu of Gaussian differential privacy (Dong et al. 2022) with this epsilon at delta."""
    if epsilon <= 0.0:
        return 0.0
    return root(lambda mu: log_gaussian_delta(mu, epsilon) < math.log(delta), 1e-9, 1e6)


def auc(positives: npt.ArrayLike, negatives: npt.ArrayLike, copies: int = 1) -> Measured:
    """The chance that a positive scores above a negative, ties half (Hanley and McNeil 1982).

    Each target has ``copies`` scores on either side. They may rise and fall together, so the
    interval is that of one score for each.
    """
    from scipy.stats import mannwhitneyu

    first, second = np.asarray(positives, float), np.asarray(negatives, float)
    ordered = mannwhitneyu(first, second, method="asymptotic").statistic
    area = float(ordered) / (len(first) * len(second))
    twice_positive, twice_negative = area / (2 - area), 2 * area * area / (1 + area)
    targets, others = len(first) / copies, len(second) / copies
    variance = area * (1 - area) + (targets - 1) * (twice_positive - area * area)
    variance += (others - 1) * (twice_negative - area * area)
    spread = _NORMAL_95 * math.sqrt(max(0.0, variance) / (targets * others))
    return Measured(area, max(0.0, area - spread), min(1.0, area + spread))


def true_positives(
    positives: npt.ArrayLike, negatives: npt.ArrayLike, rate: float, copies: int = 1
) -> Measured:
    """The fraction of positives above all but a few negatives; ``copies`` as for :func:`auc`.

    The interval (Clopper and Pearson) is of the positives; the threshold is as it came out.
    """
    first, second = np.asarray(positives, float), np.sort(np.asarray(negatives, float))
    allowed = math.floor(rate * len(second))
    threshold = second[len(second) - 1 - allowed]
    above, trials = int((first > threshold).sum()) / copies, len(first) / copies
    return Measured(
        above / trials,
        least_fraction(above, trials, _TWO_SIDED_95),
        1.0 - least_fraction(trials - above, trials, _TWO_SIDED_95),
    )
