"""A network that the user brings: any PyTorch module from (features, edge_index) to scores.

``edge_index`` is PyTorch Geometric's: ``[2, edges]``, each edge in both directions. Training
calls a copy of the module on one group at a time. A module is trusted code: before any document
is read it is checked for accidents, such as layers that keep statistics or cache edges.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.sparse import issparse
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from privgcn.errors import ConfigError, DataError, PrivacyContractError, reason
from privgcn.graph import DocumentGraph

if TYPE_CHECKING:
    from privgcn.released import Released

_STATISTICS = ("running_", "num_batches_tracked")
_GRAPHS = ("Data", "HeteroData", "Batch", "SparseTensor")
_OWN = ("_parameters", "_buffers", "_modules")
_PROBED = 5


def module_inputs(graph: DocumentGraph) -> tuple[Tensor, Tensor]:
    """Dense feature rows and ``edge_index``, each edge in both directions."""
    features = graph.features.toarray() if issparse(graph.features) else graph.features
    edges = np.concatenate([graph.edges, graph.edges[::-1]], axis=1)
    rows = np.require(features, np.float32, ["C", "W"])
    return torch.from_numpy(rows), torch.from_numpy(edges.astype(np.int64))


def checked_copy(module: nn.Module, features: int, classes: int) -> nn.Module:
    """A copy, with widths, of a module that fits and keeps neither statistics nor documents."""
    own = copy.deepcopy(module)
    title = type(module).__qualname__
    _check_layers(own)
    rows = torch.rand(_PROBED, features, generator=torch.Generator())
    chain = torch.arange(_PROBED - 1)
    edges = torch.stack([torch.cat([chain, chain + 1]), torch.cat([chain + 1, chain])])
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        if any(map(is_lazy, own.parameters())):
            with torch.no_grad():
                _called(own, rows, edges, title)
        if not any(parameter.requires_grad for parameter in own.parameters()):
            raise ConfigError(f"The module '{title}' must have parameters to train. Got none.")
        for count, index in ((_PROBED, edges), (1, edges[:, :0])):
            probed = copy.deepcopy(own).train()
            scores = _called(probed, rows[:count], index, title)
            shape = getattr(scores, "shape", None)
            if shape != (count, classes) or not torch.is_floating_point(scores):
                raise ConfigError(
                    f"The module '{title}' must give {classes} scores for each document, as a "
                    f"tensor [documents, classes]. Got {list(shape or ())} for {count} "
                    "documents."
                )
            if not scores.requires_grad:
                raise ConfigError(
                    f"The scores of the module '{title}' must depend on parameters that can "
                    "be trained. They do not, as without gradients (torch.no_grad)."
                )
            # What a layer keeps of a call, such as cached edges.
            _check_layers(probed)
    return own


def brought_module(
    released: Released, module: nn.Module | None, features: int, classes: int
) -> nn.Module:
    """A copy of a module with the released parameters, ready to predict."""
    if module is None:
        raise ConfigError(
            f"This model is a module of the class '{released.title}', and files hold no code. "
            "Load it in Python, with such a module: GraphClassifier.load(FOLDER, module=...)."
        )
    own = checked_copy(module, features, classes)
    if (title := type(module).__qualname__) != released.title:
        raise ConfigError(f"The module must be of the class '{released.title}'. Got '{title}'.")
    try:
        own.load_state_dict({n: torch.tensor(value) for n, value in released.tensors.items()})
    except RuntimeError as error:
        raise DataError(
            "The module must have the tensors that were saved, in number and shape. "
            f"{' '.join(str(error).split())} Make it with the arguments of the first time."
        ) from None
    return own.eval()


def _check_layers(module: nn.Module) -> None:
    for name, child in module.named_modules():
        layer = name or type(child).__qualname__
        buffers = (buffer for buffer, _ in child.named_buffers(recurse=False))
        if statistics := [buffer for buffer in buffers if buffer.startswith(_STATISTICS)]:
            raise PrivacyContractError(
                f"The layer '{layer}' keeps statistics ({', '.join(statistics)}) over several "
                "groups, which clipping does not bound. Use a layer without them, such as "
                "LayerNorm instead of batch normalisation."
            )
        for attribute, value in vars(child).items():
            if attribute not in _OWN and _could_be_documents(value):
                raise PrivacyContractError(
                    f"The layer '{layer}' holds tensors in its attribute '{attribute}', which "
                    "could be documents or edges: they would reach every group. Set it to None "
                    "(a layer that caches edges: make it anew, with cached=False), or register "
                    "what is public and fixed as a buffer."
                )


def _could_be_documents(value: Any) -> bool:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return any(map(_could_be_documents, value))
    arrays = isinstance(value, Tensor | np.ndarray) or issparse(value)
    return arrays or type(value).__name__ in _GRAPHS


def _called(module: nn.Module, rows: Tensor, edges: Tensor, title: str) -> Any:
    try:
        return module(rows, edges)
    # Whatever a user's code may raise.
    except Exception as error:
        raise ConfigError(
            f"The module '{title}' must take the features [documents, {rows.shape[1]}] and an "
            f"edge_index [2, edges], also of one document without edges. It failed: "
            f"{type(error).__name__}: {reason(error)}"
        ) from error
