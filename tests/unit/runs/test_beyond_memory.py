"""Corpora beyond the memory bound are trained and predicted from disk, to the same bit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.runs.small_corpus import DOCUMENTS, small_corpus

from privgcn.config import MODES, make_settings
from privgcn.data import folder as corpus_folder
from privgcn.data import load_corpus, scratch
from privgcn.data.corpus import Corpus
from privgcn.data.scratch import ChosenRows, is_mapped
from privgcn.errors import DataError
from privgcn.graph import on_disk
from privgcn.graph.on_disk import RowsOnDisk, lies_on_disk
from privgcn.runs.fingerprints import Trained
from privgcn.runs.train import Prepared, train

TINY = {"training.memory": 0.0}


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_disk, "_BLOCK_BYTES", 1 << 9)
    monkeypatch.setattr(on_disk, "_BUCKET_BYTES", 1 << 10)
    monkeypatch.setattr(on_disk, "ROWS_AT_ONCE", 16)


def _settings(recipe: str, **changes: Any) -> Any:
    seeded = {"privacy.reproducible": True, **changes}
    return make_settings(recipe, epsilon=3.0, changes=seeded)


def _owned() -> Corpus:
    return small_corpus(
        owners=np.arange(DOCUMENTS) % 12 // 4 * 10 + np.arange(DOCUMENTS) % 4,
        owner_names=tuple(f"o{i}" for i in range(40)),
    )


@pytest.mark.parametrize(
    ("corpus", "recipe", "changes"),
    [
        (small_corpus(), "auto", {"features.kind": "hashing"}),
        (small_corpus(texts=False), "auto", {}),
        (_owned(), "auto", {"features.kind": "hashing", "privacy.unit": "person"}),
        (
            small_corpus(texts=False),
            "paper-split",
            {"privacy.parts": 4, "training.epochs": 3, "privacy.sampling": "all"},
        ),
    ],
)
def test_model_and_predictions_are_the_same(
    corpus: Corpus, recipe: str, changes: dict[str, Any]
) -> None:
    near = train(corpus, _settings(recipe, **changes))
    far = train(corpus, _settings(recipe, **changes, **TINY))
    assert near.model.fitted.serialised() == far.model.fitted.serialised()
    assert isinstance(far.graph.features, RowsOnDisk)
    assert not isinstance(near.graph.features, RowsOnDisk)
    for mode in MODES:
        np.testing.assert_array_equal(near.predictions(mode), far.predictions(mode))
    assert near.scores == far.scores


def test_the_bound_counts_documents_and_features_alone() -> None:
    corpus = small_corpus(texts=False)
    exact = DOCUMENTS * 6 * 4 / 2**30
    for memory, on_file in ((exact, False), (exact * 0.99, True)):
        settings = _settings("auto", **{"training.memory": memory})
        rows = Prepared.of(corpus, settings).graph.features
        assert isinstance(rows, RowsOnDisk) == on_file
    empty = small_corpus(texts=False, vectors=np.zeros((DOCUMENTS, 6), dtype=np.float32))
    settings = _settings("auto", **{"training.memory": exact * 0.99})
    assert isinstance(Prepared.of(empty, settings).graph.features, RowsOnDisk)


def test_how_many_documents_people_have_does_not_choose_the_road() -> None:
    # More than all documents take, and less than forty owners may have.
    bound = 2 * DOCUMENTS * 6 * 4 / 2**30
    settings = _settings("auto", **{"privacy.unit": "person", "training.memory": bound})
    for owners in (np.arange(DOCUMENTS) % 40, np.zeros(DOCUMENTS, dtype=np.int64)):
        corpus = small_corpus(
            texts=False, owners=owners, owner_names=tuple(f"o{i}" for i in range(40))
        )
        assert isinstance(Prepared.of(corpus, settings).graph.features, RowsOnDisk)


def _folder(path: Path, corpus: Corpus, links: np.ndarray) -> str:  # type: ignore[type-arg]
    names = ("train", "validation", "test")
    lines = ["id,label,split"]
    for name, label, split in zip(corpus.ids, corpus.labels, corpus.split, strict=True):
        lines.append(f"{name},{corpus.classes[label]},{names[split]}")
    (path / "documents.csv").write_text("\n".join(lines) + "\n")
    np.save(path / "features.npy", corpus.vectors)
    np.save(path / "edges.npy", links)
    return str(path)


def test_a_folder_is_never_taken_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_folder, "_MOST_IN_MEMORY", 1)
    monkeypatch.setattr(scratch, "LINKS_AT_ONCE", 50)
    corpus = small_corpus(texts=False)
    twice = np.concatenate([corpus.edges, corpus.edges[::-1], [[3], [3]]], axis=1)
    found = load_corpus(_folder(tmp_path, corpus, twice.astype(np.int32)))
    assert isinstance(found.vectors, ChosenRows)
    assert is_mapped(found.edges.ctypes.data)
    np.testing.assert_array_equal(found.edges, corpus.edges)
    assert found.read_report is not None
    assert (found.read_report.links_repeated, found.read_report.links_to_self) == (116, 1)
    ready = Prepared.of(found, _settings("auto", **TINY))
    rows = ready.train.features
    assert isinstance(rows, RowsOnDisk)
    assert lies_on_disk(rows.kept.values)
    assert lies_on_disk(ready.train.edges)
    far = train(found, _settings("auto", **TINY))
    near = train(corpus, _settings("auto"))
    assert far.model.fitted.serialised() == near.model.fitted.serialised()
    assert far.scores == near.scores
    # Fingerprints of vectors do not depend on where they lie.
    memory = Trained.of(found, None)
    assert memory.seen(corpus, own=False).tolist() == (corpus.split == 0).tolist()


@pytest.mark.parametrize(
    ("links", "rule"),
    [
        ([[0, 1, 2]], "two rows"),
        ([[0, 1], [2, DOCUMENTS]], f"from 0 to {DOCUMENTS - 1}"),
        ([[0, -1], [2, 3]], "Count documents from 0"),
        ([[0.5, 1], [2, 3]], "numeric array"),
    ],
)
def test_links_by_number_are_checked(
    links: Sequence[Sequence[float]], rule: str, tmp_path: Path
) -> None:
    source = _folder(tmp_path, small_corpus(texts=False), np.array(links))
    with pytest.raises(DataError, match=rule):
        load_corpus(source)
