"""The general path: clipped sums for any PyTorch (Geometric) module.

One gradient per part through ``torch.autograd``, one part at a time: slower than the layer
stacks' own path, but it takes whatever module the user brings, as long as its output for a
part depends on that part alone.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from privgcn.graph.parts import PartitionedGraph
from privgcn.models.module import check_module, linked, weighted_loss
from privgcn.privacy.mechanism.clipping import clipped_vector
from privgcn.privacy.mechanism.noise_grid import grid_of
from privgcn.privacy.mechanism.part_gradients import Samples
from privgcn.privacy.plan import PrivacyPlan
from privgcn.randomness import RandomSource


class _Part(NamedTuple):
    rows: Tensor
    links: Tensor
    labels: Tensor
    weights: Tensor


class ModuleGradients:
    """Clipped part gradients of ``module(x, edge_index) -> scores``.

    Guarantees:
        Each part's gradient comes from that part's own features, links and labels, and is
        scaled, over all parameters together, to norm at most the plan's, and rounded to the
        plan's grid, so that sums do not round. A non-finite gradient counts as zero.

    Assumes:
        The module's scores depend on what it is called with and on its parameters and
        buffers alone: it reads no file and no variable that holds documents.

    Raises:
        PrivacyContractError: The module keeps statistics over several parts (such as batch
            normalisation), which no clipping can bound, or holds tensors that could be
            documents.

    Every part meets a fresh copy of the module with secret randomness of its own, whether it
    draws from PyTorch, NumPy or Python. So neither what a layer remembers of one part (such as
    a cached propagation matrix) nor the random numbers that one part used up reach another.
    """

    def __init__(
        self,
        module: nn.Module,
        graph: PartitionedGraph,
        plan: PrivacyPlan,
        dropout: RandomSource | None = None,
    ) -> None:
        check_module(module)
        self.dropout = dropout or RandomSource.secret()
        self.module = copy.deepcopy(module).to(graph.labels.device).train()
        self.graph = graph
        self.plan = plan
        self.names = [n for n, p in module.named_parameters() if p.requires_grad]
        self._parts: dict[int, _Part] = {}

    @property
    def parts(self) -> int:
        """How many parts there are, sampled or not."""
        return self.graph.parts

    def initial(self) -> list[Tensor]:
        """The module's own parameters, as one replica."""
        held = dict(self.module.named_parameters())
        return [held[name].detach().clone().unsqueeze(-2) for name in self.names]

    def clipped_sum(self, parameters: Sequence[Tensor], samples: Samples) -> list[Tensor]:
        """The sum over the sampled parts of part gradients clipped to the clip norm."""
        values = {
            name: parameter.detach().squeeze(-2)
            for name, parameter in zip(self.names, parameters, strict=True)
        }
        parts = range(self.graph.parts) if samples is None else samples[0].tolist()
        totals = [torch.zeros_like(parameter, dtype=torch.float64) for parameter in parameters]
        with torch.enable_grad(), _generators_kept():
            for part in parts:
                for total, addition in zip(totals, self._clipped(values, part), strict=True):
                    total += addition
        return totals

    def _clipped(self, values: dict[str, Tensor], number: int) -> list[Tensor]:
        part = self._part(number)
        if not bool((part.weights > 0).any()):
            return [value.new_zeros(()) for value in values.values()]
        _seed_generators(int(self.dropout.words(1)[0] >> np.uint64(1)))
        # Copies: a module that changes its weights when it is called changes nobody else's.
        own = {name: value.clone().requires_grad_() for name, value in values.items()}
        # Trained parameters are replaced, so they need no further copies; frozen ones do.
        held = dict(self.module.named_parameters())
        fresh = copy.deepcopy(self.module, {id(held[name]): held[name] for name in own})
        scores = functional_call(fresh, own, (part.rows.clone(), part.links))
        loss = weighted_loss(scores, part.labels, part.weights)
        found = torch.autograd.grad(loss, list(own.values()), allow_unused=True)
        gradients = [
            torch.zeros_like(value) if gradient is None else gradient
            for value, gradient in zip(own.values(), found, strict=True)
        ]
        replica = [gradient.detach().unsqueeze(-2) for gradient in gradients]
        return clipped_vector(replica, self.plan.clip_norm, grid_of(self.plan))

    def _part(self, number: int) -> _Part:
        if number not in self._parts:
            device = self.graph.offsets.device
            own = self.graph.select(torch.tensor([number], device=device))
            begin, end = self.graph.offsets[number : number + 2].tolist()
            self._parts[number] = _Part(
                own.features.dense(),
                linked(own.matrix, len(own)).to(device),
                own.labels,
                self.graph.loss_weights[begin:end],
            )
        return self._parts[number]


@contextmanager
def _generators_kept() -> Iterator[None]:
    """Leaves the generators that a module may draw from as they were."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def _seed_generators(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed([seed >> 32, seed & 0xFFFFFFFF])
