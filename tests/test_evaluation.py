"""Scores are scikit-learn's, intervals those of the books, and references compare."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.metrics import accuracy_score, f1_score, log_loss

from privgcn import evaluation
from privgcn.config import make_settings
from privgcn.data import TEST, TRAIN, VALIDATION
from privgcn.errors import PrivacyContractError
from privgcn.evaluation import (
    REFERENCES,
    STRENGTHS,
    baselines_left_out,
    better_mode,
    bootstrap_macro_f1,
    classification_scores,
    majority,
    over_seeds,
    probability_scores,
    references,
    sees_no_edges,
    uniform,
    wilson,
    with_intervals,
)
from privgcn.graph import DocumentGraph

SETTINGS = make_settings("plain", changes={"training.epochs": 30})
LINEAR = ("logistic regression",)


def test_scores_are_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    truth, predicted = rng.integers(0, 4, 200), rng.integers(0, 4, 200)
    scores = classification_scores(truth, predicted, ["a", "b", "c", "d"])
    assert scores["micro_f1"] == pytest.approx(f1_score(truth, predicted, average="micro"))
    assert scores["macro_f1"] == pytest.approx(f1_score(truth, predicted, average="macro"))
    assert scores["accuracy"] == pytest.approx(accuracy_score(truth, predicted))
    assert np.sum(scores["confusion"]) == 200
    assert [row["support"] for row in scores["per_class"]] == np.bincount(truth).tolist()
    assert [row["class"] for row in scores["per_class"]] == ["a", "b", "c", "d"]


def test_only_labels_and_classes_that_occur_count() -> None:
    scores = classification_scores(np.array([0, -1, 1]), np.array([0, 0, 0]), ["a", "b"])
    assert (scores["documents"], scores["accuracy"]) == (2, 0.5)
    nothing = classification_scores(np.array([-1, -1]), np.array([0, 1]), ["a", "b"])
    assert (nothing["documents"], nothing["micro_f1"]) == (0, None)
    assert with_intervals(nothing)["intervals"] == {}
    truth = np.array([0, 0, 1, 1])
    assert classification_scores(truth, truth, ["a", "b", "never"])["macro_f1"] == 1.0


def test_log_loss_is_scikit_learns_and_calibration_that_of_its_bins() -> None:
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(4), 500)
    truth = rng.integers(-1, 4, 500)
    known, scores = truth >= 0, probability_scores(truth, probabilities)
    assert scores["log_loss"] == pytest.approx(
        log_loss(truth[known], probabilities[known], labels=range(4))
    )
    sure = probabilities[known].max(1)
    right = probabilities[known].argmax(1) == truth[known]
    error = 0.0
    for low, high in pairwise(np.linspace(0, 1, 16)):
        inside = (sure >= low) & (sure < high)
        error += abs((sure[inside] - right[inside]).sum()) / known.sum()
    assert scores["calibration_error"] == pytest.approx(error)
    assert scores["confidence"] == pytest.approx(sure.mean())
    assert sum(row["documents"] for row in scores["reliability"]) == known.sum()
    nothing = probability_scores(np.full(3, -1), probabilities[:3])
    assert (nothing["log_loss"], nothing["reliability"]) == (None, [])
    certain = probability_scores(np.array([1]), np.array([[1.0, 0.0]]))
    assert certain["calibration_error"] == 1.0
    assert 30 < certain["log_loss"] < 40


def test_the_mode_that_is_right_more_often_is_the_better_one() -> None:
    truth = np.zeros(20, np.int64)
    alone, own = np.where(np.arange(20) < 10, 0, 1), np.where(np.arange(20) < 3, 1, 0)
    made = better_mode(truth, alone, own)
    assert (made["mode"], made["alone_only"], made["own_graph_only"]) == ("own-graph", 3, 10)
    assert made["p_value"] == pytest.approx(2 * binom.cdf(3, 13, 0.5))
    assert better_mode(truth, own, alone)["mode"] == "alone"
    same = better_mode(np.array([0, -1]), np.array([0, 1]), np.array([0, 0]))
    assert (same["mode"], same["p_value"], same["documents"]) == ("alone", 1.0, 1)


def test_baselines_know_nothing_of_training() -> None:
    truth = np.array([2, 2, 2, 0, -1])
    assert majority(truth, 3).tolist() == [2] * 5
    guessed = uniform(np.zeros(3000, dtype=np.int64), 3, seed=0)
    assert np.bincount(guessed, minlength=3).min() > 900


def test_a_private_network_has_no_graph_blind_baseline() -> None:
    auto = make_settings("auto", epsilon=1.0)
    paper = make_settings("paper-full", epsilon=1.0)
    assert [sees_no_edges(s) for s in (auto, paper, SETTINGS)] == [True, False, False]
    assert baselines_left_out(auto) == baselines_left_out(SETTINGS) == []
    assert "epsilon does not count" in baselines_left_out(paper)[0]


@pytest.mark.parametrize(
    ("right", "documents", "low", "high"),
    [
        # Newcombe (1998), table I, method 3 (without continuity correction).
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (20, 20, 0.8389, 1.0),
    ],
)
def test_wilson_has_published_values(
    right: int, documents: int, low: float, high: float
) -> None:
    assert wilson(right, documents) == pytest.approx((low, high), abs=5e-5)


def _scores(seed: int, documents: int, right: float) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    truth = rng.choice(4, documents, p=[0.55, 0.25, 0.15, 0.05])
    predicted = np.where(rng.random(documents) < right, truth, rng.integers(0, 4, documents))
    return classification_scores(truth, predicted, ["a", "b", "c", "d"])


def test_the_bootstrap_covers_the_macro_f1_of_many_documents() -> None:
    true = _scores(0, 200_000, 0.6)["macro_f1"]
    inside = 0
    for seed in range(1, 101):
        low, high = bootstrap_macro_f1(np.array(_scores(seed, 400, 0.6)["confusion"]))
        assert low < high
        inside += low <= true <= high
    assert 88 <= inside <= 100


def test_every_headline_score_lies_in_its_interval_which_is_the_same_again() -> None:
    scores = with_intervals(_scores(3, 300, 0.7))
    confusion = np.array(scores["confusion"])
    intervals = scores["intervals"]
    assert intervals["micro_f1"] == intervals["accuracy"]
    assert intervals["accuracy"] == list(wilson(int(np.trace(confusion)), 300))
    assert intervals["macro_f1"] == list(bootstrap_macro_f1(confusion))
    low, high = intervals["macro_f1"]
    assert low < scores["macro_f1"] < high
    assert bootstrap_macro_f1(np.diag([5, 5, 0])) == (1.0, 1.0), "a class that never occurs"


def test_seeds_give_mean_deviation_and_interval() -> None:
    summary = over_seeds([0.31, 0.41, 0.47], 300)
    assert summary["mean"] == pytest.approx(0.3967, abs=1e-4)
    assert summary["std"] == pytest.approx(0.0808, abs=1e-4)
    # Student's t with two degrees of freedom is 4.303.
    seeds, ends = 4.3027 * 0.0808 / 3**0.5, wilson(119, 300)
    for given, end in zip(summary["interval"], ends, strict=True):
        expected = (seeds**2 + (end - 0.3967) ** 2) ** 0.5
        assert abs(given - 0.3967) == pytest.approx(expected, abs=1e-3)


def test_seeds_that_agree_still_leave_the_documents_open() -> None:
    assert over_seeds([0.5, 0.5, 0.5], 100)["interval"] == pytest.approx(wilson(50, 100))
    assert over_seeds([1.0, 1.0], 20)["interval"] == pytest.approx([wilson(20, 20)[0], 1.0])
    assert over_seeds([0.5], 100)["std"] is None


def _graph(*, noise: float, alike: float, seed: int = 0) -> DocumentGraph:
    """Two classes: features with noise, and edges of which a fraction joins documents alike."""
    rng = np.random.default_rng(seed)
    labels = np.arange(600) % 2
    rows = rng.normal(scale=noise, size=(600, 8)).astype(np.float32)
    rows[:, 0] += 2 * labels - 1
    split = np.repeat([TRAIN, VALIDATION, TEST], 200).astype(np.int8)
    edges = []
    for code in (TRAIN, VALIDATION, TEST):
        own = np.flatnonzero(split == code)
        for row in own:
            same = own[(labels[own] == labels[row]) == (rng.random() < alike)]
            edges += [(row, other) for other in rng.choice(same, 3) if other != row]
    ends = np.unique(np.sort(np.array(edges), axis=1), axis=0).T
    return DocumentGraph(rows, ends, labels, 2, split)


def _right(graph: DocumentGraph, predicted: np.ndarray) -> float:
    return float((predicted == graph.labels[graph.split == TEST]).mean())


def test_edges_that_help_lead_to_a_reference_that_uses_them() -> None:
    graph = _graph(noise=2.0, alike=0.95)
    best = references(graph, SETTINGS)["own-graph"]
    assert set(best.predicted) == set(REFERENCES)
    assert best.best in ("gcn", "propagated regression")
    assert best.validation[best.best] == max(best.validation.values())
    scores = {name: _right(graph, row) for name, row in best.predicted.items()}
    assert scores["propagated regression"] > scores["logistic regression"] + 0.1


def test_edges_that_harm_lead_to_a_reference_that_is_blind_to_them() -> None:
    graph = _graph(noise=0.6, alike=0.5)
    best = references(graph, SETTINGS)["own-graph"]
    assert best.best == "logistic regression"
    scores = {name: _right(graph, row) for name, row in best.predicted.items()}
    assert scores[best.best] > scores["gcn"] + 0.1, "a GCN alone would be beaten by anybody"


def test_what_was_trained_already_is_not_trained_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from privgcn.sgd import train

    graph, calls = _graph(noise=1.0, alike=0.9), []
    plain = train.train_plain
    monkeypatch.setattr(
        train, "train_plain", lambda *args: calls.append(args[2]) or plain(*args)
    )
    settings = SETTINGS.changed({"training.epochs": 2})
    rows = np.flatnonzero(graph.split == TRAIN)
    own = plain(graph.induced(rows), None, settings)
    references(graph, settings, own, among=("gcn",), modes=("alone",))
    assert not calls
    references(graph, settings.changed({"seed": 1}), own, among=("gcn",), modes=("alone",))
    assert [settings.seed for settings in calls] == [1]


def test_alone_sees_no_edges() -> None:
    graph = _graph(noise=2.0, alike=0.95)
    rows = [
        references(one, SETTINGS, among=LINEAR, modes=("alone",))["alone"].predicted
        for one in (graph, replace(graph, edges=graph.edges[:, :0]))
    ]
    np.testing.assert_array_equal(rows[0][LINEAR[0]], rows[1][LINEAR[0]])


def test_test_labels_have_no_say() -> None:
    graph = _graph(noise=1.0, alike=0.7)
    labels = np.where(graph.split == TEST, 1 - graph.labels, graph.labels)
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
    split = np.where(graph.split == VALIDATION, TRAIN, graph.split).astype(np.int8)
    made = references(replace(graph, split=split), SETTINGS, among=LINEAR)
    assert 0.8 < made["alone"].validation["logistic regression"] < 1.0


def test_one_class_in_training_is_all_that_a_regression_knows() -> None:
    graph = _graph(noise=0.6, alike=0.5)
    one = replace(graph, labels=np.where(graph.split == TRAIN, 1, graph.labels))
    predicted = references(one, SETTINGS, among=LINEAR, modes=("alone",))["alone"].predicted
    assert (predicted[LINEAR[0]] == 1).all()


def test_private_settings_are_refused() -> None:
    graph = _graph(noise=1.0, alike=0.9)
    with pytest.raises(PrivacyContractError, match="no epsilon counts that"):
        references(graph, make_settings("auto", epsilon=1.0))


def test_much_data_are_fitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.linear_model import LogisticRegression

    strengths: list[float] = []
    fit = LogisticRegression.fit
    monkeypatch.setattr(
        LogisticRegression, "fit", lambda self, *r: strengths.append(self.C) or fit(self, *r)
    )
    graph = _graph(noise=1.0, alike=0.7)
    references(graph, SETTINGS, among=LINEAR)
    assert strengths == list(STRENGTHS)
    strengths.clear()
    monkeypatch.setattr(evaluation, "_MUCH", 100)
    references(graph, SETTINGS, among=LINEAR)
    assert strengths == [STRENGTHS[1]]
