"""A loaded model is the saved one: labels, parameters and predictions, to the bit."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from privgcn import Corpus, GraphClassifier, load_corpus
from privgcn.errors import ConfigError
from privgcn.features import bags
from privgcn.prediction import matching_numbers, spectrum
from privgcn.runs.folder import MODEL
from privgcn.runs.model import model_files
from privgcn.training import class_bias, planning
from privgcn.training import names as class_names

SHORT = {"training.epochs": 5}
PRIVATE: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-4}
RECIPES: dict[str, dict[str, Any]] = {
    "auto": PRIVATE,
    "plain": {"settings": {**SHORT, "training.learning_rate": 0.05}},
    "paper-full": {**PRIVATE, "settings": SHORT},
    "paper-split": {**PRIVATE, "settings": SHORT, "optimizer": "sgd"},
}
KINDS = ("hashing", "bow", "tfidf", "word-vectors")


@pytest.fixture(scope="module")
def clinic() -> Corpus:
    return load_corpus("clinic")


def vectors(documents: int = 200) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    codes = np.arange(documents) % 3
    rows = random.normal(size=(3, 8))[codes] * 3 + random.normal(size=(documents, 8))
    return rows.astype(np.float32), codes


def again(model: GraphClassifier, folder: Path) -> GraphClassifier:
    model.save(folder)
    return GraphClassifier.load(folder)


def options_of(kind: str, folder: Path) -> dict[str, Any]:
    if kind == "word-vectors":
        path = folder / "vectors.txt"
        known = ("patient", "heart", "blood", "skin", "pain", "letter", "department")
        path.write_text("".join(f"{w} {i} {i % 3} {7 - i}\n" for i, w in enumerate(known)))
        return {"source": str(path)}
    return {"cache_dir": str(folder / "cache")} if kind == "minilm" else {}


@pytest.mark.parametrize(
    ("recipe", "kind"), [*product(RECIPES, KINDS), ("auto", "minilm"), ("auto", "static")]
)
def test_every_recipe_and_feature_kind_predicts_to_the_bit(
    tmp_path: Path, clinic: Corpus, recipe: str, kind: str
) -> None:
    few = clinic.select(np.arange(0, len(clinic), 60 if kind == "minilm" else 20))
    few = replace(few, whole=None, rows=None)
    chosen = dict(RECIPES[recipe])
    options = {f"features.options.{k}": v for k, v in options_of(kind, tmp_path).items()}
    chosen["settings"] = {**chosen.get("settings", {}), **options}
    model = GraphClassifier(recipe=recipe, features=kind, **chosen)
    if recipe != "plain":
        model.set_params(delta=1e-3)
    model.fit(few.train)
    read = again(model, tmp_path / "model")
    for mode in ("alone", "own-graph", "full-graph"):
        expected = model.predict_proba(few.test, inference=mode)
        assert np.array_equal(expected, read.predict_proba(few.test, inference=mode))
    assert read.get_params() == model.get_params()
    assert read.settings_ == model.settings_
    assert read.n_features_in_ == model.n_features_in_
    assert (read.statement_ is None) == (recipe == "plain")
    if read.statement_ is not None:
        assert read.statement_.digest() == model.statement_.digest()


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("made", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_given_vectors_predict_to_the_bit(tmp_path: Path, recipe: str, made: Any) -> None:
    rows, codes = vectors()
    model = GraphClassifier(recipe=recipe, **RECIPES[recipe]).fit(made(rows), codes)
    read = again(model, tmp_path / "model")
    for mode in ("alone", "own-graph"):
        expected = model.predict_proba(made(rows), inference=mode)
        assert np.array_equal(expected, read.predict_proba(made(rows), inference=mode))


@pytest.mark.parametrize(
    "labels",
    [
        np.array([10, 20, -3]),
        np.array([10, 20, -3], dtype=np.int8),
        np.array([0, 1, 255], dtype=np.uint8),
        np.array([0.0, 1.0, 2.0]),
        np.array([0, 1, 2], dtype=np.float32),
        np.array([True, False, True]),
        np.array(["a", "bc", "ünï"]),
        np.array(["a", "bc", "d" * 40], dtype=object),
    ],
    ids=lambda labels: str(labels.dtype),
)
@pytest.mark.parametrize("private", [True, False])
def test_labels_keep_their_type(tmp_path: Path, labels: np.ndarray, private: bool) -> None:
    rows, codes = vectors()
    y = labels[codes]
    chosen = PRIVATE if private else {"settings": {"training.epochs": 60}}
    model = GraphClassifier(**chosen).fit(rows, y)
    read = again(model, tmp_path / "model")
    predicted = read.predict(rows)
    assert predicted.dtype == model.predict(rows).dtype
    assert type(predicted.tolist()[0]) is type(y.tolist()[0])
    assert np.array_equal(predicted, model.predict(rows))
    assert read.score(rows, y) == model.score(rows, y) > 0.5
    assert np.array_equal(read.classes_, model.classes_)


def test_what_json_cannot_keep_is_refused(tmp_path: Path) -> None:
    rows, codes = vectors()
    model = GraphClassifier(settings=SHORT).fit(rows, codes)
    with pytest.raises(ConfigError, match="class labels"):
        model_files(replace(model._model, classes=np.array([1j, 2j])))
    with pytest.raises(ConfigError, match="parameters"):
        model.set_params(settings={"training.epochs": object()}).save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_clone_of_a_loaded_model_trains_under_the_same_guarantee(
    tmp_path: Path, clinic: Corpus
) -> None:
    model = GraphClassifier(
        epsilon=np.float64(3.0),
        delta=2e-5,
        unit="person",
        relation="replace",
        features="tfidf",
        seed=np.int64(4),
        reproducible=True,
        settings={"training.reach": 1.2, "privacy.clip_norm": 0.5},
    ).fit(clinic.train)
    read = again(model, tmp_path / "model")
    assert read.get_params() == model.get_params()
    refit = clone(read).fit(clinic.train)
    assert refit.settings_ == model.settings_
    assert refit.statement_ == model.statement_


@pytest.mark.parametrize("recipe", ["auto", "plain", "paper-split"])
def test_a_run_and_a_release_come_back_with_their_settings(tmp_path: Path, recipe: str) -> None:
    from typer.testing import CliRunner

    from privgcn.cli import app

    def call(*arguments: str) -> None:
        done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
        assert done.exit_code == 0, done.output

    run = tmp_path / "run"
    chosen = ["--set", "training.epochs=7", "--seed", "3"]
    if recipe != "plain":
        chosen += ["--epsilon", "8", "--relation", "replace"]
    call("train", "clinic", "--recipe", recipe, *chosen, "--out", str(run))
    folders = [run]
    if recipe != "plain":
        call("release", str(run), str(tmp_path / "released"))
        folders.append(tmp_path / "released")
    corpus = load_corpus("clinic")
    for folder in folders:
        model = GraphClassifier.load(folder)
        made = clone(model)._make_settings()
        assert made.model_copy(update={"data": model.settings_.data}) == model.settings_
        assert made.training.epochs == 7
        assert made.seed == 3
        assert np.array_equal(
            model.predict_proba(corpus.test),
            GraphClassifier.load(run).predict_proba(corpus.test),
        )


def test_column_names_come_back(tmp_path: Path) -> None:
    rows, codes = vectors()
    frame = pl.DataFrame(rows, schema=[f"c{i}" for i in range(8)])
    model = GraphClassifier(settings=SHORT).fit(frame, codes)
    read = again(model, tmp_path / "model")
    assert list(read.feature_names_in_) == list(frame.columns)
    assert np.array_equal(read.predict(frame), model.predict(frame))


def test_constants_of_another_version_change_no_saved_model(
    tmp_path: Path, clinic: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = GraphClassifier(epsilon=1.0).fit(clinic.train)
    read = again(model, tmp_path / "model")
    expected = {
        m: model.predict_proba(clinic.test, inference=m) for m in ("alone", "own-graph")
    }
    for module, names in (
        (
            matching_numbers,
            "RANK STRETCH BIAS_VARIANCE SHARPENING COMPLEXITY ROUNDS TOLERANCE LINKED_SHARE "
            "BLEND BLEND_POWER LEAST_APART MOST_BLEND MOST_MATCHED SURE WORTH",
        ),
        (spectrum, "OVERSAMPLING ITERATIONS"),
        (planning, "_CALM _LONGEST_STEP"),
        (class_bias, "_OF_LOGARITHM _KEPT"),
        (class_names, "_REACH _LONGEST_STEP"),
    ):
        for name in names.split():
            value = getattr(module, name)
            monkeypatch.setattr(module, name, type(value)(value * 2 / 3))
    monkeypatch.setattr(matching_numbers, "prior_variance", lambda *_: 0.1)
    monkeypatch.setattr("sklearn.feature_extraction.text.ENGLISH_STOP_WORDS", {"patient"})
    assert bags.stop_list("english") == ["patient"]
    for loaded in (read, GraphClassifier.load(tmp_path / "model")):
        for mode, shares in expected.items():
            assert np.array_equal(loaded.predict_proba(clinic.test, inference=mode), shares)
    # The same change is felt by a model that carries no numbers of its own.
    assert not np.array_equal(model.predict_proba(clinic.test), expected["own-graph"])
    stored = json.loads((tmp_path / "model" / MODEL).read_text())
    assert {"rate", "signal", "longest", "prior"} <= set(stored["matching"])
