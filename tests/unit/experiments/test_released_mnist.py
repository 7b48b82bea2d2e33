"""The released code's MNIST baseline, on a few made-up images."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy, linear

from privgcn.errors import ConfigError
from privgcn.experiments.paper import released_mnist
from privgcn.experiments.tasks import Task
from privgcn.models import Layer, LayerStack

POINT = {"lot_size": 20, "noise_multiplier": 0, "epochs": 3, "patience": 20}


def _settings(**changes: Any) -> dict[str, Any]:
    settings = released_mnist.resolve(dict(POINT))
    return {**settings, "hidden": 5, "dropout": 0.0, **changes}


def _images(scale: float = 1.0) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    draw = torch.Generator().manual_seed(0)
    labels = [torch.arange(count) % 3 for count in (40, 12)]
    images = [
        scale * (torch.nn.functional.one_hot(one, 6) + torch.rand(len(one), 6, generator=draw))
        for one in labels
    ]
    return images, labels


def _train(
    settings: dict[str, Any], seeds: tuple[int, ...] = (0,), scale: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.no_grad():
        return released_mnist._train(*_images(scale), settings, seeds)


def test_a_step_is_plain_descent_on_the_mean_loss_of_a_network_with_two_hidden_layers() -> None:
    images, labels = _images(scale=20.0)
    rate = 0.01
    made, epochs = _train(_settings(lot_size=40, epochs=1, learning_rate=rate), scale=20.0)
    layers = [Layer(6, 5, 0), Layer(5, 5, 0), Layer(5, 3, 0)]
    first = [p[..., 0, :].clone() for p in released_mnist._initial(layers, [0])]
    parameters = [p.requires_grad_() for p in first]

    def scores(rows: torch.Tensor) -> torch.Tensor:
        for number in range(3):
            weight, bias = parameters[2 * number : 2 * number + 2]
            rows = linear(rows, weight.T, bias)
            rows = rows.relu() if number < 2 else rows
        return rows

    cross_entropy(scores(images[0]), labels[0]).backward()
    gradients = [p.grad for p in parameters if p.grad is not None]
    assert float(torch.cat([g.flatten() for g in gradients]).norm()) > 2.0, "not clipped to 1"
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter -= rate * gradient
        torch.testing.assert_close(made[:, 0], scores(images[1]), rtol=1e-4, atol=1e-5)
    assert epochs.tolist() == [1]


def test_the_noise_is_not_divided_by_the_lot() -> None:
    """A step on half the images moves the weights by the same noise."""
    noisy = _settings(epochs=1, noise_multiplier=1e6, learning_rate=1e-6)
    (train, test), (classes, truth) = _images()
    with torch.no_grad():
        whole, half = (
            released_mnist._train(
                [train[:lot], test], [classes[:lot], truth], {**noisy, "lot_size": lot}, (0,)
            )[0]
            for lot in (40, 20)
        )
    torch.testing.assert_close(whole, half, rtol=1e-3, atol=1e-3)
    assert float(whole.abs().max()) > 1.0


def test_the_test_images_stop_the_training() -> None:
    settings = _settings(epochs=50, patience=2, noise_multiplier=3.0, learning_rate=1.0)
    _, epochs = _train(settings, (0, 1, 2))
    assert int(epochs.max()) < 50
    images, labels = _images()
    with torch.no_grad():
        turned = [labels[0], (labels[1] + 1) % 3]
        other = released_mnist._train(images, turned, settings, (0, 1, 2))[1]
    assert epochs.tolist() != other.tolist(), "labels of test images decide when it ends"
    assert _train({**settings, "patience": 0}, (0, 1))[1].tolist() == [50, 50]


def test_dropout_acts_in_the_first_epoch_only(monkeypatch: pytest.MonkeyPatch) -> None:
    dropped, forward = [], LayerStack.forward

    def watched(*args: Any, **named: Any) -> Any:
        if len(args) == 5:
            dropped.append(args[4] is not None)
        return forward(*args, **named)

    monkeypatch.setattr(LayerStack, "forward", watched)
    _train(_settings(epochs=3, dropout=0.5))
    assert dropped == [True, True, False, False, False, False], "two lots in each epoch"


def test_a_seed_gives_the_same_scores_whatever_trains_beside_it() -> None:
    settings = _settings(noise_multiplier=0.5, dropout=0.5)
    alone, beside = _train(settings, (5,))[0], _train(settings, (4, 5))[0]
    torch.testing.assert_close(alone[:, 0], beside[:, 1], rtol=1e-4, atol=1e-4)


def test_axes_are_checked() -> None:
    with pytest.raises(ConfigError, match="released code's runs on MNIST"):
        released_mnist.resolve({"lot_size": 600})
    settings = released_mnist.resolve({**POINT, "lot_size": 600, "epochs": 100})
    assert released_mnist.steps(settings) == 10_000
    assert released_mnist.label(settings) == "mnist, as released, lot size 600, noise 0"
    assert "not stopped early" in released_mnist.label({**settings, "patience": 0})
    assert Task(released_mnist.KIND, settings, (0,)).on("cuda").device == "cuda"
