"""The gradient of any PyTorch module, one group after the other by autograd."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from privgcn.errors import PrivacyContractError
from privgcn.graph import DocumentGraph
from privgcn.mechanism.fixed_point import Floats, Grid, shortened
from privgcn.mechanism.questions import Access


class ModuleGradient:
    """The gradient of a group's mean cross-entropy in all parameters of a module.

    The answer is one flat vector over ``module.parameters()`` that require gradients, at their
    present values. A module is called on the tensors of one group, in training mode.

    ``inputs`` makes these tensors of a subgraph, once for each group; they go to ``device``,
    where the module is. Scores are ``[documents, classes]``.

    Guarantees:
        The sensitivity is one clip norm where a group is removed, two where it is replaced.
        A group adds v = trunc(unit g / max(|g|, C)) for its gradient g, over all parameters
        together, so |v| <= unit; zero where |g| is not finite, and where no document has a
        label. What float64 rounds is less than what ``shortened`` takes off. v depends on the
        group's own features, labels and edges, on released parameters and on secret randomness
        of its own, so nothing inside a group has to be exact. Whole numbers up to groups * unit
        <= 2^51 add up exactly, so removing a group moves the sum by v.
    Assumes:
        The module and ``inputs`` are trusted code: they read nothing that another group left
        behind. What carries over by accident is refused: changed parameters, buffers,
        attributes, inputs, gradient mode, threads and default type.
    """

    draws: ClassVar[bool] = True

    def __init__(
        self,
        module: nn.Module,
        inputs: Callable[[DocumentGraph], tuple[Tensor, ...]],
        device: str | torch.device = "cpu",
    ) -> None:
        self._module, self._inputs, self._device = module, inputs, torch.device(device)
        self.parameters = [value for value in module.parameters() if value.requires_grad]

    def clipped_sum(self, access: Access) -> Floats:
        """The sum over this rank's sampled groups, in whole steps."""
        key = self._inputs, self._device
        subgraphs = access.groups.private.per_group(self._subgraph, key)
        size = sum(value.numel() for value in self.parameters)
        total = torch.zeros(size, dtype=torch.float64, device=self._device)
        self._module.train()
        with _generators_restored():
            for number in np.flatnonzero(access.sample).tolist():
                if subgraphs[number] is not None:
                    gradient = self._gradient(subgraphs[number], int(access.seeds[number]))
                    total += clipped(gradient, access.clip_norm, access.grid)
        return np.asarray(total.cpu().numpy())

    def _subgraph(self, graph: DocumentGraph) -> list[Tensor]:
        known = np.flatnonzero((graph.labels >= 0) & (graph.labels < graph.classes))
        labels = map(torch.from_numpy, (known, graph.labels[known]))
        return [tensor.to(self._device) for tensor in (*labels, *self._inputs(graph))]

    def _gradient(self, subgraph: list[Tensor], seed: int) -> Tensor:
        torch.default_generator.manual_seed(seed)
        if self._device.type == "cuda":
            torch.cuda.manual_seed_all(seed)
        random.seed(seed)
        np.random.seed([seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF])
        known, labels, *inputs = subgraph
        with torch.enable_grad():
            before = _state(self._module, inputs)
            loss = cross_entropy(self._module(*inputs)[known], labels)
            if _state(self._module, inputs) != before:
                raise PrivacyContractError(
                    f"The module '{type(self._module).__qualname__}' keeps something from one "
                    "call to the next (statistics, caches, settings of the process), which no "
                    "clip bounds. Use layers that do not, such as LayerNorm for BatchNorm."
                )
        if not loss.requires_grad:
            return loss.new_zeros(())
        gradients = torch.autograd.grad(loss, self.parameters, materialize_grads=True)
        return torch.cat([gradient.to_dense().flatten() for gradient in gradients])


def clipped(vector: Tensor, clip_norm: float, grid: Grid) -> Tensor:
    """A group's vector, no longer than one clip norm, in whole steps; zero if not finite."""
    wide = vector.double()
    length = torch.linalg.vector_norm(wide)
    factor = shortened(wide.numel()) * grid.unit
    whole = (wide * (factor / length.clamp(min=clip_norm))).trunc_()
    return torch.where(length.isfinite(), whole, 0.0)


def _state(module: nn.Module, inputs: list[Tensor]) -> list[Any]:
    """What could carry over, as far as it is cheap to tell: tensors count their changes."""
    process = torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads()
    tensors, state = [*inputs, *module.parameters(), *module.buffers()], list[Any](process)
    for layer in module.modules():
        for name, value in vars(layer).items():
            sized = len(value) if isinstance(value, dict | list | set) else 0
            state.append((name, id(value), sized))
    return state + [(id(tensor), tensor._version) for tensor in tensors]


@contextmanager
def _generators_restored() -> Iterator[None]:
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
