"""A saved model with a centre predicts as it did, and a damaged one is refused."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from safetensors.torch import load_file, save

from privgcn import GraphClassifier, load_corpus
from privgcn.errors import DataError, PrivacyContractError
from privgcn.runs.folder import MODEL, WEIGHTS, read_folder, write_folder
from privgcn.runs.model import read_model


def vectors(documents: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Dense rows that all point one way."""
    random = np.random.default_rng(0)
    labels = np.arange(documents) % 3
    rows = 5.0 + random.normal(size=(3, 12))[labels] + random.normal(size=(documents, 12)) / 2
    return rows.astype(np.float32), labels


def seal(folder: Path, changes: dict[str, str | bytes]) -> None:
    """Replaces files, and gives the folder a manifest that fits."""
    files = {**read_folder(folder).files, **changes}
    write_folder(folder, "model", files, overwrite=True)


@pytest.fixture
def saved(tmp_path: Path) -> tuple[GraphClassifier, Path]:
    rows, labels = vectors()
    model = GraphClassifier(epsilon=8.0, delta=1e-4).fit(rows, labels)
    model.save(tmp_path / "model")
    return model, tmp_path / "model"


def test_a_saved_model_keeps_its_centre(saved: tuple[GraphClassifier, Path]) -> None:
    model, folder = saved
    assert load_file(folder / WEIGHTS)["centre"].any()
    rows, _ = vectors()
    read = GraphClassifier.load(folder)
    for inference in ("alone", "own-graph"):
        expected = model.predict_proba(rows, inference=inference)
        assert np.array_equal(expected, read.predict_proba(rows, inference=inference))
    sparse = read.predict_proba(sp.csr_matrix(rows), inference="alone")
    assert np.allclose(sparse, model.predict_proba(rows, inference="alone"), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "damaged"),
    [
        pytest.param("centre", None, id="no centre"),
        pytest.param("centre", torch.zeros(1, 1), id="short centre"),
        pytest.param("centre", torch.zeros(12, 2), id="wide centre"),
        pytest.param("centre", torch.zeros(12, 1, dtype=torch.float64), id="float64 centre"),
        pytest.param("bias", None, id="no bias"),
        pytest.param("bias", torch.zeros(1, 2), id="short bias"),
        pytest.param("bias", torch.full((1, 3), torch.inf), id="infinite bias"),
    ],
)
def test_a_damaged_tensor_is_refused(
    saved: tuple[GraphClassifier, Path], name: str, damaged: torch.Tensor | None
) -> None:
    _, folder = saved
    tensors = load_file(folder / WEIGHTS)
    del tensors[name]
    if damaged is not None:
        tensors[name] = damaged
    seal(folder, {WEIGHTS: save(tensors)})
    with pytest.raises(DataError, match=name):
        read_model(read_folder(folder))
    with pytest.raises(PrivacyContractError, match="digest of its statement"):
        GraphClassifier.load(folder)


@pytest.mark.parametrize("dense", [True, False])
def test_a_balanced_model_predicts_as_it_did(tmp_path: Path, dense: bool) -> None:
    rows, labels = vectors()
    given = rows if dense else sp.csr_matrix(rows)
    model = GraphClassifier(epsilon=8.0, delta=1e-4, balanced=True).fit(given, labels)
    model.save(tmp_path / "model")
    read = GraphClassifier.load(tmp_path / "model")
    assert read.balanced is True
    for inference in ("alone", "own-graph"):
        expected = model.predict_proba(given, inference=inference)
        assert np.array_equal(expected, read.predict_proba(given, inference=inference))


def test_a_model_with_class_names_predicts_as_it_did(tmp_path: Path) -> None:
    clinic = load_corpus("clinic")
    model = GraphClassifier(epsilon=4.0).fit(clinic.train)
    model.save(tmp_path / "model")
    assert load_file(tmp_path / "model" / WEIGHTS)["names"].any()
    read = GraphClassifier.load(tmp_path / "model")
    for inference in ("alone", "own-graph"):
        expected = model.predict_proba(clinic.test, inference=inference)
        assert np.array_equal(expected, read.predict_proba(clinic.test, inference=inference))


def test_names_that_were_read_off_the_labels_are_not_used() -> None:
    clinic = load_corpus("clinic")
    facts = replace(clinic.facts, classes_declared=False)
    model = GraphClassifier(epsilon=4.0).fit(replace(clinic, facts=facts).train)
    assert model._model.fitted.names is None


def test_a_model_of_an_older_format_is_refused(saved: tuple[GraphClassifier, Path]) -> None:
    _, folder = saved
    record = json.loads((folder / MODEL).read_text())
    seal(folder, {MODEL: json.dumps({**record, "format": 1})})
    with pytest.raises(DataError, match="format"):
        GraphClassifier.load(folder)
