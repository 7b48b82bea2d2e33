"""How well a score tells two groups apart: AUC and true-positive rates, with intervals."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privgcn.evidence.bounds import least_share, most_share

FALSE_POSITIVES = (0.01, 0.001)
"""Rates of false positives at which true positives are counted."""

_NORMAL_95 = 1.959964
_TWO_SIDED_95 = 0.975


class Measured(NamedTuple):
    """A number and the ends of its 95 % interval."""

    value: float
    low: float
    high: float


def auc(positives: npt.ArrayLike, negatives: npt.ArrayLike, copies: int = 1) -> Measured:
    """The chance that a positive scores above a negative, ties half (Hanley and McNeil 1982).

    Args:
        positives: Their scores.
        negatives: Their scores.
        copies: Scores that each target has on either side. They may rise and fall together,
            so the interval is that of one score for each.

    Examples:
        >>> auc([2.0, 3.0], [0.0, 1.0]).value
        1.0
    """
    from scipy.stats import mannwhitneyu

    first, second = np.asarray(positives, float), np.asarray(negatives, float)
    ordered = mannwhitneyu(first, second, method="asymptotic").statistic
    area = float(ordered) / (len(first) * len(second))
    twice_positive, twice_negative = area / (2 - area), 2 * area * area / (1 + area)
    targets, others = len(first) / copies, len(second) / copies
    variance = (
        area * (1 - area)
        + (targets - 1) * (twice_positive - area * area)
        + (others - 1) * (twice_negative - area * area)
    ) / (targets * others)
    spread = _NORMAL_95 * math.sqrt(max(0.0, variance))
    return Measured(area, max(0.0, area - spread), min(1.0, area + spread))


def true_positives(
    positives: npt.ArrayLike,
    negatives: npt.ArrayLike,
    false_positive_rate: float,
    copies: int = 1,
) -> Measured:
    """The share of positives above all but a few negatives (Clopper and Pearson).

    The interval is of the positives; the threshold is taken as it came out. ``copies`` as for
    :func:`auc`.
    """
    first, second = np.asarray(positives, float), np.sort(np.asarray(negatives, float))
    allowed = math.floor(false_positive_rate * len(second))
    threshold = second[len(second) - 1 - allowed]
    above, trials = int((first > threshold).sum()), len(first)
    return Measured(
        above / trials,
        least_share(above / copies, trials / copies, _TWO_SIDED_95),
        most_share(above / copies, trials / copies, _TWO_SIDED_95),
    )
