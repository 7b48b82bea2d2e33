"""The released code's MNIST baseline, on a few made-up images."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from privgcn.sgd.gcn import seeded
from privgcn_paper.released_mnist import ReleasedRun, perceptron, released_mnist

QUIET: dict[str, Any] = {"lot_size": 20, "noise_multiplier": 0.0, "epochs": 3, "hidden": 5}
Images = tuple[np.ndarray, np.ndarray]


def images(scale: float = 1.0) -> tuple[Images, Images]:
    draw = np.random.default_rng(0)
    labels = [np.arange(count) % 3 for count in (40, 12)]
    made = [scale * (np.eye(6)[own] + draw.random((len(own), 6))) for own in labels]
    train, test = (
        (rows.astype(np.float32), own) for rows, own in zip(made, labels, strict=True)
    )
    return train, test


def trained(scale: float = 1.0, **changes: Any) -> ReleasedRun:
    return released_mnist(*images(scale), **{**QUIET, "dropout": 0.0, **changes})


def test_a_step_is_plain_descent_on_the_mean_loss_of_a_network_with_two_hidden_layers() -> None:
    run = trained(scale=20.0, lot_size=40, epochs=1, learning_rate=0.01)
    (train, classes), (test, _) = images(scale=20.0)
    with seeded(0, torch.device("cpu")):
        network = perceptron(6, 5, 3, 0.0)
    widths = [layer.out_features for layer in network if isinstance(layer, nn.Linear)]
    assert widths == [5, 5, 3]
    parameters = list(network.parameters())
    loss = cross_entropy(network(torch.from_numpy(train)), torch.from_numpy(classes))
    gradients = torch.autograd.grad(loss, parameters)
    assert float(torch.cat([g.flatten() for g in gradients]).norm()) > 1.5, "not clipped to 1"
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter -= 0.01 * gradient
        expected = network(torch.from_numpy(test))
    np.testing.assert_allclose(run.scores, expected, rtol=1e-4, atol=1e-5)
    assert run.epochs == 1


def test_the_noise_is_not_divided_by_the_lot() -> None:
    """A step on half the images moves the weights by the same noise."""
    train, test = images()
    noisy = {"noise_multiplier": 1e6, "learning_rate": 1e-6, "epochs": 1, "hidden": 5}
    scores = [
        released_mnist(
            (train[0][:lot], train[1][:lot]), test, lot_size=lot, dropout=0.0, **noisy
        ).scores
        for lot in (40, 20)
    ]
    assert np.abs(scores[0]).max() > 1.0
    deviations = [float(np.std(score)) for score in scores]
    assert 0.2 < deviations[0] / deviations[1] < 5.0


def test_the_test_images_stop_the_training() -> None:
    noisy = {"epochs": 50, "patience": 2, "noise_multiplier": 3.0, "learning_rate": 1.0}
    epochs = [trained(**noisy, seed=seed).epochs for seed in range(3)]
    assert max(epochs) < 50
    train, (rows, truth) = images()
    turned = [
        released_mnist(
            train, (rows, (truth + 1) % 3), **{**QUIET, "dropout": 0.0, **noisy}, seed=seed
        ).epochs
        for seed in range(3)
    ]
    assert epochs != turned, "labels of test images decide when it ends"
    assert trained(**{**noisy, "patience": 0}).epochs == 50


def test_dropout_acts_in_the_first_epoch_only() -> None:
    modes: list[bool] = []
    forward = nn.Sequential.forward

    def spy(self: Any, rows: Any) -> Any:
        modes.append(self.training)
        return forward(self, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.Sequential, "forward", spy)
        trained(dropout=0.5, patience=0)
    assert modes == [True, True, False, False, False, False, False], "two lots in each epoch"


def test_a_seed_gives_the_same_scores_again() -> None:
    noisy = {"noise_multiplier": 0.5, "dropout": 0.5}
    first, second = (trained(**noisy, seed=5).scores for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, trained(**noisy, seed=6).scores)
