"""A model that the user brings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from privgcn.errors import ConfigError, DataError, PrivacyContractError
from privgcn.graph import DenseRows
from privgcn.graph.propagation import propagation_matrix
from privgcn.models import ModuleModel

FEATURES, CLASSES = 4, 3


class Mean(nn.Module):
    """Scores of a document and of its neighbours, added up."""

    def __init__(self, features: int = FEATURES, classes: int = CLASSES) -> None:
        super().__init__()
        self.own = nn.Linear(features, classes)
        self.others = nn.Linear(features, classes, bias=False)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        scores = self.own(x)
        return scores.index_add(0, edge_index[1], self.others(x)[edge_index[0]])


class Remembers(Mean):
    """Keeps what it saw, in a place where nobody looks."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.seen = getattr(self, "seen", 0.0) + float(x.sum())
        return super().forward(x, edge_index) * self.seen


class Counts(Mean):
    """Counts its calls in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(x, edge_index)


class Centred(Mean):
    """Takes a mean over all documents in sight."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x - x.mean(0), edge_index)


def holding(value: Any) -> nn.Module:
    module = Mean()
    module.kept = value
    return module


def rows(count: int) -> DenseRows:
    return DenseRows(torch.rand(count, FEATURES))


def test_scores_are_those_of_the_module_on_links_in_both_directions() -> None:
    module = Mean()
    model = ModuleModel.of(module, FEATURES, CLASSES)
    features, edges = rows(3), torch.tensor([[0], [2]])
    found = model.scores(model.initial([0]), features, propagation_matrix(edges, 3))
    both = torch.tensor([[0, 2], [2, 0]])
    assert torch.equal(found[:, 0], module(features.dense(), both))


def test_a_document_alone_is_alone_whatever_the_module_does() -> None:
    model = ModuleModel.of(Centred(), FEATURES, CLASSES)
    features, parameters = rows(4), model.initial([0])
    together = model.scores_alone(parameters, features)
    assert together.shape == (4, 1, CLASSES)
    for row in range(4):
        own = model.scores_alone(parameters, features.select(torch.tensor([row])))
        assert torch.equal(together[row], own[0])


def test_no_call_knows_of_another() -> None:
    module = Remembers()
    model = ModuleModel.of(module, FEATURES, CLASSES)
    features, parameters = rows(2), model.initial([0])
    first = model.scores(parameters, features, None)
    assert torch.equal(first, model.scores(parameters, features, None))
    assert not hasattr(module, "seen"), "the user's own module is never called"


@pytest.mark.filterwarnings("ignore")
def test_lazy_layers_get_their_width() -> None:
    class Lazy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LazyLinear(CLASSES)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.layer(x)

    model = ModuleModel.of(Lazy(), FEATURES, CLASSES)
    assert [tuple(p.shape) for p in model.initial([0])] == [
        (CLASSES, 1, FEATURES),
        (1, CLASSES),
    ]


def test_frozen_parameters_and_fixed_buffers_stay_and_are_saved() -> None:
    module = Mean()
    module.own.requires_grad_(False)
    module.register_buffer("scale", torch.tensor([2.0]))
    model = ModuleModel.of(module, FEATURES, CLASSES)
    assert model.parameter_names() == ["others.weight"]
    changed = [p + 1.0 for p in model.initial([0])]
    named = model.named(changed)
    assert named.keys() == module.state_dict().keys()
    assert torch.equal(named["own.weight"], module.own.weight)
    assert torch.equal(model.trained(changed).others.weight, module.others.weight + 1.0)


@pytest.mark.parametrize(
    "kept",
    [
        torch.ones(3),
        (torch.ones(3), None),
        [torch.ones(2)],
        {"links": torch.ones(2)},
        type("Data", (), {})(),
    ],
)
def test_tensors_that_could_be_documents_are_refused(kept: Any) -> None:
    with pytest.raises(PrivacyContractError, match="attribute 'kept'"):
        ModuleModel.of(holding(kept), FEATURES, CLASSES)


