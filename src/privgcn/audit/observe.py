"""What trainings release, beside what they would have released in other worlds.

The engine has no hook that could leak a sum, and needs none. Sessions with the same key draw
the same noise: what two of them answer to one question differs by their documents alone. So
beside the session that trains there are others that are asked the same questions: one without
any document, whose answers are the noise, and, with a key of their own, those of the worlds
that an adversary compares.

An auditor also sees the noise by itself and can ask of it what the accounting assumes
(:func:`noise_defects`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from privgcn.audit.canaries import Case
from privgcn.config import Settings
from privgcn.mechanism import Groups, RandomSource, Session, SoftmaxGradient, Statistics
from privgcn.mechanism.fixed_point import Floats, Grid
from privgcn.released import Released

# Sums that differ by less are the same: answers are divided by the number of groups.
_EQUAL = 1e-6
# Noise lies on a fine grid: some values of millions may be equal by chance.
_BY_CHANCE = 2
# Values of noise that an auditor keeps, and of each release those whose law is tested.
_NOISE, _VALUES = 1 << 24, 256
# Lowest bits of a noise sample, each of which is a coin.
_BITS = 8


@dataclass(eq=False)
class Trainings:
    """What an adversary sees of many trainings who knows everything but who was there.

    ``releases`` has, of each target, the logarithm of the likelihood ratio of all releases,
    positive for present, if noise is as the plan claims. The ``largest_move`` is in clip norms.
    ``foreign`` releases are of sums that no world has. The group of a target was ``sampled`` as
    often, of the times that it ``could`` have been.
    """

    case: Case
    there: list[NDArray[np.bool_]] = field(default_factory=list)
    releases: list[Floats] = field(default_factory=list)
    noise: list[Floats] = field(default_factory=list)
    largest_move: float = 0.0
    foreign: int = 0
    sampled: int = 0
    could: int = 0

    def train(self, there: NDArray[np.bool_]) -> None:
        """Trains once, with some of the targets."""
        self.there.append(there)
        self.releases.append(np.zeros(len(there)))
        session = _WatchedSession(self)
        trained(session, self.case.settings)
        if session.remaining:
            raise RuntimeError(f"A training left {session.remaining} releases of its plan.")

    def guessed(self) -> tuple[int, int]:
        """Right guesses and all of them, by the strongest test of an engine as planned."""
        there = np.concatenate(self.there)
        guesses = np.concatenate(self.releases) > 0.0
        return int((guesses == there).sum()), len(there)


class _WatchedSession(Session):
    """Makes the last of some trainings, and asks all other worlds the same questions."""

    def __init__(self, trainings: Trainings) -> None:
        case, there = trainings.case, trainings.there[-1]
        first, second = twin_sources(2)
        super().__init__(case.plan, Groups.of_plan(case.plan, case.graph(there)), first)
        self._trainings, self._case, self._there = trainings, case, there
        *worlds, silence = case.worlds
        self._silence = Session(case.plan, silence, second)
        self._worlds = [
            Session(case.always, groups, source)
            for groups, source in zip(worlds, twin_sources(3), strict=True)
        ]

    def center(self, mean: NDArray[Any] | None) -> None:
        super().center(mean)
        for session in (self._silence, *self._worlds):
            session.center(mean)

    def query(self, question: Any) -> Floats:
        answer = super().query(question)
        expected = self.plan.schedule.expected_groups
        noise = self._silence.query(question) * expected
        always = self._case.always.schedule.expected_groups
        present, absent, silent = (each.query(question) * always for each in self._worlds)
        if len(self._trainings.noise) * noise.size < _NOISE:
            self._trainings.noise.append(noise.ravel())
        vectors = answer * expected, noise, present - silent, absent - silent
        self._see(*(self._own(question, vector) for vector in vectors))
        return answer

    def _own(self, question: Any, vector: Floats) -> Floats:
        """What is about each target ``[targets, coordinates]``."""
        count = len(self._there)
        if self._case.target_of is None:
            return vector.reshape(1, -1)
        if isinstance(question, Statistics):
            # The class priors are about all of them together.
            return vector[: -self.classes][-count:].reshape(count, -1)
        if not isinstance(question, SoftmaxGradient):
            raise ValueError(f"Targets have no columns in {question!r}.")
        return vector[-count:]

    def _see(self, released: Floats, noise: Floats, present: Floats, absent: Floats) -> None:
        seen, used = self._trainings, released - noise
        moves = np.square(present - absent).sum(1)
        seen.largest_move = max(seen.largest_move, math.sqrt(float(moves.max(initial=0.0))))
        twice = 2.0 * self.plan.noise_multiplier**2
        # Logarithms of the likelihoods, up to a number that is common to all of them.
        worlds = present, absent, 0.0
        near, far, off = (-np.square(released - each).sum(1) / twice for each in worlds)
        own = np.where(self._there[:, None], present, absent)
        equal = (np.abs(used - own) < _EQUAL).all(1)
        rate = self.plan.training.sampling_probability
        if rate < 1.0:
            # A sum may have nothing of the target's group, and the others are silent.
            told = (np.abs(own) >= _EQUAL).any(1)
            seen.sampled += int((equal & told).sum())
            seen.could += int(told.sum())
            equal |= (np.abs(used) < _EQUAL).all(1)
            near, far = (
                np.logaddexp(math.log1p(-rate) + off, math.log(rate) + each)
                for each in (near, far)
            )
        seen.foreign += int((~equal).any())
        seen.releases[-1] += near - far


def twin_sources(count: int) -> list[RandomSource]:
    """Secret sources with the same key, made as every training makes its own."""
    key = os.urandom(32)
    with patch.object(os, "urandom", lambda size: key):
        return [RandomSource.secret() for _ in range(count)]


def trained(session: Session, settings: Settings) -> Released:
    """The model of a training through a session, by the recipe that the settings name."""
    if settings.training.large_steps:
        from privgcn.auto.train import train

        return train(session, settings)
    from privgcn.sgd.train import train_private

    return train_private(session, settings)


def noise_defects(
    noises: Sequence[Floats], noise_multiplier: float, grid: Grid, confidence: float
) -> list[str]:
    """Why the noise of some releases is not what is accounted for.

    Fresh for every run, release and coordinate, Gaussian, as large as planned, and on the grid
    of the sums down to the last bit. Each reason holds with this confidence.
    """
    from scipy.stats import binomtest, chi2, kstest

    whole = [np.rint(noise * grid.unit) for noise in noises]
    again = len(whole) - len({hash(np.abs(each).tobytes()) for each in whole})
    alike = sum(each.size - len(np.unique(np.abs(each))) for each in whole)
    off_grid = sum(
        int((np.abs(noise * grid.unit - each) > 0.25).sum())
        for noise, each in zip(noises, whole, strict=True)
    )
    samples = sum(each.size for each in noises)
    squares = sum(float(np.square(each).sum()) for each in noises)
    # The largest standard deviation that the samples leave plausible.
    most = math.sqrt(squares / float(chi2.ppf(1.0 - confidence, samples)))
    reasons = {
        f"{again} releases had noise that was sampled before": again > 0,
        f"{alike} coordinates got the noise of another one": alike > _BY_CHANCE,
        f"{off_grid} released numbers do not lie on the grid": off_grid > 0,
        f"noise has a standard deviation of at most {most:.4g} clip norms, the plan accounts "
        f"for {noise_multiplier:.4g}": most < noise_multiplier,
    }
    if not any(reasons.values()):
        low = (each.astype(np.int64) & ((1 << _BITS) - 1) for each in whole)
        ones = sum(int(np.bitwise_count(bits).sum()) for bits in low)
        coins = binomtest(ones, _BITS * samples).pvalue
        values = np.concatenate([each[:_VALUES] for each in noises])
        # By its own deviation: too much noise breaks no claim.
        gaussian = kstest(values / math.sqrt(float(np.square(values).mean())), "norm").pvalue
        reasons = {
            "the lowest bits of noise are no coins": coins < 1.0 - confidence,
            "noise is not Gaussian": gaussian < 1.0 - confidence,
        }
    return [words for words, true in reasons.items() if true]
