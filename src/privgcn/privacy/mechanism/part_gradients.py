"""Clipped sums of a layer stack's part gradients, for the parts that a step samples."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from privgcn.graph.parts import PartitionedGraph
from privgcn.models.stack import LayerStack, loss_gradient
from privgcn.privacy.mechanism.clipping import ClippedSums
from privgcn.privacy.mechanism.noise_grid import grid_of
from privgcn.privacy.plan import PrivacyPlan
from privgcn.randomness import Draws

# The parts each replica samples in a step, or ``None``: all parts, for every replica.
Samples = Sequence[npt.NDArray[np.int64]] | None

# Parts of at least this many documents are worth their own prepared copy.
_LARGE_PART = 32
# So are smaller ones where there are few: in all, and in a step.
_FEW_PARTS, _FEW_IN_STEP = 1000, 4


class GradientSource(Protocol):
    """Something that sums clipped part gradients."""

    plan: PrivacyPlan
    graph: PartitionedGraph

    def clipped_sum(self, parameters: Sequence[Tensor], samples: Samples) -> list[Tensor]:
        """The sum over the sampled parts of clipped part gradients, in units of the norm.

        Float64 multiples of the step of the plan's grid.
        """


class StackGradients:
    """The fast path: hand-written gradients, norms without gradient copies.

    Args:
        model: The layers.
        graph: The parts of a plan's own cut.
        plan: Clip norm and grid.
        dropout: Where masks come from.
        short_residuals: Whether each document's residual is shortened to the clip norm.
        bias: Added to all scores, and not trained, ``[R, classes]``.

    Guarantees:
        Each part's gradient is computed from that part alone and enters the sum scaled, as
        a whole, to norm at most the plan's. Replicas have samples of their own. No sampled
        part: the sum is zero. Which parts are computed together, and how, moves no bit.
    """

    def __init__(
        self,
        model: LayerStack,
        graph: PartitionedGraph,
        plan: PrivacyPlan,
        dropout: Draws | None,
        *,
        short_residuals: bool = False,
        bias: Tensor | None = None,
    ) -> None:
        self.model = model
        self.plan = plan
        self.graph = graph.with_features(graph.features.on_grid(grid_of(plan).input_bits))
        self.bias = bias
        self.longest = plan.clip_norm if short_residuals else None
        self.dropout = dropout if model.dropout > 0 and len(model.layers) > 1 else None

    def clipped_sum(self, parameters: Sequence[Tensor], samples: Samples) -> list[Tensor]:
        """The sum over the sampled parts of part gradients clipped to the clip norm."""
        if samples is None:
            return self._sum(self._everything, parameters, None)
        included = np.zeros((self.graph.parts, len(samples)), dtype=bool)
        for replica, parts in enumerate(samples):
            included[parts, replica] = True
        used = np.flatnonzero(included.any(axis=1))
        totals = [torch.zeros_like(p, dtype=torch.float64) for p in parameters]
        if len(used) == 0:
            return totals
        mask = torch.from_numpy(included[used]).to(self.graph.labels.device)
        if not self._worth_preparing(len(used)):
            return self._sum(self._of_parts(used), parameters, mask)
        for row, part in enumerate(used.tolist()):
            # Only the replicas that sampled this part compute its gradient. Views, if all did.
            own = slice(None) if included[part].all() else torch.nonzero(mask[row])[:, 0]
            taken = [parameter[..., own, :] for parameter in parameters]
            sums = self._sum(self._single(part), taken, None)
            for total, more in zip(totals, sums, strict=True):
                total[..., own, :] += more
        return totals

    def _sum(
        self, block: ClippedSums, parameters: Sequence[Tensor], included: Tensor | None
    ) -> list[Tensor]:
        graph = block.graph
        tape = self.model.forward(
            parameters,
            graph.features,
            graph.matrix,
            self.dropout,
            bits=grid_of(self.plan).input_bits,
        )
        scores = tape.scores if self.bias is None else tape.scores + self.bias
        rows = loss_gradient(scores, graph.labels, graph.loss_weights, longest=self.longest)
        dropped = self.dropout is not None
        gradients = self.model.backward(parameters, tape, rows, graph.matrix, dropped=dropped)
        return block.clipped_sum(gradients, included=included)

    def _worth_preparing(self, used: int) -> bool:
        """Whether parts are better taken one by one than gathered for this step."""
        parts = self.graph.parts
        few = parts <= _FEW_PARTS and used <= _FEW_IN_STEP
        return few or len(self.graph) >= _LARGE_PART * parts

    @cached_property
    def _everything(self) -> ClippedSums:
        return ClippedSums(self.graph, self.plan.clip_norm, grid_of(self.plan))

    def _of_parts(self, parts: npt.NDArray[np.int64]) -> ClippedSums:
        chosen = torch.from_numpy(parts).to(self.graph.offsets.device)
        return ClippedSums(self.graph.select(chosen), self.plan.clip_norm, grid_of(self.plan))

    @cached_property
    def _singles(self) -> dict[int, ClippedSums]:
        return {}

    def _single(self, part: int) -> ClippedSums:
        if part not in self._singles:
            self._singles[part] = self._of_parts(np.array([part]))
        return self._singles[part]
