"""A module that the user brings."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from privgcn.config import Settings
from privgcn.errors import ConfigError, DataError, PrivacyContractError
from privgcn.released import Released
from privgcn.sgd.gcn import network_scores
from privgcn.sgd.module import checked_copy, module_inputs

FEATURES, CLASSES = 8, 4


class Mean(nn.Module):
    """Scores of a document and of its neighbours, added up."""

    def __init__(self, features=FEATURES, classes=CLASSES):
        super().__init__()
        self.own = nn.Linear(features, classes)
        self.others = nn.Linear(features, classes, bias=False)

    def forward(self, x, edge_index):
        return self.own(x).index_add(0, edge_index[1], self.others(x)[edge_index[0]])


class Centered(Mean):
    """Takes a mean over all documents of a call."""

    def forward(self, x, edge_index):
        return super().forward(x - x.mean(0), edge_index)


class Untrained(Mean):
    """Scores without gradients."""

    def forward(self, x, edge_index):
        with torch.no_grad():
            return super().forward(x, edge_index)


def released_of(module, **changes):
    tensors = {name: value.numpy() for name, value in module.state_dict().items()}
    settings = Settings().changed({"model.kind": "module"})
    title = changes.pop("title", type(module).__name__)
    return Released("module", {**tensors, **changes}, settings, title=title)


def test_scores_are_those_of_the_module_on_edges_in_both_directions(make_graph):
    module, graph = Mean(), make_graph(3, edges=0)
    object.__setattr__(graph, "edges", np.array([[0], [2]]))
    scores = network_scores(released_of(module), graph, module=Mean())
    rows, edges = module_inputs(graph)
    assert edges.tolist() == [[0, 2], [2, 0]]
    np.testing.assert_array_equal(scores, module(rows, edges).detach())


def test_a_document_alone_is_alone_whatever_the_module_does(make_graph):
    module, graph = Centered(), make_graph()
    together, own = (
        network_scores(released_of(module), documents, module=module, alone=True)
        for documents in (graph, graph.induced(np.array([3])))
    )
    np.testing.assert_array_equal(together[3:4], own)


@pytest.mark.filterwarnings("ignore")
def test_lazy_layers_get_their_width_and_the_users_module_stays_as_it_is():
    module = Mean()
    module.own = nn.LazyLinear(CLASSES)
    own = checked_copy(module, FEATURES, CLASSES)
    assert own.own.weight.shape == (CLASSES, FEATURES)
    assert nn.parameter.is_lazy(module.own.weight)


# hazard 15
@pytest.mark.parametrize(
    "held",
    [
        *(np.zeros(3), (torch.ones(3), None), [torch.ones(2)], {"edges": torch.ones(2)}),
        *(torch.ones(3), type("Data", (), {})()),
    ],
)
def test_tensors_that_could_be_documents_are_refused(held):
    module = Mean()
    module.held = held
    with pytest.raises(PrivacyContractError, match="attribute 'held'"):
        checked_copy(module, FEATURES, CLASSES)


# hazard 15
def test_batch_statistics_are_refused_with_what_to_use_instead():
    module = Mean()
    module.norm = nn.BatchNorm1d(CLASSES)
    with pytest.raises(PrivacyContractError, match=r"'norm' keeps.*LayerNorm instead"):
        checked_copy(module, FEATURES, CLASSES)


# hazard 15
@pytest.mark.filterwarnings("ignore")
def test_layers_of_pyg_fit_but_for_one_that_caches_edges():
    from torch_geometric.nn import ChebConv, GATConv, GCNConv, GINConv, SAGEConv

    shape = FEATURES, CLASSES
    plain = [kind(*shape) for kind in (GATConv, SAGEConv, GCNConv)]
    for layer in (*plain, ChebConv(*shape, 2), GINConv(nn.Linear(*shape))):
        assert checked_copy(layer, *shape).state_dict().keys() == layer.state_dict().keys()
    with pytest.raises(PrivacyContractError, match=r"_cached_edge_index.*cached=False"):
        checked_copy(GCNConv(*shape, cached=True), *shape)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (nn.Linear(FEATURES, CLASSES), "must take the features"),
        (Mean(classes=5), "4 scores for each document"),
        (Mean(features=9), "must take the features"),
        (Mean().requires_grad_(False), "parameters to train"),
        (Untrained(), "can be trained"),
    ],
)
def test_what_is_no_model_is_refused(module, words):
    with pytest.raises(ConfigError, match=words):
        checked_copy(module, FEATURES, CLASSES)


def test_tensors_and_classes_of_another_module_are_refused(make_graph):
    module, graph = Mean(), make_graph()
    with pytest.raises(ConfigError, match="class 'Mean', and files hold no code"):
        network_scores(released_of(module), graph)
    with pytest.raises(ConfigError, match=r"of the class 'Mean'\. Got 'Centered'"):
        network_scores(released_of(module), graph, module=Centered())
    other = released_of(module, **{"own.weight": np.zeros((5, FEATURES), np.float32)})
    with pytest.raises(DataError, match=r"own\.weight"):
        network_scores(other, graph, module=Mean())
    with pytest.raises(DataError, match="more"):
        network_scores(released_of(module, more=np.zeros(1)), graph, module=Mean())
