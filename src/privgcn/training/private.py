"""Private training: clipped sums, noise, a plain optimiser. Nothing else touches the data.

The centre of dense rows is one more clipped, noisy sum, and comes first. No loss and no
score of the training documents is computed, printed or stored, nothing stops early, and the
last (or the averaged) iterate is the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from privgcn.config import TrainingSettings
from privgcn.errors import PrivacyContractError
from privgcn.privacy.mechanism.noise import noisy_mean
from privgcn.privacy.mechanism.part_gradients import GradientSource, Samples
from privgcn.privacy.plan import PrivacyPlan
from privgcn.randomness import Draws
from privgcn.training.checkpoint import Checkpoint
from privgcn.training.optimisers import Optimiser

Progress = Callable[[int, int], None]

CENTRE = "centre"
"""Name of the released centre among a run's tensors."""


class PrivateTrainer:
    """Runs exactly the steps that a plan was accounted for.

    Guarantees:
        Each step is one release of the plan's mechanism; the number of releases is the
        plan's, a released ``centre`` included, also over a stop and a resume.

    Raises:
        PrivacyContractError: ``gradients`` were made for another plan or other parts.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        gradients: GradientSource,
        plan: PrivacyPlan,
        settings: TrainingSettings,
        source: Draws,
        *,
        centre: Tensor | None = None,
    ) -> None:
        if type(plan) is not PrivacyPlan:
            raise PrivacyContractError(f"Private training needs a PrivacyPlan. Got {plan!r}.")
        parts = gradients.graph.parts
        if gradients.plan != plan or parts != plan.schedule.parts:
            raise PrivacyContractError(
                "Private training takes gradients that were made for its own plan: clip norm "
                f"{plan.clip_norm:g} over {plan.schedule.parts} parts. Got clip norm "
                f"{gradients.plan.clip_norm:g} over {parts}. Make them from the plan's own cut."
            )
        self.gradients = gradients
        self.plan = plan
        self.source = source
        self.centre = centre
        self.replicas = parameters[0].shape[-2]
        self.optimiser = Optimiser(parameters, settings)

    def run(
        self, progress: Progress | None = None, checkpoint: Checkpoint | None = None
    ) -> list[Tensor]:
        """Takes the steps that are left, and returns the parameters."""
        with torch.no_grad():
            while self.released < self.plan.steps:
                self.step()
                if checkpoint is not None:
                    checkpoint.offer(self._state)
                if progress is not None:
                    progress(self.released, self.plan.steps)
        return self.optimiser.result()

    @property
    def released(self) -> int:
        """How many of the plan's releases were made; the centre is the first."""
        return self.optimiser.steps + (0 if self.centre is None else 1)

    def _state(self) -> dict[str, Tensor]:
        state = self.optimiser.state()
        return state if self.centre is None else {**state, CENTRE: self.centre}

    def step(self) -> None:
        """One step of the plan."""
        number = self.released
        if number >= self.plan.steps:
            raise PrivacyContractError(
                f"The plan accounts for {self.plan.steps} steps, and all of them were taken. "
                "Make a plan with more steps."
            )
        sums = self.gradients.clipped_sum(self.optimiser.parameters, self._samples(number))
        self.optimiser.step(noisy_mean(sums, self.plan, self.source))

    def _samples(self, number: int) -> Samples:
        """What each replica's step uses; drawn anew for each replica."""
        drawn = [
            self.plan.schedule.sample(number, self.source.of_replica(replica))
            for replica in range(self.replicas)
        ]
        chosen = [parts for parts in drawn if parts is not None]
        return chosen if len(chosen) == self.replicas else None
