"""Training of a network: by DP-SGD or DP-Adam through a session, or plainly as a reference.

A private step takes the noisy mean g of the clipped gradients of groups, in clip norms C, and
moves the parameters by an optimiser that sees C g and nothing else:

    w  <-  w - rate C g                      (SGD; or the same g through Adam)

Nothing stops early, and the last iterate is the result: all of it is post-processing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from privgcn import progress
from privgcn.config import Settings, TrainingSettings
from privgcn.data import VALIDATION
from privgcn.errors import ConfigError
from privgcn.graph import DocumentGraph, random_groups
from privgcn.mechanism import ModuleGradient
from privgcn.released import Released
from privgcn.sgd.gcn import Network, seeded
from privgcn.sgd.module import checked_copy, module_inputs

if TYPE_CHECKING:
    from privgcn.mechanism import Session

Inputs = Callable[[DocumentGraph], tuple[Tensor, ...]]


def train_private(
    session: Session, settings: Settings, *, module: nn.Module | None = None
) -> Released:
    """Takes all steps that the session's plan pays for."""
    device = training_device(settings.training)
    network, inputs = _network(settings, session.width, session.classes, module)
    network.to(device)
    question = ModuleGradient(network, inputs, device)
    optimiser = _optimiser(network, settings.training)
    sizes = [parameter.numel() for parameter in question.parameters]
    steps = session.remaining
    while session.remaining:
        progress.advance(steps - session.remaining, steps)
        mean = torch.from_numpy(session.query(question) * session.plan.clip_norm).float()
        for parameter, piece in zip(question.parameters, torch.split(mean, sizes), strict=True):
            parameter.grad = piece.view(parameter.shape).to(device, parameter.dtype)
        optimiser.step()
    return _released(
        network, settings, module, plan=session.plan, releasable=session.releasable
    )


def train_plain(
    train: DocumentGraph,
    visible: DocumentGraph | None,
    settings: Settings,
    *,
    module: nn.Module | None = None,
) -> Released:
    """Trains without privacy, on random groups of the training documents.

    Where ``visible`` has training and validation documents with their edges, validation stops
    the training after ``training.patience`` epochs without a better loss; the best one counts.
    """
    training = settings.training
    device = training_device(training)
    network, inputs = _network(settings, train.width, train.classes, module)
    network.to(device)
    count = len(train) if training.parts == "each" else min(training.parts, len(train))
    graphs = [train]
    if count > 1:
        graphs = train.subgraphs(random_groups(len(train), count, settings.seed), count)

    def on_device(graph: DocumentGraph) -> tuple[tuple[Tensor, ...], Tensor]:
        labels = torch.from_numpy(graph.labels.astype(np.int64)).to(device)
        return tuple(tensor.to(device) for tensor in inputs(graph)), labels

    blocks = [on_device(graph) for graph in graphs]
    looked_at = torch.zeros(0, dtype=torch.int64)
    if training.patience > 0 and visible is not None:
        inspected, truth = on_device(visible)
        validation = (visible.split == VALIDATION) & (visible.labels >= 0)
        looked_at = torch.from_numpy(np.flatnonzero(validation)).to(device)
    optimiser = _optimiser(network, training)
    lowest, waited, best = np.inf, 0, copy.deepcopy(network.state_dict())
    with seeded(settings.seed, device):
        for epoch in range(training.epochs):
            progress.advance(epoch, training.epochs)
            network.train()
            for tensors, labels in blocks:
                optimiser.zero_grad()
                torch.autograd.backward(mean_loss(network(*tensors), labels))
                optimiser.step()
            if not len(looked_at):
                continue
            network.eval()
            with torch.no_grad():
                loss = float(mean_loss(network(*inspected)[looked_at], truth[looked_at]))
            waited += 1
            if loss < lowest:
                lowest, waited, best = loss, 0, copy.deepcopy(network.state_dict())
            if waited >= training.patience:
                break
    if len(looked_at):
        network.load_state_dict(best)
    return _released(network, settings, module)


def mean_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """The mean cross-entropy over the documents with a label; zero if there are none."""
    total = cross_entropy(scores, labels, ignore_index=-1, reduction="sum")
    return total / (labels >= 0).sum().clamp(min=1)


def training_device(training: TrainingSettings) -> torch.device:
    """Where a run trains; ``auto`` takes the GPU where there is one."""
    there = torch.cuda.is_available()
    if training.device == "cuda" and not there:
        raise ConfigError(
            "The 'training.device' cuda needs a GPU that PyTorch can use. Got none. "
            "Use cpu, or auto."
        )
    return torch.device("cuda" if there and training.device != "cpu" else "cpu")


def _network(
    settings: Settings, features: int, classes: int, module: nn.Module | None
) -> tuple[nn.Module, Inputs]:
    model = settings.model
    if model.kind != "module":
        if module is not None:
            raise ConfigError(
                f"A module of the user's own needs model.kind 'module'. Got '{model.kind}'."
            )
        network = Network.of(model, features=features, classes=classes, seed=settings.seed)
        return network, network.inputs
    if module is None:
        raise ConfigError(
            "The model 'module' is one that the user brings. Give it in Python: "
            "GraphClassifier(module=...)."
        )
    return checked_copy(module, features, classes), module_inputs


def _optimiser(network: nn.Module, training: TrainingSettings) -> torch.optim.Optimizer:
    if training.learning_rate is None:
        raise ConfigError(
            "A network needs a 'training.learning_rate'. Got none. Set it, or use recipe auto."
        )
    kind = torch.optim.Adam if training.optimizer == "adam" else torch.optim.SGD
    return kind(network.parameters(), lr=training.learning_rate)


def _released(
    network: nn.Module, settings: Settings, module: nn.Module | None, **private: Any
) -> Released:
    # Copies, as the network's own memory is not what leaves. Whole numbers stay so.
    tensors = {
        name: (value.float() if value.is_floating_point() else value).cpu().numpy().copy()
        for name, value in network.state_dict().items()
    }
    title = None if module is None else type(module).__qualname__
    return Released(settings.model.kind, tensors, settings, title=title, **private)
