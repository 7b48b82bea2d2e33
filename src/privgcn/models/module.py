"""A model that the user brings: any PyTorch module that maps (features, links) to scores.

Links are PyTorch Geometric's ``edge_index``, each in both directions. The module is called on
induced parts in private training, and on the documents in sight in prediction; always as a
fresh copy, so that nothing it remembers of one call reaches another.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.parameter import is_lazy

from privgcn.errors import ConfigError, DataError, PrivacyContractError, reason
from privgcn.graph.on_disk import sparse_in_memory
from privgcn.graph.rows import Rows
from privgcn.models.stack import Layer

_STATISTICS = ("running_", "num_batches_tracked")
_GRAPHS = ("Data", "HeteroData", "Batch", "SparseTensor")
_PROBED = 5
_CHANGEABLE = (dict, list, set, bytearray)


@dataclass(frozen=True, eq=False)
class ModuleModel:
    """A user's module in the place of a layer stack.

    Attributes:
        title: The name of its class.
        module: A copy of the module with its first weights; None for a model that was read
            from files without it, which can be released but not used.
        state: Names and values of all that the module holds and nobody trains.
        names: Of the trained parameters.
    """

    title: str
    module: nn.Module | None
    names: tuple[str, ...]
    state: Mapping[str, Tensor]
    layers: tuple[Layer, ...] = ()
    dropout: float = 0.0

    @classmethod
    def of(cls, module: nn.Module, features: int, classes: int) -> ModuleModel:
        """A copy of a module, once it is known to fit.

        Raises:
            ConfigError: It does not map features and links to one row of scores for each.
            PrivacyContractError: It keeps statistics or documents.
        """
        own = copy.deepcopy(module)
        check_module(own)
        _check_copies(module, own)
        _check_scores(own, features, classes)
        own = copy.deepcopy(own)
        names = tuple(name for name, p in own.named_parameters() if p.requires_grad)
        if not names:
            raise ConfigError(
                f"The module '{class_of(module)}' must have parameters to train. Got none."
            )
        state = {n: value for n, value in own.state_dict().items() if n not in names}
        return cls(class_of(module), own, names, state)

    @classmethod
    def without_module(cls, title: str, tensors: Mapping[str, Tensor]) -> ModuleModel:
        """What the files of a model alone tell."""
        return cls(title, None, tuple(tensors), {})

    def parameter_names(self) -> list[str]:
        """Names of the trained parameters, in order."""
        return list(self.names)

    def named(self, parameters: Sequence[Tensor]) -> dict[str, Tensor]:
        """Everything that the module holds, trained or not, by name and in its own shape."""
        trained = [parameter.squeeze(-2) for parameter in parameters]
        return {**dict(zip(self.names, trained, strict=True)), **self.state}

    def parameters_in(self, tensors: Mapping[str, Tensor]) -> list[Tensor]:
        """The parameters among named tensors, as one replica.

        Raises:
            DataError: They are those of another module.
        """
        if self.module is not None:
            own = {name: value.shape for name, value in self.module.state_dict().items()}
            found = {name: value.shape for name, value in tensors.items()}
            if own != found:
                odd = sorted(own.keys() ^ found.keys()) or [
                    n for n in own if own[n] != found[n]
                ]
                raise DataError(
                    f"The module must have the tensors that were saved, in number and shape. "
                    f"They differ in '{odd[0]}'. Make it with the arguments of the first time."
                )
        return [tensors[name].unsqueeze(-2) for name in self.names]

    def initial(self, seeds: Sequence[int], *, zero: bool = False) -> list[Tensor]:
        """The module's own first weights, as one replica."""
        if len(seeds) != 1:
            raise ConfigError(
                "A module of the user's own has one set of first weights, so it is trained "
                f"for one seed at a time. Got {len(seeds)} seeds."
            )
        held = dict(self.fresh().named_parameters())
        return [held[name].detach().clone().unsqueeze(-2) for name in self.names]

    def fresh(self) -> nn.Module:
        """A copy that has seen nothing.

        Raises:
            ConfigError: The files of the model came without the module.
        """
        if self.module is None:
            raise ConfigError(
                f"This model is a module of the class '{self.title}', and files hold no code. "
                "Load it in Python, with such a module: "
                "GraphClassifier.load(FOLDER, module=...)."
            )
        return copy.deepcopy(self.module)

    def trained(self, parameters: Sequence[Tensor]) -> nn.Module:
        """The module with these parameters, ready to predict."""
        module = self.fresh()
        module.load_state_dict(self.named(parameters))
        return module.eval()

    def scores(
        self, parameters: Sequence[Tensor], features: Rows, matrix: Rows | None
    ) -> Tensor:
        """Scores ``[documents, 1, classes]`` in evaluation mode."""
        found = self.trained(parameters)(features.dense(), linked(matrix, features.shape[0]))
        return torch.as_tensor(found).unsqueeze(1)

    def scores_alone(self, parameters: Sequence[Tensor], features: Rows) -> Tensor:
        """The same of each document by itself, whatever the module would make of several."""
        rows = features.dense()
        own = [self.trained(parameters)(row[None], linked(None, 1)) for row in rows]
        return torch.cat(own).unsqueeze(1) if own else rows.new_zeros((0, 1, 1))

    def gradient(
        self,
        parameters: Sequence[Tensor],
        features: Rows,
        matrix: Rows | None,
        labels: Tensor,
        weights: Tensor,
    ) -> list[Tensor]:
        """The gradient of the weighted loss, for training without privacy."""
        values = {
            name: parameter.detach().squeeze(-2).requires_grad_()
            for name, parameter in zip(self.names, parameters, strict=True)
        }
        with torch.enable_grad():
            links = linked(matrix, features.shape[0])
            scores = functional_call(self.fresh().train(), values, (features.dense(), links))
            loss = weighted_loss(scores, labels, weights)
            return [found.unsqueeze(-2) for found in gradients_of(loss, values.values())]


