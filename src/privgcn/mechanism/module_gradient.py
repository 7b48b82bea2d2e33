"""The gradient of any PyTorch module, one group after the other by autograd."""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from privgcn.graph import DocumentGraph
from privgcn.mechanism.fixed_point import Floats, Grid, shortened
from privgcn.mechanism.questions import Access, GroupVectors


class ModuleGradient(GroupVectors):
    """The gradient of a group's mean cross-entropy in all parameters of a module.

    The answer is one flat vector over ``module.parameters()`` that require gradients, at their
    present values. Each group gets its own copy of the module, in training mode: what a call
    changes in it ends with it. ``inputs`` makes a group's tensors of its subgraph, once; they
    go to ``device``, where the module is. Scores are ``[documents, classes]``.

    Guarantees:
        The sensitivity is one clip norm where a group is removed, two where it is replaced.
        A group adds v = trunc(unit g / max(|g|, C)) for its gradient g, over all parameters
        together, so |v| <= unit; zero where |g| is not finite, and where no document has a
        label. What float64 rounds is less than what ``shortened`` takes off. v depends on the
        group's own features, labels and edges, on released parameters and on secret randomness
        of its own, so nothing inside a group has to be exact. Whole numbers up to groups * unit
        <= 2^51 add up exactly, so removing a group moves the sum by v.
    Assumes:
        The module and ``inputs`` are trusted code. A copy has all that ``copy.deepcopy``
        reaches; what is kept elsewhere (in globals, classes, closures, files, settings of the
        process), and errors that depend on documents, are up to whoever wrote them.
    """

    draws: ClassVar[bool] = True

    def __init__(
        self,
        module: nn.Module,
        inputs: Callable[[DocumentGraph], tuple[Tensor, ...]],
        device: str | torch.device = "cpu",
    ) -> None:
        self._module, self._inputs, self._device = module, inputs, torch.device(device)

    @property
    def parameters(self) -> list[nn.Parameter]:
        """What the answer is about, in its order."""
        return [value for value in self._module.parameters() if value.requires_grad]

    def clipped_sum(self, access: Access) -> Floats:
        """The sum over this rank's sampled groups, in whole steps."""
        groups, key = access.groups, (self._inputs, self._device)
        size = sum(value.numel() for value in self.parameters)
        total = torch.zeros(size, dtype=torch.float64, device=self._device)
        self._module.train()
        with _undisturbed():
            subgraphs = groups.private.per_group(self._subgraph, key)
            for number in np.flatnonzero(access.sample).tolist():
                if (own := subgraphs[number]) is not None:
                    gradient = self._gradient(own, int(access.seeds[number]), groups.classes)
                    # One shorter than the total would be added to all of it.
                    total += clipped(gradient.view_as(total), access.clip_norm, access.grid)
        return np.asarray(total.cpu().numpy())

    def _subgraph(self, graph: DocumentGraph) -> list[Tensor]:
        labels = torch.from_numpy(np.where(graph.labels < graph.classes, graph.labels, -1))
        return [tensor.to(self._device) for tensor in (labels, *self._inputs(graph))]

    def _gradient(self, subgraph: list[Tensor], seed: int, classes: int) -> Tensor:
        torch.default_generator.manual_seed(seed)
        if self._device.type == "cuda":
            torch.cuda.manual_seed_all(seed)
        random.seed(seed)
        np.random.seed([seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF])
        module = copy.deepcopy(self._module)
        labels, *inputs = (tensor.clone() for tensor in subgraph)
        with torch.enable_grad():
            scores = module(*inputs)
            if scores.shape != (len(labels), classes):  # else some labels would fail
                raise ValueError(f"A module must give each document {classes} scores.")
            loss = cross_entropy(scores[labels >= 0], labels[labels >= 0])
        own = [value for value in module.parameters() if value.requires_grad]
        if not loss.requires_grad:
            return torch.zeros(sum(value.numel() for value in own), device=self._device)
        gradients = torch.autograd.grad(loss, own, materialize_grads=True)
        return torch.cat([gradient.to_dense().flatten() for gradient in gradients])


def clipped(vector: Tensor, clip_norm: float, grid: Grid) -> Tensor:
    """A group's vector, no longer than one clip norm, in whole steps; zero if not finite."""
    wide = vector.double()
    length = torch.linalg.vector_norm(wide)
    factor = shortened(wide.numel()) * grid.unit
    whole = (wide * (factor / length.clamp(min=clip_norm))).trunc_()
    return torch.where(length.isfinite(), whole, 0.0)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Nobody else's generators move, and no document decides about a warning or an error."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        quiet = warnings.catch_warnings(action="ignore")
        with torch.random.fork_rng(), quiet, torch.autograd.set_detect_anomaly(False):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
