"""Attacks on small models: they work on what memorises and fail on what cannot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from builders import (
    WORDS,
    small_corpus,
    small_edges,
    small_frame,
    small_graph,
    small_settings,
)
from privgcn.audit.attacks import (
    NO_MODEL,
    answers,
    attack,
    membership,
    read_attacks,
    stolen_edges,
    trained_on,
)
from privgcn.audit.audit import Target
from privgcn.audit.bounds import auc
from privgcn.config import MODES, make_settings
from privgcn.data import Corpus
from privgcn.errors import ConfigError, DataError
from privgcn.graph import DocumentGraph
from privgcn.privacy.plan import plan_for
from privgcn.runs.prepare import prepare


def noisy_graph(documents: int = 160, *, owners: bool = False) -> DocumentGraph:
    """Labels are random, so that whatever is learned is learned by heart."""
    graph = small_graph(documents, features=200, classes=3)
    labels = np.random.default_rng(3).integers(0, 3, documents)
    split = np.where(np.arange(documents) % 4 == 3, 2, 0).astype(np.int8)
    own = np.arange(documents) // 8 if owners else None
    return replace(graph, split=split, owners=own, labels=labels)


MEMORISING = {"model.kind": "mlp", "model.dropout": 0.0, "training.patience": 0}


def test_a_model_that_learns_by_heart_gives_documents_and_people_away() -> None:
    # People are in or out with all their documents.
    settings = make_settings("plain", changes={**MEMORISING, "training.epochs": 40})
    told = membership(noisy_graph(owners=True), settings, None, shadows=4)
    covered = ("alone", "own-graph")
    assert set(told) == {(kind, mode) for kind in ("document", "person") for mode in covered}
    person, document = told["person", "alone"], told["document", "alone"]
    assert len(person.inside) + len(person.outside) == 4 * 20
    assert auc(*person).value >= auc(*document).value > 0.8


def test_a_private_model_does_not() -> None:
    settings = make_settings(epsilon=0.1, changes={"privacy.delta": 1e-4})
    plan = plan_for(settings.privacy, 120, epochs=30, seed=0, columns={})
    told = membership(noisy_graph(), settings, plan, shadows=6)
    rates = auc(*told["document", "alone"])
    assert abs(rates.value - 0.5) < 0.15


def test_an_odd_number_of_models_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"even and at least 4. Got 5"):
        membership(noisy_graph(), make_settings("plain"), None, shadows=5)


def test_only_a_full_graph_service_sees_edges() -> None:
    graph = noisy_graph()
    changes = {"training.epochs": 20, "training.patience": 0}
    rows = np.flatnonzero(graph.split == 0)
    released = trained_on(graph, rows, make_settings("plain", changes=changes), None)
    silent = replace(graph, edges=graph.edges[:, :0])
    for mode, facts in MODES.items():
        same = np.array_equal(answers(released, graph, mode), answers(released, silent, mode))
        assert same == facts.covered


def test_edges_are_told_by_vectors_that_share_them() -> None:
    graph = noisy_graph()
    random = np.random.default_rng(0)
    own = random.normal(size=(len(graph), 5))
    assert abs(auc(*stolen_edges(graph, own)).value - 0.5) < 0.15
    mixed = own.copy()
    for first, second in graph.edges.T.tolist():
        mixed[first] += own[second]
        mixed[second] += own[first]
    told = stolen_edges(graph, mixed)
    assert auc(*told).value > 0.65
    assert len(told.inside) == len(told.outside)


def test_all_attacks_make_one_record(tmp_path: Path) -> None:
    frame = small_frame(120, owners=20, split=False)
    corpus = Corpus.from_frame(frame, edges=small_edges(120), classes=list(WORDS))
    settings = small_settings(epsilon=2.0, privacy__unit="person", privacy__delta=1e-2)
    target = Target(prepare(corpus, settings))
    record = attack(target, shadows=4)
    assert {row.model for row in record.rows} == {"without privacy", "epsilon 2.00", NO_MODEL}
    # Two kinds of models: membership in two modes, edges in three; and what texts alone tell.
    assert len(record.rows) == 2 * (2 * 2 + 3) + 1
    assert {row.covered for row in record.rows if row.model == "without privacy"} == {False}
    private = [row for row in record.rows if row.model == "epsilon 2.00"]
    assert {row.inference for row in private if row.covered} == {"alone", "own-graph"}
    path = tmp_path / "attacks.json"
    path.write_text(record.model_dump_json())
    assert read_attacks(path) == record
    path.write_text("{}")
    with pytest.raises(DataError, match="holds no attacks"):
        read_attacks(path)


def test_without_edges_none_are_attacked() -> None:
    corpus = small_corpus()
    target = Target(prepare(replace(corpus, edges=corpus.edges[:, :0]), small_settings()))
    assert {row.attack for row in attack(target, shadows=4).rows} == {"document membership"}