def class_of(module: nn.Module) -> str:
    """The name of a module's class."""
    return type(module).__qualname__


def weighted_loss(scores: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """The weighted cross-entropy; a label outside the classes must have weight 0."""
    target = labels.clamp(0, scores.shape[-1] - 1)
    losses = nn.functional.cross_entropy(scores, target, reduction="none")
    return (losses * weights).sum()


def gradients_of(loss: Tensor, parameters: Iterable[Tensor]) -> list[Tensor]:
    """The gradient of a loss, dense; zero in what the loss does not depend on."""
    held = list(parameters)
    if not loss.requires_grad:
        return [torch.zeros_like(value) for value in held]
    found = torch.autograd.grad(loss, held, allow_unused=True)
    return [
        torch.zeros_like(value) if gradient is None else gradient.to_dense()
        for value, gradient in zip(held, found, strict=True)
    ]


def linked(matrix: Rows | None, documents: int) -> Tensor:
    """The links of a propagation matrix in both directions, as PyG's ``edge_index``."""
    if matrix is None:
        return torch.empty((2, 0), dtype=torch.int64)
    held = sparse_in_memory(matrix)
    rows = torch.repeat_interleave(torch.arange(documents), held.lengths.cpu())
    links = torch.stack([rows, held.columns.cpu()])
    return links[:, links[0] != links[1]]


@contextmanager
def settings_kept() -> Iterator[None]:
    """Undoes what a module sets for the whole process: the next call would notice it."""
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    try:
        with torch.set_grad_enabled(torch.is_grad_enabled()):
            yield
    finally:
        torch.set_default_dtype(dtype)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)


def check_module(module: nn.Module) -> None:
    """Refuses a module that keeps statistics over parts, or documents.

    Raises:
        PrivacyContractError: Naming the layer.
    """
    for name, child in module.named_modules():
        layer = name or class_of(child)
        buffers = [buffer for buffer, _ in child.named_buffers(recurse=False)]
        kept = [buffer for buffer in buffers if buffer.startswith(_STATISTICS)]
        if kept:
            raise PrivacyContractError(
                f"The layer '{layer}' keeps statistics ({', '.join(kept)}) over several parts, "
                "which clipping does not bound. Use a layer without them, such as LayerNorm "
                "instead of batch normalisation."
            )
        for attribute, value in vars(child).items():
            if not attribute.startswith(("_parameters", "_buffers", "_modules")) and any(
                _documents_in(value)
            ):
                raise PrivacyContractError(
                    f"The layer '{layer}' holds tensors in its attribute '{attribute}', which "
                    "could be documents or links: they would reach every part. Set it to None "
                    "(a layer that cached links: make it anew), or register what is public and "
                    "fixed as a buffer."
                )


