"""Predictions never take training documents for new ones, nor call themselves covered."""

import json
import os
from pathlib import Path

import pytest

from privgcn import GraphClassifier
from privgcn.cli.train import train_and_write
from privgcn.config import MODES, make_settings
from privgcn.data import load_corpus
from privgcn.data.corpus import TRAIN
from privgcn.runs.predictions import predict_source
from privgcn.runs.release import write_release
from privgcn.runs.run import Run

SEED = 5


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents without a split of their own: the seed of the run draws it."""
    folder = tmp_path_factory.mktemp("house") / "letters"
    folder.mkdir()
    words = ("pulse pressure valve beat", "rash itch cream spot")
    rows = [
        {"id": f"d{i}", "text": f"{words[i % 2]} {i % 7}", "label": "ab"[i % 2]}
        for i in range(60)
    ]
    (folder / "documents.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def trained(letters: Path, run: Path, epsilon: float | None) -> Path:
    changes = {"data.source": str(letters), "training.epochs": 2}
    if epsilon is not None:
        changes["privacy.delta"] = 1e-3
    settings = make_settings(epsilon=epsilon, seed=SEED, changes=changes)
    train_and_write(settings, run)
    return run


def test_however_the_runs_own_folder_is_spelled_no_training_document_is_predicted(
    tmp_path: Path, letters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(letters, tmp_path / "run", 2.0)
    corpus = load_corpus(str(letters), seed=SEED)
    expected = set(corpus.ids[corpus.split != TRAIN])
    link = tmp_path / "link"
    link.symlink_to(letters)
    monkeypatch.chdir(letters.parent)
    for source in (letters, f"{letters}/", "letters", "./letters", "letters/../letters", link):
        found = predict_source(run, os.fspath(source), "own-graph")
        assert set(found.ids) == expected, source


def test_only_predictions_without_training_documents_are_covered(
    tmp_path: Path, letters: Path
) -> None:
    run = trained(letters, tmp_path / "run", 2.0)
    found = {mode: predict_source(run, str(letters), mode).covered for mode in MODES}
    assert found == {"alone": True, "own-graph": True, "full-graph": False}


@pytest.mark.parametrize("mode", MODES)
def test_predictions_of_a_run_without_privacy_are_not_covered(
    tmp_path: Path, letters: Path, mode: str
) -> None:
    run = trained(letters, tmp_path / "run", None)
    assert predict_source(run, str(letters), mode).covered is False


def test_a_run_finds_the_split_of_its_own_seed_again(tmp_path: Path, letters: Path) -> None:
    """Else evaluation would score training documents as new ones."""
    run = trained(letters, tmp_path / "run", 2.0)
    split = load_corpus(str(letters), seed=SEED).split
    assert (Run(run).corpus().split == split).all()
    assert (load_corpus(str(letters), seed=0).split != split).any()


def test_where_the_documents_lay_is_kept_by_a_saved_model_and_not_released(
    tmp_path: Path, letters: Path
) -> None:
    run = trained(letters, tmp_path / "run", 2.0)
    GraphClassifier.load(run).save(tmp_path / "model")
    saved = Run(tmp_path / "model")
    assert saved.settings == Run(run).settings
    assert saved.settings.data.source == str(letters)
    write_release(saved, tmp_path / "release", {})
    assert Run(tmp_path / "release").settings.data.source is None
    for path in (tmp_path / "release").iterdir():
        assert str(letters).encode() not in path.read_bytes(), path.name