@pytest.mark.filterwarnings("ignore")
def test_links_that_a_layer_cached_before_are_refused() -> None:
    from torch_geometric.nn import GCNConv

    layer = GCNConv(FEATURES, CLASSES, cached=True)
    ModuleModel.of(layer, FEATURES, CLASSES)
    layer(torch.rand(3, FEATURES), torch.tensor([[0, 1], [1, 0]]))
    with pytest.raises(PrivacyContractError, match="_cached_edge_index"):
        ModuleModel.of(layer, FEATURES, CLASSES)


def test_a_buffer_that_changes_is_refused() -> None:
    with pytest.raises(PrivacyContractError, match="'calls'"):
        ModuleModel.of(Counts(), FEATURES, CLASSES)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (nn.Linear(FEATURES, CLASSES), "must take the features"),
        (Mean(classes=5), "3 scores for each document"),
        (Mean(features=9), "must take the features"),
        (Mean().requires_grad_(False), "parameters to train"),
    ],
)
def test_what_is_no_model_is_refused(module: nn.Module, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ModuleModel.of(module, FEATURES, CLASSES)


def test_one_seed_at_a_time() -> None:
    with pytest.raises(ConfigError, match="one seed"):
        ModuleModel.of(Mean(), FEATURES, CLASSES).initial([0, 1])


def test_tensors_of_another_module_are_refused() -> None:
    model = ModuleModel.of(Mean(), FEATURES, CLASSES)
    saved = Mean(classes=5).state_dict()
    with pytest.raises(DataError, match=r"own\.weight"):
        model.parameters_in(saved)


def test_files_alone_cannot_predict() -> None:
    model = ModuleModel.without_module("Mean", Mean().state_dict())
    with pytest.raises(ConfigError, match="files hold no code"):
        model.scores(model.parameters_in(Mean().state_dict()), rows(2), None)


class Shortens(Mean):
    """An embedding whose rows are shortened when they are used."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(FEATURES, CLASSES, max_norm=0.1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.words(torch.arange(FEATURES).expand(len(x), -1)) + super().forward(
            x, edge_index
        )


def test_a_module_that_changes_its_weights_is_refused() -> None:
    with pytest.raises(PrivacyContractError, match=r"changes its parameter 'words\.weight'"):
        ModuleModel.of(Shortens(), FEATURES, CLASSES)


def test_arrays_in_attributes_are_refused() -> None:
    module = Mean()
    module.kept = np.zeros(3)  # type: ignore[assignment]
    with pytest.raises(PrivacyContractError, match="in its attribute 'kept'"):
        ModuleModel.of(module, FEATURES, CLASSES)


class Same(Mean):
    """Is its own copy."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Same:
        return self


class SharesCache(Mean):
    """Its copies have layers of their own, and one memory."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[str, float] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> SharesCache:
        own = type(self)()
        own.load_state_dict(self.state_dict())
        own.cache = self.cache
        return own


def test_copies_that_share_memory_are_refused() -> None:
    inner = Mean()
    inner.own = nn.Sequential(nn.Linear(FEATURES, CLASSES))
    inner.own.kept = Same()
    for module in (Same(), SharesCache(), inner):
        with pytest.raises(PrivacyContractError, match="copied whole"):
            ModuleModel.of(module, FEATURES, CLASSES)


class Untrained(Mean):
    """Scores without gradients."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        with torch.no_grad():
            return super().forward(x, edge_index)


class Complex(nn.Module):
    """Weights with an imaginary part."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(FEATURES, CLASSES, dtype=torch.complex64))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return (x.to(torch.complex64) @ self.weight).abs()


class Scaled(Mean):
    """Has a parameter without any dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (Untrained(), "can be trained"),
        (Complex(), "'weight' is complex"),
        (Scaled(), "'scale' is a single number"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_documents_are_read(
    module: nn.Module, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        ModuleModel.of(module, FEATURES, CLASSES)