def _check_copies(module: nn.Module, copied: nn.Module) -> None:
    """Refuses a module whose copies share what they hold: parts would meet in it."""
    if shared := _memory_of(module) & _memory_of(copied):
        raise PrivacyContractError(
            f"The module '{class_of(module)}' must be copied whole by copy.deepcopy: each part "
            f"meets a copy of its own. Its copies share {len(shared)} layers, attributes or "
            "tensors. Leave out '__deepcopy__'."
        )


def _memory_of(module: nn.Module) -> set[int]:
    """Where a module keeps what may change: layers, tensors, and attributes that hold more."""
    found: set[int] = set()
    for child in module.modules():
        held = [value for value in vars(child).values() if isinstance(value, _CHANGEABLE)]
        found.update(map(id, (child, *held)))
    tensors = (*module.parameters(), *module.buffers())
    return found | {id(tensor) for tensor in tensors}


def _documents_in(value: Any) -> Iterator[bool]:
    if (
        isinstance(value, Tensor | np.ndarray)
        or type(value).__name__ in _GRAPHS
        or type(value).__module__.startswith("scipy.sparse")
    ):
        yield True
    elif isinstance(value, Mapping):
        for own in value.values():
            yield from _documents_in(own)
    elif isinstance(value, list | tuple):
        for own in value:
            yield from _documents_in(own)


def _check_scores(module: nn.Module, features: int, classes: int) -> None:
    """Calls a module on numbers that are no documents; lazy layers get their weights."""
    title = class_of(module)
    chain = torch.arange(_PROBED - 1)
    links = torch.stack([torch.cat([chain, chain + 1]), torch.cat([chain + 1, chain])])
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        rows = torch.rand(_PROBED, features)
        if any(is_lazy(parameter) for parameter in module.parameters()):
            _answer(module, rows, links, title)
        for name, parameter in module.named_parameters():
            if parameter.requires_grad and (parameter.is_complex() or not parameter.ndim):
                odd = "complex" if parameter.ndim else "a single number: make it a row of one"
                raise ConfigError(
                    f"What is trained of the module '{title}' must be rows of real numbers. "
                    f"'{name}' is {odd}."
                )
        with torch.enable_grad():
            scores = _answer(copy.deepcopy(module).train(), rows, links, title)
        trained = any(parameter.requires_grad for parameter in module.parameters())
        if trained and not getattr(scores, "requires_grad", True):
            raise ConfigError(
                f"The scores of the module '{title}' must depend on parameters that can be "
                "trained. They do not, as without gradients (torch.no_grad)."
            )
        for count, own in ((_PROBED, links), (1, links[:, :0])):
            probed = copy.deepcopy(module).train()
            scores = _answer(probed, rows[:count], own, title)
            shape = getattr(scores, "shape", None)
            if shape != (count, classes) or not torch.is_floating_point(scores):
                raise ConfigError(
                    f"The module '{title}' must give {classes} scores for each document, as a "
                    f"tensor [documents, classes]. Got {list(shape or ())} for {count} "
                    "documents."
                )
            _check_unchanged(module, probed, title)


def _check_unchanged(module: nn.Module, called: nn.Module, title: str) -> None:
    before = dict(module.named_buffers())
    weights = dict(module.named_parameters())
    for name, weight in called.named_parameters():
        if name not in weights or not torch.equal(weights[name], weight):
            raise PrivacyContractError(
                f"The module '{title}' changes its parameter '{name}' when it is called (as "
                "an embedding with max_norm does). Training alone may change parameters."
            )
    for name, value in called.named_buffers():
        if name not in before or not torch.equal(before[name], value):
            raise PrivacyContractError(
                f"The module '{title}' changes its buffer '{name}' when it is called. Private "
                "training keeps nothing of a call, so predictions would be made with the first "
                "value. Use a layer without such a buffer."
            )


def _answer(module: nn.Module, rows: Tensor, links: Tensor, title: str) -> Any:
    try:
        with settings_kept():
            return module(rows, links)
    # Whatever a user's code may raise.
    except Exception as error:
        raise ConfigError(
            f"The module '{title}' must take the features [documents, {rows.shape[1]}] and an "
            f"edge_index [2, links], also of one document without links. It failed: "
            f"{type(error).__name__}: {reason(error)}"
        ) from error
