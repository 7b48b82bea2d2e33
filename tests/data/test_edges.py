"""Edges in every form that somebody has them in; the rules are in ``test_documents``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import coo_matrix, csr_array

from privgcn.data import Corpus, load_corpus
from privgcn.data.edges import canonical_edges
from privgcn.errors import DataError

TEXTS = list("abcd")


def test_rows_in_small_integers_keep_edges_of_many_documents() -> None:
    """SciPy has its indices in 32 bits, and a pair of them needs more."""
    ends = np.array([[99_998, 5], [99_997, 99_999]], dtype=np.int32)
    assert canonical_edges(*ends, 100_000).T.tolist() == [[5, 99_999], [99_997, 99_998]]


@pytest.mark.parametrize(
    "edges",
    [
        [(0, 2), (1, 3)],
        np.array([[0, 2], [1, 3]]),
        np.array([[0, 2], [1, 3], [3, 1]]),
        np.array([[0, 1, 0], [2, 3, 2]]),
        coo_matrix(([1, 1], ([0, 3], [2, 1])), shape=(4, 4)),
        csr_array(([True, True], ([2, 1], [0, 3])), shape=(4, 4)),
        coo_matrix(([1, 0, 1], ([0, 1, 3], [2, 2, 1])), shape=(4, 4)),
        {"source": [0, 1], "target": [2, 3]},
        iter([(0, 2), (1, 3)]),
        torch.tensor([[0, 1], [2, 3]]),
    ],
    ids=[
        *("pairs", "array", "rows", "edge_index", "coo", "csr", "stored zero"),
        *("mapping", "iterator", "tensor"),
    ],
)
def test_edges_come_in_every_form(edges: Any) -> None:
    assert Corpus.from_texts(TEXTS, edges=edges).edges.T.tolist() == [[0, 2], [1, 3]]


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ([(0, 4)], "row of the 4 documents, counted from 0. Got '4'"),
        ([(0, -1)], "Got '-1'"),
        (np.array([[0, 1, 2], [1, 2, 9]]), "4 documents, counted from 0. Got 9"),
        (np.array([[0, 1, 2], [1, 2, -9]]), "Got -9"),
        ([("a", "b")], "give them ids"),
        ([(0, 1, 0.5)], r"without a weight. Got \(0, 1, 0.5\) as edge 0"),
        ([(0, 1), (0,)], r"Got \(0,\) as edge 1"),
        ([0, 1], "Got 0 as edge 0"),
        ({"source": [0], "target": [1, 2]}, "each of the 1 edges"),
        (coo_matrix(([1, 2], ([0, 1], [1, 2])), shape=(4, 4)), "no weights"),
        (coo_matrix((3, 3)), "each of the 4 documents"),
        (torch.tensor([0, 1]), r"shape \[2, edges\]"),
        (torch.tensor([[0.0], [1.0]]), "whole numbers"),
    ],
)
def test_what_is_no_edge_is_refused(edges: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        Corpus.from_texts(TEXTS, edges=edges)
    with pytest.raises(DataError, match=r"id of a document\. Got 'x' in row 0"):
        Corpus.from_texts(TEXTS, edges=[("a", "x")], ids=TEXTS)


@pytest.mark.parametrize("order", ["C", "F"])
def test_numbered_edges_of_a_file(tmp_path: Path, order: Any) -> None:
    (tmp_path / "documents.csv").write_text("id,text\n007,a\n8,b\n9,c\n10,d\n")
    ends = np.array([[0, 3, 1], [2, 1, 1]], dtype=np.int32, order=order)
    np.save(tmp_path / "edges.npy", ends)
    corpus = load_corpus(tmp_path)
    assert corpus.edges.tolist() == [[0, 1], [2, 3]]
    assert "of a document with itself: 1" in corpus.summary
