"""Training without privacy: the reference that private runs are measured against."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from privgcn.config import TrainingSettings
from privgcn.graph.parts import PartitionedGraph, cut, random_parts
from privgcn.graph.rows import densified
from privgcn.graph.textgraph import TextGraph
from privgcn.models import AnyModel, ModuleModel
from privgcn.models.stack import loss_gradient
from privgcn.randomness import Draws, seeded_draws
from privgcn.training.devices import MOST_RECORDED
from privgcn.training.optimisers import Optimiser
from privgcn.training.recording import Recording

Progress = Callable[[int, int], None]

# To ask a device makes the host wait; a seed that has stopped stays as it is anyway.
_EPOCHS_BETWEEN = {"cpu": 1, "cuda": 25}


def train_plain(
    model: AnyModel,
    graph: TextGraph,
    settings: TrainingSettings,
    seeds: Sequence[int],
    *,
    partition_seed: int = 0,
    visible: TextGraph | None = None,
    progress: Progress | None = None,
) -> list[Tensor]:
    """Trains one replica per seed on the training documents and the links among them.

    Args:
        model: The layer stack, or the user's own module.
        graph: Training documents.
        settings: Optimiser, epochs, patience, parts.
        seeds: One replica each.
        partition_seed: Seed of the partition, which all replicas share.
        visible: Training and validation documents with their links, where validation is to
            stop the training: each replica keeps the parameters of its best validation
            loss and stops when ``settings.patience`` epochs brought no better one.
        progress: Called with epochs done and epochs at most.
    """
    device = graph.edges.device
    first = model.initial(seeds)
    optimiser = Optimiser([p.to(device) for p in first], settings)
    parts = len(graph) if settings.parts == "each" else min(settings.parts, len(graph))
    blocks = _blocks(graph, parts, partition_seed)
    masks = seeded_draws(seeds, "dropout", device) if model.dropout > 0 else None
    stopper = None
    if visible is not None and settings.patience > 0 and bool((visible.split == 1).any()):
        stopper = _EarlyStop(model, visible, settings.patience, optimiser)

    def pass_over_all() -> None:
        for block in blocks:
            optimiser.step(plain_gradient(model, optimiser.parameters, block, masks))
        if stopper is not None:
            stopper.look()

    between = _EPOCHS_BETWEEN[device.type]
    few = len(blocks) <= MOST_RECORDED
    advance = Recording(device if few else torch.device("cpu"), [masks])
    # A module of the user's own draws its dropout masks from PyTorch's generator.
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seeds[0])
        for epoch in range(1, settings.epochs + 1):
            advance(pass_over_all)
            if progress is not None:
                progress(epoch, settings.epochs)
            if stopper is not None and epoch % between == 0 and stopper.done():
                break
        return optimiser.result() if stopper is None else stopper.best


def _blocks(graph: TextGraph, parts: int, seed: int) -> list[PartitionedGraph]:
    whole = cut(graph, random_parts(len(graph), parts, seed), parts)
    if graph.edges.is_cuda:
        whole = whole.with_features(densified(whole.features, torch.float32, len(whole)))
    if parts == 1:
        return [whole]
    return [
        whole.select(torch.tensor([part], device=graph.edges.device)) for part in range(parts)
    ]


def plain_gradient(
    model: AnyModel,
    parameters: Sequence[Tensor],
    block: PartitionedGraph,
    masks: Draws | None,
) -> list[Tensor]:
    """The gradient of the mean loss over the labelled documents of a block."""
    if isinstance(model, ModuleModel):
        return model.gradient(
            parameters, block.features, block.matrix, block.labels, block.loss_weights
        )
    tape = model.forward(parameters, block.features, block.matrix, masks)
    rows = loss_gradient(tape.scores, block.labels, block.loss_weights)
    layers = model.backward(parameters, tape, rows, block.matrix, dropped=masks is not None)
    return [tensor for layer in layers for tensor in layer.totals()]


class _EarlyStop:
    """Remembers each replica's parameters of the lowest validation loss."""

    def __init__(
        self, model: AnyModel, visible: TextGraph, patience: int, optimiser: Optimiser
    ) -> None:
        self.model = model
        self.features = visible.features
        if visible.edges.is_cuda:
            self.features = densified(visible.features, torch.float32, len(visible))
        self.matrix = visible.propagation()
        self.rows = torch.nonzero((visible.split == 1) & (visible.labels >= 0))[:, 0]
        self.labels = visible.labels[self.rows]
        self.patience = patience
        self.optimiser = optimiser
        self.best = optimiser.result()
        replicas = self.best[0].shape[-2]
        self.lowest = torch.full((replicas,), torch.inf, device=self.labels.device)
        self.waited = torch.zeros_like(self.lowest)

    def look(self) -> None:
        """Scores the validation documents, and keeps what became better."""
        scores = self.model.scores(self.optimiser.parameters, self.features, self.matrix)
        scores = scores[self.rows]
        right = scores.gather(2, self.labels[:, None, None].expand(-1, scores.shape[1], 1))
        loss = (scores.logsumexp(-1) - right[:, :, 0]).mean(0)
        # A replica that ran out of patience stays as it was, whatever the others do.
        stopped = self.waited >= self.patience
        better = (loss < self.lowest) & ~stopped
        self.lowest.copy_(torch.where(better, loss, self.lowest))
        waited = torch.where(better, 0.0, self.waited + 1)
        self.waited.copy_(torch.where(stopped, self.waited, waited))
        for kept, current in zip(self.best, self.optimiser.parameters, strict=True):
            kept.copy_(torch.where(better[:, None], current, kept))

    def done(self) -> bool:
        """Whether all replicas ran out of patience."""
        return bool((self.waited >= self.patience).all())
