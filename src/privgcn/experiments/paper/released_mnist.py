"""The released code's MNIST baseline, emulated, to explain the published scores.

**Nothing here is private**, as in :mod:`privgcn.experiments.paper.emulation`. What it repeats
on purpose, as read from that code:

- the network has two hidden layers of 512 units, not one, and PyTorch's first weights;
- a lot is one batch: the mean gradient of its images is not clipped, noise of standard
  deviation ``noise_multiplier * clip_norm`` is added to it, and nothing is divided by the
  size of the lot;
- every image is in one lot of every epoch, where the accountant assumes Poisson samples;
- dropout acts in the first epoch only;
- the test images are the validation images: training stops after 20 epochs without a lower
  loss on the last batch of them, in random order, and keeps the iterate at which it stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from privgcn.config import PAPER_RATE
from privgcn.experiments.paper.emulation import Stopper, losses_of
from privgcn.experiments.tasks import Result, check_axes
from privgcn.training.devices import Work, faster_device

if TYPE_CHECKING:
    from torch import Tensor

    from privgcn.randomness import Draws

KIND = __name__
"""The kind of these tasks."""

IMAGES = 60_000
"""Training images."""

PATIENCE = 20
"""Epochs without a lower loss after which a run stops."""

_HIDDEN, _DROPOUT, _CLIP_NORM = 512, 0.5, 1.0
_AXES = {"lot_size", "noise_multiplier", "epochs", "patience"}
_PIXELS = 784


def resolve(point: dict[str, Any]) -> dict[str, Any]:
    """The full settings; with patience 0, nothing stops early."""
    check_axes("the released code's runs on MNIST", point, _AXES)
    return {
        "dataset": "mnist",
        "lot_size": int(point["lot_size"]),
        "noise_multiplier": float(point["noise_multiplier"]),
        "epochs": int(point["epochs"]),
        "patience": int(point["patience"]),
        "learning_rate": PAPER_RATE,
        "hidden": _HIDDEN,
        "dropout": _DROPOUT,
    }


def run(settings: dict[str, Any], seeds: tuple[int, ...], device: str = "cpu") -> list[Result]:
    """Trains without clipping, and scores the test images."""
    import torch

    from privgcn.data.corpus import TEST, TRAIN
    from privgcn.experiments.predictions import results_of
    from privgcn.experiments.subsampling import corpus_for_runs
    from privgcn.training.recording import own_stream

    corpus = corpus_for_runs("mnist", 1.0)
    place, pixels = torch.device(device), np.asarray(corpus.vectors)
    rows = [corpus.split == split for split in (TRAIN, TEST)]
    images = [torch.from_numpy(pixels[own]).to(place) for own in rows]
    labels = [torch.from_numpy(corpus.labels[own]).to(place) for own in rows]
    with torch.no_grad(), own_stream(place):
        scores, epochs = _train(images, labels, settings, seeds)
    found = results_of(corpus, {"alone": scores.argmax(-1).T.cpu().numpy()})
    return [
        {**result, "device": device, "private": False, "epochs": int(count)}
        for result, count in zip(found, epochs.tolist(), strict=True)
    ]


def _train(
    images: Sequence[Tensor],
    labels: Sequence[Tensor],
    settings: Mapping[str, Any],
    seeds: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """Scores of the test images, ``[images, R, classes]``, and the epochs of each seed.

    Images and labels are those of training and those of the test.
    """
    import torch

    from privgcn.graph import DenseRows
    from privgcn.models import Layer, LayerStack
    from privgcn.models.stack import loss_gradient
    from privgcn.randomness import seeded_draws
    from privgcn.training.recording import Recording

    train, test = images
    device, hidden, classes = train.device, settings["hidden"], int(labels[0].max()) + 1
    widths = (train.shape[1], hidden, hidden, classes)
    layers = tuple(Layer(a, b, 0) for a, b in pairwise(widths))
    model = LayerStack("mlp", layers, settings["dropout"])
    parameters = [tensor.to(device) for tensor in _initial(layers, seeds)]
    noise = seeded_draws(seeds, "as-released noise", device)
    dropout = seeded_draws(seeds, "as-released dropout", device)
    # Seeds share the lots and the masks, whichever of them train together.
    order = torch.Generator().manual_seed(0)
    lot = min(settings["lot_size"], len(train))
    rows, own = train.new_empty(lot, train.shape[1]), labels[0].new_empty(lot)
    weights = train.new_full((lot,), 1.0 / lot)
    scale = settings["noise_multiplier"] * _CLIP_NORM

    def step(masks: Draws | None) -> None:
        tape = model.forward(parameters, DenseRows(rows), None, masks)
        errors = loss_gradient(tape.scores, own, weights)
        layers = model.backward(parameters, tape, errors, None, dropped=masks is not None)
        sums = [tensor for layer in layers for tensor in layer.totals()]
        draws = noise.normal([one.shape for one in sums])
        for parameter, one, draw in zip(parameters, sums, draws, strict=True):
            parameter.sub_(one.add_(draw, alpha=scale), alpha=settings["learning_rate"])

    def shuffled(count: int) -> Tensor:
        return torch.randperm(count, generator=order).to(device)

    recorded = Recording(device, [noise])
    stopper = Stopper(settings["patience"], parameters)
    last_batch = len(test) % lot or min(lot, len(test))
    for epoch in range(1, settings["epochs"] + 1):
        dropping = epoch == 1 and settings["dropout"] > 0
        for members in torch.split(shuffled(len(train)), lot)[: len(train) // lot]:
            torch.index_select(train, 0, members, out=rows)
            torch.index_select(labels[0], 0, members, out=own)
            if dropping:
                step(dropout)
            else:
                recorded(lambda: step(None))
        if not settings["patience"]:
            continue
        looked = shuffled(len(test))[:last_batch]
        scores = model.scores(parameters, DenseRows(test[looked]), None)
        stopper.look(losses_of(scores, labels[1][looked]))
        if stopper.all_stopped():
            break
    epochs = stopper.epochs if settings["patience"] else stopper.epochs + settings["epochs"]
    return model.scores(stopper.result(), DenseRows(test), None), epochs


def _initial(layers: Sequence[Any], seeds: Sequence[int]) -> list[Tensor]:
    """PyTorch's first weights and biases: uniform, within one over the root of the inputs."""
    import torch

    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    parameters = []
    for inputs, outputs, _ in layers:
        for shape in ((inputs, outputs), (outputs,)):
            each = [torch.rand(shape, generator=one) * 2 - 1 for one in generators]
            parameters.append(torch.stack(each, -2) * inputs**-0.5)
    return parameters


def label(settings: Mapping[str, Any]) -> str:
    """Lot and noise, and whether it goes on to the end."""
    lot, noise = settings["lot_size"], settings["noise_multiplier"]
    stopped = "" if settings["patience"] else ", not stopped early"
    return f"mnist, as released, lot size {lot}, noise {noise:g}{stopped}"


def device(settings: Mapping[str, Any], replicas: int) -> str:
    """``cpu`` or ``cuda``: what is faster."""
    size = settings["lot_size"] * _PIXELS * settings["hidden"] * replicas
    return faster_device(Work(steps(settings), size, size), started=True)


def apart(settings: Mapping[str, Any]) -> bool:
    """Side by side, the activations of several seeds would not fit a core's cache."""
    return True


def steps(settings: Mapping[str, Any]) -> int:
    """Of a run that does not stop early."""
    return int(settings["epochs"] * IMAGES // settings["lot_size"])


def weight(settings: Mapping[str, Any]) -> float:
    """Document passes, roughly: the layers are 16 times those of a usual network."""
    return float(IMAGES * settings["epochs"] * settings["hidden"] / 32)
