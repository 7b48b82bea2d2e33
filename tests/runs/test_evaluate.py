"""Scores of one training, of other seeds and folds, and of documents that came later."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders import (
    WORDS,
    corpus_folder,
    run_folder,
    small_corpus,
    small_frame,
    small_settings,
    trained,
    two_class_corpus,
    write_corpus,
)
from privgcn import cross_validate
from privgcn.config import MODES
from privgcn.data import NO_LABEL, TEST, TRAIN, load_corpus
from privgcn.errors import ConfigError, DataError, PrivacyContractError
from privgcn.graph import DocumentGraph
from privgcn.privacy.accounting import epsilon_of_events
from privgcn.runs import train as training
from privgcn.runs.classifier import GraphClassifier
from privgcn.runs.predictions import score_documents
from privgcn.runs.prepare import PreparedRun
from privgcn.runs.run import Model, Run, write_release, write_run
from privgcn.runs.train import repeated_scores


@pytest.mark.parametrize("epsilon", [4.0, None])
def test_what_train_prints_is_what_was_written_and_each_mode_is_predicted_once(
    tmp_path: Path, epsilon: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, str]] = []
    graphs: list[int] = []
    scores, propagation = Model.scores, DocumentGraph.__dict__["propagation"].func

    def counted(self: Model, graph: Any, rows: Any, mode: Any) -> Any:
        test = graph.split[rows] == TEST
        calls.append(("test" if test.all() else "both" if test.any() else "validation", mode))
        return scores(self, graph, rows, mode)

    def built(self: DocumentGraph) -> Any:
        graphs.append(len(self))
        return propagation(self)

    monkeypatch.setattr(Model, "scores", counted)
    monkeypatch.setattr(DocumentGraph.__dict__["propagation"], "func", built)
    recipe = None if epsilon else "plain"
    run = trained(settings=small_settings(recipe, epsilon=epsilon, training__epochs=3))
    record = write_run(tmp_path / "run", run, lambda *_: "")
    # Which mode to deploy is asked of the validation documents, beside the test documents.
    deployed = [("validation", "alone"), ("both", "own-graph")] if epsilon else []
    assert sorted(calls) == sorted([*(("test", mode) for mode in MODES), *deployed])
    if epsilon:
        assert len(graphs) == len(set(graphs))
    stored = Run(tmp_path / "run")
    assert {"run", "dataset", "settings", "statement", "scores"} <= record.keys()
    for mode, row in record["scores"].items():
        assert {"micro_f1", "macro_f1", "accuracy"} <= row.keys()
        assert row.items() <= stored.scores["modes"][mode].items()
    assert stored.statement == run.model.statement
    if epsilon is None:
        assert record["statement"] is None
        assert all(row["best"] in row["scores"] for row in record["references"].values())
        assert repeated_scores(run, 2)["composed_epsilon"] is None
    else:
        assert record["statement"] == stored.record("statement.json")
    json.dumps(record)


def test_the_mode_to_deploy_is_right_about_validation_documents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = trained(settings=small_settings(epsilon=4.0))

    def scores(self: Model, graph: DocumentGraph, rows: Any, mode: str) -> Any:
        return np.eye(3)[(graph.labels[rows] + (mode == "alone")) % 3]

    monkeypatch.setattr(Model, "scores", scores)
    found = training.score_table(run)["deploy"]
    assert (found["mode"], found["own_graph_only"]) == ("own-graph", found["documents"])


def test_documents_that_came_later_are_evaluated_and_trained_ones_are_not(
    tmp_path: Path,
) -> None:
    source = corpus_folder(tmp_path / "corpus")
    chosen = small_settings(data__source=str(source))
    run = run_folder(tmp_path / "run", load_corpus(source), chosen)
    first = score_documents(Run(run))
    assert first["left_out"] == 0
    assert first["scores"] == Run(run).scores["modes"]
    lines = (source / "documents.jsonl").read_text().splitlines()
    # Somebody calls two training documents test documents, and adds a new one.
    moved = [line.replace('"train"', '"test"') for line in lines[:2]]
    new = json.dumps({"id": "z", "text": "late invoice", "label": "billing", "split": "test"})
    (source / "documents.jsonl").write_text("\n".join([*moved, *lines[2:], new]) + "\n")
    second = score_documents(Run(run))
    assert second["left_out"] == 2
    assert second["scores"]["alone"]["documents"] == first["scores"]["alone"]["documents"] + 1
    GraphClassifier.load(run).save(tmp_path / "model")
    with pytest.raises(DataError, match="does not know which documents"):
        score_documents(Run(tmp_path / "model"))


def test_what_a_random_split_held_out_for_validation_is_no_test(tmp_path: Path) -> None:
    source = write_corpus(tmp_path / "letters", small_frame(split=False))
    corpus = load_corpus(source)
    run = run_folder(tmp_path / "run", corpus, small_settings(data__source=str(source)))
    row = score_documents(Run(run), inference="alone")["scores"]["alone"]
    assert row["documents"] == (corpus.split == TEST).sum()


@pytest.mark.parametrize("kind", ["run", "release"])
def test_a_model_is_evaluated_on_a_file_of_ones_own(tmp_path: Path, kind: str) -> None:
    run, corpus = run_folder(tmp_path / "run"), small_corpus()
    write_release(Run(run), tmp_path / "release", {})
    rows = [f'd{n},"{corpus.texts[n].upper()}",{list(WORDS)[n % 3]}' for n in range(0, 60, 7)]
    (tmp_path / "own.csv").write_text("\n".join(["id,text,label", *rows]) + "\n")
    record = score_documents(Run(tmp_path / kind), str(tmp_path / "own.csv"))
    trained = 6 if kind == "run" else 0  # a release does not know which documents trained it
    assert record["left_out"] == trained
    for row in record["scores"].values():
        assert row["documents"] == 9 - trained
        low, high = row["intervals"]["micro_f1"]
        assert low <= row["micro_f1"] <= high
    assert ("full-graph" in record["scores"]) == (kind == "run")
    if kind == "release":
        with pytest.raises(ConfigError, match="training documents"):
            score_documents(Run(tmp_path / kind), str(tmp_path / "own.csv"), "full-graph")
    (tmp_path / "bare.csv").write_text("id,text\na,a parcel\n")
    with pytest.raises(DataError, match="Evaluation needs labels"):
        score_documents(Run(tmp_path / kind), str(tmp_path / "bare.csv"))


def test_the_first_seed_is_the_model_whatever_it_scores() -> None:
    chosen = small_settings(epsilon=0.05, seed=4, training__epochs=3)
    run = trained(settings=chosen.changed({"privacy.reproducible": True}))
    before = run.model.released.tensors["weight"].copy()
    repeats = repeated_scores(run, 3)
    assert (repeats["seeds"], repeats["model"]) == ([4, 5, 6], 4)
    assert np.array_equal(run.model.released.tensors["weight"], before)
    for mode, table in run.scores.items():
        row = repeats["modes"][mode]["micro_f1"]
        assert row["values"][0] == table["micro_f1"]
        low, high = row["interval"]
        assert low <= row["mean"] <= high
    # Even with seeded noise, other seeds are other runs.
    assert len(set(repeats["modes"]["alone"]["micro_f1"]["values"])) > 1
    plan = run.model.released.plan
    composed = repeats["composed_epsilon"]
    assert composed == epsilon_of_events([plan.event] * 3, delta=plan.delta, accountant="pld")
    assert plan.epsilon < composed < 3 * plan.epsilon


def test_every_document_is_a_test_document_once_and_owners_stay_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    splits: list[Any] = []
    prepare = training.prepare

    def counted(corpus: Any, settings: Any) -> PreparedRun:
        splits.append(np.asarray(corpus.split))
        return prepare(corpus, settings)

    monkeypatch.setattr(training, "prepare", counted)
    owners = {"owners": np.arange(120) % 40, "owner_names": tuple(map(str, range(40)))}
    corpus = two_class_corpus(worded=False, **owners)
    short = {"training.epochs": 20, "training.learning_rate": 0.1}
    table = cross_validate(corpus, folds=4, settings=short)
    tested = np.stack([split == TEST for split in splits])
    assert tested.sum(0).tolist() == [1] * 120
    assert np.array_equal(tested, tested[:, corpus.owners])
    assert all(set(split.tolist()) == {TRAIN, TEST} for split in splits)
    assert (table["documents"], table["folds"]) == (120, 4)
    row = table["own-graph"]["micro_f1"]
    assert len(row["values"]) == 4
    assert row["interval"][0] < row["mean"] > 0.9

    # A fold whose documents have no label has no scores, and counts for none.
    few = replace(corpus, labels=np.where(corpus.owners < 3, corpus.labels, NO_LABEL))
    table = cross_validate(few, folds=20, settings=short)
    assert (table["documents"], table["folds"]) == (9, 20)
    assert len(table["alone"]["macro_f1"]["values"]) <= 3


def test_a_budget_needs_the_word_that_documents_are_public() -> None:
    corpus = two_class_corpus(worded=False)
    with pytest.raises(PrivacyContractError, match="privgcn tune"):
        cross_validate(corpus, epsilon=1.0)
    changes = {"privacy.delta": 1e-3, "training.epochs": 2}
    table = cross_validate(corpus, folds=2, epsilon=1.0, settings=changes, public=True)
    assert len(table["alone"]["macro_f1"]["values"]) == 2
    with pytest.raises(ValueError, match="greater than the number of"):
        cross_validate(corpus, folds=121)


def test_a_run_of_a_dataset_is_evaluated_and_audited_on_it(tmp_path: Path) -> None:
    settings = small_settings(data__source="clinic", privacy__delta=1e-5, training__epochs=2)
    run = Run(run_folder(tmp_path / "run", load_corpus("clinic"), settings))
    assert score_documents(run)["scores"]["alone"] == run.scores["modes"]["alone"]
    assert run.corpus(labelled=False).classes == load_corpus("clinic").classes
