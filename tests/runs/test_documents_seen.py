"""Keyed hashes recognise what a run was trained on, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from safetensors.numpy import save

from builders import small_corpus, two_class_corpus
from privgcn.data import Corpus
from privgcn.errors import DataError
from privgcn.runs.documents_seen import DocumentsSeen
from privgcn.runs.folder import SEEN, write_folder
from privgcn.runs.run import Run


@pytest.fixture(scope="module")
def corpus() -> Any:
    return small_corpus(owners=20)


def of_vectors(rows: Any, names: str = "d") -> Corpus:
    count = rows.shape[0]
    return Corpus(
        name="vectors",
        ids=np.array([f"{names}{row}" for row in range(count)]),
        vectors=rows,
        labels=np.arange(count) % 2,
        classes=("a", "b"),
        edges=np.zeros((2, 0), np.int64),
        split=np.zeros(count, dtype=np.int8),
    )


@pytest.mark.parametrize("unit", ["document", "person"])
def test_the_training_documents_of_the_corpus_and_no_others(corpus: Corpus, unit: str) -> None:
    seen = DocumentsSeen.of(corpus, unit)
    assert np.array_equal(seen.among(corpus, own=True), corpus.split == 0)
    assert np.array_equal(seen.validated(corpus), corpus.split == 1)


def test_they_survive_the_way_to_disk(corpus: Corpus, tmp_path: Any) -> None:
    seen = DocumentsSeen.of(corpus, "person")
    write_folder(tmp_path / "run", "run", {SEEN: seen.content()})
    again = Run(tmp_path / "run").documents_seen
    assert again is not None
    assert all(map(np.array_equal, again, seen))
    write_folder(tmp_path / "model", "model", {})
    assert Run(tmp_path / "model").documents_seen is None


# hazard 27
def test_hashes_lie_sorted_hold_no_id_and_are_those_of_no_other_run(corpus: Corpus) -> None:
    seen, other = (DocumentsSeen.of(corpus, "person") for _ in range(2))
    for hashes, others in zip(seen[1:], other[1:], strict=True):
        assert (np.diff(hashes.astype(object)) > 0).all()
        assert not np.isin(hashes, others).any()
    assert b"d17" not in seen.content().replace(seen.key.tobytes(), b"")


def test_vectors_are_recognised_however_they_are_stored(tmp_path: Any) -> None:
    rows = np.random.default_rng(0).normal(size=(10, 5)).astype(np.float32)
    rows[:, 2] = 0.0
    mapped = np.memmap(tmp_path / "rows", np.float32, "w+", shape=rows.shape)
    mapped[:] = rows
    seen = DocumentsSeen.of(of_vectors(rows[:6]), None)
    for stored in (rows, mapped, sp.csr_matrix(rows), sp.csc_matrix(rows).tocsr()):
        copies = seen.among(of_vectors(stored, names="other"), own=False)
        assert copies.tolist() == [True] * 6 + [False] * 4


def test_empty_documents_are_not_all_the_same() -> None:
    rows = np.zeros((4, 3), dtype=np.float32)
    seen = DocumentsSeen.of(
        replace(of_vectors(rows), vectors=rows, texts=("", " ", "", "")), None
    )
    other = replace(of_vectors(rows, "other"), vectors=rows, texts=("", "\n", "", ""))
    assert len(seen.training) == 4, "ids alone"
    assert not seen.among(other, own=False).any()


def test_an_owner_tells_only_at_home_and_only_where_people_are_protected(
    corpus: Corpus,
) -> None:
    renamed = [f"new {row}" for row in range(len(corpus))]
    later = replace(corpus, texts=tuple(renamed), ids=np.array(renamed))
    training = int((corpus.split == 0).sum())
    assert DocumentsSeen.of(corpus, "person").among(later, own=True).sum() == training
    assert not DocumentsSeen.of(corpus, "person").among(later, own=False).any()
    assert not DocumentsSeen.of(corpus, "document").among(later, own=True).any()


def test_a_held_out_copy_of_a_training_document_stays_held_out() -> None:
    corpus = two_class_corpus()
    seen = DocumentsSeen.of(corpus, "document")
    assert corpus.texts[0] in corpus.texts[2:]
    assert np.array_equal(seen.among(corpus, own=True), corpus.split == 0)
    assert seen.among(corpus, own=False).sum() > (corpus.split == 0).sum()


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        save({"key": np.zeros(32, np.uint8)}),
        lambda a: {**a, "more": np.zeros(1)},
        lambda a: {**a, "key": np.zeros(31, np.uint8)},
        lambda a: {**a, "training": a["training"].astype(np.int64)},
        lambda a: {**a, "test": a["test"].reshape(1, -1)},
    ],
)
def test_what_is_no_list_of_hashes_is_refused(
    corpus: Corpus, tmp_path: Any, damage: Any
) -> None:
    seen = DocumentsSeen.of(corpus, None)
    if callable(damage):
        damage = save(damage({name: array.copy() for name, array in seen._asdict().items()}))
    write_folder(tmp_path / "run", "run", {SEEN: damage})
    with pytest.raises(DataError, match="cannot be read"):
        _ = Run(tmp_path / "run").documents_seen
