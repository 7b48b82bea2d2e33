"""Training through a session, and plain training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from privgcn.config import Settings
from privgcn.errors import ConfigError
from privgcn.graph import random_groups
from privgcn.sgd.gcn import Network, network_scores
from privgcn.sgd.train import mean_loss, train_plain, train_private


class Linear(nn.Module):
    """A layer that nobody trains, one that is trained, and a count of calls."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 6), nn.Linear(6, 4)
        self.first.requires_grad_(False)
        self.register_buffer("scale", torch.tensor([2.0]))
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x, edge_index):
        self.calls += 1
        return self.second(self.first(x).relu()) * self.scale


USUAL = {"model.hidden": 5, "model.dropout": 0.0, "training.optimizer": "sgd"}
USUAL |= {"training.learning_rate": 0.5, "training.patience": 0, "training.epochs": 4}


def settings(**changes):
    """``training__epochs=3`` changes one."""
    own = {name.replace("__", "."): value for name, value in changes.items()}
    return Settings().changed(USUAL | own)


def same(first, second):
    assert first.tensors.keys() == second.tensors.keys()
    return all(np.array_equal(first.tensors[n], second.tensors[n]) for n in first.tensors)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("clip_norm", [0.1, 5.0])
def test_steps_are_the_optimisers_on_the_noisy_clipped_mean(
    make_graph, make_session, optimizer, clip_norm
):
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
    inner = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimizer](parameters, lr=0.1)
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
def test_the_same_seeds_give_the_same_bits(make_graph, make_session, kind):
    graph, chosen = make_graph(), settings(model__kind=kind, model__dropout=0.5)
    first = train_private(make_session(graph), chosen)
    assert same(first, train_private(make_session(graph), chosen))
    assert not same(first, train_private(make_session(graph, seed=1), chosen))
    if kind != "linear":
        other = train_private(make_session(graph), chosen.changed({"seed": 3}))
        assert not same(first, other)


def test_settings_that_do_not_fit_are_refused(make_graph, make_session):
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


def test_a_module_is_trained_as_a_copy_and_frozen_parameters_stay(make_graph, make_session):
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


@pytest.mark.parametrize("parts", [1, 3, "each"])
def test_plain_training_is_descent_on_the_groups(make_graph, parts):
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


def test_plain_training_learns_and_keeps_what_validated_best(make_graph):
    graph = make_graph(200, edges=100)
    train = graph.induced(np.flatnonzero(graph.split == 0))
    visible = graph.induced(np.flatnonzero(graph.split < 2))
    rows = np.flatnonzero((visible.split == 1) & (visible.labels >= 0))

    def loss(released):
        scores = torch.from_numpy(network_scores(released, visible)[rows])
        return float(cross_entropy(scores, torch.from_numpy(visible.labels[rows])))

    adam = {"training__optimizer": "adam", "training__learning_rate": 0.05}
    wide = {"model__dropout": 0.5, "model__hidden": 16}
    chosen = settings(**adam, **wide, training__epochs=300, training__patience=10)
    stopped = train_plain(train, visible, chosen)
    long = train_plain(train, visible, chosen.changed({"training.patience": 0}))
    assert loss(stopped) < loss(long)
    scores = network_scores(stopped, graph)
    assert (scores.argmax(1) == graph.labels)[graph.split == 2].mean() > 0.5
    short = chosen.changed({"training.epochs": 5, "training.patience": 0})
    assert loss(stopped) <= loss(train_plain(train, None, short)) + 1e-6


def test_validation_documents_without_labels_stop_nothing(make_graph):
    graph, chosen = make_graph(), settings(training__epochs=30, model__dropout=0.5)
    hidden = replace(graph, labels=np.where(graph.split == 1, -1, graph.labels))
    before = torch.get_rng_state()
    stopped = train_plain(graph, hidden, chosen.changed({"training.patience": 2}))
    assert same(stopped, train_plain(graph, None, chosen))
    assert torch.equal(torch.get_rng_state(), before), "the caller's generator is untouched"
