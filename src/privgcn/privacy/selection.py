"""What it costs to keep the best of a secret number of private runs.

Papernot and Steinke (2022), "Hyperparameter tuning with Renyi differential privacy". A random
number of runs is made, from a Poisson law that does not look at the data. Each draws a
candidate from a fixed distribution, trains it privately and scores it privately; nothing is
said about any but the best, not even how many there were.

Why there is a bound: let ``f`` be the generating function of the number of runs. The chance of
the outcome y is f(Q(<= y)) - f(Q(< y)): Q(y) times a mean of f'. So the Renyi moment of the
winner is at most that of one run times the largest f'(x)^a f'(x')^(1-a), where x and x' are
what an event gets from a run on two neighbours (lemma 7): one run's own guarantee bounds them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from privgcn.privacy.accounting import (
    LEAST_NOISE,
    ORDERS,
    Array,
    GaussianEvent,
    calibrate_event,
    curve_deltas,
    gaussian_deltas,
    merged,
    renyi_curve,
    root,
)
from privgcn.privacy.values import Real, Whole, strict

if TYPE_CHECKING:
    from privgcn.mechanism import RandomSource

#: So that a claim is computed again in well under a second, whoever wrote it.
MOST_CANDIDATES = 100
_NO_SEARCH = "One run is no search: use 'privgcn train'."
ExpectedRuns = Annotated[Real, Field(ge=1.01, le=500.0, description=_NO_SEARCH)]


@strict("a search")
class RunCount:
    """The law of the secret number of runs: Poisson, given that there is at least one."""

    expected: ExpectedRuns

    @property
    def rate(self) -> float:
        """The rate of the Poisson law, on the side that costs more."""
        return root(lambda rate: -rate / math.expm1(-rate) < self.expected, 1e-3, 501.0)

    def draw(self, source: RandomSource) -> int:
        """How many runs to make; must stay as secret as the noise."""
        # Arrivals of a Poisson process, again until there is one: no number is too large.
        runs, rate = 0, self.rate
        while not runs:
            time = 0.0
            while True:
                chance = (float(source.words(1)[0] >> np.uint64(11)) + 0.5) * 2.0**-53
                time -= math.log(chance)
                if time > rate:
                    break
                runs += 1
        return runs

    def bound(self, curve: Array, deltas: Array) -> Array:
        """Upper bounds on the Renyi divergences of the winner at ``ORDERS``.

        From those of one run, and for each order a a delta at which it is private with the
        epsilon log(1 + 1/(a - 1)): theorem 6 of the paper. Without the chance of no run, f' is
        larger by one constant, and the theorem's rate under the logarithm becomes the mean.
        """
        result = curve + math.log(self.expected) / (ORDERS - 1.0) + self.rate * deltas
        # A divergence of a lower order is never larger.
        return np.minimum.accumulate(result[::-1])[::-1]


@strict("a search", kw_only=True)
class Selection:
    """How a model was chosen among several private runs of which it is one.

    The mean of their secret number; the training of every candidate, each kind once; the noisy
    ``score`` of one run on private validation documents, ``None`` where these were declared
    public, and how many documents (or owners) it protects.

    Assumes:
        Candidates are drawn independently from a distribution that never looked at the data.
        No unit both trains and validates, and one unit moves a score by at most the bound
        that its noise multiplier refers to. Nothing is told about the runs that lost.
    """

    expected_runs: ExpectedRuns
    candidates: Annotated[
        tuple[GaussianEvent, ...], Field(min_length=1, max_length=MOST_CANDIDATES)
    ]
    score: GaussianEvent | None
    validation_units: Annotated[Whole, Field(ge=0)]

    def __post_init__(self) -> None:
        if len(set(self.candidates)) < len(self.candidates):
            raise ValueError("'candidates' must name each kind of training once")
        if (self.score is None) != (self.validation_units == 0):
            raise ValueError("'validation_units' must be those that a score protects")

    @property
    def alternatives(self) -> tuple[GaussianEvent, ...]:
        """What one run may touch a unit by: one candidate's training, or a score, not both."""
        return self.candidates if self.score is None else (*self.candidates, self.score)

    def curve(self) -> Array:
        """Upper bounds on the Renyi divergences of the winner at ``ORDERS``."""
        # The worst alternative counts; of one run the bound needs the deltas at these epsilons.
        epsilons = np.log1p(1.0 / (ORDERS - 1.0))
        worst, deltas = np.zeros((2, ORDERS.size))
        for event in self.alternatives:
            curve, (ratio, sampled) = renyi_curve((event,)), merged((event,))
            own = curve_deltas(curve, epsilons)
            own = own if sampled else gaussian_deltas(ratio, epsilons)
            worst, deltas = np.maximum(worst, curve), np.maximum(deltas, own)
        return RunCount(self.expected_runs).bound(worst, deltas)

    def without_amplification(self) -> Selection:
        """The same search for someone who knows every sample of every run."""
        known = dict.fromkeys(event.without_amplification() for event in self.candidates)
        return replace(self, candidates=tuple(known))


def calibrated_search(
    epsilon: float,
    trainings: Sequence[GaussianEvent],
    runs: RunCount,
    *,
    validation_units: int,
    delta: float,
) -> tuple[Selection, tuple[GaussianEvent, ...]]:
    """The search that costs at most its target, and each of the ``trainings`` with its noise.

    Every candidate costs the same, and so does a score its validation documents.
    """
    calibrated = partial(calibrate_event, epsilon, delta=delta, accountant="rdp")
    shapes = (*trainings, GaussianEvent(1.0))
    # Of one release like this, were it the only one.
    noises = [calibrated(partial(_noisy, shape)).noise_multiplier for shape in shapes]

    def scaled(noise: float) -> tuple[Selection, tuple[GaussianEvent, ...]]:
        *events, score = (
            _noisy(one, max(noise * own / max(noises), LEAST_NOISE))
            for one, own in zip(shapes, noises, strict=True)
        )
        search = Selection(
            expected_runs=runs.expected,
            candidates=tuple(dict.fromkeys(events)),
            score=score if validation_units else None,
            validation_units=validation_units,
        )
        return search, tuple(events)

    return scaled(calibrated(lambda noise: scaled(noise)[0]).noise_multiplier)


def _noisy(event: GaussianEvent, noise: float) -> GaussianEvent:
    return replace(event, noise_multiplier=noise)
