"""Before the first release, only public facts decide anything.

Public are the settings, how many documents (or owners) train and in which order, the number
of features and of classes. Everything that training begins with must be the same, to the bit,
for any two sets of documents that agree in these. After a release, what was released decides,
and documents have no second say.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from brute_force import random_graph
from privgcn.config import Settings, make_settings
from privgcn.graph import DenseRows, TextGraph
from privgcn.graph.sparse_rows import SparseRows
from privgcn.privacy.mechanism.part_gradients import StackGradients
from privgcn.training.fit import fit
from privgcn.training.optimisers import Optimiser

DOCUMENTS, WIDTH = 40, 24


def variants(dense: bool) -> dict[str, TextGraph]:
    """Documents that agree in nothing but what is public."""
    usual = random_graph(DOCUMENTS, WIDTH, links=60, sparse=not dense, owners=8)
    table = usual.features.dense()
    narrow = torch.zeros_like(table)
    narrow[:, 0] = 1.0

    def with_rows(rows: Tensor) -> TextGraph:
        stored = DenseRows(rows) if dense else SparseRows.from_scipy(csr_matrix(rows.numpy()))
        return replace(usual, features=stored)

    return {
        "usual": usual,
        "one word for all": with_rows(narrow),
        "no words": with_rows(torch.zeros_like(table)),
        "long rows": with_rows(100.0 * table),
        "no labels": replace(usual, labels=torch.full_like(usual.labels, -1)),
        "one class": replace(usual, labels=torch.zeros_like(usual.labels)),
        "no links": replace(usual, edges=usual.edges[:, :0]),
    }


def settings(**changes: Any) -> Settings:
    chosen = {"privacy.delta": 1e-3, "training.epochs": 3, **changes}
    return make_settings("auto", epsilon=2.0, changes=chosen)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What each training begins with, and the threads that each of its steps has."""
    seen: list[dict[str, Any]] = []
    optimiser, step = Optimiser.__init__, Optimiser.step
    gradients = StackGradients.__init__

    def made(
        self: StackGradients, model: Any, graph: Any, norm: float, *a: Any, **o: Any
    ) -> None:
        cut = {"offsets": graph.offsets.tolist(), "order": graph.order.tolist()}
        # The bias is made of what was released.
        options = {n: n if n == "bias" and v is not None else repr(v) for n, v in o.items()}
        seen.append({"cut": cut, "clip_norm": norm, "layers": repr(model), "options": options})
        gradients(self, model, graph, norm, *a, **o)

    def start(self: Optimiser, parameters: Sequence[Tensor], chosen: Any, names: Any) -> None:
        optimiser(self, parameters, chosen, names)
        seen[-1]["names"] = None if names is None else names.tolist()
        seen[-1]["settings"] = chosen.model_dump()
        seen[-1]["weights"] = [parameter.tolist() for parameter in parameters]
        seen[-1]["device"] = str(parameters[0].device)
        seen[-1]["threads"] = []

    def counted(self: Optimiser, given: Sequence[Tensor]) -> None:
        seen[-1]["threads"].append(torch.get_num_threads())
        step(self, given)

    monkeypatch.setattr(StackGradients, "__init__", made)
    monkeypatch.setattr(Optimiser, "__init__", start)
    monkeypatch.setattr(Optimiser, "step", counted)
    return seen


@pytest.mark.parametrize("dense", [False, True], ids=["sparse", "dense"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"training.balanced": True},
        {"privacy.unit": "person"},
        {"privacy.parts": 5, "privacy.sampling": "poisson"},
        {"privacy.parts": 5, "privacy.sampling": "epoch", "privacy.relation": "replace"},
    ],
    ids=str,
)
def test_only_public_facts_decide_what_training_begins_with(
    begun: list[dict[str, Any]], changes: dict[str, Any], dense: bool
) -> None:
    plans, shapes = [], []
    for graph in variants(dense).values():
        fitted = fit(graph, settings(**changes))
        plans.append(fitted.plan)
        released = (fitted.centre is None, fitted.bias is None)
        shapes.append((released, [p.shape for p in fitted.parameters]))
    first = begun[0]
    for name, plan, found, shape in zip(variants(dense), plans, begun, shapes, strict=True):
        assert plan == plans[0], name
        assert found == first, name
        assert shape == shapes[0], name


@pytest.mark.parametrize("dense", [False, True], ids=["sparse", "dense"])
def test_training_says_nothing(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, dense: bool
) -> None:
    """Neither a loss nor how much was clipped, in no stream and at no level of a log."""
    loud = replace(
        variants(dense)["long rows"], labels=torch.zeros(DOCUMENTS, dtype=torch.int64)
    )
    with caplog.at_level(logging.DEBUG):
        for graph in (*variants(dense).values(), loud):
            fit(graph, settings())
            fit(graph, settings(**{"privacy.parts": 2, "privacy.sampling": "poisson"}))
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")


def test_how_much_an_owner_writes_decides_nothing(begun: list[dict[str, Any]]) -> None:
    """With unit person, owners are public and their number of documents is not."""
    graph = random_graph(DOCUMENTS, WIDTH, links=60, owners=8)
    assert graph.owners is not None
    first = int(torch.nonzero(graph.owners == 3)[0])
    fewer = (graph.owners != 3) | (torch.arange(DOCUMENTS) == first)
    brief = graph.induced(torch.nonzero(fewer)[:, 0])
    assert len(brief) < len(graph)
    plans = [fit(one, settings(**{"privacy.unit": "person"})).plan for one in (graph, brief)]
    assert plans[0] == plans[1]
    told = [{k: v for k, v in found.items() if k != "cut"} for found in begun]
    assert told[0] == told[1]


@pytest.mark.parametrize("dense", [False, True], ids=["sparse", "dense"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"privacy.parts": 5, "privacy.sampling": "poisson"},
        {"prediction.method": "direct"},
        {"training.balanced": True},
    ],
    ids=str,
)
def test_what_leaves_training_follows_from_its_releases(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], dense: bool
) -> None:
    """The same noisy means, whatever the documents are, must give the same model."""
    found = []
    for graph in variants(dense).values():
        generator = torch.Generator().manual_seed(0)

        def released(
            sums: Sequence[Tensor], *_: Any, generator: torch.Generator = generator
        ) -> list[Tensor]:
            return [torch.randn(tensor.shape, generator=generator) for tensor in sums]

        monkeypatch.setattr("privgcn.training.private.noisy_mean", released)
        monkeypatch.setattr("privgcn.privacy.mechanism.centre.noisy_mean", released)
        fitted = fit(graph, settings(**changes))
        bias = None if fitted.bias is None else fitted.bias.values
        found.append([*fitted.parameters, fitted.path, fitted.centre, bias])
    for name, tensors in zip(variants(dense), found, strict=True):
        for tensor, expected in zip(tensors, found[0], strict=True):
            assert (tensor is None) == (expected is None), name
            assert tensor is None or torch.equal(tensor, expected), name
