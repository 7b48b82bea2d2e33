"""Networks: PyTorch Geometric's scores, autograd's gradients, documents alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from privgcn.config import ModelSettings, Settings
from privgcn.released import Released
from privgcn.sgd.gcn import Network, kept_fraction, network_scores

KINDS = ("gcn", "linear", "mlp")


def network_of(kind: str, *, seed: int = 1, **changes: Any) -> Network:
    model = ModelSettings(kind=kind, **{"hidden": 5, "dropout": 0.0, **changes})  # type: ignore[arg-type]
    made = Network.of(model, features=8, classes=4, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return made


def released_of(network: Network, kind: Any, **changes: Any) -> Released:
    tensors = {name: value.detach().numpy() for name, value in network.named_parameters()}
    return Released(kind, tensors, Settings().changed({"model.kind": kind, **changes}))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sparse", [True, False])
def test_gcn_is_two_gcn_convolutions(make_graph: Any, sparse: bool) -> None:
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
    np.testing.assert_allclose(scores, expected, atol=1e-5)


def dense_scores(network: Network, graph: Any, mask: Any = 1.0) -> torch.Tensor:
    """The same by plain PyTorch."""
    rows = torch.from_numpy(np.asarray(graph.features.toarray()))
    matrix = torch.matrix_power(
        torch.from_numpy(graph.propagation.toarray()), network.hops or 0
    )
    for number, layer in enumerate(network.layers):
        rows = matrix @ ((rows.relu() * mask if number else rows) @ layer.weight)
        rows = rows if layer.bias is None else rows + layer.bias
    return rows


@pytest.mark.parametrize(("kind", "hops"), [("gcn", 1), ("linear", 3), ("mlp", 0)])
def test_scores_and_gradients_are_plain_pytorchs(make_graph: Any, kind: str, hops: int) -> None:
    graph, network = make_graph(), network_of(kind, hops=hops)
    known, labels = graph.labels >= 0, torch.from_numpy(graph.labels)
    made, expected = network(*network.inputs(graph)), dense_scores(network, graph)
    released = released_of(network, kind, **{"model.hops": hops})
    np.testing.assert_allclose(network_scores(released, graph), expected.detach(), atol=1e-5)
    parameters = list(network.parameters())
    for one, other in zip(
        *(
            torch.autograd.grad(cross_entropy(scores[known], labels[known]), parameters)
            for scores in (made, expected)
        ),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dropout", [0.001, 0.5, 0.999])
def test_dropout_passes_its_fraction_keeps_the_mean_and_drops_in_both_directions(
    make_graph: Any, dropout: float
) -> None:
    graph, network = make_graph(), network_of("gcn", hidden=16, dropout=dropout).train()
    passing, parameters = kept_fraction(dropout), list(network.parameters())
    mask = network._dropped(torch.ones(500, 500))
    assert float((mask > 0).double().mean()) == pytest.approx(passing, abs=0.01)
    assert abs(passing - (1 - dropout)) < 1 / 250
    assert mask.unique().tolist() == pytest.approx([0.0, 1 / passing])
    torch.manual_seed(3)
    scores = network(*network.inputs(graph))
    torch.manual_seed(3)
    expected = dense_scores(network, graph, network._dropped(torch.ones(30, 16)))
    torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-5)
    for one, other in zip(
        torch.autograd.grad(scores.square().sum(), parameters),
        torch.autograd.grad(expected.square().sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4 * max(1.0, 1 / passing))
    assert torch.equal(network.eval()(*network.inputs(graph)), network(*network.inputs(graph)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sparse", [True, False])
def test_a_document_alone_has_the_same_bits_in_any_company(
    make_graph: Any, kind: str, sparse: bool
) -> None:
    graph, released = make_graph(sparse=sparse), released_of(network_of(kind), kind)
    together = network_scores(released, graph, alone=True)
    order = np.random.default_rng(0).permutation(30)
    np.testing.assert_array_equal(
        network_scores(released, graph.induced(order), alone=True), together[order]
    )
    for row in range(5):
        own = graph.induced(np.array([row]))
        np.testing.assert_array_equal(
            network_scores(released, own, alone=True)[0], together[row]
        )
        # Without edges, propagation is the identity.
        np.testing.assert_allclose(network_scores(released, own)[0], together[row], atol=1e-5)
    nobody = graph.induced(np.array([], np.int64))
    assert network_scores(released, nobody, alone=True).shape == (0, 4)


def test_rows_that_may_only_be_read_are_scored(make_graph: Any, tmp_path: Path) -> None:
    graph, network = make_graph(sparse=False), network_of("gcn")
    np.save(tmp_path / "rows.npy", graph.features)
    mapped = replace(graph, features=np.load(tmp_path / "rows.npy", mmap_mode="r"))
    for alone in (False, True):
        np.testing.assert_array_equal(
            network_scores(released_of(network, "gcn"), mapped, alone=alone),
            network_scores(released_of(network, "gcn"), graph, alone=alone),
        )


def test_first_weights_come_from_the_seed() -> None:
    model = ModelSettings(hidden=5)
    first, same, other = (
        Network.of(model, features=8, classes=4, seed=seed).state_dict() for seed in (4, 4, 9)
    )
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not torch.equal(first["layers.0.weight"], other["layers.0.weight"])
    assert [*first] == [f"layers.{n}.{kind}" for n in (0, 1) for kind in ("weight", "bias")]
    assert float(first["layers.0.weight"].abs().max()) < (6 / 13) ** 0.5
    assert not first["layers.0.bias"].any()
    linear = Network.of(ModelSettings(kind="linear"), features=8, classes=4, seed=0)
    assert {n: p.any().item() for n, p in linear.named_parameters()} == {
        "layers.0.weight": False
    }
