"""GraphClassifier keeps scikit-learn's contract."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import polars as pl
import pytest
import torch
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from builders import WORDS, small_corpus, small_edges, small_frame, small_texts, write_corpus
from privgcn import Corpus, GraphClassifier, load_corpus
from privgcn.config import RECIPES, PrivacySettings
from privgcn.errors import (
    BudgetWarning,
    ConfigError,
    DataError,
    DataWarning,
    PrivacyContractError,
    PrivacyWarning,
)
from privgcn.runs import classifier

QUICK = {"training.epochs": 40, "training.learning_rate": 0.05}
RNG = np.random.default_rng(0)
NUMBERS = RNG.integers(0, 2, 60)
VECTORS = RNG.normal(size=(60, 5)) + 2.0 * NUMBERS[:, None]
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
    parameters, usual = made.parameters, PrivacySettings()
    assert parameters["epsilon"].default is inspect.Parameter.empty
    for name in ("delta", "relation", "reproducible"):
        assert parameters[name].default == getattr(usual, name), name
    for name in ("unit", "relation"):
        choices = get_args(PrivacySettings.model_fields[name].annotation)
        assert all(repr(each) in str(parameters[name].annotation) for each in choices), name
    assert {*get_args(parameters["recipe"].annotation), "module"} == set(RECIPES)


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
    assert model.statement_.plan.units == 40
    asked = load_corpus(tmp_path / "inv").test
    assert (model.predict_proba(asked) != other.predict_proba(asked)).any()


def test_full_graph_says_what_it_needs(clinic: Corpus, private_model: GraphClassifier) -> None:
    for documents in (clinic, {"text": ["a letter"]}):
        with pytest.raises(ConfigError, match=r"Corpus\.from_frame.*predict corpus\.test"):
            private_model.predict(documents, inference="full-graph")


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


def test_how_documents_were_read_voids_no_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who takes warnings about privacy for errors can train on what only wants a remark."""
    frame = small_frame(split=False)
    frame["label"][0] = None
    monkeypatch.setattr(classifier, "_fits", [])
    with pytest.warns(DataWarning, match="have no label") as found:
        GraphClassifier(8.0, 1e-3, unit="document", features="hashing").fit(frame)
    assert PrivacyWarning not in {warning.category for warning in found}


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


# --- what users of other libraries bring ------------------------------------------------------


def test_every_expectation_of_other_libraries_has_its_test() -> None:
    tests = Path(__file__).parents[1]
    page = tests.parent / "docs" / "how-to" / "coming-from.md"
    rows = [line for line in page.read_text("utf-8").splitlines() if line.startswith("| ")]
    named = {row.rsplit("| ", 1)[1] for row in rows} - {"test |", "--- |"}
    code = "".join(path.read_text("utf-8") for path in tests.rglob("test_*.py"))
    assert named <= {f"`{name}` |" for name in re.findall(r"def (test_\w+)", code)}


def test_noise_is_not_seeded_by_a_random_state() -> None:
    def probabilities(**changes: Any) -> Any:
        model = GraphClassifier(4.0, 1e-3, random_state=1, **changes).fit(VECTORS, NUMBERS)
        assert model.statement_ is not None
        assert model.statement_.releasable == ("reproducible" not in changes)
        return model.predict_proba(VECTORS)

    assert (probabilities() != probabilities()).any()
    first, second = (probabilities(reproducible=True) for _ in range(2))
    assert np.array_equal(first, second)


def test_owners_go_through_metadata_routing() -> None:
    owners = np.arange(60) // 3
    with config_context(enable_metadata_routing=True):
        model = GraphClassifier(8.0, 1e-2, unit="person").set_fit_request(owners=True)
        routed = {"owners": owners, "groups": owners}
        scores = cross_val_score(model, VECTORS, NUMBERS, cv=GroupKFold(3), params=routed)
    assert np.isfinite(scores).all()


def test_documents_come_in_many_forms() -> None:
    class Dataset:
        """As ``datasets`` has it: names, and columns by name."""

        column_names = ("text", "label")

        def __getitem__(self, name: str) -> Any:
            return {"text": texts, "label": labels}[name]

    texts, labels = small_texts()
    model = GraphClassifier(8.0, 1e-3, features="static")
    for form in (Dataset(), pl.DataFrame({"text": texts, "label": labels})):
        assert model.fit(form).classes_.tolist() == sorted(WORDS)
    assert model.fit(texts, labels).predict(["the courier lost my parcel"]) == ["delivery"]
    assert "nothing from these texts" in " ".join(str(model.statement_).split())
    with pytest.raises(ConfigError, match="list of texts"):
        model.predict("the courier lost my parcel")
    with pytest.raises(DataError, match=r"'text' of .* must not be empty.*row 0"):
        model.predict([None, "the courier lost my parcel"])
    given = GraphClassifier(8.0, 1e-3).fit(VECTORS, NUMBERS)
    assert "the vectors themselves" in str(given.statement_)


@pytest.mark.parametrize(
    ("column", "match"),
    [
        ({"label": ["Skin", "skin"] * 20}, "differ only"),
        ({"id": ["a"] * 40}, "must be its own"),
        ({"owner": ["p"] * 39 + [""]}, "for all documents or for none"),
        ({"text": None, "texts": ["a"] * 40}, "Rename 'texts' to 'text'"),
    ],
)
def test_a_dirty_table_is_refused(column: dict[str, Any], match: str) -> None:
    frame = {"text": ["a letter"] * 40, "label": ["a", "b"] * 20, **column}
    frame = {name: values for name, values in frame.items() if values is not None}
    with pytest.raises(DataError, match=match):
        GraphClassifier(4.0, 1e-3, unit="document").fit(frame)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_data_of_pytorch_geometric_is_enough() -> None:
    split = ["train"] * 45 + ["test"] * 15
    frame = {"text": ["-"] * 60, "label": NUMBERS.tolist(), "split": split}
    data = Corpus.from_frame(frame, edges=[(row, row + 1) for row in range(59)]).to_pyg()
    data.x = torch.tensor(VECTORS, dtype=torch.float32)
    model = GraphClassifier(8.0, 1e-3).fit(data)
    assert model.statement_ is not None
    assert model.statement_.plan.units == 45
    assert model.predict(data).shape == (60,)
    assert model.score(data) == model.score(Corpus.from_pyg(data).test)
    assert data.edge_index.shape == (2, 118)
    assert Corpus.from_pyg(data).edges.shape == (2, 59)
    with pytest.raises(ConfigError, match="must be left out"):
        model.fit(data, NUMBERS)
    data.edge_weight = data.edge_index[0].float()
    with pytest.raises(DataError, match="no weights"):
        model.fit(data)


def test_a_module_comes_back_trained() -> None:
    class Net(torch.nn.Linear):
        def forward(self, x: Any, edge_index: Any) -> Any:
            return super().forward(x)

    given = Net(5, 2)
    model = GraphClassifier(4.0, 1e-3, module=given, parts=6, settings={"training.epochs": 3})
    trained = model.fit(VECTORS, NUMBERS).module_
    assert isinstance(trained, Net)
    assert not trained.training
    assert (trained.weight != given.weight).any()
