"""A paid search as part of a plan, and the noise with which it keeps its budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from privgcn.errors import ConfigError
from privgcn.privacy.accounting.calibration import calibrate, calibrate_releases
from privgcn.privacy.accounting.events import GaussianQuery, GaussianRelease
from privgcn.privacy.accounting.selection import ExpectedRuns, Law, RunCount, SelectedRelease
from privgcn.privacy.checks import Whole, strict

_OWNER = "a search"


@strict(_OWNER, kw_only=True)
class Selection:
    """How a model was chosen among several private runs of which it is one.

    Attributes:
        law: the law of the secret number of runs; see ``RunCount``.
        expected_runs: its mean.
        candidates: the training of every candidate that could be drawn, each kind once.
        score: the noisy score of one run on private validation documents; ``None`` where
            these were declared public.
        validation_units: how many documents (or owners) the score protects; 0 for ``None``.

    Assumes:
        Candidates are drawn independently from a distribution that never looked at the data.
        No unit both trains and validates, and one unit moves a score by at most the bound
        that its noise multiplier refers to. Nothing is told about the runs that lost.
    """

    law: Law
    expected_runs: ExpectedRuns
    candidates: Annotated[tuple[GaussianRelease, ...], Field(min_length=1)]
    score: GaussianQuery | None
    validation_units: Annotated[Whole, Field(ge=0)]

    def __post_init__(self) -> None:
        if len(set(self.candidates)) < len(self.candidates):
            raise ConfigError(
                f"The 'candidates' of {_OWNER} must name each kind of training once. "
                f"Got {self.candidates!r}."
            )
        if (self.score is None) != (self.validation_units == 0):
            raise ConfigError(
                f"The 'validation_units' of {_OWNER} must be 0 without a score, and at least 1 "
                f"with one. Got {self.validation_units}. Validation documents are either "
                "scored with noise, or declared public."
            )

    @property
    def release(self) -> SelectedRelease:
        """The search as the accountant sees it."""
        alternatives = [(candidate,) for candidate in self.candidates]
        if self.score is not None:
            alternatives.append((self.score.release,))
        return SelectedRelease(tuple(alternatives), RunCount(self.law, self.expected_runs))


@dataclass(frozen=True)
class SearchNoise:
    """Noise multipliers that make a whole search cost at most its target.

    Attributes:
        training: one for each kind of training, in the order given.
        score: of the score; ``None`` where it costs nothing.
        epsilon: what the search costs.
    """

    training: tuple[float, ...]
    score: float | None
    epsilon: float


def calibrate_search(
    epsilon: float,
    trainings: Sequence[GaussianRelease],
    count: RunCount,
    *,
    private_score: bool,
    delta: float,
) -> SearchNoise:
    """The noise of every candidate and of the score for a target of the whole search.

    Every run costs the same whichever candidate it draws, so none is favoured, and a score
    costs its validation documents what training costs the training documents.

    Args:
        epsilon: the target for everything together.
        trainings: what each candidate releases; their noise multipliers are ignored.
        count: the law of the number of runs.
        private_score: whether runs are scored on private validation documents.
        delta: of the guarantee.
    """
    shapes = [*trainings, *([GaussianRelease(1.0)] if private_score else [])]
    alone = [
        calibrate(
            epsilon=epsilon,
            steps=one.count,
            sampling_probability=one.sampling_probability,
            sensitivity=one.sensitivity,
            delta=delta,
            accountant="rdp",
        ).noise_multiplier
        for one in shapes
    ]
    most = max(alone)

    def scaled(noise: float) -> list[SelectedRelease]:
        groups = [
            (replace(one, noise_multiplier=noise * share / most),)
            for one, share in zip(shapes, alone, strict=True)
        ]
        return [SelectedRelease(tuple(dict.fromkeys(groups)), count)]

    found = calibrate_releases(epsilon, scaled, delta=delta, accountant="rdp")
    noises = [found.noise_multiplier * share / most for share in alone]
    score = noises.pop() if private_score else None
    return SearchNoise(tuple(noises), score, found.epsilon)
