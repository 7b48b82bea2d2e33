"""The released code's MNIST baseline, emulated, to explain the published scores.

**Nothing here is private**, as in :mod:`privgcn_paper.released`. What it repeats on purpose,
as read from that code:

- the network has two hidden layers of 512 units, not one, and PyTorch's first weights;
- a lot is one batch: the mean gradient of its images is not clipped, noise of standard
  deviation ``noise_multiplier`` (times the clip norm, 1) is added to it, and nothing is
  divided by the size of the lot;
- every image is in one lot of every epoch, where the accountant assumes Poisson samples;
- dropout acts in the first epoch only;
- the test images are the validation images: training stops after 20 epochs without a lower
  loss on the last batch of them, in random order, and keeps the iterate at which it stopped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from privgcn.sgd.gcn import seeded

IMAGES = 60_000
"""Training images."""

PATIENCE = 20
"""Epochs without a lower loss after which a run stops."""


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


def _scores(network: nn.Module, images: Tensor) -> Tensor:
    network.eval()
    with torch.no_grad():
        scores: Tensor = network(images)
    return scores
