"""From counts of right guesses to a lower bound on epsilon.

Every bound here holds with the stated confidence for any mechanism that keeps its claim. None
of them proves a claim: a mechanism may be worse than the guesses that were tried.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from privgcn.privacy.accounting.epsilon import gaussian_epsilon
from privgcn.privacy.accounting.events import LEAST_NOISE, GaussianRelease

_LARGEST = 200.0
_HALVINGS = 40
# Relative width at which the search for a noise multiplier ends.
_CLOSE = 3e-3
# Of losses; what rounding adds to an advantage makes a bound smaller.
_GRID = 1e-3


def least_share(successes: float, trials: float, confidence: float) -> float:
    """The least success probability that so many successes leave plausible.

    The lower end of a one-sided Clopper-Pearson interval. Counts need not be whole: trials
    that depend on each other count for less than one.

    Examples:
        >>> round(least_share(100, 100, 0.95), 4)
        0.9705
    """
    from scipy.stats import beta

    if successes == 0:
        return 0.0
    return float(beta.ppf(1.0 - confidence, successes, trials - successes + 1))


def most_share(successes: float, trials: float, confidence: float) -> float:
    """The largest success probability that so many successes leave plausible."""
    return 1.0 - least_share(trials - successes, trials, confidence)


def least_advantage(correct: int, runs: int, confidence: float) -> float:
    """The least total variation distance that so many right guesses leave plausible.

    Whoever guesses which of two equally likely worlds a run is from is right with a
    probability of at most (1 + distance) / 2. Half of the runs are from each world, so the
    count has a lighter tail than a binomial one (Hoeffding 1956).
    """
    return max(0.0, 2.0 * least_share(correct, runs, confidence) - 1.0)


def epsilon_of_advantage(advantage: float, release: GaussianRelease, delta: float) -> float:
    """The epsilon of a release like this one with as much noise as the advantage allows.

    The trade-off curve of the claim is a family with one free number, its noise. An advantage
    that only less noise explains (Nasr et al. 2023) is one over the claim.

    Args:
        advantage: A total variation distance that was reached at least.
        release: What is claimed: sampling rate, count and sensitivity. Its noise is where the
            search begins.
        delta: Of the claim.
    """
    from scipy.special import ndtri

    if advantage <= 0.0:
        return 0.0
    if not release.sampled:
        ratio = 2.0 * float(ndtri((1.0 + advantage) / 2.0))
        return gaussian_epsilon(ratio, delta)
    # From the claim's own noise: the composition of far less takes long.
    least = most = release.noise_multiplier
    hidden = 100.0 * math.sqrt(release.count) * release.sensitivity

    def reached(noise_multiplier: float) -> bool:
        told, _ = _sampled(replace(release, noise_multiplier=noise_multiplier), delta)
        return told >= advantage

    if reached(most):
        while most < hidden and reached(most):
            least, most = most, 2.0 * most
    else:
        while least > LEAST_NOISE and not reached(least):
            least, most = max(LEAST_NOISE, least / 2.0), least
    for _ in range(_HALVINGS):
        middle = math.sqrt(most * least)
        least, most = (middle, most) if reached(middle) else (least, middle)
        if most / least < 1.0 + _CLOSE:
            break
    return _sampled(replace(release, noise_multiplier=most), delta)[1]


@lru_cache(maxsize=256)
def _sampled(release: GaussianRelease, delta: float) -> tuple[float, float]:
    """Advantage and epsilon of a sampled release, by the library alone; both from above."""
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    if release.sensitivity == 2:
        relation = NeighboringRelation.REPLACE_ONE
    one = from_gaussian_mechanism(
        release.noise_multiplier,
        value_discretization_interval=_GRID,
        sampling_prob=release.sampling_probability,
        neighboring_relation=relation,
    )
    composed = one.self_compose(release.count)
    return (
        float(composed.get_delta_for_epsilon(0.0)),
        float(composed.get_epsilon_for_delta(delta)),
    )


def classical_epsilon(
    hits: int, false_alarms: int, runs: int, delta: float, confidence: float
) -> float:
    """What the two error rates prove without any assumption on the mechanism.

    Args:
        hits: Guesses "present" among runs with the unit.
        false_alarms: Guesses "present" among runs without it.
        runs: Runs of each kind.
        delta: Of the claim.
        confidence: Of both rates together, in both directions.
    """
    level = 1.0 - (1.0 - confidence) / 4.0
    return max(
        _epsilon_of_rates(hits, false_alarms, runs, delta, level),
        _epsilon_of_rates(runs - false_alarms, runs - hits, runs, delta, level),
    )


def abstaining_epsilon(
    correct: int, wrong: int, runs: int, delta: float, confidence: float
) -> float:
    """What guesses about some of many independent runs prove, without any assumption.

    A right guess is at most exp(epsilon) times as likely as a wrong one, and delta.

    Args:
        correct: Right guesses.
        wrong: Wrong guesses.
        runs: All runs, half of them of each kind, those without a guess included.
        delta: Of the claim.
        confidence: Of both rates together.
    """
    return _epsilon_of_rates(correct, wrong, runs, delta, 1.0 - (1.0 - confidence) / 2.0)


def _epsilon_of_rates(right: int, wrong: int, runs: int, delta: float, level: float) -> float:
    """The least epsilon with which (epsilon, delta) allows both rates, each at a level."""
    low, high = least_share(right, runs, level), most_share(wrong, runs, level)
    return max(0.0, math.log((low - delta) / high)) if low > delta else 0.0


def one_run_chance(
    canaries: int, guesses: int, correct: int, epsilon: float, delta: float
) -> float:
    """The most likely that an (epsilon, delta) mechanism allows so many right guesses.

    Steinke, Nasr and Jagielski (2023), theorem 5.2: each of ``canaries`` was inserted by its
    own fair coin into one run, about some of them a guess was made, the rest abstained.
    """
    import numpy as np
    from scipy.stats import binom

    right = 1.0 / (1.0 + math.exp(-epsilon))
    tail = float(binom.sf(correct - 1, guesses, right))
    if correct == 0:
        return 1.0
    below = np.cumsum(binom.pmf(np.arange(correct - 1, -1, -1), guesses, right))
    slope = float((below / np.arange(1, correct + 1)).max())
    return min(1.0, tail + 2.0 * canaries * delta * slope)


def one_run_epsilon(
    canaries: int, guesses: int, correct: int, delta: float, confidence: float
) -> float:
    """The least epsilon that so many right guesses in one run leave plausible."""
    level = 1.0 - confidence
    if one_run_chance(canaries, guesses, correct, 0.0, delta) >= level:
        return 0.0
    least, most = 0.0, 1.0
    while most < _LARGEST and one_run_chance(canaries, guesses, correct, most, delta) < level:
        least, most = most, 2.0 * most
    for _ in range(_HALVINGS):
        middle = (least + most) / 2.0
        if one_run_chance(canaries, guesses, correct, middle, delta) < level:
            least = middle
        else:
            most = middle
    return least
