"""Attacks on small models: they work on what memorises and fail on what cannot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from brute_force import random_graph
from privgcn.config import MODES, make_settings
from privgcn.errors import ConfigError, DataError
from privgcn.evidence.attack_record import NO_MODEL, Attacks, read_attacks
from privgcn.evidence.attacks import attack
from privgcn.evidence.inference_attacks import answers, inferred_column, stolen_links
from privgcn.evidence.membership import _halves, _ratios, membership
from privgcn.evidence.roc import auc, true_positives
from privgcn.evidence.subject import Subject
from privgcn.graph import TextGraph
from privgcn.training.fit import fit


def noisy_graph(documents: int = 160, *, owners: bool = False) -> TextGraph:
    """Labels are random, so that whatever is learned is learned by heart."""
    graph = random_graph(documents, 200, 3, unlabelled=0.0, sparse=False)
    split = torch.where(torch.arange(documents) % 4 == 3, 2, 0).to(torch.int8)
    own = torch.arange(documents) // 8 if owners else None
    return replace(graph, split=split, owners=own)


MEMORISING = {"model.kind": "mlp", "model.dropout": 0.0, "training.patience": 0}


# -- rates ------------------------------------------------------------------------------


def test_an_area_is_the_share_of_pairs_in_order() -> None:
    random = np.random.default_rng(0)
    first, second = random.normal(1, 1, 40).round(1), random.normal(0, 1, 50).round(1)
    pairs = first[:, None] - second
    found = auc(first, second)
    assert found.value == pytest.approx(((pairs > 0) + 0.5 * (pairs == 0)).mean())
    assert found.low < found.value < found.high
    assert auc(second, first).value == pytest.approx(1 - found.value)


def test_an_interval_holds_the_true_area() -> None:
    random = np.random.default_rng(1)
    missed = 0
    for _ in range(200):
        found = auc(random.normal(0, 1, 60), random.normal(0, 1, 60))
        missed += not found.low <= 0.5 <= found.high
    assert missed < 25


def test_scores_of_one_target_count_as_one() -> None:
    random = np.random.default_rng(0)
    first, second = random.normal(1.0, 1.0, 200), random.normal(0.0, 1.0, 200)
    once, again = auc(first, second), auc(np.tile(first, 8), np.tile(second, 8), copies=8)
    assert again == pytest.approx(once)
    rate = true_positives(first, second, 0.01)
    copied = true_positives(np.tile(first, 8), np.tile(second, 8), 0.01, copies=8)
    assert rate.value < 1.0
    assert (copied.high - copied.low) == pytest.approx(rate.high - rate.low, rel=0.1)


def test_true_positives_are_counted_above_the_allowed_false_ones() -> None:
    negatives = np.arange(1000.0)
    assert true_positives([995.0, 989.0, 5.0, 998.5], negatives, 0.01).value == 0.5
    assert true_positives([998.5, 2000.0], negatives, 0.001).value == 1.0
    assert true_positives([998.0, 2000.0], negatives, 0.0).value == 0.5


# -- membership -------------------------------------------------------------------------


def test_each_unit_is_in_one_model_of_each_pair() -> None:
    inside = _halves(50, 8, 0)
    assert inside.shape == (8, 50)
    assert (inside.reshape(4, 2, 50).sum(1) == 1).all()
    assert 0.3 < inside.mean(1).min() < inside.mean(1).max() < 0.7


def test_answers_that_know_nothing_give_no_advantage() -> None:
    random = np.random.default_rng(0)
    inside = _halves(4000, 6, 0)
    ratios = _ratios(random.normal(size=(6, 4000)), inside)
    found = auc(ratios[inside], ratios[~inside])
    assert abs(found.value - 0.5) < 0.02


def test_a_model_that_learns_by_heart_gives_members_away() -> None:
    settings = make_settings(changes={**MEMORISING, "training.epochs": 60})
    found = membership(noisy_graph(), settings, shadows=6)
    assert set(found) == {("document", mode) for mode in MODES}
    assert auc(*found["document", "alone"]).value > 0.9


def test_a_private_model_does_not() -> None:
    settings = make_settings(epsilon=0.1, changes={"privacy.delta": 1e-4})
    found = membership(noisy_graph(), settings, shadows=6)
    rates = auc(*found["document", "alone"])
    assert abs(rates.value - 0.5) < 0.15


def test_people_are_in_or_out_with_all_their_documents() -> None:
    settings = make_settings(changes={**MEMORISING, "training.epochs": 60})
    found = membership(noisy_graph(owners=True), settings, shadows=4)
    person, document = found["person", "alone"], found["document", "alone"]
    assert len(person.inside) + len(person.outside) == 4 * 20
    assert auc(*person).value >= auc(*document).value > 0.8


def test_an_odd_number_of_models_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"even and at least 4. Got 5"):
        membership(noisy_graph(), make_settings(), shadows=5)


# -- links and columns --------------------------------------------------------------------


def test_only_a_full_graph_service_sees_links() -> None:
    graph = noisy_graph()
    changes = {"training.epochs": 20, "training.patience": 0}
    fitted = fit(graph, make_settings(changes=changes))
    silent = replace(graph, edges=graph.edges[:, :0])
    for mode, facts in MODES.items():
        same = np.array_equal(answers(fitted, graph, mode), answers(fitted, silent, mode))
        assert same == facts.covered


def test_links_are_told_by_vectors_that_share_them() -> None:
    graph = noisy_graph()
    random = np.random.default_rng(0)
    own = random.normal(size=(len(graph), 5))
    assert abs(auc(*stolen_links(graph, own)).value - 0.5) < 0.15
    mixed = own.copy()
    for first, second in graph.edges.T.tolist():
        mixed[first] += own[second]
        mixed[second] += own[first]
    found = stolen_links(graph, mixed)
    assert auc(*found).value > 0.65
    assert len(found.inside) == len(found.outside)


def test_a_column_is_told_where_predictions_hold_it() -> None:
    graph = noisy_graph(400)
    random = np.random.default_rng(0)
    column = random.integers(0, 2, len(graph))
    blind = random.dirichlet(np.ones(3), len(graph))
    members, _ = inferred_column(column.astype(object), graph, blind)
    assert abs(auc(*members).value - 0.5) < 0.1
    # What is told of members and of others alike is no leak of the training.
    telling = blind.copy()
    telling[:, 0] = np.where(column == 1, 0.9, 0.05)
    members, others = inferred_column(column.astype(object), graph, telling)
    assert auc(*members).value > 0.95
    assert auc(*others).value > 0.95


def test_a_column_that_is_the_same_everywhere_is_refused() -> None:
    graph = noisy_graph(40)
    column, blind = np.array(["same"] * 40, dtype=object), np.full((40, 3), 1 / 3)
    with pytest.raises(ConfigError, match="two values at least"):
        inferred_column(column, graph, blind)


# -- all together -----------------------------------------------------------------------


def test_all_attacks_make_one_record(tmp_path) -> None:
    from privgcn.data import load_corpus

    corpus = load_corpus("clinic")
    kept = np.flatnonzero(corpus.owners < 100)
    small = replace(corpus.select(kept), whole=None, rows=None)
    settings = make_settings(
        epsilon=2.0,
        changes={"features.kind": "hashing", "privacy.unit": "person", "privacy.delta": 1e-3},
    )
    found = attack(Subject(small, settings), shadows=4, column="practice")
    models = {row.model for row in found.rows}
    assert models == {"without privacy", "epsilon 2", NO_MODEL}
    # Four attacks in three modes on two kinds of models, and what texts alone tell.
    assert len(found.rows) == 4 * 3 * 2 + 1
    assert {row.covered for row in found.rows if row.model == "without privacy"} == {False}
    private = [row for row in found.rows if row.model == "epsilon 2"]
    assert {row.inference for row in private if row.covered} == {"alone", "own-graph"}
    assert all((row.others is not None) == (row.attack == "column") for row in found.rows)
    path = tmp_path / "attacks.json"
    path.write_text(found.model_dump_json())
    assert read_attacks(path) == found
    path.write_text("{}")
    with pytest.raises(DataError, match="holds no attacks"):
        read_attacks(path)


def test_a_column_must_be_there() -> None:
    from privgcn.data import load_corpus

    subject = Subject(load_corpus("clinic"), make_settings(epsilon=1.0))
    with pytest.raises(ConfigError, match=r"must be one of label, practice. Got 'age'"):
        attack(subject, column="age")


def test_a_record_refuses_what_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="extra"):
        Attacks.model_validate(
            {
                "source": "x",
                "epsilon": None,
                "unit": None,
                "shadows": 4,
                "column": None,
                "rows": [],
                "extra": 1,
            }
        )
