"""What a training releases, beside what it would have released in other worlds.

The engine has no hook that could leak a sum, and needs none. Sessions with the same key draw
the same noise: what two of them answer to one question differs by their documents alone. So
beside the session that trains there are others that are asked the same questions: one without
any document, whose answers are the noise, and, with a key of their own, those of the worlds
that an adversary compares.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from privgcn.audit.canaries import Case
from privgcn.mechanism import RandomSource, Session, SoftmaxGradient, Statistics
from privgcn.mechanism.fixed_point import Floats

# Sums that differ by less are the same: answers are divided by the number of groups.
_EQUAL = 1e-6


@dataclass(eq=False)
class Seen:
    """What an adversary sees of one training who knows everything but who was there.

    Attributes:
        likelihood: Of each target, the logarithm of the likelihood ratio, positive for
            present, if noise is as the plan claims.
        largest_move: How far a target moved a sum at most, in clip norms.
        moves: Mean square of how far it moved each sum.
        noise: The noise of each release, in clip norms.
        foreign: Releases of sums that no world has.
        sampled: How often the group of a target was used, and could have been.
    """

    likelihood: Floats
    largest_move: float = 0.0
    moves: list[float] = field(default_factory=list)
    noise: list[Floats] = field(default_factory=list)
    foreign: int = 0
    sampled: tuple[int, int] = (0, 0)


def twin_sources(count: int) -> list[RandomSource]:
    """Secret sources with the same key, made as every training makes its own."""
    key = os.urandom(32)
    with patch.object(os, "urandom", lambda size: key):
        return [RandomSource.secret() for _ in range(count)]


class WatchedSession(Session):
    """Trains in one world, and asks all others the same.

    Args:
        case: The worlds.
        there: Which targets train.
    """

    def __init__(self, case: Case, there: NDArray[np.bool_]) -> None:
        first, second = twin_sources(2)
        super().__init__(case.plan, case.groups(there), first)
        self._case, self._there = case, there
        self._silence = Session(case.plan, case.silence, second)
        self._worlds = [
            Session(case.always, groups, source)
            for groups, source in zip(case.worlds, twin_sources(3), strict=True)
        ]
        self.seen = Seen(np.zeros(len(case.targets)))

    def center(self, mean: NDArray[Any] | None) -> None:
        """Takes a released mean off every row, in all worlds."""
        super().center(mean)
        for session in (self._silence, *self._worlds):
            session.center(mean)

    def query(self, question: Any) -> Floats:
        """The answer of the session that trains."""
        answer = super().query(question)
        expected = self.plan.schedule.expected_groups
        noise = self._silence.query(question) * expected
        asked = [session.query(question) for session in self._worlds]
        always = self._case.always.schedule.expected_groups
        present, absent = (
            self._own(question, (world - asked[2]) * always) for world in asked[:2]
        )
        self.seen.noise.append(noise.ravel())
        released = self._own(question, answer * expected)
        self._see(released, self._own(question, noise), present, absent)
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
        seen, used = self.seen, released - noise
        moves = np.square(present - absent).sum(1)
        seen.largest_move = max(seen.largest_move, math.sqrt(float(moves.max(initial=0.0))))
        seen.moves.append(float(moves.mean()))
        own = np.where(self._there[:, None], present, absent)
        equal = _close(used, own)
        rate = self.plan.composition.sampling_probability
        if rate < 1.0:
            # A sum may have nothing of the target's group, and the others are silent.
            told = ~_close(own, np.zeros_like(own))
            times, could = seen.sampled
            seen.sampled = times + int((equal & told).sum()), could + int(told.sum())
            equal |= _close(used, np.zeros_like(used))
        if self._case.others is None:
            # The rest of a corpus may reach a target's column by the released mean.
            seen.foreign += int((~equal).any())
        seen.likelihood += self._ratio(released, present, absent, rate)

    def _ratio(self, released: Floats, present: Floats, absent: Floats, rate: float) -> Floats:
        twice = 2.0 * self.plan.noise_multiplier**2
        near, far = (np.square(released - s).sum(1) / twice for s in (present, absent))
        if rate == 1.0:
            return np.asarray(far - near)
        unsampled = math.log1p(-rate) - np.square(released).sum(1) / twice
        with_target = np.logaddexp(unsampled, math.log(rate) - near)
        return np.asarray(with_target - np.logaddexp(unsampled, math.log(rate) - far))


def _close(first: Floats, second: Floats) -> NDArray[np.bool_]:
    return np.asarray((np.abs(first - second) < _EQUAL).all(1))
