"""The one door to the training documents.

A session holds documents and a plan. It answers questions with noisy clipped sums, as many as
the plan pays for. Whatever is done with the answers is post-processing: recipes need no review
to be private.

    session = Session(plan, groups, RandomSource.secret())
    statistics = session.query(Statistics())                      # one release
    session.center(statistics[: session.width] / Statistics.ROW)  # a released number: free
    while session.remaining:
        gradient = session.query(SoftmaxGradient(weights, bias))  # one release each
        weights = weights - rate * gradient
"""

from __future__ import annotations

from threading import Lock
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from privgcn.errors import PrivacyContractError
from privgcn.mechanism.fixed_point import Floats, Grid
from privgcn.mechanism.groups import Groups
from privgcn.mechanism.noise import RandomSource, noisy
from privgcn.mechanism.questions import Access, GroupVectors, check_released
from privgcn.privacy.plan import PrivacyPlan


class Session:
    """Answers ``plan.steps`` questions about the training documents, and then no more.

    ``releasable`` says whether noise and samples come from a secret source. ``width``,
    ``classes`` and ``dense`` are public facts of the documents.

    Guarantees:
        Each answer is one release of the plan's Gaussian mechanism, sampled by its schedule,
        and ``plan.epsilon`` holds for all together. Nothing else about the documents leaves:
        no count, no norm, no error that depends on them.
    Assumes:
        The questions are those of this package, and nobody else reads the documents.
    """

    def __init__(self, plan: PrivacyPlan, groups: Groups, source: RandomSource | None) -> None:
        if type(plan) is not PrivacyPlan:  # a subclass could account for something else
            raise PrivacyContractError(f"A session needs a PrivacyPlan. Got {plan!r}.")
        if (groups.partition, groups.units) != (plan.partition, plan.units):
            rule = "The groups of a session must be of its plan. Make them by Groups.of_plan."
            raise PrivacyContractError(rule)
        self._ranks = groups.ranks
        if (source is not None) != groups.ranks.leads:
            raise ValueError("Rank 0 must have a random source, and no other rank.")
        self._plan, self._answered, self._lock = plan, 0, Lock()
        self.width, self.classes, self.dense = groups.width, groups.classes, groups.dense
        releasable = np.array([source is not None and source.releasable])
        self.releasable = bool(self._ranks.share(releasable)[0])
        self._groups, self._source = groups, source
        self._grid = Grid.of(plan.noise_multiplier, plan.partition.groups)
        self._mean: NDArray[Any] | None = None

    @property
    def plan(self) -> PrivacyPlan:
        """What is paid from."""
        return self._plan

    @property
    def remaining(self) -> int:
        """How many questions the plan still pays for."""
        return self.plan.steps - self._answered

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise of an answer, in clip norms: a public number."""
        return self.plan.noise_multiplier / self.plan.schedule.expected_groups

    def center(self, mean: NDArray[Any] | None) -> None:
        """From now on takes a released mean off every dense row, and divides by its length."""
        if mean is not None:
            if not self.dense:
                raise ValueError("A mean is taken off dense rows only.")
            check_released("mean", mean, (self.width,))
        self._mean = None if mean is None else np.array(mean)

    def query(self, question: GroupVectors) -> Floats:
        """The noisy mean over groups, in clip norms; a ``RuntimeError`` if the plan is used up.

        The sum is divided by the expected number of groups: how many were sampled is private.
        """
        question.check(self._groups)
        plan, source, share = self.plan, self._source, self._ranks.share
        with self._lock, np.errstate(all="ignore"):  # no caller's setting makes a row an error
            if self.remaining < 1:
                raise RuntimeError(f"All {plan.steps} releases of the plan were made.")
            step, self._answered = self._answered, self._answered + 1
            sample = np.empty(plan.partition.groups, bool)
            seeds = np.empty(plan.partition.groups if question.draws else 0, np.int64)
            if source is not None:
                sample = plan.schedule.sample(step, source)
                # For all groups: what one gets must not tell which others take part.
                seeds = source.words(len(seeds)).view(np.int64)
            facts = self._groups, self._mean, plan.clip_norm, self._grid
            access = Access(*facts, share(sample), share(seeds))
            total = self._ranks.sum(question.clipped_sum(access))
            made = np.empty_like(total) if source is None else noisy(total, self._grid, source)
            return share(made) / plan.schedule.expected_groups

    def __reduce__(self) -> NoReturn:
        raise TypeError("A session is not copied: a copy would answer beyond the plan.")
