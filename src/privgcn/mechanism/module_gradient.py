"""The gradient of any PyTorch module, one group after the other by autograd."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from privgcn.errors import PrivacyContractError
from privgcn.graph import DocumentGraph
from privgcn.mechanism.fixed_point import Floats, Grid, shortened
from privgcn.mechanism.questions import Access


class _Subgraph(NamedTuple):
    inputs: tuple[Tensor, ...]
    labelled: Tensor
    labels: Tensor


class ModuleGradient:
    """The gradient of a group's mean cross-entropy in all parameters of a module.

    The answer is one flat vector over ``module.parameters()`` that require gradients, at their
    values when it is asked. A module is called on the tensors of one group, in training mode.

    Args:
        module: Its scores ``[documents, classes]`` depend on what it is called with, its
            parameters and its buffers alone.
        inputs: Makes the tensors of a subgraph; called once for each group.
        device: Where the module and the tensors are.

    Guarantees:
        The sensitivity is one clip norm where a group is removed, two where it is replaced.
        A group adds v = trunc(unit g / max(|g|, C)) for its gradient g, over all parameters
        together, so |v| <= unit; zero where |g| is not finite, and where no document has a
        label. What float64 rounds is less than what ``shortened`` takes off. v depends on the
        group's own features, labels and edges, on released parameters and on randomness that
        is secret and the group's own, so nothing inside a group has to be exact. Whole numbers
        up to groups * unit <= 2^51 add up exactly, so removing a group moves the sum by its
        own v.
    Assumes:
        The module and ``inputs`` are trusted code: they read nothing that another group left
        behind. What carries over by accident is refused or undone: changed parameters,
        buffers, attributes and inputs, random generators, gradient mode and default type.

    Raises:
        PrivacyContractError: The module keeps something from one call to the next.
    """

    draws: ClassVar[bool] = True

    def __init__(
        self,
        module: nn.Module,
        inputs: Callable[[DocumentGraph], tuple[Tensor, ...]],
        device: str | torch.device = "cpu",
    ) -> None:
        self.module, self.inputs, self.device = module, inputs, torch.device(device)
        for name, layer in module.named_modules():
            title = name or type(module).__qualname__
            statistics = getattr(layer, "track_running_stats", False)
            if statistics or getattr(layer, "max_norm", None) is not None:
                _refuse(title, "statistics" if statistics else "weights shorter than max_norm")
        self.parameters = [value for value in module.parameters() if value.requires_grad]
        if not self.parameters or any(value.is_complex() for value in self.parameters):
            raise ValueError("A module must have real parameters that require gradients.")

    def clipped_sum(self, access: Access) -> Floats:
        """The sum over this rank's sampled groups, in whole steps."""
        subgraphs = access.groups.private.prepared(self._subgraph, (self.inputs, self.device))
        size = sum(value.numel() for value in self.parameters)
        total = torch.zeros(size, dtype=torch.float64, device=self.device)
        self.module.train()
        before = _state(self.module)
        with _process_settings():
            for number in np.flatnonzero(access.sample).tolist():
                subgraph = subgraphs[number]
                if subgraph is None:
                    continue
                gradient = self._gradient(subgraph, int(access.seeds[number]) >> 1)
                total += clipped(gradient, access.clip_norm, access.grid)
                if _state(self.module) != before:
                    _refuse(type(self.module).__qualname__, "something of a call")
        made: Floats = total.cpu().numpy()
        return made

    def _subgraph(self, graph: DocumentGraph) -> _Subgraph:
        labelled = np.flatnonzero((graph.labels >= 0) & (graph.labels < graph.classes))
        labels = torch.from_numpy(graph.labels[labelled]).to(self.device)
        inputs = tuple(tensor.to(self.device) for tensor in self.inputs(graph))
        return _Subgraph(inputs, torch.from_numpy(labelled).to(self.device), labels)

    def _gradient(self, subgraph: _Subgraph, seed: int) -> Tensor:
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed([seed >> 32, seed & 0xFFFFFFFF])
        torch.set_grad_enabled(True)
        versions = [tensor._version for tensor in subgraph.inputs]
        scores = self.module(*subgraph.inputs)[subgraph.labelled]
        loss = cross_entropy(scores, subgraph.labels)
        if versions != [tensor._version for tensor in subgraph.inputs]:
            _refuse(type(self.module).__qualname__, "numbers in its inputs")
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


def _state(module: nn.Module) -> list[Any]:
    """Whatever a module could carry from one group to the next, as far as it is cheap to tell.

    Tensors count their changes; other values are compared by identity, containers by size.
    """
    state: list[Any] = []
    for layer in module.modules():
        for name, value in vars(layer).items():
            if name in ("_parameters", "_buffers"):
                state.extend(
                    (id(own), own._version) for own in value.values() if own is not None
                )
            sized = len(value) if isinstance(value, dict | list | set) else 0
            state.append((name, id(value), sized))
    return state


def _refuse(layer: str, what: str) -> None:
    raise PrivacyContractError(
        f"The layer '{layer}' keeps {what} from one group to the next, which clipping does not "
        "bound. Use a layer that does not, such as LayerNorm instead of batch normalisation."
    )


@contextmanager
def _process_settings() -> Iterator[None]:
    """Leaves generators, gradient mode, default type and threads as they were."""
    python, numpy = random.getstate(), np.random.get_state()
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    try:
        with torch.random.fork_rng(), torch.set_grad_enabled(True):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_default_dtype(dtype)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
