from __future__ import annotations

import pytest

from privgcn.experiments.paper.emulation import KIND as AS_RELEASED
from privgcn.experiments.tasks import label, make_task


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
            AS_RELEASED,
            {"dataset": "cora", "optimizer": "sgd", "epsilon": 2},
            "cora, as released, sgd, claimed epsilon 2",
        ),
        (
            AS_RELEASED,
            {"dataset": "cora", "optimizer": "adam", "epsilon": None, "fraction": 0.1},
            "cora, as released, adam, without noise, 0.1 of the training data",
        ),
    ],
)
def test_a_run_is_named_in_a_few_words(kind: str, point: dict[str, object], words: str) -> None:
    settings = make_task(kind, point, [0]).settings
    assert label(kind, settings, [3]) == f"{words}, seed 3"
    assert label(kind, settings, [0, 2]) == f"{words}, seeds 0, 2"
    assert label(kind, settings, []) == words


def test_any_other_task_is_named_by_its_plain_settings() -> None:
    settings = {"noise": 0.5, "dataset": "cora", "options": {"deep": [1]}, "empty": None}
    assert label("tiny_task", settings, [1]) == "cora, noise 0.5, seed 1"


def test_seeds_may_be_left_out() -> None:
    assert label("tiny_task", {"dataset": "cora", "noise": 0.5}) == "cora, noise 0.5"
