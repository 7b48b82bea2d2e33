"""Baselines of a private run cost no privacy that its epsilon does not count."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privgcn.config import make_settings
from privgcn.data import load_corpus
from privgcn.data.corpus import TRAIN
from privgcn.evaluation import references as references_module
from privgcn.evaluation.baselines import baselines_left_out
from privgcn.evaluation.references import REFERENCES
from privgcn.runs.train import Prepared, score_table, train
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
    monkeypatch.setattr(references_module, "fit", None)
    scores = score_table(trained)
    assert "references" not in scores
    names = set(scores["baselines"])
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
        scores = score_table(seen)
        # Without privacy, references are trained on the documents.
        scores.pop("references", None)
        scores["modes"] = {mode: scores["modes"][mode] for mode in ("alone", "own-graph")}
        told.append(scores)
    assert told[0] == told[1] == told[2]


def test_a_plain_run_states_the_references_and_names_the_best() -> None:
    settings = make_settings("plain", changes={**SHORT, "features.kind": "hashing"})
    scores = score_table(train(load_corpus("clinic"), settings))
    assert set(scores["references"]) == set(scores["modes"])
    for mode, row in scores["references"].items():
        assert tuple(row["scores"]) == REFERENCES
        assert row["best"] == max(row["validation"], key=row["validation"].__getitem__)
        own = {name: scores["modes"][mode][name] for name in ("micro_f1", "documents")}
        assert own.items() <= row["scores"]["gcn"].items(), "the model is not trained twice"
        assert row["scores"][row["best"]]["micro_f1"] > 0.6, "two epochs make no good network"
    assert baselines_left_out(settings) == []
