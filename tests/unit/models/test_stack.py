"""Layer stacks: PyTorch Geometric's scores, autograd's gradients."""

import pytest
import torch

from brute_force import part_gradient, random_graph, relative_error, replica_of
from privgcn.errors import ConfigError
from privgcn.models import MODELS, make_model
from privgcn.models.stack import dropout_mask, kept_share, loss_gradient
from privgcn.randomness import RandomSource


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sparse", [True, False])
def test_gcn_is_two_gcn_convolutions(sparse: bool) -> None:
    from torch_geometric.nn import GCNConv

    graph = random_graph(30, 8, links=70, sparse=sparse)
    model = make_model("gcn", 8, 4, hidden=5, dropout=0.0)
    parameters = model.initial([1, 2])
    for bias in parameters[1::2]:
        bias.normal_()
    scores = model.scores(parameters, graph.features, graph.propagation())
    both = torch.cat([graph.edges, graph.edges.flip(0)], dim=1)
    for replica in range(2):
        weights = replica_of(parameters, replica)
        first, second = GCNConv(8, 5), GCNConv(5, 4)
        with torch.no_grad():
            for number, layer in enumerate((first, second)):
                layer.lin.weight.copy_(weights[2 * number].T)
                layer.bias.copy_(weights[2 * number + 1])
            hidden = first(graph.features.dense(), both).relu()
            expected = second(hidden, both)
        assert torch.allclose(scores[:, replica], expected, atol=1e-5)


@pytest.mark.parametrize("kind", list(MODELS))
def test_gradients_are_autograds(kind: str) -> None:
    graph = random_graph(30, 8, links=70, seed=1)
    model = make_model(kind, 8, 4, hidden=5, dropout=0.0)
    parameters = model.initial([1, 2, 3])
    matrix = graph.propagation()
    labelled = (graph.labels >= 0).float()
    tape = model.forward(parameters, graph.features, matrix)
    rows = loss_gradient(tape.scores, graph.labels, labelled / labelled.sum())
    layers = model.backward(parameters, tape, rows, matrix, dropped=False)
    found = [tensor for layer in layers for tensor in layer.totals()]
    for replica in range(3):
        weights = replica_of(parameters, replica)
        expected = part_gradient(model, weights, graph, range(30))
        assert relative_error(replica_of(found, replica), expected) < 1e-5


@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_dropout_drops_in_both_directions(dropout: float) -> None:
    graph = random_graph(30, 8, links=70, seed=1)
    model = make_model("gcn", 8, 4, hidden=16, dropout=dropout)
    parameters = model.initial([1])
    matrix = graph.propagation()
    labelled = (graph.labels >= 0).float()
    masks = RandomSource.reproducible(0, "test")
    tape = model.forward(parameters, graph.features, matrix, masks)
    rows = loss_gradient(tape.scores, graph.labels, labelled)
    layers = model.backward(parameters, tape, rows, matrix, dropped=True)
    found = [tensor[..., 0, :] for layer in layers for tensor in layer.totals()]
    # The same mask again, through autograd.
    mask = dropout_mask(torch.empty(30, 1, 16), dropout, RandomSource.reproducible(0, "test"))
    leaves = [parameter[..., 0, :].clone().requires_grad_() for parameter in parameters]
    dense, features = matrix.dense(), graph.features.dense()
    hidden = (dense @ (features @ leaves[0]) + leaves[1]).relu() * mask[:, 0]
    scores = dense @ (hidden @ leaves[2]) + leaves[3]
    known = graph.labels >= 0
    loss = torch.nn.functional.cross_entropy(
        scores[known], graph.labels[known], reduction="sum"
    )
    assert relative_error(found, torch.autograd.grad(loss, leaves)) < 1e-5


def test_a_dropout_mask_keeps_its_share_and_its_mean() -> None:
    for dropout in (0.001, 0.1, 0.5, 0.9, 0.999):
        mask = dropout_mask(torch.empty(500, 1, 500), dropout, RandomSource.secret())
        kept = float((mask > 0).double().mean())
        assert kept == pytest.approx(kept_share(dropout), abs=0.01)
        assert abs(kept_share(dropout) - (1 - dropout)) < 1 / 250
        assert mask.unique().tolist() == pytest.approx([0.0, 1 / kept_share(dropout)])


def test_the_loss_gradient_is_softmax_minus_label() -> None:
    scores = torch.randn(6, 2, 3)
    labels = torch.tensor([0, 1, 2, -1, 1, 0])
    weights = torch.tensor([1.0, 0.5, 2.0, 0.0, 0.0, 1.0])
    found = loss_gradient(scores, labels, weights)
    expected = scores.softmax(-1) - torch.nn.functional.one_hot(labels.clamp(min=0), 3)[:, None]
    assert torch.allclose(found, expected * weights[:, None, None], atol=1e-6)


def test_a_residual_is_shortened_and_never_stretched() -> None:
    scores, labels = 4 * torch.randn(50, 2, 3), torch.arange(50) % 3
    plain = loss_gradient(scores, labels, torch.ones(50))
    short = loss_gradient(scores, labels, torch.ones(50), longest=0.25)
    norms = plain.norm(dim=-1)
    assert (norms < 0.25).any()
    assert (norms > 0.25).any()
    torch.testing.assert_close(short.norm(dim=-1), norms.clamp(max=0.25))
    torch.testing.assert_close(short * norms[..., None], plain * short.norm(dim=-1)[..., None])


@pytest.mark.parametrize("longest", [None, 0.25])
@pytest.mark.parametrize("classes", [3, 7, 130])
def test_no_order_of_sums_changes_a_row(classes: int, longest: float | None) -> None:
    """A GPU adds up classes in an order that depends on how many rows there are."""
    torch.manual_seed(0)
    scores, labels = 3 * torch.randn(200, 2, classes), torch.randint(0, classes, (200,))
    order = torch.randperm(classes)
    found = loss_gradient(scores, labels, torch.ones(200), longest=longest)
    turned = loss_gradient(
        scores[..., order], torch.argsort(order)[labels], torch.ones(200), longest=longest
    )
    assert torch.equal(turned, found[..., order])


def test_first_weights_come_from_each_replicas_seed() -> None:
    model = make_model("gcn", 8, 4, hidden=5)
    many, one = model.initial([4, 9]), model.initial([9])
    for several, alone in zip(many, one, strict=True):
        assert torch.equal(several[..., 1, :], alone[..., 0, :])
    assert not torch.equal(many[0][:, 0], many[0][:, 1])
    assert all(float(p.abs().max()) == 0 for p in model.initial([1], zero=True))
    assert len(model.parameter_names()) == len(one)


def test_replicas_do_not_touch_each_other() -> None:
    graph = random_graph(20, 6)
    model = make_model("gcn", 6, 4, hidden=5, dropout=0.0)
    parameters = model.initial([1, 2])
    before = model.scores(parameters, graph.features, graph.propagation())
    parameters[0][:, 1] = torch.nan
    after = model.scores(parameters, graph.features, graph.propagation())
    assert torch.equal(before[:, 0], after[:, 0])


def test_unknown_models_are_refused() -> None:
    with pytest.raises(ConfigError, match="gcn, linear, mlp"):
        make_model("transformer", 3, 2)
