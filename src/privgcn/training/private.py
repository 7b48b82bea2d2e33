"""The private training loop: exactly the steps that a plan was accounted for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from privgcn.config import TrainingSettings
from privgcn.errors import PrivacyContractError, RankLostError
from privgcn.privacy.mechanism.centre import Outline
from privgcn.privacy.mechanism.device_gradients import DeviceGradients
from privgcn.privacy.mechanism.noise import noisy_mean
from privgcn.privacy.mechanism.part_gradients import GradientSource, Samples
from privgcn.privacy.mechanism.together import AnyPlan, PlansTogether
from privgcn.privacy.plan import PrivacyPlan
from privgcn.randomness import Draws
from privgcn.training.checkpoint import Checkpoint
from privgcn.training.fitted import CENTRE
from privgcn.training.optimisers import Optimiser
from privgcn.training.recording import Recording
from privgcn.training.shared_parts import SharedGradients

Progress = Callable[[int, int], None]
"""Called with steps done and steps in all."""

SHARES = "shares"
"""Name of the released class shares among the tensors of a checkpoint."""


class PrivateTrainer:
    """Runs exactly the steps that a plan was accounted for.

    Guarantees:
        Each step is one release of the plan's mechanism; the number of releases is the
        plan's, a released ``outline`` included, also over a stop and a resume.

    Raises:
        PrivacyContractError: ``gradients`` were made for another plan or other parts.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        gradients: GradientSource,
        plan: AnyPlan,
        settings: TrainingSettings,
        source: Draws,
        *,
        outline: Outline | None = None,
        names: Tensor | None = None,
    ) -> None:
        if type(plan) not in (PrivacyPlan, PlansTogether):
            raise PrivacyContractError(
                f"Private training takes a PrivacyPlan and nothing looser. Got {plan!r}."
            )
        parts = gradients.parts
        if gradients.plan != plan or parts != plan.schedule.parts:
            raise PrivacyContractError(
                "Private training takes gradients that were made for its own plan: clip norm "
                f"{plan.clip_norm:g} over {plan.schedule.parts} parts. Got clip norm "
                f"{gradients.plan.clip_norm:g} over {parts}. Make them from the plan's own cut."
            )
        self.gradients = gradients
        self.plan = plan
        self.source = source
        self.outline = outline
        self.replicas = parameters[0].shape[-2]
        if isinstance(plan, PlansTogether) and len(plan.plans) != self.replicas:
            raise PrivacyContractError(
                f"Plans in one pass are one for each replica. Got {len(plan.plans)} for "
                f"{self.replicas}."
            )
        self.optimiser = Optimiser(parameters, settings, names)
        self._sampled: Samples = None
        self._form: int | None = None
        # Iterates are kept in a list, which no recording could grow, nor send messages.
        called = settings.large_steps or isinstance(gradients, SharedGradients)
        recorded = "cpu" if called else parameters[0].device
        masks = getattr(gradients, "dropout", None)
        self._advance = Recording(torch.device(recorded), [source, masks])

    def run(
        self, progress: Progress | None = None, checkpoint: Checkpoint | None = None
    ) -> list[Tensor]:
        """Takes the steps that are left, and returns the parameters."""
        with torch.no_grad():
            while self.released < self.plan.steps:
                with self._state_kept(checkpoint):
                    self.step()
                if checkpoint is not None:
                    checkpoint.offer(self._state)
                if progress is not None:
                    progress(self.released, self.plan.steps)
        return self.optimiser.result()

    @contextmanager
    def _state_kept(self, checkpoint: Checkpoint | None) -> Iterator[None]:
        """Writes the state down if a rank is lost: that is before a step releases anything."""
        try:
            yield
        except RankLostError as error:
            if checkpoint is None:
                raise
            checkpoint.write(self._state())
            raise RankLostError(
                f"{error} The state after {self.released} of {self.plan.steps} steps was "
                "kept. Run the same command again, with or without torchrun, to go on."
            ) from None

    @property
    def released(self) -> int:
        """How many of the plan's releases were made; the outline is the first."""
        return self.optimiser.steps + (0 if self.outline is None else 1)

    def _state(self) -> dict[str, Tensor]:
        state = self.optimiser.state()
        if self.outline is not None:
            state[SHARES] = self.outline.shares
            if self.outline.centre is not None:
                state[CENTRE] = self.outline.centre
        return state

    def step(self) -> None:
        """One step of the plan."""
        number = self.released
        if number >= self.plan.steps:
            raise PrivacyContractError(
                f"The plan accounts for {self.plan.steps} steps, and all of them were taken. "
                "Make a plan with more steps."
            )
        self._sampled, self._form = self._samples(number), None
        if isinstance(self.gradients, DeviceGradients):
            self._form = self.gradients.place(self._sampled)
        counted = self.optimiser.steps
        self._advance(self._move, self._form)
        # A replay moves the weights, but counts nothing.
        self.optimiser.steps = counted + 1

    def _move(self) -> None:
        """What a step does to the weights, once: clipped sum, noise, step."""
        parameters, gradients = self.optimiser.parameters, self.gradients
        if isinstance(gradients, DeviceGradients):
            sums = gradients.placed_sum(parameters, self._form)
        else:
            sums = gradients.clipped_sum(parameters, self._sampled)
        self.optimiser.step(noisy_mean(sums, self.plan, self.source))

    def _samples(self, number: int) -> Samples:
        """What each replica's step uses; drawn anew for each replica."""
        drawn = [
            self.plan.schedule.sample(number, self.source.of_replica(replica))
            for replica in range(self.replicas)
        ]
        chosen = [parts for parts in drawn if parts is not None]
        return chosen if len(chosen) == self.replicas else None
