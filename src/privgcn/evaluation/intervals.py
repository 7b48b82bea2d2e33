"""How far a score may be off: 95 % intervals for documents and for seeds.

The interval of one run answers for the test documents: it is what other test documents of the
same source would give. It takes documents to be drawn one by one, and it knows nothing of the
noise and the first weights; what these do is seen by training with several seeds
(:func:`over_seeds`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

LEVEL = 0.95
"""How often such an interval holds the true value."""

_NORMAL = statistics.NormalDist().inv_cdf((1 + LEVEL) / 2)
_DRAWS = 1000
Interval = tuple[float, float]


def wilson(right: float, documents: int) -> Interval:
    """The Wilson score interval of a share (Wilson, 1927), for accuracy and micro F1.

    Args:
        right: Documents that were classified rightly.
        documents: All of them; at least one.

    Examples:
        >>> [round(end, 4) for end in wilson(8, 10)]
        [0.4902, 0.9433]
    """
    z, share = _NORMAL, right / documents
    middle = share + z * z / (2 * documents)
    spread = z * math.sqrt(share * (1 - share) / documents + (z / (2 * documents)) ** 2)
    scale = 1 + z * z / documents
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def bootstrap_macro_f1(confusion: npt.NDArray[Any]) -> Interval:
    """The bootstrap interval of macro F1: test documents drawn again, with replacement.

    A document enters through its cell of the confusion matrix alone, so cells are drawn. The
    draws are seeded: the same scores have the same interval.
    """
    truth, predicted = np.nonzero(confusion)
    counts = np.asarray(confusion)[truth, predicted]
    total = int(counts.sum())
    drawn = np.random.default_rng(0).multinomial(total, counts / total, _DRAWS)
    names = np.arange(len(confusion))
    of_truth, of_predicted = truth[:, None] == names, predicted[:, None] == names
    right = drawn @ (of_truth & of_predicted).astype(np.float64)
    both = drawn @ (of_truth.astype(np.float64) + of_predicted)
    # As in the score itself, only classes count that occur.
    occurs = both > 0
    found = (2 * right / np.where(occurs, both, 1)).sum(1) / occurs.sum(1)
    low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def over_seeds(values: Sequence[float], documents: int) -> dict[str, Any]:
    """Mean, sample standard deviation and interval of one score over several seeds.

    The interval is that of the mean: what the seeds leave open (Student's t) and what the test
    documents leave open, which all seeds share (as of a share; for macro F1 that is rough).

    Args:
        values: One score for each seed.
        documents: Test documents behind each score.
    """
    from scipy.stats import t

    mean = statistics.fmean(values)
    std = statistics.stdev(values) if len(values) > 1 else None
    of_seeds = 0.0
    if std is not None:
        of_seeds = float(t.ppf((1 + LEVEL) / 2, len(values) - 1)) * std / len(values) ** 0.5
    low, high = (
        mean + math.copysign(math.hypot(end - mean, of_seeds), side)
        for end, side in zip(wilson(mean * documents, documents), (-1, 1), strict=True)
    )
    ends = [max(0.0, low), min(1.0, high)]
    return {"values": list(values), "mean": mean, "std": std, "interval": ends}


def with_intervals(scores: dict[str, Any]) -> dict[str, Any]:
    """Scores of ``classification_scores`` with an interval beside each headline score."""
    if not scores["documents"]:
        return {**scores, "intervals": {}}
    confusion = np.asarray(scores["confusion"])
    share = list(wilson(int(np.trace(confusion)), scores["documents"]))
    macro = list(bootstrap_macro_f1(confusion))
    return {
        **scores,
        "intervals": {"micro_f1": share, "macro_f1": macro, "accuracy": share},
    }
