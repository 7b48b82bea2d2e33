"""The non-private reference is the best of four, chosen on validation documents."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from privgcn.config import make_settings
from privgcn.data.corpus import TEST, TRAIN, VALIDATION
from privgcn.errors import PrivacyContractError
from privgcn.evaluation import references as references_module
from privgcn.evaluation.references import REFERENCES, STRENGTHS, references
from privgcn.graph.dense_rows import DenseRows
from privgcn.graph.textgraph import TextGraph

SETTINGS = make_settings("plain", changes={"training.epochs": 30})


def _graph(*, noise: float, alike: float, seed: int = 0) -> TextGraph:
    """Two classes: features with noise, and links of which a share joins documents alike."""
    draw = np.random.default_rng(seed)
    documents = 600
    labels = np.arange(documents) % 2
    rows = draw.normal(scale=noise, size=(documents, 8))
    rows[:, 0] += 2 * labels - 1
    split = np.repeat([TRAIN, VALIDATION, TEST], 200)
    edges = []
    for code in (TRAIN, VALIDATION, TEST):
        own = np.flatnonzero(split == code)
        for row in own:
            same = own[(labels[own] == labels[row]) == (draw.random() < alike)]
            edges += [(row, other) for other in draw.choice(same, 3) if other != row]
    links = torch.tensor(np.sort(np.array(edges), axis=1).T)
    return TextGraph(
        DenseRows(torch.tensor(rows, dtype=torch.float32)),
        torch.unique(links, dim=1),
        torch.tensor(labels),
        2,
        torch.tensor(split, dtype=torch.int8),
    )


def _right(graph: TextGraph, predicted: np.ndarray) -> float:
    return float((predicted == graph.labels[graph.split == TEST].numpy()).mean())


def test_links_that_help_lead_to_a_reference_that_uses_them() -> None:
    graph = _graph(noise=2.0, alike=0.95)
    found = references(graph, SETTINGS)
    best = found["own-graph"]
    assert set(best.predicted) == set(REFERENCES)
    assert best.best in ("gcn", "propagated regression")
    assert best.validation[best.best] == max(best.validation.values())
    scores = {name: _right(graph, row) for name, row in best.predicted.items()}
    assert scores["propagated regression"] > scores["logistic regression"] + 0.1


def test_links_that_harm_lead_to_a_reference_that_is_blind_to_them() -> None:
    graph = _graph(noise=0.6, alike=0.5)
    best = references(graph, SETTINGS)["own-graph"]
    assert best.best in ("mlp", "logistic regression")
    scores = {name: _right(graph, row) for name, row in best.predicted.items()}
    assert scores[best.best] > scores["gcn"] + 0.1, "a GCN alone would be beaten by anybody"


def test_alone_sees_no_links() -> None:
    graph = _graph(noise=2.0, alike=0.95)
    unlinked = replace(graph, edges=graph.edges[:, :0])
    among = ("logistic regression",)
    rows = [
        references(one, SETTINGS, among=among, modes=("alone",))["alone"].predicted
        for one in (graph, unlinked)
    ]
    np.testing.assert_array_equal(rows[0][among[0]], rows[1][among[0]])


def test_test_labels_have_no_say() -> None:
    graph = _graph(noise=1.0, alike=0.7)
    labels = torch.where(graph.split == TEST, 1 - graph.labels, graph.labels)
    among = ("propagated regression", "logistic regression")
    first, second = (
        references(one, SETTINGS, among=among) for one in (graph, replace(graph, labels=labels))
    )
    for mode, one in first.items():
        assert one.best == second[mode].best
        assert one.validation == second[mode].validation
        for name in among:
            np.testing.assert_array_equal(one.predicted[name], second[mode].predicted[name])


def test_without_validation_documents_some_training_documents_choose() -> None:
    graph = _graph(noise=0.6, alike=0.5)
    split = torch.where(graph.split == VALIDATION, TRAIN, graph.split)
    found = references(replace(graph, split=split), SETTINGS, among=("logistic regression",))
    assert 0.8 < found["alone"].validation["logistic regression"] < 1.0


def test_private_settings_are_refused() -> None:
    graph = _graph(noise=1.0, alike=0.9)
    with pytest.raises(PrivacyContractError, match="no epsilon counts that"):
        references(graph, make_settings("auto", epsilon=1.0))


def test_much_data_are_fitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.linear_model import LogisticRegression

    fitted = []
    fit = LogisticRegression.fit
    monkeypatch.setattr(
        LogisticRegression, "fit", lambda self, *rest: fitted.append(self.C) or fit(self, *rest)
    )
    graph = _graph(noise=1.0, alike=0.7)
    references(graph, SETTINGS, among=("logistic regression",))
    assert fitted == list(STRENGTHS)
    fitted.clear()
    monkeypatch.setattr(references_module, "_MUCH", 100)
    references(graph, SETTINGS, among=("logistic regression",))
    assert fitted == [STRENGTHS[1]]
