from __future__ import annotations

import pytest

from privgcn.experiments.grid import Task
from privgcn.experiments.labels import label, torn_labels
from privgcn.experiments.tasks import resolve_point


@pytest.mark.parametrize(
    ("kind", "point", "words"),
    [
        (
            "train",
            {
                "dataset": "cora",
                "recipe": "paper-split",
                "optimizer": "adam",
                "epsilon": 2,
                "parts": 10,
            },
            "cora, paper-split, adam, epsilon 2, 10 parts",
        ),
        (
            "train",
            {"dataset": "clinic", "recipe": "plain", "optimizer": "sgd", "fraction": 0.5},
            "clinic, plain, sgd, 0.5 of the training data",
        ),
        (
            "train",
            {"dataset": "cora-text", "recipe": "auto", "epsilon": 0.5, "features": "bow"},
            "cora-text, auto, sgd, features bow, epsilon 0.5, every document a part",
        ),
        (
            "as-released",
            {"dataset": "cora", "optimizer": "sgd", "epsilon": 2},
            "cora, as released, sgd, claimed epsilon 2",
        ),
        (
            "as-released",
            {"dataset": "cora", "optimizer": "adam", "epsilon": None, "fraction": 0.1},
            "cora, as released, adam, without noise, 0.1 of the training data",
        ),
    ],
)
def test_a_run_is_named_in_a_few_words(kind: str, point: dict[str, object], words: str) -> None:
    settings = resolve_point(kind, point)
    assert label(kind, settings, [3]) == f"{words}, seed 3"
    assert label(kind, settings, [0, 2]) == f"{words}, seeds 0, 2"
    assert label(kind, settings, []) == words


def test_any_other_task_is_named_by_its_plain_settings() -> None:
    settings = {"noise": 0.5, "dataset": "cora", "options": {"deep": [1]}, "empty": None}
    assert label("mine:", settings, [1]) == "cora, noise 0.5, seed 1"


def test_damaged_records_are_named_where_they_are_known() -> None:
    task = Task("mine:", {"dataset": "cora"}, (0, 1))
    key = task.run_key(1)
    assert torn_labels([key, "ab"], [task]) == [f"cora, seed 1 ({key})", "ab"]
