"""Training without privacy: the reference that private runs are measured against."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from privgcn.config import TrainingSettings
from privgcn.graph.parts import PartitionedGraph, cut, random_parts
from privgcn.graph.textgraph import TextGraph
from privgcn.models import AnyModel, ModuleModel
from privgcn.models.stack import loss_gradient
from privgcn.randomness import Draws, SeededReplicas
from privgcn.training.optimisers import Optimiser

Progress = Callable[[int, int], None]


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
    first = model.initial(seeds)
    optimiser = Optimiser([p.to(graph.edges.device) for p in first], settings)
    parts = len(graph) if settings.parts == "each" else min(settings.parts, len(graph))
    blocks = _blocks(graph, parts, partition_seed)
    masks = SeededReplicas(seeds, "dropout") if model.dropout > 0 else None
    stopper = None
    if visible is not None and settings.patience > 0 and bool((visible.split == 1).any()):
        stopper = _EarlyStop(model, visible, settings.patience, optimiser)
    # A module of the user's own draws its dropout masks from PyTorch's generator.
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(seeds[0])
        for epoch in range(settings.epochs):
            for block in blocks:
                optimiser.step(plain_gradient(model, optimiser.parameters, block, masks))
            if progress is not None:
                progress(epoch + 1, settings.epochs)
            if stopper is not None and stopper.done():
                break
        return optimiser.result() if stopper is None else stopper.best


def _blocks(graph: TextGraph, parts: int, seed: int) -> list[PartitionedGraph]:
    whole = cut(graph, random_parts(len(graph), parts, seed), parts)
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
        self.matrix = visible.propagation()
        self.rows = torch.nonzero((visible.split == 1) & (visible.labels >= 0))[:, 0]
        self.labels = visible.labels[self.rows]
        self.patience = patience
        self.optimiser = optimiser
        self.best = optimiser.result()
        self.lowest = torch.full((self.best[0].shape[-2],), torch.inf)
        self.waited = torch.zeros_like(self.lowest)

    def done(self) -> bool:
        scores = self.model.scores(self.optimiser.parameters, self.features, self.matrix)
        scores = scores[self.rows]
        right = scores.gather(2, self.labels[:, None, None].expand(-1, scores.shape[1], 1))
        loss = (scores.logsumexp(-1) - right[:, :, 0]).mean(0).cpu()
        better = (loss < self.lowest) & (self.waited < self.patience)
        self.lowest = torch.where(better, loss, self.lowest)
        # A replica that ran out of patience stays as it was, whatever the others do.
        stopped = self.waited >= self.patience
        self.waited = torch.where(better, 0.0, self.waited + 1).where(~stopped, self.waited)
        for kept, current in zip(self.best, self.optimiser.result(), strict=True):
            kept[..., better, :] = current[..., better, :]
        return bool((self.waited >= self.patience).all())
