"""Baselines of a private run cost no privacy that its epsilon does not count."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privgcn.corpus import load_corpus
from privgcn.corpus.corpus import TRAIN
from privgcn.evaluation.baselines import baselines_left_out
from privgcn.runs.train import Prepared, baseline_scores, score_table, train
from privgcn.training.recipes import make_settings
from unit.runs.small_corpus import small_corpus

SHORT = {"training.epochs": 2}
NETWORK = {
    "model.kind": "mlp",
    "prediction.method": "direct",
    "training.reach": None,
    "training.learning_rate": 0.1,
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
    trained = train(load_corpus("clinic"), settings)
    monkeypatch.setattr(Prepared, "fit", None)
    names = set(baseline_scores(trained))
    assert names == {"majority", "random"} | ({row} if row else set())
    assert bool(baselines_left_out(settings)) == (row is None)


@pytest.mark.parametrize("epsilon", [2.0, None])
def test_training_documents_move_no_score_but_those_that_are_not_covered(
    epsilon: float | None,
) -> None:
    """Baselines and counts too: what is written about a model must not tell more than it."""
    corpus = small_corpus(texts=False)
    training = corpus.split == TRAIN
    changes = {**SHORT, **({"privacy.delta": 1e-3} if epsilon else {})}
    settings = make_settings("auto", epsilon=epsilon, changes=changes)
    trained = train(corpus, settings)
    vectors = np.where(training[:, None], -5.0 * np.array(corpus.vectors), corpus.vectors)
    told = []
    for labels, rows in ((corpus.labels, corpus.vectors), (1, vectors), (0, vectors)):
        other = replace(corpus, labels=np.where(training, labels, corpus.labels), vectors=rows)
        seen = replace(trained, corpus=other, graph=trained.model.graph(other))
        # Without privacy, one baseline is trained on the documents.
        scores = score_table(seen)
        scores["baselines"].pop("graph-blind mlp", None)
        scores["modes"] = {mode: scores["modes"][mode] for mode in ("alone", "own-graph")}
        told.append(scores)
    assert told[0] == told[1] == told[2]


def test_a_plain_run_has_a_graph_blind_baseline() -> None:
    settings = make_settings("plain", changes=SHORT)
    assert "graph-blind mlp" in baseline_scores(train(load_corpus("clinic"), settings))
    assert baselines_left_out(settings) == []
