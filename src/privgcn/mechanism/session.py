"""The one door to the training documents.

A session holds documents and a plan. It answers questions with noisy clipped sums, as many as
the plan pays for. Whatever is done with the answers is post-processing: recipes need no review
to be private.

    session = Session(plan, groups, RandomSource.secret())
    statistics = session.query(Statistics())                      # one release
    session.center(mean)                                          # a released number: free
    while session.remaining:
        gradient = session.query(SoftmaxGradient(weights, bias))  # one release each
        weights = weights - rate * gradient

Examples:
    >>> from privgcn.graph import DocumentGraph
    >>> from privgcn.mechanism.questions import SoftmaxGradient
    >>> from privgcn.privacy.plan import AllGroups, PartitionFacts, PrivacyPlan
    >>> plan = PrivacyPlan(
    ...     unit="document", relation="remove", schedule=AllGroups(groups=3), clip_norm=1.0,
    ...     partition=PartitionFacts(kind="each", groups=3), noise_multiplier=5.0, steps=1,
    ...     delta=1e-3, units=3,
    ... )
    >>> graph = DocumentGraph(
    ...     np.eye(3), np.zeros((2, 0), int), np.array([0, 1, -1]), 2, np.zeros(3, np.int8)
    ... )
    >>> session = Session(plan, Groups.of_plan(plan, graph), RandomSource.secret())
    >>> session.query(SoftmaxGradient(np.zeros((3, 2)), np.zeros(2))).shape
    (3, 2)
    >>> session.query(SoftmaxGradient(np.zeros((3, 2)), np.zeros(2)))
    Traceback (most recent call last):
    RuntimeError: All 1 releases of the plan were made. Make a plan with more steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privgcn.errors import PrivacyContractError
from privgcn.mechanism.fixed_point import Floats, Grid
from privgcn.mechanism.groups import Groups, WholeRows
from privgcn.mechanism.noise import RandomSource, noisy
from privgcn.mechanism.questions import Access, GroupVectors
from privgcn.mechanism.ranks import Ranks
from privgcn.privacy.plan import PrivacyPlan


class Session:
    """Answers ``plan.steps`` questions about the training documents, and then no more.

    Attributes:
        plan: What the answers cost.
        remaining: How many questions the plan still pays for.
        releasable: Whether noise and samples come from a secret source.
        width: Features of a document.
        classes: Number of classes.
        dense: Whether feature rows are stored without gaps.

    Guarantees:
        Each answer is one release of the plan's Gaussian mechanism, sampled by its schedule;
        their number is the plan's. Nothing else about the documents leaves: no count, no
        norm, no error that depends on them. ``plan.epsilon`` holds for all answers together.
    Assumes:
        The questions are those of this package, and nobody else reads the documents.

    Raises:
        PrivacyContractError: The groups were not made from this plan's partition and units.
    """

    def __init__(
        self,
        plan: PrivacyPlan,
        groups: Groups,
        source: RandomSource | None,
        *,
        ranks: Ranks | None = None,
    ) -> None:
        # A subclass could sample in one way and be accounted in another.
        if type(plan) is not PrivacyPlan:
            raise PrivacyContractError(f"A session needs a PrivacyPlan. Got {type(plan)}.")
        if (groups.partition, groups.units) != (plan.partition, plan.units):
            raise PrivacyContractError(
                f"The groups of a session must be those of its plan, {plan.partition} of "
                f"{plan.units} units. Got {groups.partition} of {groups.units}. "
                "Make them by Groups.of_plan with the same plan."
            )
        self._ranks = ranks or Ranks()
        if (source is not None) != self._ranks.leads:
            raise ValueError("Rank 0 must have a random source, and no other rank.")
        self.plan, self.remaining = plan, plan.steps
        self.width, self.classes, self.dense = groups.width, groups.classes, groups.dense
        self.releasable = bool(self._ranks.share(np.array([source and source.releasable]))[0])
        self._groups, self._source = groups, source
        self._grid = Grid.of(plan.noise_multiplier, groups.count)
        self._mean: NDArray[Any] | None = None
        self._rows: WholeRows | None = None

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise of an answer, in clip norms: a public number."""
        return self.plan.noise_multiplier / self.plan.schedule.expected_groups

    def center(self, mean: NDArray[Any] | None) -> None:
        """From now on takes a released mean off every row; what is left has length one again.

        Dense rows only: sparse ones would be sparse no more.
        """
        if mean is not None and not (self.dense and np.isfinite(mean).all()):
            raise ValueError("A mean must be finite, and is taken off dense rows only.")
        self._mean, self._rows = mean, None

    def query(self, question: GroupVectors) -> Floats:
        """The noisy mean over groups, in clip norms.

        The sum is divided by the expected number of groups: how many were sampled is private.

        Raises:
            RuntimeError: The plan is used up.
        """
        if self.remaining < 1:
            raise RuntimeError(
                f"All {self.plan.steps} releases of the plan were made. "
                "Make a plan with more steps."
            )
        step = self.plan.steps - self.remaining
        self.remaining -= 1
        total = self._ranks.sum(question.clipped_sum(self._access(question, step)))
        made = np.empty_like(total)
        if self._source is not None:
            made = noisy(total, self._grid, self._source)
        return self._ranks.share(made) / self.plan.schedule.expected_groups

    def _access(self, question: GroupVectors, step: int) -> Access:
        count = self._groups.count
        sample, seeds = np.empty(count, bool), np.empty(count, np.int64)
        if self._source is not None:
            sample = self.plan.schedule.sample(step, self._source)
            if question.draws:
                # Also for groups that do not take part: no group's word tells who does.
                seeds = self._source.words(count).view(np.int64)
        sample = self._ranks.share(sample)
        seeds = self._ranks.share(seeds) if question.draws else seeds
        clip_norm, words = self.plan.clip_norm, seeds.view(np.uint64)
        return Access(self._groups, self._whole_rows, clip_norm, self._grid, sample, words)

    def _whole_rows(self) -> WholeRows:
        if self._rows is None:
            self._rows = self._groups.private.whole_rows(self._grid, self._mean)
        return self._rows
