"""A loaded model is the saved one: labels, settings and predictions, to the bit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from safetensors.numpy import load, save
from sklearn.base import clone

from builders import reseal, small_corpus
from privgcn.auto import recipe, spectrum
from privgcn.config import MODES
from privgcn.errors import ConfigError, DataError
from privgcn.features import words
from privgcn.runs.classifier import GraphClassifier
from privgcn.runs.folder import MODEL, WEIGHTS
from privgcn.runs.run import Run, model_files

SHORT = {"training.epochs": 2}
PRIVATE: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-3}
RECIPES: dict[str, dict[str, Any]] = {
    "auto": PRIVATE,
    "plain": {"epsilon": None, "settings": {**SHORT, "training.learning_rate": 0.05}},
    "paper-full": {**PRIVATE, "settings": SHORT},
    "paper-split": {**PRIVATE, "settings": SHORT, "optimizer": "sgd"},
}


def vectors() -> tuple[np.ndarray, np.ndarray]:
    """Dense rows that all point one way."""
    rng = np.random.default_rng(0)
    codes = np.arange(200) % 3
    rows = 5.0 + rng.normal(size=(3, 8))[codes] * 3 + rng.normal(size=(200, 8))
    return rows.astype(np.float32), codes


def again(model: GraphClassifier, folder: Path) -> GraphClassifier:
    model.save(folder)
    return GraphClassifier.load(folder)


@pytest.mark.parametrize(
    ("name", "kind"),
    [*((name, "hashing") for name in RECIPES), ("auto", "tfidf"), ("auto", "static")],
)
def test_every_recipe_predicts_to_the_bit(tmp_path: Path, name: str, kind: str) -> None:
    corpus = small_corpus()
    model = GraphClassifier(recipe=name, features=kind, **RECIPES[name]).fit(corpus.train)
    read = again(model, tmp_path / "model")
    for mode in MODES:
        expected = model.predict_proba(corpus.test, inference=mode)
        assert np.array_equal(expected, read.predict_proba(corpus.test, inference=mode))
        # New texts have no labels, and a model knows its own classes.
        texts = ["a parcel", "an invoice"]
        assert mode == "full-graph" or read.predict_proba(texts, inference=mode).shape == (2, 3)
    assert read.settings_ == model.settings_
    assert read.n_features_in_ == model.n_features_in_
    assert (read.statement_ is None) == (model.statement_ is None) == (name == "plain")
    # Names of classes that were taken from the labels are not used.
    if name == "auto":
        named = "label_direction" in model._model.released.tensors
        assert named == (kind == "static")
        unknown = replace(corpus, facts=replace(corpus.facts, classes_declared=False))
        model.fit(unknown.train)
        assert "label_direction" not in model._model.released.tensors


@pytest.mark.parametrize(
    ("made", "balanced"), [(np.asarray, True), (sp.csr_matrix, False)], ids=["dense", "sparse"]
)
def test_given_vectors_predict_to_the_bit(tmp_path: Path, made: Any, balanced: bool) -> None:
    rows, codes = vectors()
    model = GraphClassifier(**PRIVATE, balanced=balanced).fit(made(rows), codes)
    read = again(model, tmp_path / "model")
    assert read.settings_.training.balanced is balanced
    for mode in ("alone", "own-graph"):
        expected = model.predict_proba(made(rows), inference=mode)
        assert np.array_equal(expected, read.predict_proba(made(rows), inference=mode))
    # Column names come back.
    frame = pl.DataFrame(rows, schema=[f"c{i}" for i in range(8)])
    named = GraphClassifier(**PRIVATE).fit(frame, codes)
    read = again(named, tmp_path / "named")
    assert list(read.feature_names_in_) == list(frame.columns)
    assert np.array_equal(read.predict(frame), named.predict(frame))


@pytest.mark.parametrize(
    "labels",
    [
        np.array([10, 20, -3]),
        np.array([0.0, 1.0, 2.0]),
        np.array([True, False, True]),
        np.array(["a", "bc", "ünï"]),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_labels_keep_their_type(tmp_path: Path, labels: np.ndarray) -> None:
    rows, codes = vectors()
    y = labels[codes]
    model = GraphClassifier(**PRIVATE).fit(rows, y)
    read = again(model, tmp_path / "model")
    predicted = read.predict(rows)
    assert predicted.dtype == model.predict(rows).dtype
    assert type(predicted.tolist()[0]) is type(y.tolist()[0])
    assert np.array_equal(predicted, model.predict(rows))
    assert read.score(rows, y) == model.score(rows, y) > 0.5
    assert np.array_equal(read.classes_, model.classes_)
    with pytest.raises(ConfigError, match="class labels"):
        model_files(replace(model._model, classes=np.array([1j, 2j])))


def test_a_clone_of_a_loaded_model_trains_under_the_same_guarantee(tmp_path: Path) -> None:
    corpus = small_corpus(owners=20)
    model = GraphClassifier(
        epsilon=np.float64(3.0),
        delta=2e-5,
        unit="person",
        relation="replace",
        features="tfidf",
        random_state=np.int64(4),
        reproducible=True,
        settings={"training.noise_scale": 1.2, "privacy.clip_norm": 0.5},
    ).fit(corpus.train)
    read = again(model, tmp_path / "model")
    assert read.settings_ == model.settings_
    refit = clone(read).fit(corpus.train)
    assert refit.settings_ == model.settings_
    assert refit.statement_ == model.statement_


def test_constants_of_another_version_change_no_saved_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = small_corpus()
    model = GraphClassifier(**PRIVATE, features="hashing").fit(corpus.train)
    read = again(model, tmp_path / "model")
    expected = {m: model.predict_proba(corpus.test, inference=m) for m in MODES}
    moved = 0
    for module in (recipe, spectrum):
        for name, value in list(vars(module).items()):
            if name.lstrip("_").isupper() and type(value) in (int, float):
                monkeypatch.setattr(module, name, type(value)(value * 2 / 3))
                moved += 1
    assert moved >= 5
    stored = json.loads((tmp_path / "model" / MODEL).read_text())["matching"]
    assert set(stored) == set(recipe.MatchingConstants.model_fields)
    monkeypatch.setattr("sklearn.feature_extraction.text.ENGLISH_STOP_WORDS", {"invoice"})
    assert words.stop_list("english") == ["invoice"]
    for loaded in (read, GraphClassifier.load(tmp_path / "model")):
        for mode, probabilities in expected.items():
            predicted = loaded.predict_proba(corpus.test, inference=mode)
            assert np.array_equal(predicted, probabilities), mode


def test_a_damaged_tensor_or_record_is_refused(tmp_path: Path) -> None:
    """Also where nothing claims that it is whole, as in a run without privacy."""
    GraphClassifier(**PRIVATE).fit(*vectors()).save(tmp_path / "model")
    honest = Run(tmp_path / "model")
    tensors, record = load(honest.content(WEIGHTS)), honest.record(MODEL)
    damaged: list[dict[str, Any]] = [
        {name: tensor for name, tensor in tensors.items() if name != "weight"},
        {**tensors, "mean": np.zeros(1, np.float32)},
        {**tensors, "mean": np.zeros(8)},
        {**tensors, "class_bias": np.full(3, np.inf, np.float32)},
        {**tensors, "iterates": np.zeros((3, 8, 3), np.float32)},
        {**tensors, "more": np.zeros(1, np.float32)},
    ]
    endless = {"matching": {**record["matching"], "rounds": 10**12}}
    changes = ({"format": 5}, {"kind": "gcn"}, {"wings": 2}, endless)
    for files in (
        *({WEIGHTS: save(each)} for each in damaged),
        *({MODEL: json.dumps({**record, **change})} for change in changes),
    ):
        reseal(tmp_path / "model", {**honest.files, **files})
        run = Run(tmp_path / "model")
        vars(run)["statement"] = honest.statement
        with pytest.raises(DataError, match="cannot be read"):
            run.model()
