"""Training through a session, and plain training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from privgcn.config import Settings
from privgcn.errors import ConfigError
from privgcn.graph import random_groups
from privgcn.released import Released
from privgcn.sgd.gcn import Network, network_scores
from privgcn.sgd.train import mean_loss, train_plain, train_private


class Linear(nn.Module):
    """A layer that nobody trains, one that is trained, and a count of calls."""

    scale: Tensor
    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 6), nn.Linear(6, 4)
        self.first.requires_grad_(False)
        self.register_buffer("scale", torch.tensor([2.0]))
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.calls += 1
        scores: Tensor = self.second(self.first(x).relu()) * self.scale
        return scores


USUAL: dict[str, Any] = {"model.hidden": 5, "model.dropout": 0.0, "training.optimizer": "sgd"}
USUAL |= {"training.learning_rate": 0.5, "training.patience": 0, "training.epochs": 4}


def settings(**changes: Any) -> Settings:
    """``training__epochs=3`` changes one."""
    return Settings().changed(
        USUAL | {name.replace("__", "."): value for name, value in changes.items()}
    )


def same(first: Released, second: Released) -> bool:
    assert first.tensors.keys() == second.tensors.keys()
    return all(np.array_equal(first.tensors[n], second.tensors[n]) for n in first.tensors)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("clip_norm", [0.1, 5.0])
def test_steps_are_the_optimisers_on_the_noisy_clipped_mean(
    make_graph: Any, make_session: Any, optimizer: str, clip_norm: float
) -> None:
    graph = make_graph()
    chosen = settings(training__optimizer=optimizer, training__learning_rate=0.1)
    session, answers = make_session(graph, noise=0.01, clip_norm=clip_norm), []
    query = session.query
    session.query = lambda question: answers.append(query(question)) or answers[-1]
    released = train_private(session, chosen)
    assert (len(answers), session.remaining) == (4, 0)
    assert released.plan is session.plan
    assert not released.releasable
    network = Network.of(chosen.model, features=8, classes=4, seed=chosen.seed)
    parameters = list(network.parameters())
    sizes = [parameter.numel() for parameter in parameters]
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimizer]
    inner = kind(parameters, lr=0.1)
    groups = graph.subgraphs(random_groups(len(graph), 5, 0), 5)
    for answer in answers:
        mean = torch.zeros(sum(sizes), dtype=torch.float64)
        for group in groups:
            loss = mean_loss(network(*network.inputs(group)), torch.from_numpy(group.labels))
            gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)])
            mean += gradient.double() / max(clip_norm, float(gradient.norm())) / 5
        # Within the noise, whose standard deviation is a fifth of a hundredth.
        np.testing.assert_allclose(answer, mean, atol=6 * 0.002)
        pieces = torch.from_numpy(answer * clip_norm).float().split(sizes)
        for parameter, piece in zip(parameters, pieces, strict=True):
            parameter.grad = piece.view_as(parameter)
        inner.step()
    for name, value in network.state_dict().items():
        assert released.tensors[name].dtype == np.float32
        np.testing.assert_array_equal(released.tensors[name], value)


@pytest.mark.parametrize("kind", ["gcn", "linear", "mlp"])
def test_the_same_seeds_give_the_same_bits(
    make_graph: Any, make_session: Any, kind: str
) -> None:
    graph, chosen = make_graph(), settings(model__kind=kind, model__dropout=0.5)
    first, second = (train_private(make_session(graph), chosen) for _ in range(2))
    assert same(first, second)
    assert not same(first, train_private(make_session(graph, seed=1), chosen))
    assert all(np.isfinite(value).all() for value in first.tensors.values())
    if kind != "linear":
        other = train_private(make_session(graph), chosen.changed({"seed": 3}))
        assert not same(first, other)


def test_settings_that_do_not_fit_are_refused(make_graph: Any, make_session: Any) -> None:
    session = make_session(make_graph())
    for changes, module, words in (
        ({"training__learning_rate": None}, None, "learning_rate"),
        ({"model__kind": "module"}, None, r"GraphClassifier\(module="),
        ({"model__kind": "gcn"}, Linear(), "model.kind 'module'"),
    ):
        with pytest.raises(ConfigError, match=words):
            train_private(session, settings(**changes), module=module)
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="needs a GPU"):
            train_private(session, settings(training__device="cuda"))


def test_a_module_is_trained_as_a_copy_and_frozen_parameters_stay(
    make_graph: Any, make_session: Any
) -> None:
    graph, module = make_graph(), Linear()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    chosen = settings(model__kind="module")
    released = train_private(make_session(graph), chosen, module=module)
    assert released.title == "Linear"
    assert released.tensors.keys() == before.keys()
    moved = {n for n, v in before.items() if not np.array_equal(released.tensors[n], v)}
    assert moved == {"second.weight", "second.bias"}, "and no call was counted"
    assert all(torch.equal(value, before[n]) for n, value in module.state_dict().items())
    plain = train_plain(graph, None, chosen.changed({"training.epochs": 60}), module=module)
    scores = network_scores(plain, graph, module=module)
    assert (scores.argmax(1) == graph.labels)[graph.labels >= 0].mean() > 0.7
    bare = Linear()
    bare.load_state_dict({n: torch.tensor(v) for n, v in plain.tensors.items()})
    rows = torch.from_numpy(graph.features.toarray())
    np.testing.assert_array_equal(bare(rows, torch.empty(2, 0)).detach(), scores)


@pytest.mark.parametrize("parts", [1, 3, "each"])
def test_plain_training_is_descent_on_the_groups(make_graph: Any, parts: Any) -> None:
    graph = make_graph()
    chosen = settings(training__parts=parts, training__epochs=2)
    released = train_plain(graph, None, chosen)
    count = len(graph) if parts == "each" else parts
    network = Network.of(chosen.model, features=8, classes=4, seed=0)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.5)
    group = random_groups(len(graph), count, 0)
    for number in [*range(count)] * 2:
        own = graph.induced(np.flatnonzero(group == number))
        known = own.labels >= 0
        if known.any():
            optimiser.zero_grad()
            scores = network(*network.inputs(own))[known]
            cross_entropy(scores, torch.from_numpy(own.labels[known])).backward()
            optimiser.step()
    for name, value in network.named_parameters():
        np.testing.assert_allclose(released.tensors[name], value.detach(), atol=1e-5)
    assert released.plan is None


def test_plain_training_learns_and_keeps_what_validated_best(make_graph: Any) -> None:
    graph = make_graph(200, edges=100)
    train = graph.induced(np.flatnonzero(graph.split == 0))
    visible = graph.induced(np.flatnonzero(graph.split < 2))
    rows = np.flatnonzero((visible.split == 1) & (visible.labels >= 0))

    def loss(released: Released) -> float:
        scores = torch.from_numpy(network_scores(released, visible)[rows])
        return float(cross_entropy(scores, torch.from_numpy(visible.labels[rows])))

    chosen = settings(
        training__optimizer="adam",
        training__learning_rate=0.05,
        training__epochs=300,
        training__patience=10,
        model__dropout=0.5,
        model__hidden=16,
    )
    stopped = train_plain(train, visible, chosen)
    assert same(stopped, train_plain(train, visible, chosen))
    long = train_plain(train, visible, chosen.changed({"training.patience": 0}))
    assert loss(stopped) < loss(long)
    scores = network_scores(stopped, graph)
    assert (scores.argmax(1) == graph.labels)[graph.split == 2].mean() > 0.5
    short = chosen.changed({"training.epochs": 5, "training.patience": 0})
    assert loss(stopped) <= loss(train_plain(train, None, short)) + 1e-6


def test_validation_documents_without_labels_stop_nothing(make_graph: Any) -> None:
    graph, chosen = make_graph(), settings(training__epochs=30, model__dropout=0.5)
    hidden = replace(graph, labels=np.where(graph.split == 1, -1, graph.labels))
    before = torch.get_rng_state()
    stopped = train_plain(graph, hidden, chosen.changed({"training.patience": 2}))
    assert same(stopped, train_plain(graph, None, chosen))
    assert torch.equal(torch.get_rng_state(), before), "the caller's generator is untouched"
