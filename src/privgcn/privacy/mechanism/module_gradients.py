"""The general path: clipped sums for any PyTorch (Geometric) module.

One gradient per part through ``torch.func``, one part at a time: slower than the layer
stacks' own path, but it takes whatever module the user brings, as long as its output for a
part depends on that part alone.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad

from privgcn.errors import PrivacyContractError
from privgcn.graph.on_disk import sparse_in_memory
from privgcn.graph.parts import PartitionedGraph
from privgcn.privacy.mechanism.clipping import clipped_vector
from privgcn.privacy.mechanism.noise_grid import grid_of
from privgcn.privacy.mechanism.part_gradients import Samples
from privgcn.privacy.plan import PrivacyPlan
from privgcn.randomness import RandomSource


class ModuleGradients:
    """Clipped part gradients of ``module(x, edge_index) -> scores``.

    Guarantees:
        Each part's gradient comes from that part's own features, links and labels, and is
        scaled, over all parameters together, to norm at most the plan's, and rounded to the
        plan's grid, so that sums do not round. A non-finite gradient counts as zero.

    Raises:
        PrivacyContractError: The module keeps statistics over several parts (such as batch
            normalisation), which no clipping can bound.

    Every part meets a fresh copy of the module with secret randomness of its own, so neither
    what a layer remembers of one part (such as a cached propagation matrix) nor the dropout
    masks that one part used up ever reach another.
    """

    def __init__(
        self,
        module: nn.Module,
        graph: PartitionedGraph,
        plan: PrivacyPlan,
        dropout: RandomSource | None = None,
    ) -> None:
        _refuse_shared_state(module)
        self.dropout = dropout or RandomSource.secret()
        self.module = copy.deepcopy(module)
        self.graph = graph
        self.plan = plan
        self.names = [name for name, _ in module.named_parameters()]
        self._gradient = grad(self._loss)
        self._starts = graph.offsets.tolist()

    @property
    def parts(self) -> int:
        """How many parts there are, sampled or not."""
        return self.graph.parts

    def initial(self) -> list[Tensor]:
        """The module's own parameters, as one replica."""
        return [p.detach().clone().unsqueeze(-2) for p in self.module.parameters()]

    def clipped_sum(self, parameters: Sequence[Tensor], samples: Samples) -> list[Tensor]:
        """The sum over the sampled parts of part gradients clipped to the clip norm."""
        values = {
            name: parameter.detach().squeeze(-2)
            for name, parameter in zip(self.names, parameters, strict=True)
        }
        parts = range(self.graph.parts) if samples is None else samples[0].tolist()
        totals = [torch.zeros_like(parameter, dtype=torch.float64) for parameter in parameters]
        for part in parts:
            for total, addition in zip(totals, self._clipped(values, part), strict=True):
                total += addition
        return totals

    def _clipped(self, values: dict[str, Tensor], part: int) -> list[Tensor]:
        begin, end = self._starts[part], self._starts[part + 1]
        weights = self.graph.loss_weights[begin:end]
        if not bool((weights > 0).any()):
            return [value.new_zeros(()) for value in values.values()]
        own = self.graph.select(torch.tensor([part], device=self.graph.offsets.device))
        with torch.enable_grad(), torch.random.fork_rng():
            torch.manual_seed(int(self.dropout.words(1)[0] >> np.uint64(1)))
            gradients = self._gradient(values, own, weights).values()
        replica = [gradient.unsqueeze(-2) for gradient in gradients]
        return clipped_vector(replica, self.plan.clip_norm, grid_of(self.plan))

    def _loss(
        self, values: dict[str, Tensor], own: PartitionedGraph, weights: Tensor
    ) -> Tensor:
        parameters = {id(p): p for p in self.module.parameters()}
        fresh = copy.deepcopy(self.module, parameters)
        scores = functional_call(fresh, values, (own.features.dense(), links_of(own)))
        target = own.labels.clamp(0, own.classes - 1)
        losses = nn.functional.cross_entropy(scores, target, reduction="none")
        return (losses * weights).sum()


def links_of(graph: PartitionedGraph) -> Tensor:
    """The links inside the parts in both directions, as PyG's ``edge_index``."""
    if graph.matrix is None:
        return torch.empty((2, 0), dtype=torch.int64, device=graph.labels.device)
    matrix = sparse_in_memory(graph.matrix)
    rows = torch.repeat_interleave(
        torch.arange(len(graph), device=graph.labels.device), matrix.lengths
    )
    links = torch.stack([rows, matrix.columns])
    return links[:, links[0] != links[1]]


def _refuse_shared_state(module: nn.Module) -> None:
    for name, child in module.named_modules():
        buffers = [buffer for buffer, _ in child.named_buffers(recurse=False)]
        if buffers:
            raise PrivacyContractError(
                f"The layer '{name or type(child).__name__}' keeps statistics "
                f"({', '.join(buffers)}) over several parts, which clipping does not bound. "
                "Use a layer without buffers, such as LayerNorm instead of batch normalisation."
            )
