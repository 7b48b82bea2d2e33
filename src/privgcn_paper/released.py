"""What the paper's released code does, emulated, to explain the published scores.

**Nothing here is private.** This module knows no plan, makes no statement, and nothing outside
the experiments uses it. What it repeats on purpose, as measured by running that code and read
from it:

- nothing is clipped: noise of standard deviation ``noise_multiplier`` (times the clip norm,
  1) is added to a gradient of any size;
- no edge is cut: training, validation and test documents are one graph in every forward
  pass, and a "subgraph" is a mask on the loss;
- every part is visited once per epoch, in random order;
- dropout acts in the first epoch only, because evaluation after it switches it off for good;
- features are the raw bag of words, the loss is the mean over the masked documents, the
  last iterate is scored, and predictions see the whole graph;
- non-private runs have weight decay 0.01, stop after 20 epochs without a lower validation
  loss, and keep the iterate at which they stopped.

``clip`` clips gradients as the paper describes it, so that an ablation can tell whether that
makes the published score. Such a run still has no guarantee: no edge is cut.

The baseline on MNIST (``released_mnist``) is code of its own:

- the network has two hidden layers of 512 units, not one, and PyTorch's first weights;
- a lot is one batch: the mean gradient of its images is not clipped, noise of standard
  deviation ``noise_multiplier`` is added to it, and nothing is divided by the size of the lot;
- every image is in one lot of every epoch, where the accountant assumes Poisson samples;
- dropout acts in the first epoch only;
- the test images are the validation images: training stops after 20 epochs without a lower
  loss on the last batch of them, in random order, and keeps the iterate at which it stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from privgcn.data.corpus import TRAIN, VALIDATION
from privgcn.graph import DocumentGraph
from privgcn.sgd.gcn import Network, kept_fraction, product, seeded
from privgcn_paper.batched import Descent, Trial, advance, by_trial, first_weights

PATIENCE = 20
"""Epochs without a lower loss after which a run stops."""


@dataclass(frozen=True)
class Behaviour:
    """What the trials of a batch have in common; with a ``patience`` of 0 none stops early."""

    optimizer: str
    epochs: int
    parts: int = 1
    patience: int = 0
    weight_decay: float = 0.0
    hidden: int = 32
    dropout: float = 0.5
    clip: bool = False


def released_scores(
    graph: DocumentGraph, behaviour: Behaviour, trials: Sequence[Trial], device: str = "cpu"
) -> list[NDArray[np.float32]]:
    """Trains trials as the released code does, and scores all documents in the whole graph.

    A trial's seed is that of its parts, visits and first weights.
    """
    place = torch.device(device)
    with seeded(trials[0].seed, place), torch.no_grad():
        batch = _Batch(graph, behaviour, trials, place)
        if behaviour.epochs:
            batch.epoch(dropout=True)
        advance(batch.epoch, behaviour.epochs - 1, place, batch.ended)
        scores: NDArray[np.float32] = batch.scores().cpu().numpy()
    return list(scores)


class _Batch:
    """Weights ``[trials, ...]`` over one graph; the part of a step is a mask on the loss."""

    def __init__(
        self,
        graph: DocumentGraph,
        behaviour: Behaviour,
        trials: Sequence[Trial],
        place: torch.device,
    ) -> None:
        self.behaviour, self.place = behaviour, place
        widths = [graph.width, behaviour.hidden, graph.classes]
        self.parameters = [
            tensor.to(place).requires_grad_() for tensor in first_weights(trials, widths)
        ]
        self.noise, rates = (
            torch.tensor(values, device=place)
            for values in zip(*((own[1], own[2]) for own in trials), strict=True)
        )
        self.descent = Descent(
            self.parameters, behaviour.optimizer, rates, behaviour.weight_decay
        )
        train, validation = (
            np.flatnonzero((graph.split == code) & (graph.labels >= 0))
            for code in (TRAIN, VALIDATION)
        )
        planned = [_visits(behaviour, own.seed, train, len(graph)) for own in trials]
        self.part, self.visits = (
            torch.from_numpy(np.stack(own, axis=-1)).to(place)
            for own in zip(*planned, strict=True)
        )
        self.taken = torch.zeros(1, dtype=torch.int64, device=place)
        self.passes = self._passes(graph)
        labels = torch.from_numpy(graph.labels).clamp(min=0)
        self.targets = torch.eye(graph.classes)[labels].to(place)
        self.validation = torch.from_numpy(validation).to(place)
        self.lowest = torch.full_like(self.noise, torch.inf)
        self.waited = torch.zeros_like(self.noise)

    def _passes(self, graph: DocumentGraph) -> list[list[tuple[Tensor, Tensor]]]:
        """The constant matrices of both layers, each with its transpose."""
        network = Network([graph.width, graph.classes], hops=1)
        features, transposed, spread = (own.to(self.place) for own in network.inputs(graph))
        first = [(features, transposed), (spread, spread)]
        if self.place.type == "cuda":
            # One dense product of propagated rows is faster there than two sparse ones.
            rows = graph.propagation @ graph.features
            dense = torch.from_numpy(rows if graph.dense else rows.toarray()).to(self.place)
            first = [(dense, dense.T)]
        return [first, [(spread, spread)]]

    def scores(self, *, dropout: bool = False) -> Tensor:
        """Of all trials, ``[trials, documents, classes]``."""
        first, first_bias, second, second_bias = self.parameters
        count, width, hidden = first.shape
        table = first.transpose(0, 1).reshape(width, count * hidden)
        values = _spread(self.passes[0], table, count) + first_bias[:, None]
        values = values.relu()
        if dropout and self.behaviour.dropout:
            keep = kept_fraction(self.behaviour.dropout)
            values = values * (torch.rand_like(values) < keep) / keep
        values = values @ second
        table = values.transpose(0, 1).reshape(-1, count * values.shape[2])
        return _spread(self.passes[1], table, count) + second_bias[:, None]

    def epoch(self, *, dropout: bool = False) -> None:
        """As many steps as there are parts, and a look at the validation loss."""
        for _ in range(self.behaviour.parts):
            self.step(dropout=dropout)
        if self.behaviour.patience:
            losses = -self.scores().log_softmax(-1) * self.targets
            now = losses.sum(-1)[:, self.validation].mean(1)
            self.waited.add_(1).mul_(now > self.lowest)
            self.lowest.copy_(torch.fmin(self.lowest, now))
            self.descent.rates.mul_(self.waited < self.behaviour.patience)

    def ended(self) -> bool:
        """Whether every trial has stopped."""
        return bool(self.behaviour.patience) and not bool(self.descent.rates.any())

    def step(self, *, dropout: bool) -> None:
        """The gradient of each trial's next part, noise, and a step."""
        chosen = self.visits.index_select(0, self.taken)
        self.taken.add_(1)
        masks = (self.part == chosen).float().T
        weights = masks / masks.sum(1, keepdim=True).clamp(min=1)
        with torch.enable_grad():
            logits = self.scores(dropout=dropout).log_softmax(-1)
            loss = -((logits * self.targets).sum(-1) * weights).sum()
            gradients = torch.autograd.grad(loss, self.parameters)
        if self.behaviour.clip:
            gradients = clipped(gradients)
        self.descent.step(
            [own + by_trial(self.noise, own) * torch.randn_like(own) for own in gradients]
        )


