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

``sound`` does some of these things as the paper describes them, so that an ablation can tell
which of them makes the published score. With all of them a run still has no guarantee: its
noise is the paper's own.

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

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from privgcn.graph import DocumentGraph
from privgcn.sgd.gcn import Network, seeded

SOUND = {
    "clip": "the gradient of a part is clipped to norm 1, all tensors together",
    "apart": "validation and test documents are not in the training graph",
    "cut": "edges between parts are cut as well",
    "dropout": "dropout acts in every epoch",
    "sampling": "a step takes each part with probability one over their number",
}
"""What can be done as the paper describes it, and how that is."""

PATIENCE = 20
"""Epochs without a lower loss after which a run stops."""

_TRAIN, _VALIDATION = 0, 1


def released_scores(
    graph: DocumentGraph,
    *,
    optimizer: str,
    noise_multiplier: float,
    learning_rate: float,
    epochs: int,
    parts: int = 1,
    patience: int = 0,
    weight_decay: float = 0.0,
    hidden: int = 32,
    dropout: float = 0.5,
    sound: Collection[str] = (),
    seed: int = 0,
    device: str = "cpu",
) -> NDArray[np.float32]:
    """Trains as the released code does, and scores all documents in the whole graph.

    Args:
        graph: All documents, with features as they are.
        optimizer: ``sgd`` or ``adam``.
        noise_multiplier: Standard deviation of the noise of a step; 0 for none.
        learning_rate: Of the optimiser.
        epochs: Visits to every part, at most.
        parts: How many "subgraphs" there are.
        patience: Epochs without a lower validation loss after which training stops; 0 never.
        weight_decay: Of the optimiser.
        hidden: Width of the hidden layer.
        dropout: Fraction of hidden values that is left out.
        sound: Names of ``SOUND``: what is done as the paper describes it.
        seed: Of parts, visits, first weights, dropout and noise.
        device: Where to train.

    Returns:
        Scores ``[documents, classes]``.
    """
    if not set(sound) <= set(SOUND):
        raise ValueError(f"'sound' must be some of {', '.join(SOUND)}. Got {', '.join(sound)}.")
    place = torch.device(device)
    network = Network([graph.width, hidden, graph.classes], hops=1, dropout=dropout)
    network.begun(seed).to(place)
    order = np.random.default_rng(seed)
    train = np.flatnonzero((graph.split == _TRAIN) & (graph.labels >= 0))
    members = np.array_split(order.permutation(train), parts)
    whole, inputs = (
        [tensor.to(place) for tensor in network.inputs(each)]
        for each in (graph, _training_graph(graph, members, sound))
    )
    labels = torch.from_numpy(graph.labels).to(place)
    rows = [torch.from_numpy(part).to(place) for part in members]
    validation = np.flatnonzero((graph.split == _VALIDATION) & (graph.labels >= 0))
    looked = torch.from_numpy(validation).to(place)
    kind = torch.optim.Adam if optimizer == "adam" else torch.optim.SGD
    parameters = list(network.parameters())
    descent = kind(parameters, lr=learning_rate, weight_decay=weight_decay)
    lowest, waited = np.inf, 0
    with seeded(seed, place):
        for epoch in range(epochs):
            network.train(epoch == 0 or "dropout" in sound)
            samples = [np.array([part]) for part in order.permutation(parts)]
            if "sampling" in sound:
                drawn = order.random((parts, parts)) < 1.0 / parts
                samples = [np.flatnonzero(row) for row in drawn]
            for sample in samples:
                totals = [torch.zeros_like(parameter) for parameter in parameters]
                for own in (rows[part] for part in sample):
                    loss = cross_entropy(network(*inputs)[own], labels[own])
                    gradients = torch.autograd.grad(loss, parameters)
                    if "clip" in sound:
                        gradients = clipped(gradients)
                    torch._foreach_add_(totals, gradients)
                for parameter, total in zip(parameters, totals, strict=True):
                    parameter.grad = total.add_(torch.randn_like(total), alpha=noise_multiplier)
                descent.step()
            if patience:
                scores = _scores(network, *whole)
                loss_now = float(cross_entropy(scores[looked], labels[looked]))
                waited = waited + 1 if loss_now > lowest else 0
                lowest = min(lowest, loss_now)
                if waited >= patience:
                    break
    made: NDArray[np.float32] = _scores(network, *whole).cpu().numpy()
    return made


def clipped(gradients: Sequence[Tensor], clip_norm: float = 1.0) -> tuple[Tensor, ...]:
    """A gradient, scaled as a whole to the clip norm at most."""
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    factor = (clip_norm / norm.clamp(min=1e-12)).clamp(max=1.0)
    return tuple(gradient * factor for gradient in gradients)


def _scores(network: nn.Module, *inputs: Tensor) -> Tensor:
    network.eval()
    with torch.no_grad():
        scores: Tensor = network(*inputs)
    return scores


def _training_graph(
    graph: DocumentGraph, members: Sequence[NDArray[np.int64]], sound: Collection[str]
) -> DocumentGraph:
    """What a training pass sees: every edge, or the edges that a sound method leaves."""
    if not set(sound) & {"apart", "cut"}:
        return graph
    part = np.full(len(graph), -1)
    for number, rows in enumerate(members):
        part[rows] = number if "cut" in sound else 0
    ends = part[graph.edges]
    return replace(graph, edges=graph.edges[:, (ends[0] == ends[1]) & (ends[0] >= 0)])


class ReleasedRun(NamedTuple):
    """The outcome of a run.

    Attributes:
        scores: Of the test images, ``[images, classes]``.
        epochs: How many were trained.
    """

    scores: NDArray[np.float32]
    epochs: int


def released_mnist(
    train: tuple[NDArray[np.float32], NDArray[np.int64]],
    test: tuple[NDArray[np.float32], NDArray[np.int64]],
    *,
    lot_size: int,
    noise_multiplier: float,
    epochs: int,
    patience: int = PATIENCE,
    learning_rate: float = 0.01,
    hidden: int = 512,
    dropout: float = 0.5,
    seed: int = 0,
    device: str = "cpu",
) -> ReleasedRun:
    """Trains as the released code does, and scores the test images.

    Args:
        train: Training images, one row each, and their classes.
        test: Test images and their classes.
        lot_size: Images of a step.
        noise_multiplier: Standard deviation of the noise of a step.
        epochs: Passes over the images, at most.
        patience: Epochs without a lower loss before training stops; 0 trains to the end.
        learning_rate: Of plain descent.
        hidden: Width of both hidden layers.
        dropout: Fraction of hidden values that the first epoch leaves out.
        seed: Of first weights, lots, dropout and noise.
        device: Where to train.
    """
    place = torch.device(device)
    (images, classes), (seen, truth) = (
        [torch.from_numpy(np.asarray(array)).to(place) for array in pair]
        for pair in (train, test)
    )
    lot = min(lot_size, len(images))
    last = len(seen) % lot or min(lot, len(seen))
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
            looked = torch.randperm(len(seen), device=place)[:last]
            now = float(cross_entropy(_scores(network, seen[looked]), truth[looked]))
            waited = waited + 1 if now > lowest else 0
            lowest = min(lowest, now)
            if waited >= patience:
                break
    return ReleasedRun(_scores(network, seen).cpu().numpy(), trained)


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
