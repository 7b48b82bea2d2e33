"""Clipped sums for a step that is recorded on a device and replayed.

What a step samples is written into tensors of fixed size before it runs, and nothing in it
asks the device for a value. Everything else is :class:`StackGradients`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from privgcn.errors import PrivacyContractError
from privgcn.graph.rows import Rows, densified
from privgcn.privacy.mechanism.clipping import clipped_parts, worth_multiplying_out
from privgcn.privacy.mechanism.noise_grid import Grid, grid_of
from privgcn.privacy.mechanism.part_gradients import Samples, StackGradients
from privgcn.privacy.mechanism.slots import PartTables, SlotDraws, Slots, slots_for
from privgcn.privacy.mechanism.together import AnyPlan, PlansTogether
from privgcn.privacy.units import DOCUMENTS_EACH

# Sampled parts of a step, in expectation, that are worth slots of their own however small
# they are: all parts of the graph would cost more.
_FEW_SAMPLED = 8


class DeviceGradients(StackGradients):
    """The sums of ``StackGradients``, in two halves: what the host says, and what is recorded.

    Guarantees:
        Those of ``StackGradients``. Moreover no replica's sum depends on what another one
        samples, dropout included.
    """

    _included: Tensor | None = None

    def _stored(self, rows: Rows) -> Rows:
        if isinstance(self.plan, PlansTogether) and not self._side_by_side:
            raise PrivacyContractError(
                "Several plans share a pass only where sampled parts lie side by side. "
                "Train with each of them in a pass of its own."
            )
        # How many documents people have is private, and must not choose the arithmetic.
        each = DOCUMENTS_EACH if self.plan.unit == "person" else 1
        return densified(rows, torch.float64, self.plan.units * each)

    @cached_property
    def _slots(self) -> dict[int, Slots]:
        return {}

    def clipped_sum(self, parameters: Sequence[Tensor], samples: Samples) -> list[Tensor]:
        """The sum over the sampled parts of part gradients clipped to the clip norm."""
        return self.placed_sum(parameters, self.place(samples))

    def place(self, samples: Samples) -> int | None:
        """Writes what a step samples to where it is read; returns which recording reads it."""
        if samples is None:
            return None
        device = self.graph.labels.device
        if self._side_by_side:
            count = slots_for(samples)
            if count not in self._slots:
                self._slots[count] = Slots.empty(count, device)
            self._slots[count].fill(samples)
            return count
        included = np.zeros((self.graph.parts, len(samples)), dtype=bool)
        for replica, parts in enumerate(samples):
            included[parts, replica] = True
        if self._included is None:
            self._included = torch.empty(included.shape, dtype=torch.bool, device=device)
        self._included.copy_(torch.from_numpy(included), non_blocking=True)
        return 0

    def placed_sum(self, parameters: Sequence[Tensor], recording: int | None) -> list[Tensor]:
        """The sum over the parts that were placed."""
        if recording is None:
            return self._sum(self._everything, parameters, None)
        if not self._side_by_side:
            return self._sum(self._everything, parameters, self._included)
        slots, replicas = self._slots[recording], parameters[0].shape[-2]
        block = self._tables.block(slots)
        masks = None if self.dropout is None else SlotDraws(self.dropout, slots, replicas)
        own = [parameter.index_select(-2, slots.replicas) for parameter in parameters]
        rows = self._rows(block, own, masks)
        grid = grid_of(self.plan)
        grid = grid if isinstance(grid, Grid) else grid.of(slots.replicas)
        vectors = clipped_parts(rows, self.plan.clip_norm, grid, self.plan.units)
        totals = [torch.zeros_like(p, dtype=torch.float64) for p in parameters]
        for total, vector in zip(totals, vectors, strict=True):
            kept = torch.where(block.used[:, None], vector, 0.0)
            # Atomic sums in any order: all terms lie on the grid.
            total.index_add_(-2, slots.replicas, kept)
        return totals

    @cached_property
    def _side_by_side(self) -> bool:
        return side_by_side(self.plan)

    @cached_property
    def _tables(self) -> PartTables:
        return PartTables(self.graph, grid_of(self.plan).input_bits)


def side_by_side(plan: AnyPlan) -> bool:
    """Whether sampled parts become slots: a matter of public numbers alone."""
    facts, schedule = plan.partition, plan.schedule
    if schedule.name == "all" or facts.parts == 1:
        return False
    even = facts.kind == "random" and facts.by == "document"
    few = schedule.expected_parts <= _FEW_SAMPLED
    return even and (few or worth_multiplying_out(plan.units // facts.parts))
