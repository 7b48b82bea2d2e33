"""Fingerprints recognise what a run has seen, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from privgcn import Corpus, load_corpus
from privgcn.data.corpus import no_edges
from privgcn.runs.fingerprints import Trained


@pytest.fixture(scope="module")
def clinic() -> Corpus:
    return load_corpus("clinic")


def of_vectors(rows: object, names: str = "d") -> Corpus:
    count = rows.shape[0]  # type: ignore[attr-defined]
    return Corpus(
        name="vectors",
        ids=np.array([f"{names}{row}" for row in range(count)]),
        vectors=rows,
        labels=np.arange(count) % 2,
        classes=("a", "b"),
        edges=no_edges(),
        split=np.zeros(count, dtype=np.int8),
    )


def test_the_training_documents_of_the_corpus_are_found_and_no_others(clinic: Corpus) -> None:
    for unit in ("document", "person"):
        trained = Trained.of(clinic, unit)
        assert np.array_equal(trained.seen(clinic, own=True), clinic.split == 0)
        assert np.array_equal(trained.validated(clinic), clinic.split == 1)


def test_they_survive_json(clinic: Corpus) -> None:
    trained = Trained.of(clinic, "person")
    assert Trained.model_validate_json(trained.to_json()) == trained
    assert str(clinic.ids[0]) not in trained.to_json().replace(trained.key, "")


def test_two_runs_share_no_fingerprint(clinic: Corpus) -> None:
    first, second = Trained.of(clinic, None), Trained.of(clinic, None)
    assert not first.ids & second.ids
    assert not first.contents & second.contents


def test_vectors_are_recognised_however_they_are_stored() -> None:
    rows = np.random.default_rng(0).normal(size=(10, 5)).astype(np.float32)
    rows[:, 2] = 0.0
    trained = Trained.of(of_vectors(rows[:6]), None)
    for kept in (rows, sp.csr_matrix(rows), sp.csc_matrix(rows).tocsr()):
        found = trained.seen(of_vectors(kept, names="other"), own=False)
        assert found.tolist() == [True] * 6 + [False] * 4


def test_empty_documents_are_not_all_the_same() -> None:
    rows = np.zeros((4, 3), dtype=np.float32)
    trained = Trained.of(replace(of_vectors(rows), texts=("", " ", "", "")), None)
    other = replace(of_vectors(rows, names="other"), texts=("", "\n", "", ""))
    assert not trained.contents
    assert not trained.seen(other, own=False).any()


def test_an_owner_tells_only_at_home_and_only_where_people_are_protected(
    clinic: Corpus,
) -> None:
    texts = tuple(f"new {row}" for row in range(len(clinic)))
    names = np.array([f"new {row}" for row in range(len(clinic))])
    later = replace(clinic, texts=texts, ids=names)
    assert Trained.of(clinic, "person").seen(later, own=True).sum() == (clinic.split == 0).sum()
    assert not Trained.of(clinic, "person").seen(later, own=False).any()
    assert not Trained.of(clinic, "document").seen(later, own=True).any()