def _spread(passes: list[tuple[Tensor, Tensor]], table: Tensor, count: int) -> Tensor:
    """Matrices times a table ``[rows, trials x columns]``: ``[trials, rows, columns]``."""
    for matrix, transposed in passes:
        table = product(matrix, transposed, table)
    return table.view(len(table), count, -1).transpose(0, 1)


def _visits(
    behaviour: Behaviour, seed: int, train: NDArray[np.int64], documents: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The part of each document, -1 for none, and the part that each step takes."""
    order, parts = np.random.default_rng(seed), behaviour.parts
    part = np.full(documents, -1)
    for number, rows in enumerate(np.array_split(order.permutation(train), parts)):
        part[rows] = number
    visits = [order.permutation(parts) for _ in range(behaviour.epochs)]
    return part, np.concatenate([*visits, np.empty(0, np.int64)])


def clipped(gradients: Sequence[Tensor], clip_norm: float = 1.0) -> tuple[Tensor, ...]:
    """Gradients ``[trials, ...]``, each trial's scaled as one to the clip norm at most."""
    squares = torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients])
    factors = (clip_norm / squares.sum(0).sqrt().clamp(min=1e-12)).clamp(max=1.0)
    return tuple(gradient * by_trial(factors, gradient) for gradient in gradients)


def released_mnist(
    train: tuple[NDArray[np.float32], NDArray[np.int64]],
    test: tuple[NDArray[np.float32], NDArray[np.int64]],
    lot_size: int,
    noise_multiplier: float,
    epochs: int,
    *,
    patience: int = PATIENCE,
    learning_rate: float = 0.01,
    hidden: int = 512,
    dropout: float = 0.5,
    seed: int = 0,
    device: str = "cpu",
) -> tuple[NDArray[np.float32], int]:
    """Trains as the released code does: scores of the test images, and epochs trained.

    ``train`` and ``test`` are images, one row each, and their classes. A lot is the images of a
    step; a ``patience`` of 0 trains to the end.
    """
    place = torch.device(device)
    (images, classes), (test_images, test_classes) = (
        [torch.from_numpy(np.asarray(array)).to(place) for array in pair]
        for pair in (train, test)
    )
    lot = min(lot_size, len(images))
    last = len(test_images) % lot or min(lot, len(test_images))
    lowest, waited, trained = torch.inf, 0, 0
    with seeded(seed, place):
        network = perceptron(images.shape[1], hidden, int(classes.max()) + 1, dropout)
        network.to(place)
        parameters = list(network.parameters())
        for epoch in range(epochs):
            network.train(epoch == 0)
            order = torch.randperm(len(images), device=place)
            for own in torch.split(order, lot)[: len(images) // lot]:
                loss = cross_entropy(network(images[own]), classes[own])
                gradients = torch.autograd.grad(loss, parameters)
                with torch.no_grad():
                    for parameter, gradient in zip(parameters, gradients, strict=True):
                        noise = torch.randn_like(gradient)
                        gradient = gradient.add(noise, alpha=noise_multiplier)
                        parameter.sub_(gradient, alpha=learning_rate)
            trained += 1
            if not patience:
                continue
            batch = torch.randperm(len(test_images), device=place)[:last]
            now = float(
                cross_entropy(_scores(network, test_images[batch]), test_classes[batch])
            )
            waited = waited + 1 if now > lowest else 0
            lowest = min(lowest, now)
            if waited >= patience:
                break
    return _scores(network, test_images).cpu().numpy(), trained


def perceptron(features: int, hidden: int, classes: int, dropout: float) -> nn.Sequential:
    """Two hidden layers, with PyTorch's first weights from its generator as it stands."""
    hidden_layer = [nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(
        nn.Linear(features, hidden),
        *hidden_layer,
        nn.Linear(hidden, hidden),
        *hidden_layer,
        nn.Linear(hidden, classes),
    )


def _scores(network: nn.Module, *inputs: Tensor) -> Tensor:
    network.eval()
    with torch.no_grad():
        scores: Tensor = network(*inputs)
    return scores
