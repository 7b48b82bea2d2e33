"""GraphClassifier keeps scikit-learn's contract."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from privgcn import GraphClassifier, load_corpus
from privgcn.errors import ConfigError, DataError, PrivacyContractError

QUICK = {"training.epochs": 40, "training.learning_rate": 0.05}


@pytest.fixture(scope="module")
def clinic():
    return load_corpus("clinic")


@pytest.fixture(scope="module")
def private_model(clinic):
    return GraphClassifier(epsilon=2.0, unit="person", features="hashing").fit(clinic.train)


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks_pass() -> None:
    outcomes = check_estimator(
        GraphClassifier(settings=QUICK),
        on_fail=None,
        on_skip=None,
        expected_failed_checks={
            "check_methods_subset_invariance": "scores are float32, the check asks for 1e-7"
        },
    )
    failed = [row["check_name"] for row in outcomes if row["status"] == "failed"]
    assert failed == []
    assert sum(row["status"] == "passed" for row in outcomes) > 40


def test_predictions_beat_the_majority_and_edges_help(clinic, private_model) -> None:
    alone = private_model.score(clinic.test, inference="alone")
    full = private_model.score(clinic.test, inference="full-graph")
    assert alone > 0.3
    assert full > alone + 0.1


def test_full_graph_needs_something_around_the_documents(clinic, private_model) -> None:
    with pytest.raises(ConfigError, match="full-graph"):
        private_model.predict(clinic, inference="full-graph")


def test_a_person_on_both_sides_of_the_split_is_refused(clinic) -> None:
    split = np.random.default_rng(0).integers(0, 3, len(clinic)).astype(np.int8)
    mixed = replace(clinic, split=split)
    with pytest.raises(PrivacyContractError, match="split by owner"):
        GraphClassifier(epsilon=1.0, unit="person").fit(mixed.train)


def test_unit_person_needs_owners() -> None:
    rng = np.random.default_rng(0)
    vectors, labels = rng.normal(size=(200, 5)), rng.integers(0, 2, 200)
    with pytest.raises(PrivacyContractError, match="owner"):
        GraphClassifier(epsilon=1.0, unit="person", delta=1e-4).fit(vectors, labels)


def test_validation_stops_a_plain_fit_early(clinic) -> None:
    slow = GraphClassifier(features="hashing", settings={"training.epochs": 400})
    slow.fit(clinic.train, validation=clinic.validation)
    assert slow.score(clinic.test, inference="full-graph") > 0.8


def test_validation_must_come_from_the_same_corpus(clinic) -> None:
    other = replace(clinic)
    with pytest.raises(ConfigError, match="validation"):
        GraphClassifier(settings=QUICK).fit(clinic.train, validation=other.validation)


def test_scoring_without_labels_is_refused(clinic, private_model) -> None:
    bare = replace(clinic.test, labels=np.full(len(clinic.test), -1))
    with pytest.raises(DataError, match="labels"):
        private_model.score(bare)


def test_a_broken_model_folder_is_one_clear_error(tmp_path, private_model) -> None:
    private_model.save(tmp_path / "model")
    suffixes = {path.suffix for path in (tmp_path / "model").iterdir()}
    assert suffixes == {".json", ".toml", ".safetensors"}
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(DataError, match="was edited"):
        GraphClassifier.load(tmp_path / "model")
    with pytest.raises(DataError, match="does not exist"):
        GraphClassifier.load(tmp_path / "nowhere")


def test_a_parameter_left_out_is_left_to_the_settings(clinic) -> None:
    chosen = {"privacy.epsilon": 2.0, "privacy.unit": "person", "privacy.delta": 1e-6}
    model = GraphClassifier(
        settings={**chosen, "training.epochs": 3, "features.kind": "hashing"}
    )
    assert clone(model).get_params() == model.get_params()
    assert model.get_params()["delta"] is None
    statement = clone(model).fit(clinic.train).statement_
    assert (statement.unit, statement.delta) == ("person", 1e-6)
    assert statement.epsilon <= 2.0
    spoken = GraphClassifier(epsilon=2.0, delta=1e-6, unit="person", settings=model.settings)
    assert spoken.fit(clinic.train).settings_ == model.fit(clinic.train).settings_
