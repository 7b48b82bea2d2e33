"""Baselines of a private run cost no privacy that its epsilon does not count."""

from typing import Any

import pytest

from privgcn.corpus import load_corpus
from privgcn.evaluation.baselines import baselines_left_out
from privgcn.runs import replicas
from privgcn.runs.replicas import baseline_scores, train_replicas
from privgcn.training.recipes import make_settings

SHORT = {"training.epochs": 2}
NETWORK = {
    "model.kind": "mlp",
    "prediction.method": "direct",
    "training.average_last": 1,
    "training.keep_path": False,
    "training.zero_start": False,
}


@pytest.mark.parametrize(
    ("recipe", "changes", "row"),
    [
        ("auto", {}, "graph-blind linear"),
        ("auto", NETWORK, None),
        ("paper-full", {}, None),
        ("paper-split", {}, None),
        ("paper-split", {"privacy.reproducible": True}, None),
    ],
)
def test_a_private_run_trains_once_on_private_documents(
    monkeypatch: Any, recipe: str, changes: dict[str, Any], row: str | None
) -> None:
    settings = make_settings(recipe, epsilon=1.0, changes={**SHORT, **changes})
    trained = train_replicas(load_corpus("clinic"), settings)
    monkeypatch.setattr(replicas, "fit", None)
    names = set(baseline_scores(trained))
    assert names == {"majority", "random"} | ({row} if row else set())
    assert bool(baselines_left_out(settings)) == (row is None)


def test_a_plain_run_has_a_graph_blind_baseline() -> None:
    settings = make_settings("plain", changes=SHORT)
    assert "graph-blind mlp" in baseline_scores(train_replicas(load_corpus("clinic"), settings))
    assert baselines_left_out(settings) == []
