"""Predictions never take training documents for new ones, nor call themselves covered."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from builders import run_folder, small_frame, small_settings, write_corpus
from privgcn.config import MODES
from privgcn.data import TRAIN, load_corpus
from privgcn.errors import ConfigError, DataError
from privgcn.runs.classifier import GraphClassifier
from privgcn.runs.predictions import Predictions, predict_source
from privgcn.runs.run import Run, write_release

SEED = 5


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents without a split of their own: the seed of the run makes it."""
    folder = tmp_path_factory.mktemp("house") / "letters"
    return write_corpus(folder, small_frame(split=False))


def trained(letters: Path, folder: Path, epsilon: float | None = 2.0) -> Path:
    chosen = small_settings(
        epsilon=epsilon, seed=SEED, data__source=str(letters), training__epochs=2
    )
    return run_folder(folder, load_corpus(letters, seed=SEED), chosen)


@pytest.fixture(scope="module")
def run(letters: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(letters, tmp_path_factory.mktemp("runs") / "run")


def test_however_the_runs_own_folder_is_spelled_no_training_document_is_predicted(
    tmp_path: Path, letters: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = load_corpus(letters, seed=SEED)
    # A run makes the split of its own seed again.
    assert (Run(run).corpus().split == corpus.split).all()
    assert (load_corpus(letters, seed=0).split != corpus.split).any()
    expected = {str(corpus.ids[row]) for row in np.flatnonzero(corpus.split != TRAIN).tolist()}
    link = tmp_path / "link"
    link.symlink_to(letters)
    monkeypatch.chdir(letters.parent)
    for source in (letters, f"{letters}/", "letters", "letters/../letters", link):
        predictions = predict_source(run, os.fspath(source), "own-graph")
        assert set(predictions.ids) == expected, source
        assert predictions.left_out == 60 - len(expected)


# hazard 32
def test_coverage_says_for_whom(letters: Path, run: Path, tmp_path: Path) -> None:
    by_mode = {mode: predict_source(run, str(letters), mode) for mode in MODES}
    covered = {mode: predictions.covered for mode, predictions in by_mode.items()}
    assert covered == {"alone": True, "own-graph": True, "full-graph": False}
    assert "protects training documents: these were left out" in by_mode["alone"].coverage
    new = write_corpus(tmp_path / "new", {"id": ["a"], "text": ["a letter"]})
    words = predict_source(run, str(new), "alone").coverage
    assert "no exact copy of a training document among these" in words
    assert "none of these documents trained" not in words
    assert "answered as each one alone" not in words
    assert "answered as each one alone" in predict_source(run, str(new), "own-graph").coverage
    plain = trained(letters, tmp_path / "plain", None)
    for mode in MODES:
        assert predict_source(plain, str(letters), mode).covered is False
    for folder, source, mode, refused in (
        (run, new, "full-graph", "looks at training documents"),
        (run, new, "whole", "alone, own-graph, full-graph"),
        (tmp_path / "nowhere", new, "alone", "does not exist"),
    ):
        with pytest.raises((ConfigError, DataError), match=refused):
            predict_source(folder, str(source), mode)


# hazard 32
@pytest.mark.parametrize("mode", ["alone", "own-graph"])
def test_a_copy_of_a_training_document_elsewhere_is_named(
    letters: Path, run: Path, tmp_path: Path, mode: str
) -> None:
    corpus = load_corpus(letters, seed=SEED)
    row = int(np.flatnonzero(corpus.split == TRAIN)[0])
    again = f" {corpus.texts[row]}\n".title()
    frame = {"id": ["copy", "new"], "text": [again, "something else"]}
    predictions = predict_source(run, str(write_corpus(tmp_path / "new", frame)), mode)
    assert predictions.trained == ("copy",)
    assert predictions.covered is False
    assert "1 of 2 documents" in predictions.coverage
    assert ("of the others are covered" in predictions.coverage) == (mode == "alone")


def test_a_release_does_not_know_which_documents_trained_it(
    tmp_path: Path, letters: Path, run: Path
) -> None:
    GraphClassifier.load(run).save(tmp_path / "model")
    saved, release = Run(tmp_path / "model"), tmp_path / "release"
    assert saved.settings == Run(run).settings
    write_release(saved, release, {})
    for folder in (tmp_path / "model", release):
        assert predict_source(folder, str(letters), "alone").covered is None
    with pytest.raises(ConfigError, match="none is known to be among these, to a release"):
        predict_source(release, str(letters), "full-graph")


def test_new_documents_need_no_column_of_labels(tmp_path: Path, letters: Path) -> None:
    chosen = small_settings(data__source=str(letters), data__label="label")
    run = run_folder(tmp_path / "run", load_corpus(letters, label="label"), chosen)
    new = write_corpus(tmp_path / "new", {"id": ["a"], "text": ["a letter"]})
    assert list(predict_source(run, str(new), "alone").ids) == ["a"]


# hazard 31
def test_a_table_is_written_for_its_owner_and_no_cell_is_a_formula(tmp_path: Path) -> None:
    predictions = Predictions(
        ids=["=1+1", "-5", "@x", "-5+x"],
        classes=np.array(["+a", "b"]),
        probabilities=np.array([[0.9, 0.1]] * 4),
        covered=True,
        coverage="",
        trained=(),
        left_out=0,
    )
    for path in (tmp_path / "table.csv", tmp_path / "table"):
        old = os.umask(0)
        try:
            predictions.write(path, all_classes=True)
        finally:
            os.umask(old)
        # hazard 26
        assert path.stat().st_mode & 0o777 == 0o600
        rows = list(csv.reader(path.read_text().splitlines()))
        every = ["probability of +a", "probability of b"]
        assert rows[0] == ["id", "label", "probability", *every]
        assert [row[0] for row in rows] == ["id", "'=1+1", "-5", "'@x", "'-5+x"]
        assert rows[1][1:] == ["'+a", "0.900000", "0.900000", "0.100000"]
