"""Several plans in one pass: replicas that differ in the noise they get and in nothing else.

For experiments, in which one cut is trained at several noise levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from privgcn.errors import PrivacyContractError
from privgcn.privacy.mechanism.noise_grid import Grid, ReplicaGrids
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import AnySchedule
from privgcn.privacy.units import Unit


@dataclass(frozen=True, eq=False)
class PlansTogether:
    """One plan for each replica of a pass.

    Guarantees:
        The plans are the same but for the noise multiplier, so one cut, one schedule and one
        clip norm are those of all. Each replica's sums and noise lie on its own plan's grid.

    Raises:
        PrivacyContractError: The plans differ in more.
    """

    plans: tuple[PrivacyPlan, ...]
    device: torch.device

    def __post_init__(self) -> None:
        if not alike(self.plans):
            raise PrivacyContractError(
                "Plans in one pass must be the same but for their noise multiplier. "
                "Train with each of them in a pass of its own."
            )

    @property
    def unit(self) -> Unit:
        """What all plans protect."""
        return self.plans[0].unit

    @property
    def units(self) -> int:
        """How many documents train, or owners."""
        return self.plans[0].units

    @property
    def partition(self) -> PartitionFacts:
        """How all plans cut the training graph."""
        return self.plans[0].partition

    @property
    def schedule(self) -> AnySchedule:
        """Which parts a step uses, by all plans."""
        return self.plans[0].schedule

    @property
    def steps(self) -> int:
        """How many steps all plans take."""
        return self.plans[0].steps

    @property
    def clip_norm(self) -> float:
        """The clip norm of all plans."""
        return self.plans[0].clip_norm

    @cached_property
    def noise_multiplier(self) -> Tensor:
        """That of each replica's own plan ``[R, 1]``."""
        return self._of_each([plan.noise_multiplier for plan in self.plans])

    @cached_property
    def grid(self) -> ReplicaGrids:
        """The grid of each replica's own plan."""
        grids = [_grid(plan) for plan in self.plans]
        return ReplicaGrids(self._of_each([grid.step for grid in grids]), grids[0].input_bits)

    def _of_each(self, values: list[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float64, device=self.device)[:, None]


def alike(plans: Sequence[PrivacyPlan]) -> bool:
    """Whether plans differ in their noise alone, and leave input rows the same digits."""
    first = plans[0]
    return all(
        replace(plan, noise_multiplier=first.noise_multiplier) == first
        and _grid(plan).input_bits == _grid(first).input_bits
        for plan in plans
    )


def _grid(plan: PrivacyPlan) -> Grid:
    return Grid.of(plan.noise_multiplier, plan.schedule.parts)


AnyPlan = PrivacyPlan | PlansTogether
