"""Keyed hashes recognise what a run was trained on, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from builders import small_corpus, two_class_corpus
from privgcn.data import OUTSIDE, TRAIN, Corpus
from privgcn.runs.documents_seen import DocumentsSeen
from privgcn.runs.folder import SEEN, write_folder
from privgcn.runs.run import Run


@pytest.fixture(scope="module")
def corpus() -> Any:
    return small_corpus(owners=20)


def trained(seen: DocumentsSeen, corpus: Corpus, *, own: bool = False) -> Any:
    return seen.roles(corpus, own=own) == TRAIN


# hazard 27
def test_the_training_documents_and_no_others_are_known_from_disk(
    corpus: Corpus, tmp_path: Path
) -> None:
    seen, other = (DocumentsSeen.of(corpus) for _ in range(2))
    for kind in ("run", "model"):
        write_folder(tmp_path / kind, kind, {SEEN: seen.content()})
    assert np.array_equal(Run(tmp_path / "run").roles(corpus, own=True), corpus.split)
    assert (Run(tmp_path / "model").roles(corpus, own=True) == OUTSIDE).all()
    # Hashes lie sorted, hold no id and are those of no other run.
    for hashes, others in zip(seen[1:], other[1:], strict=True):
        assert (np.diff(hashes.astype(object)) > 0).all()
        assert not np.isin(hashes, others).any()
    assert b"d17" not in seen.content().replace(seen.key.tobytes(), b"")


def test_contents_are_recognised_however_they_are_stored(tmp_path: Path) -> None:
    rows = np.array(two_class_corpus(worded=False).vectors)
    rows[:, 2] = 0.0
    mapped = np.memmap(tmp_path / "rows", np.float32, "w+", shape=rows.shape)
    mapped[:] = rows
    seen = DocumentsSeen.of(two_class_corpus(worded=False, vectors=rows))
    ids = np.arange(1000, 1120).astype(str)
    for stored in (rows, mapped, sp.csr_matrix(rows), sp.csc_matrix(rows).tocsr()):
        corpus = two_class_corpus(worded=False, vectors=stored, ids=ids)
        assert np.array_equal(trained(seen, corpus), corpus.split == 0)
    # Empty documents are not all the same.
    empty, other = (two_class_corpus(texts=(each,) * 120) for each in ("", " \n"))
    seen = DocumentsSeen.of(empty)
    assert len(seen.training) == 60, "ids alone"
    assert not trained(seen, replace(other, ids=ids)).any()


def test_a_text_is_the_same_in_upper_and_lower_case_and_every_form() -> None:
    seen = DocumentsSeen.of(two_class_corpus(texts=("Die große\u00a0Straße",) * 120))
    again = two_class_corpus(texts=("DIE GROSSE  STRASSE",) * 120)
    assert trained(seen, again).all()


def test_a_text_that_reads_like_the_id_of_a_training_document_is_new() -> None:
    corpus = two_class_corpus()
    named = replace(corpus, texts=tuple(map(str, corpus.ids)))
    assert not trained(DocumentsSeen.of(corpus), named).any()


def test_a_held_out_copy_of_a_training_document_stays_held_out() -> None:
    corpus = two_class_corpus()
    seen = DocumentsSeen.of(corpus)
    assert corpus.texts[0] in corpus.texts[2:]
    assert np.array_equal(trained(seen, corpus, own=True), corpus.split == 0)
    assert trained(seen, corpus).sum() > (corpus.split == 0).sum()
