"""What it costs to keep the best of a secret number of private runs.

Papernot and Steinke (2022), "Hyperparameter tuning with Renyi differential privacy". A run
draws a candidate from a fixed distribution, trains it privately and scores it privately. A
random number of runs, drawn from a law that does not look at the data, is made; the best
scored one is kept and nothing is said about the others, not even how many there were.

Why there is a bound at all: let ``f`` be the generating function of the number of runs. The
chance of keeping the outcome y is f(Q(<= y)) - f(Q(< y)), that is Q(y) times a mean of f'
over that interval. The Renyi moment of the winner is therefore at most that of one run times
the largest f'(x)^a f'(x')^(1-a), where x and x' are what one event gets from a run on the one
and on the other of two neighbouring datasets (the paper's lemma 7). How far x and x' can be
apart, one run's own guarantee says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from privgcn.privacy.accounting.events import GaussianRelease, merge
from privgcn.privacy.accounting.renyi import ORDERS, curve_deltas, renyi_curve
from privgcn.privacy.checks import Real, strict

if TYPE_CHECKING:
    import numpy.typing as npt

    from privgcn.randomness import RandomSource

    Array = npt.NDArray[np.float64]

#: Shapes of the truncated negative binomial law; ``poisson`` is its limit.
_SHAPES = {"logarithmic": 0.0, "geometric": 1.0}
LAWS: tuple[str, ...] = ("poisson", *_SHAPES)
Law = Annotated[str, Field(pattern=f"^({'|'.join(LAWS)})$")]
MOST_EXPECTED_RUNS = 500.0
ExpectedRuns = Annotated[
    Real,
    Field(
        ge=1.01, le=MOST_EXPECTED_RUNS, description="One run is no search: use 'privgcn train'."
    ),
]
_OWNER = "a search"


@strict(_OWNER)
class RunCount:
    """The law of the secret number of runs, which is always at least one.

    Attributes:
        law: ``poisson`` (given at least one run; the cheapest for few runs), ``logarithmic``
            (the cheapest for many) or ``geometric``.
        expected: how many runs there are on average; above 1.
    """

    law: Law
    expected: ExpectedRuns

    @property
    def parameter(self) -> float:
        """The rate of ``poisson``, or the halting probability gamma of the others."""
        if self.law == "geometric":
            return 1.0 / self.expected
        if self.law == "poisson":
            return _solve(lambda rate: -rate / math.expm1(-rate), self.expected, 0.0, 1e3)
        return _solve(lambda gamma: (1 - 1 / gamma) / math.log(gamma), self.expected, 1.0, 0.0)

    def probabilities(self, most: int) -> Array:
        """The chances of 1, 2, ..., ``most`` runs."""
        number, parameter = np.arange(1.0, most), self.parameter
        if self.law == "poisson":
            first = parameter / math.expm1(parameter)
            factors = parameter / (number + 1.0)
        else:
            shape = _SHAPES[self.law]
            first = parameter if shape else (1.0 - parameter) / -math.log(parameter)
            factors = (1.0 - parameter) * (number + shape) / (number + 1.0)
        return np.cumprod(np.concatenate([[first], factors]))

    def draw(self, source: RandomSource) -> int:
        """How many runs to make; must stay as secret as the noise."""
        uniform = (float(source.words(1)[0] >> np.uint64(11)) + 0.5) * 2.0**-53
        most = 64
        while True:
            totals = np.cumsum(self.probabilities(most))
            # Beyond 1 - 2**-53 the sum rounds; no draw reaches there but the last one.
            if uniform <= totals[-1] or totals[-1] > 1.0 - 1e-12:
                return 1 + min(int(np.searchsorted(totals, uniform)), most - 1)
            most *= 2

    def bound(self, curve: Array, deltas: Array) -> Array:
        """The Renyi divergences of the winner at ``ORDERS``.

        Args:
            curve: upper bounds on those of one run.
            deltas: for each order a, a delta at which one run is private with the epsilon
                log(1 + 1/(a - 1)); read by ``poisson`` alone.

        Guarantees:
            An upper bound: theorem 2 of the paper for ``logarithmic`` and ``geometric``,
            theorem 6 for ``poisson``. Leaving out the chance of no run multiplies f' by
            one constant, which turns the theorem's rate under the logarithm into the mean.
        """
        result = curve + math.log(self.expected) / (ORDERS - 1.0)
        if self.law == "poisson":
            result = result + self.parameter * deltas
        else:
            steepness = (1.0 - 1.0 / ORDERS) * curve - math.log(self.parameter) / ORDERS
            result = result + (1.0 + _SHAPES[self.law]) * float(np.min(steepness))
        # A divergence of a lower order is never larger.
        return np.minimum.accumulate(result[::-1])[::-1]


@strict(_OWNER)
class SelectedRelease:
    """The best of a secret number of runs; what the accountant ``rdp`` reads of a search.

    Attributes:
        alternatives: what one unit may be touched by in one run: the training of one or the
            other candidate (a run trains one), or a score on validation documents (a unit
            trains or validates, never both). The worst of them counts at every order.
        count: the law of the number of runs.
    """

    alternatives: Annotated[
        tuple[Annotated[tuple[GaussianRelease, ...], Field(min_length=1)], ...],
        Field(min_length=1),
    ]
    count: RunCount

    def curve(self) -> Array:
        """Upper bounds on the Renyi divergences of the winner at ``ORDERS``."""
        curves = [renyi_curve(releases) for releases in self.alternatives]
        deltas = [_deltas(r, c) for r, c in zip(self.alternatives, curves, strict=True)]
        return self.count.bound(np.max(curves, axis=0), np.max(deltas, axis=0))

    def without_amplification(self) -> SelectedRelease:
        """The same search for someone who knows every sample of every run."""
        return SelectedRelease(
            tuple(tuple(r.without_amplification() for r in rs) for rs in self.alternatives),
            self.count,
        )


Release = GaussianRelease | SelectedRelease


def composed_curve(releases: Sequence[Release]) -> Array:
    """The Renyi divergences of searches and Gaussian releases about the same units."""
    single = tuple(r for r in releases if isinstance(r, GaussianRelease))
    curve = renyi_curve(single)
    for release in releases:
        if isinstance(release, SelectedRelease):
            curve = curve + release.curve()
    return curve


def _deltas(releases: tuple[GaussianRelease, ...], curve: Array) -> Array:
    """Deltas of these releases at the epsilons log(1 + 1/(order - 1))."""
    epsilons = np.log1p(1.0 / (ORDERS - 1.0))
    ratio, sampled = merge(releases)
    if sampled:
        return curve_deltas(curve, epsilons)
    from scipy.special import log_ndtr

    # The Gaussian mechanism in closed form (Balle and Wang 2018), rounded up.
    above = np.exp(log_ndtr(ratio / 2.0 - epsilons / ratio))
    below = np.exp(epsilons + log_ndtr(-ratio / 2.0 - epsilons / ratio))
    result: Array = np.minimum(np.maximum(above - below, 0.0) + 1e-15, 1.0)
    return result


def _solve(mean: Callable[[float], float], target: float, low: float, high: float) -> float:
    """The parameter at which a mean, rising from ``low`` to ``high``, is the target.

    The returned parameter is on the side of more runs: the side that costs more.
    """
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if mean(middle) < target else (low, middle)
    return high
