from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score

from privgcn.evaluation.baselines import majority, uniform
from privgcn.evaluation.metrics import classification_scores


def test_scores_are_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    truth, predicted = rng.integers(0, 4, 200), rng.integers(0, 4, 200)
    scores = classification_scores(truth, predicted, ["a", "b", "c", "d"])
    assert scores["micro_f1"] == pytest.approx(f1_score(truth, predicted, average="micro"))
    assert scores["macro_f1"] == pytest.approx(f1_score(truth, predicted, average="macro"))
    assert scores["accuracy"] == pytest.approx(accuracy_score(truth, predicted))
    assert np.sum(scores["confusion"]) == 200
    assert [row["support"] for row in scores["per_class"]] == np.bincount(truth).tolist()


def test_documents_without_a_label_do_not_count() -> None:
    scores = classification_scores(np.array([0, -1, 1]), np.array([0, 0, 0]), ["a", "b"])
    assert scores["documents"] == 2
    assert scores["accuracy"] == 0.5


def test_no_labels_at_all_give_no_scores() -> None:
    scores = classification_scores(np.array([-1, -1]), np.array([0, 1]), ["a", "b"])
    assert scores["micro_f1"] is None
    assert scores["documents"] == 0


def test_classes_that_never_occur_do_not_lower_the_macro_average() -> None:
    truth = np.array([0, 0, 1, 1])
    assert classification_scores(truth, truth, ["a", "b", "never"])["macro_f1"] == 1.0


def test_baselines_know_nothing_of_training() -> None:
    truth = np.array([2, 2, 2, 0, -1])
    assert majority(truth, 3).tolist() == [2] * 5
    drawn = uniform(np.zeros(3000, dtype=np.int64), 3, seed=0)
    assert np.bincount(drawn, minlength=3).min() > 900
