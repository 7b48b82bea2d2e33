"""Networks: PyTorch Geometric's scores, autograd's gradients, documents alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from privgcn.config import ModelSettings, Settings
from privgcn.released import Released
from privgcn.sgd.gcn import Network, kept_fraction, network_scores


def network_of(kind, **changes):
    model = ModelSettings(kind=kind, **{"hidden": 5, "dropout": 0.0, **changes})
    made = Network.of(model, features=8, classes=4, seed=1)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return made


def released_of(network, kind, **changes):
    tensors = {name: value.detach().numpy() for name, value in network.named_parameters()}
    return Released(kind, tensors, Settings().changed({"model.kind": kind, **changes}))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sparse", [True, False])
def test_gcn_is_two_gcn_convolutions(make_graph, sparse):
    from torch_geometric.nn import GCNConv

    graph, network = make_graph(sparse=sparse), network_of("gcn")
    both = torch.from_numpy(np.concatenate([graph.edges, graph.edges[::-1]], axis=1))
    layers = GCNConv(8, 5), GCNConv(5, 4)
    with torch.no_grad():
        for layer, own in zip(layers, network.layers, strict=True):
            layer.lin.weight.copy_(own.weight.T)
            layer.bias.copy_(own.bias)
        rows = graph.features.toarray() if sparse else graph.features
        expected = layers[1](layers[0](torch.from_numpy(rows), both).relu(), both)
    scores = network_scores(released_of(network, "gcn"), graph)
    assert scores.dtype == np.float32
    assert_allclose(scores, expected, atol=1e-5)


def dense_scores(network, graph, mask=1.0):
    """The same by plain PyTorch."""
    rows = torch.from_numpy(np.asarray(graph.features.toarray()))
    matrix = torch.from_numpy(graph.propagation.toarray())
    matrix = torch.matrix_power(matrix, network.hops)
    for number, layer in enumerate(network.layers):
        rows = matrix @ ((rows.relu() * mask if number else rows) @ layer.weight)
        rows = rows if layer.bias is None else rows + layer.bias
    return rows


def agree(network, scores, expected, rtol=1e-4):
    """Scores, and the gradients of their sum of squares."""
    torch.testing.assert_close(scores, expected, rtol=rtol, atol=1e-5)
    pairs = (
        torch.autograd.grad(own.square().sum(), [*network.parameters()])
        for own in (scores, expected)
    )
    for one, other in zip(*pairs, strict=True):
        torch.testing.assert_close(one, other, rtol=rtol, atol=rtol * float(other.abs().max()))


@pytest.mark.parametrize(("kind", "hops"), [("gcn", 1), ("linear", 3), ("mlp", 0)])
def test_scores_and_gradients_are_plain_pytorchs(make_graph, kind, hops):
    graph, network = make_graph(), network_of(kind, hops=hops)
    expected = dense_scores(network, graph)
    agree(network, network(*network.inputs(graph)), expected)
    released = released_of(network, kind, **{"model.hops": hops})
    assert_allclose(network_scores(released, graph), expected.detach(), atol=1e-5)


@pytest.mark.parametrize("dropout", [0.001, 0.5, 0.999])
def test_dropout_passes_its_fraction_and_drops_in_both_directions(make_graph, dropout):
    graph, network = make_graph(), network_of("gcn", hidden=16, dropout=dropout).train()
    passing, mask = kept_fraction(dropout), network._dropped(torch.ones(500, 500))
    assert float((mask > 0).double().mean()) == pytest.approx(passing, abs=0.01)
    assert abs(passing - (1 - dropout)) < 1 / 250
    assert mask.unique().tolist() == pytest.approx([0.0, 1 / passing])
    torch.manual_seed(3)
    scores = network(*network.inputs(graph))
    torch.manual_seed(3)
    agree(network, scores, dense_scores(network, graph, network._dropped(torch.ones(30, 16))))
    assert torch.equal(network.eval()(*network.inputs(graph)), network(*network.inputs(graph)))


@pytest.mark.parametrize("kind", ["gcn", "linear", "mlp"])
@pytest.mark.parametrize("sparse", [True, False])
def test_a_document_alone_has_the_same_bits_in_any_company(make_graph, kind, sparse):
    graph, released = make_graph(sparse=sparse), released_of(network_of(kind), kind)
    together = network_scores(released, graph, alone=True)
    order = np.random.default_rng(0).permutation(30)
    others = network_scores(released, graph.induced(order), alone=True)
    assert_array_equal(others, together[order])
    for row in range(5):
        own = graph.induced(np.array([row]))
        assert_array_equal(network_scores(released, own, alone=True)[0], together[row])
        # Without edges, propagation is the identity.
        assert_allclose(network_scores(released, own)[0], together[row], atol=1e-5)
    nobody = graph.induced(np.array([], np.int64))
    assert network_scores(released, nobody, alone=True).shape == (0, 4)


@pytest.mark.parametrize("alone", [False, True])
def test_rows_that_may_only_be_read_are_scored(make_graph, tmp_path, alone):
    graph, released = make_graph(sparse=False), released_of(network_of("gcn"), "gcn")
    np.save(tmp_path / "rows.npy", graph.features)
    mapped = replace(graph, features=np.load(tmp_path / "rows.npy", mmap_mode="r"))
    scores = (network_scores(released, own, alone=alone) for own in (mapped, graph))
    assert_array_equal(*scores)


def test_first_weights_come_from_the_seed():
    def first(kind, seed):
        model = ModelSettings(kind=kind, hidden=5)
        return Network.of(model, features=8, classes=4, seed=seed).state_dict()

    own, again = first("gcn", 4), first("gcn", 4)
    assert all(torch.equal(own[name], again[name]) for name in own)
    assert not torch.equal(own["layers.0.weight"], first("gcn", 9)["layers.0.weight"])
    assert [*own] == [f"layers.{n}.{kind}" for n in (0, 1) for kind in ("weight", "bias")]
    assert float(own["layers.0.weight"].abs().max()) < (6 / 13) ** 0.5
    assert not own["layers.0.bias"].any()
    assert [(name, value.any()) for name, value in first("linear", 0).items()] == [
        ("layers.0.weight", False)
    ]
