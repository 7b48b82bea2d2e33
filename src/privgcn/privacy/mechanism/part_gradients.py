"""Clipped sums of a layer stack's part gradients, for the parts that a step samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from privgcn.graph.on_disk import RowsOnDisk
from privgcn.graph.parts import PartitionedGraph
from privgcn.graph.rows import Rows
from privgcn.graph.sparse_rows import segment_positions
from privgcn.models.stack import LayerGradient, LayerStack, loss_gradient
from privgcn.privacy.mechanism.clipping import ClippedSums
from privgcn.privacy.mechanism.noise_grid import grid_of
from privgcn.privacy.mechanism.slots import SlotBlock
from privgcn.privacy.mechanism.together import AnyPlan
from privgcn.randomness import RandomSource, SeededReplicas, UniformBytes

# The parts each replica samples in a step, or ``None``: all parts, for every replica.
Samples = Sequence[npt.NDArray[np.int64]] | None

# Documents times replicas that cost as much as one more pass does by itself.
_ONE_PASS = 2000
# Units of one replica whose rows fill a cache: more replicas at once make each of them slower.
_FILL_A_CACHE = 8192
# Samples are kept if there are no more than this of their size, while all that are kept have
# at most so many times the documents of all parts.
_FEW_SAMPLES, _MOST_KEPT = 1000, 4
# Rows on disk that are read more often are worth writing once, as they are used.
_FEW_READS = 2


class GradientSource(Protocol):
    """Something that sums clipped part gradients."""

    @property
    def plan(self) -> AnyPlan:
        """What the gradients are clipped for."""

    @property
    def parts(self) -> int:
        """How many parts there are, sampled or not."""

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
        plan: AnyPlan,
        dropout: UniformBytes | None,
        *,
        short_residuals: bool = False,
        bias: Tensor | None = None,
    ) -> None:
        self.model = model
        self.plan = plan
        self.graph = graph.with_features(
            self._stored(graph.features.on_grid(grid_of(plan).input_bits))
        )
        self.bias = bias
        self.longest = plan.clip_norm if short_residuals else None
        self.dropout = dropout if model.dropout > 0 and len(model.layers) > 1 else None

    def _stored(self, rows: Rows) -> Rows:
        """Rows as steps read them."""
        if isinstance(rows, RowsOnDisk) and self.plan.steps > _FEW_READS:
            return rows.settled()
        return rows

    @property
    def parts(self) -> int:
        """How many parts there are, sampled or not."""
        return self.graph.parts

    @torch.inference_mode()
    def clipped_sum(self, parameters: Sequence[Tensor], samples: Samples) -> list[Tensor]:
        """The sum over the sampled parts of part gradients clipped to the clip norm."""
        if isinstance(self.graph.features, RowsOnDisk):
            return self._sum_of_blocks(parameters, samples)
        if samples is None:
            return self._sum_of_all(parameters)
        included = np.zeros((self.graph.parts, len(samples)), dtype=bool)
        for replica, parts in enumerate(samples):
            included[parts, replica] = True
        used = np.flatnonzero(included.any(axis=1))
        if len(used) == 0:
            return [torch.zeros_like(p, dtype=torch.float64) for p in parameters]
        wanted = included[used]
        if wanted.all():
            return self._sum(self._sampled(used), parameters, None)
        kinds, kind_of = np.unique(wanted, axis=0, return_inverse=True)
        if not self._worth_passes(wanted, len(kinds)):
            mask = torch.from_numpy(wanted).to(self.graph.labels.device)
            return self._sum(self._sampled(used), parameters, mask)
        totals = [torch.zeros_like(p, dtype=torch.float64) for p in parameters]
        for number, kind in enumerate(kinds):
            # Parts that the same replicas sampled, for these replicas alone.
            own = torch.from_numpy(np.flatnonzero(kind)).to(self.graph.labels.device)
            taken = [parameter[..., own, :] for parameter in parameters]
            block = self._sampled(used[kind_of.ravel() == number])
            for total, more in zip(totals, self._sum(block, taken, None), strict=True):
                total[..., own, :] += more
        return totals

    def _sum_of_all(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        """The sum over all parts; replicas of many documents come one after another."""
        replicas, masks = parameters[0].shape[-2], self.dropout
        together = replicas == 1 or self.plan.units < _FILL_A_CACHE or self.bias is not None
        if together or not isinstance(masks, RandomSource | SeededReplicas | None):
            return self._sum(self._everything, parameters, None)
        totals = [torch.empty_like(p, dtype=torch.float64) for p in parameters]
        for own in range(replicas):
            drawn = None if masks is None else masks.of_replica(own)
            rows = self._rows(self.graph, [p[..., own : own + 1, :] for p in parameters], drawn)
            for total, made in zip(totals, self._everything.clipped_sum(rows), strict=True):
                total[..., own : own + 1, :] = made
        return totals

    def _sum_of_blocks(self, parameters: Sequence[Tensor], samples: Samples) -> list[Tensor]:
        """The same, a block of parts after another: sums are exact and have no order."""
        included = np.ones((self.graph.parts, parameters[0].shape[-2]), dtype=bool)
        if samples is not None:
            included[:] = False
            for replica, parts in enumerate(samples):
                included[parts, replica] = True
        used = torch.from_numpy(np.flatnonzero(included.any(axis=1)))
        totals = [torch.zeros_like(p, dtype=torch.float64) for p in parameters]
        for own, graph in self.graph.blocks(used):
            mask = None if samples is None else torch.from_numpy(included[used[own].numpy()])
            block = self._block(graph, used[own])
            for total, more in zip(totals, self._sum(block, parameters, mask), strict=True):
                total += more
        return totals

    def _block(self, graph: PartitionedGraph, parts: Tensor) -> ClippedSums:
        """Parts in memory; what an earlier step found of their rows is taken over."""
        block = ClippedSums(graph, self.plan.clip_norm, grid_of(self.plan))
        if self.plan.steps <= _FEW_READS:
            return block
        powers, squares = self._found
        rows = segment_positions(self.graph.offsets[parts], self.graph.sizes[parts])
        if bool(squares[rows].isfinite().all()):
            found = graph.features, powers[rows].double()[:, None, None], squares[rows][:, None]
            return replace(block, prepared=found)
        _, own_powers, own_squares = block.features
        powers[rows], squares[rows] = own_powers[:, 0, 0].float(), own_squares[:, 0]
        return block

    @cached_property
    def _found(self) -> tuple[Tensor, Tensor]:
        """Power and squared norm of each row on disk; infinite where not known yet."""
        squares = torch.full((len(self.graph),), torch.inf, dtype=torch.float64)
        return torch.zeros(len(self.graph)), squares

    def _sum(
        self, block: ClippedSums, parameters: Sequence[Tensor], included: Tensor | None
    ) -> list[Tensor]:
        gradients = self._rows(block.graph, parameters, self.dropout)
        return block.clipped_sum(gradients, included=included)

    def _rows(
        self,
        block: PartitionedGraph | SlotBlock,
        parameters: Sequence[Tensor],
        masks: UniformBytes | None,
    ) -> list[LayerGradient]:
        """The gradient rows of documents, each from its own part."""
        matrix, bits = block.matrix, grid_of(self.plan).input_bits
        tape = self.model.forward(parameters, block.features, matrix, masks, bits=bits)
        scores = tape.scores if self.bias is None else tape.scores + self.bias
        rows = loss_gradient(scores, block.labels, block.loss_weights, longest=self.longest)
        return self.model.backward(parameters, tape, rows, matrix, dropped=masks is not None)

    def _worth_passes(self, wanted: npt.NDArray[np.bool_], passes: int) -> bool:
        """Whether a pass for each set of replicas costs less than one for all of them."""
        spared = (wanted.size - wanted.sum()) * len(self.graph) / self.graph.parts
        return bool(spared > (passes - 1) * _ONE_PASS)

    @cached_property
    def _everything(self) -> ClippedSums:
        return ClippedSums(self.graph, self.plan.clip_norm, grid_of(self.plan))

    def _sampled(self, parts: npt.NDArray[np.int64]) -> ClippedSums:
        """The named parts, made ready; samples that are likely to come again are kept."""
        key = parts.tobytes()
        if key in self._kept:
            return self._kept[key]
        made = self._everything.select(torch.from_numpy(parts).to(self.graph.offsets.device))
        if len(parts) * math.log(self.graph.parts) <= math.log(_FEW_SAMPLES):
            if sum(map(len, self._kept.values())) + len(made) > _MOST_KEPT * len(self.graph):
                self._kept.clear()
            self._kept[key] = made
        return made

    @cached_property
    def _kept(self) -> dict[bytes, ClippedSums]:
        return {}
