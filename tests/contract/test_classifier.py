"""GraphClassifier keeps scikit-learn's contract."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from builders import small_corpus, small_edges, small_frame, write_corpus
from privgcn import Corpus, GraphClassifier, load_corpus
from privgcn.config import MODES, RECIPES, PrivacySettings
from privgcn.errors import (
    BudgetWarning,
    ConfigError,
    DataError,
    PrivacyContractError,
    PrivacyWarning,
)
from privgcn.runs import classifier

QUICK = {"training.epochs": 40, "training.learning_rate": 0.05}
SECRET = "scikit-learn fits twice and compares: the noise is secret, so two fits differ"
BATCH = "own-graph fits the query documents together"


@pytest.fixture(scope="module")
def clinic() -> Corpus:
    return load_corpus("clinic")


@pytest.fixture(scope="module")
def private_model(clinic: Corpus) -> GraphClassifier:
    return GraphClassifier(epsilon=2.0, unit="person", features="hashing").fit(clinic.train)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (
            GraphClassifier(None, settings=QUICK),
            {"check_methods_subset_invariance": "scores are float32, the check asks for 1e-7"},
        ),
        (
            GraphClassifier(1.0, 1e-3, reproducible=True, random_state=0),
            {
                "check_methods_subset_invariance": BATCH,
                "check_methods_sample_order_invariance": BATCH,
            },
        ),
        (
            GraphClassifier(8.0, 1e-3),
            {
                "check_fit_idempotent": SECRET,
                "check_supervised_y_2d": SECRET,
                "check_classifier_data_not_an_array": SECRET,
            },
        ),
    ],
    ids=["plain", "reproducible", "private"],
)
def test_scikit_learns_own_checks_pass(
    model: GraphClassifier, expected: dict[str, str]
) -> None:
    outcomes = check_estimator(
        model, on_fail=None, on_skip=None, expected_failed_checks=expected
    )
    failed = [row for row in outcomes if row["status"] == "failed"]
    assert failed == []
    assert sum(row["status"] == "passed" for row in outcomes) > 40


def test_the_signature_shows_defaults_and_choices() -> None:
    made = inspect.signature(GraphClassifier, eval_str=True, locals={"nn": torch.nn})
    parameters = made.parameters
    assert parameters["epsilon"].default is inspect.Parameter.empty
    usual = PrivacySettings()
    for name in ("delta", "relation", "reproducible"):
        assert parameters[name].default == getattr(usual, name), name
    for name in ("unit", "relation"):
        choices = set(get_args(PrivacySettings.model_fields[name].annotation))
        written = parameters[name].annotation
        assert choices <= {*get_args(written), *get_args(get_args(written)[0])}, name
    assert {*get_args(parameters["recipe"].annotation), "module"} == set(RECIPES)
    inference = inspect.signature(GraphClassifier.predict).parameters["inference"]
    assert inference.default in MODES


def test_predictions_beat_the_majority_edges_help_and_labels_are_needed(
    clinic: Corpus, private_model: GraphClassifier
) -> None:
    alone = private_model.score(clinic.test, inference="alone")
    full = private_model.score(clinic.test, inference="full-graph")
    assert alone > 0.3
    assert full > alone + 0.1
    bare = replace(clinic.test, labels=np.full(len(clinic.test), -1))
    with pytest.raises(DataError, match="labels"):
        private_model.score(bare)


@pytest.mark.parametrize("recipe", ["auto", "paper-full"])
def test_documents_without_a_label_train(tmp_path: Path, recipe: Any) -> None:
    """They count as units, and belong to the statistics (``auto``) or graph (the paper's)."""

    def fitted(text: str) -> GraphClassifier:
        frame = small_frame()
        frame["label"][::4] = [None] * 15
        frame["text"][0] = text
        corpus = load_corpus(write_corpus(tmp_path / text[:3], frame, small_edges()))
        model = GraphClassifier(4.0, 1e-3, recipe=recipe, features="static")
        model.set_params(reproducible=True, random_state=0, settings={"training.epochs": 3})
        return model.fit(corpus.train)

    model, other = fitted("invoice"), fitted("parcel")
    assert model.statement_ is not None
    assert model.statement_.units == 40
    asked = load_corpus(tmp_path / "inv").test
    assert (model.predict_proba(asked) != other.predict_proba(asked)).any()


def test_full_graph_says_what_it_needs(clinic: Corpus, private_model: GraphClassifier) -> None:
    for documents in (clinic, {"text": ["a letter"]}):
        with pytest.raises(ConfigError, match=r"Corpus\.from_frame.*predict corpus\.test"):
            private_model.predict(documents, inference="full-graph")


def test_a_person_on_both_sides_of_the_split_is_refused(clinic: Corpus) -> None:
    split = np.random.default_rng(0).integers(0, 3, len(clinic)).astype(np.int8)
    mixed = replace(clinic, split=split)
    with pytest.raises(PrivacyContractError, match="split by owner"):
        GraphClassifier(epsilon=1.0, unit="person").fit(mixed.train)


# --- no silent choice ------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["frame", "corpus", "argument"])
def test_documents_with_owners_want_the_unit_named(form: str) -> None:
    frame = small_frame(owners=20, split=False)
    more: dict[str, Any] = {"owners": frame.pop("owner")} if form == "argument" else {}
    documents = small_corpus(owners=20).train if form == "corpus" else frame
    chosen = {"features": "hashing", "settings": {"training.epochs": 2}}
    with pytest.raises(ConfigError, match=r"unit='person'.*unit='document'"):
        GraphClassifier(4.0, 1e-3, **chosen).fit(documents, **more)
    for unit in ("person", "document"):
        model = GraphClassifier(4.0, 1e-3, unit=unit, **chosen).fit(documents, **more)
        assert model.statement_ is not None
        assert model.statement_.unit == unit
    GraphClassifier(None, **chosen).fit(documents, **more)
    bare = {name: values for name, values in small_frame(split=False).items() if name != "id"}
    with pytest.raises(PrivacyContractError, match="owner"):
        GraphClassifier(4.0, 1e-3, unit="person", **chosen).fit(bare)


def test_a_column_that_may_say_whose_a_document_is_is_warned_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame = small_frame(split=False) | {"patient": ["p"] * 60}
    chosen = {"features": "hashing", "settings": {"training.epochs": 2}}
    monkeypatch.setattr(classifier, "_fits", [])
    with pytest.warns(PrivacyWarning, match=r"'patient' says whose .* unit='document'"):
        GraphClassifier(4.0, 1e-3, **chosen).fit(frame)


def test_verbose_says_what_the_command_line_says(capsys: pytest.CaptureFixture[str]) -> None:
    model = GraphClassifier(4.0, 1e-3, unit="document", features="hashing", verbose=True)
    with pytest.warns(BudgetWarning, match=r"60 documents at epsilon 4: expect .* you need"):
        model.fit(small_frame(split=False))
    printed = capsys.readouterr().out
    for words in ("Read 60 documents", "Features: ", "training"):
        assert words in printed
    model.set_params(verbose=False).fit(small_frame(split=False))
    assert capsys.readouterr() == ("", "")


def test_owners_go_through_scikit_learns_cross_validation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(small_frame(owners=12, split=False))
    labels, owners = frame.pop("label"), frame["owner"]
    fits: list[set[str]] = []
    fit = GraphClassifier.fit

    def watched(self: Any, X: Any, y: Any, **more: Any) -> Any:
        fits.append(set(more.get("owners", X.get("owner"))))
        return fit(self, X, y, **more)

    monkeypatch.setattr(GraphClassifier, "fit", watched)
    model = GraphClassifier(
        4.0, 1e-3, unit="person", reproducible=True, random_state=0, features="hashing"
    )
    chosen = {"groups": owners, "cv": GroupKFold(3)}
    by_column = cross_val_score(model, frame, labels, **chosen)
    by_argument = cross_val_score(
        model, frame.drop(columns="owner"), labels, params={"owners": owners}, **chosen
    )
    assert by_column.tolist() == by_argument.tolist()
    # No owner is left out of two folds.
    assert all(len(set(owners) - trained) == 8 for trained in fits)


# --- scores, folders, parameters -------------------------------------------------------------


def test_a_parameter_at_its_default_is_left_to_the_settings(clinic: Corpus) -> None:
    chosen = {"privacy.unit": "person", "privacy.delta": 1e-6}
    model = GraphClassifier(
        2.0,
        random_state=0,
        settings={**chosen, "training.epochs": 3, "features.kind": "hashing"},
    )
    assert clone(model).get_params() == model.get_params()
    statement = clone(model).fit(clinic.train).statement_
    assert statement is not None
    assert (statement.unit, statement.delta) == ("person", 1e-6)
    assert statement.epsilon <= 2.0
    spoken = clone(model).set_params(delta=1e-6, unit="person")
    assert spoken.fit(clinic.train).settings_ == model.fit(clinic.train).settings_
