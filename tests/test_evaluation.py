"""Scores are scikit-learn's, intervals those of the books, and references compare."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.metrics import accuracy_score, f1_score, log_loss

from privgcn.config import make_settings
from privgcn.data import TEST, TRAIN, VALIDATION
from privgcn.errors import PrivacyContractError
from privgcn.evaluation import (
    HOPS,
    better_mode,
    classification_scores,
    majority,
    over_seeds,
    probability_scores,
    references,
    wilson,
)
from privgcn.graph import DocumentGraph

SETTINGS = make_settings("plain", changes={"training.epochs": 30})
LINEAR = "logistic regression"


def test_scores_are_scikit_learns():
    rng = np.random.default_rng(0)
    truth, predicted = rng.integers(0, 4, 200), rng.integers(0, 4, 200)
    scores = classification_scores(truth, predicted, ["a", "b", "c", "d"])
    assert scores["micro_f1"] == pytest.approx(f1_score(truth, predicted, average="micro"))
    assert scores["macro_f1"] == pytest.approx(f1_score(truth, predicted, average="macro"))
    assert scores["accuracy"] == pytest.approx(accuracy_score(truth, predicted))
    assert np.sum(scores["confusion"]) == 200
    assert [row["support"] for row in scores["per_class"]] == np.bincount(truth).tolist()
    assert [row["class"] for row in scores["per_class"]] == ["a", "b", "c", "d"]


def test_only_labels_and_classes_that_occur_count():
    scores = classification_scores(np.array([0, -1, 1]), np.array([0, 0, 0]), ["a", "b"])
    assert (scores["documents"], scores["accuracy"]) == (2, 0.5)
    nothing = classification_scores(np.array([-1, -1]), np.array([0, 1]), ["a", "b"])
    assert (nothing["documents"], nothing["micro_f1"]) == (0, None)
    assert nothing["intervals"] == {}
    truth = np.array([0, 0, 1, 1])
    assert classification_scores(truth, truth, ["a", "b", "never"])["macro_f1"] == 1.0


def test_log_loss_is_scikit_learns_and_calibration_that_of_its_bins():
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


def test_the_mode_that_is_right_more_often_is_the_better_one():
    truth = np.zeros(20, np.int64)
    alone, own = np.where(np.arange(20) < 10, 0, 1), np.where(np.arange(20) < 3, 1, 0)
    made = better_mode(truth, alone, own)
    assert (made["mode"], made["alone_only"], made["own_graph_only"]) == ("own-graph", 3, 10)
    assert made["p_value"] == pytest.approx(2 * binom.cdf(3, 13, 0.5))
    assert better_mode(truth, own, alone)["mode"] == "alone"
    same = better_mode(np.array([0, -1]), np.array([0, 1]), np.array([0, 0]))
    assert (same["mode"], same["p_value"], same["documents"]) == ("alone", 1.0, 1)


def test_the_baseline_knows_nothing_of_training():
    assert majority(np.array([2, 2, 2, 0, -1]), 3).tolist() == [2] * 5


@pytest.mark.parametrize(
    ("right", "documents", "low", "high"),
    [
        # Newcombe (1998), table I, method 3 (without continuity correction).
        (81, 263, 0.2553, 0.3662),
        (20, 20, 0.8389, 1.0),
    ],
)
def test_wilson_has_published_values(right, documents, low, high):
    assert wilson(right, documents) == pytest.approx((low, high), abs=5e-5)


def _scores(seed, documents, right):
    rng = np.random.default_rng(seed)
    truth = rng.choice(4, documents, p=[0.55, 0.25, 0.15, 0.05])
    predicted = np.where(rng.random(documents) < right, truth, rng.integers(0, 4, documents))
    return classification_scores(truth, predicted, ["a", "b", "c", "d"])


def test_micro_f1_lies_in_its_interval_which_is_that_of_accuracy():
    scores = _scores(3, 300, 0.7)
    intervals = scores["intervals"]
    assert intervals["micro_f1"] == intervals["accuracy"]
    assert intervals["accuracy"] == list(wilson(int(np.trace(scores["confusion"])), 300))
    low, high = intervals["micro_f1"]
    assert low < scores["micro_f1"] < high


def test_seeds_give_mean_deviation_and_interval():
    summary = over_seeds([0.31, 0.41, 0.47], 300)
    assert summary["mean"] == pytest.approx(0.3967, abs=1e-4)
    assert summary["std"] == pytest.approx(0.0808, abs=1e-4)
    # Student's t with two degrees of freedom is 4.303.
    seeds, ends = 4.3027 * 0.0808 / 3**0.5, wilson(119, 300)
    for given, end in zip(summary["interval"], ends, strict=True):
        expected = (seeds**2 + (end - 0.3967) ** 2) ** 0.5
        assert abs(given - 0.3967) == pytest.approx(expected, abs=1e-3)
    # Seeds that agree still leave the documents open.
    assert over_seeds([0.5, 0.5, 0.5], 100)["interval"] == pytest.approx(wilson(50, 100))
    assert over_seeds([0.5], 100)["std"] is None


def _graph(*, noise, alike, seed=0):
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


@pytest.mark.parametrize(
    ("noise", "alike", "best", "worse"),
    [
        (2.0, 0.95, "propagated regression", LINEAR),
        # A GCN alone would be beaten by anybody.
        (0.6, 0.5, LINEAR, "gcn"),
    ],
    ids=["edges help", "edges harm"],
)
def test_the_best_reference_uses_edges_where_they_help(noise, alike, best, worse):
    graph = _graph(noise=noise, alike=alike)
    made = references(graph, SETTINGS)["own-graph"]
    assert set(made["predicted"]) == {"gcn", *HOPS}
    assert (made["best"] == LINEAR) == (best == LINEAR)
    truth = graph.labels[graph.split == TEST]
    right = {name: float((row == truth).mean()) for name, row in made["predicted"].items()}
    assert right[best] > right[worse] + 0.1


def test_references_follow_from_what_they_may_see_and_repeat_no_training(monkeypatch):
    from privgcn.sgd import train

    graph, plain = _graph(noise=1.0, alike=0.7), train.train_plain
    settings = SETTINGS.changed({"training.epochs": 2})
    own = plain(graph.induced(np.flatnonzero(graph.split == TRAIN)), None, settings)
    networks = []
    monkeypatch.setattr(
        train, "train_plain", lambda *r: networks.append(r[2].seed) or plain(*r)
    )
    usual = references(graph, settings, own)
    assert networks == []
    references(graph, settings.changed({"seed": 1}), own)
    assert networks == [1]
    # Test labels have no say.
    labels = np.where(graph.split == TEST, 1 - graph.labels, graph.labels)
    for mode, made in references(replace(graph, labels=labels), settings, own).items():
        assert made["best"] == usual[mode]["best"]
        for name, row in made["predicted"].items():
            np.testing.assert_array_equal(row, usual[mode]["predicted"][name])
    bare = references(replace(graph, edges=graph.edges[:, :0]), settings, own)
    first, second = (each["alone"]["predicted"][LINEAR] for each in (bare, usual))
    np.testing.assert_array_equal(first, second, "alone sees no edges")


def test_documents_with_one_class_or_without_validation_have_references():
    graph = _graph(noise=0.6, alike=0.5)
    settings = SETTINGS.changed({"training.epochs": 1})
    split = np.where(graph.split == VALIDATION, TRAIN, graph.split).astype(np.int8)
    assert references(replace(graph, split=split), settings)["alone"]["best"] in (*HOPS, "gcn")
    one = replace(graph, labels=np.where(graph.split == TRAIN, 1, graph.labels))
    assert set(references(one, settings)["alone"]["predicted"]) == {"gcn"}
    with pytest.raises(PrivacyContractError, match="no epsilon counts that"):
        references(graph, make_settings("auto", epsilon=1.0))
