"""Corpora of documents that are in memory already."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.sparse import coo_matrix, csr_array

from privgcn.data import Corpus
from privgcn.errors import DataError

TEXTS = ["an invoice", "a parcel", "a refund", "a bill"]
LABELS = ["billing", "delivery", "returns", "billing"]
COLUMNS = {"text": TEXTS, "label": LABELS, "owner": ["ann", "bob", "ann", "cat"]}


def edges(corpus: Corpus) -> list[list[int]]:
    return corpus.edges.T.tolist()


def test_texts_labels_and_links_make_a_corpus() -> None:
    corpus = Corpus.from_texts(TEXTS, LABELS, links=[(0, 3), (3, 0), (1, 1), (2, 1)])
    assert corpus.texts == tuple(TEXTS)
    assert corpus.classes == ("billing", "delivery", "returns")
    assert corpus.labels.tolist() == [0, 1, 2, 0]
    assert edges(corpus) == [[0, 3], [1, 2]]
    assert str(corpus.read_report) == (
        "Read 4 documents in 3 classes and 2 links; left out 1 repeated, 1 to themselves."
    )
    assert corpus.facts.split_origin == "random"
    assert not corpus.facts.classes_declared


def frames() -> list[Any]:
    made: list[Any] = [COLUMNS, pl.DataFrame(COLUMNS)]
    for library, make in (("pandas", "DataFrame"), ("pyarrow", "table")):
        try:
            made.append(getattr(__import__(library), make)(COLUMNS))
        except ImportError:
            continue
    return made


@pytest.mark.parametrize("frame", frames(), ids=lambda frame: type(frame).__module__)
def test_frames_of_any_library_say_the_same(frame: Any) -> None:
    corpus = Corpus.from_frame(frame, classes=["billing", "returns", "delivery"])
    assert corpus.labels.tolist() == [0, 2, 1, 0]
    assert corpus.owners is not None
    assert corpus.owners.tolist() == [0, 1, 0, 2]
    assert corpus.owner_names == ("ann", "bob", "cat")
    assert corpus.facts.classes_declared


def test_a_frame_keeps_ids_split_and_other_columns() -> None:
    frame = pl.DataFrame(
        {**COLUMNS, "id": [7, 8, 9, 10], "split": ["train", "train", "test", "validation"]}
    ).with_columns(pl.Series("ward", ["a", None, "b", "a"]))
    corpus = Corpus.from_frame(frame, links=pl.DataFrame({"source": [7], "target": [10]}))
    assert corpus.ids.tolist() == ["7", "8", "9", "10"]
    assert corpus.split.tolist() == [0, 0, 2, 1]
    assert corpus.columns["ward"].tolist() == ["a", "", "b", "a"]
    assert edges(corpus) == [[0, 3]]


@pytest.mark.parametrize(
    "links",
    [
        [(0, 2), (1, 3)],
        np.array([[0, 2], [1, 3]]),
        np.array([[0, 1, 0], [2, 3, 2]]),
        coo_matrix(([1, 1], ([0, 3], [2, 1])), shape=(4, 4)),
        csr_array(([True, True], ([2, 1], [0, 3])), shape=(4, 4)),
        {"source": [0, 1], "target": [2, 3]},
        iter([(0, 2), (1, 3)]),
    ],
    ids=["pairs", "array", "edge_index", "coo", "csr", "mapping", "iterator"],
)
def test_links_come_in_every_form(links: Any) -> None:
    assert edges(Corpus.from_texts(TEXTS, links=links)) == [[0, 2], [1, 3]]


def test_links_may_be_a_tensor() -> None:
    import torch

    index = torch.tensor([[0, 1], [2, 3]])
    assert edges(Corpus.from_texts(TEXTS, links=index)) == [[0, 2], [1, 3]]
    with pytest.raises(DataError, match=r"shape \[2, links\]"):
        Corpus.from_texts(TEXTS, links=torch.tensor([0, 1]))


def test_missing_labels_are_no_class() -> None:
    corpus = Corpus.from_texts(TEXTS, ["a", None, float("nan"), "b"])
    assert corpus.labels.tolist() == [0, -1, -1, 1]
    assert Corpus.from_texts(TEXTS).classes == ()


def test_labels_keep_the_order_of_their_type() -> None:
    corpus = Corpus.from_texts(TEXTS, np.array([10, 9, 10, 9]))
    assert corpus.classes == ("9", "10")
    assert corpus.labels.tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"texts": "one text"}, "single text"),
        ({"texts": []}, "at least one document"),
        ({"texts": ["a", None]}, "must be a string. Got none in row 1"),
        ({"texts": ["a", 5]}, "Got '5', of type int in row 1"),
        ({"labels": ["a", "b"]}, "one entry for each of the 4 ids"),
        ({"labels": ["a", 1, "b", 2]}, "of one type"),
        ({"labels": ["a", "NaN", "b", "b"]}, "reads like a missing value"),
        ({"labels": LABELS, "classes": ["billing", "delivery"]}, "Got 'returns' in row 2"),
        ({"ids": ["a", "b", "a", "c"]}, "again in row 2"),
        ({"ids": ["a", None, "b", "c"]}, "must not be empty"),
        ({"owners": ["a", None, "b", "c"]}, "That in row 1 has none"),
        ({"links": [(0, 4)]}, "rows of the 4 documents, counted from 0. Got '4'"),
        ({"links": [("a", "b")]}, "give them ids"),
        ({"links": [(0, 1, 0.5)]}, "no weights"),
        ({"links": [(0,)]}, "has 1 values"),
        ({"links": [("a", "x")], "ids": ["a", "b", "c", "d"]}, "id of a document. Got 'x'"),
        ({"links": {"source": [0], "target": [1], "weight": [2]}}, "no weights"),
        ({"links": {"from": [0], "to": [1]}}, "'source' and 'target'. Got 'from', 'to'"),
        ({"links": coo_matrix(([1, 2], ([0, 1], [1, 2])), shape=(4, 4))}, "no weights"),
        ({"links": coo_matrix((3, 3))}, "each of the 4 documents"),
    ],
)
def test_a_broken_rule_is_named(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words.replace("[", r"\[")):
        Corpus.from_texts(**{"texts": TEXTS, **arguments})


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ({"texts": TEXTS}, "Rename 'texts' to 'text'"),
        ({"body": TEXTS}, "Rename the column with the texts to 'text'"),
        ({"text": TEXTS, "Label": LABELS}, "Got 'Label'. Rename it to 'label'"),
        ({"text": TEXTS, "split": ["train", "test", "dev", "test"]}, "Got 'dev' in row 2"),
    ],
)
def test_a_frame_that_is_nearly_one_of_documents_gets_a_hint(frame: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        Corpus.from_frame(frame)


def test_labels_are_given_once() -> None:
    with pytest.raises(DataError, match="given once"):
        Corpus.from_frame(COLUMNS, labels=LABELS)


@pytest.mark.filterwarnings("ignore")
class TestPyG:
    """Exchange with PyTorch Geometric."""

    def test_there_and_back_again(self) -> None:
        frame = {**COLUMNS, "split": ["train", "validation", "test", "train"]}
        corpus = Corpus.from_frame(frame, links=[(0, 1), (2, 3)])
        data = corpus.to_pyg()
        assert data.edge_index.shape == (2, 4)
        assert data.val_mask.tolist() == [False, True, False, False]
        assert data.is_undirected()
        again = Corpus.from_pyg(data)
        assert again.texts == corpus.texts
        assert again.vectors is None
        assert edges(again) == edges(corpus)
        for name in ("labels", "split", "owners"):
            np.testing.assert_array_equal(getattr(again, name), getattr(corpus, name))

    @pytest.mark.parametrize("sparse", [False, True])
    def test_vectors_come_dense_or_sparse(self, sparse: bool) -> None:
        import torch
        from torch_geometric.data import Data

        x = torch.eye(3)
        data = Data(x=x.to_sparse() if sparse else x, edge_index=torch.tensor([[0], [2]]))
        corpus = Corpus.from_pyg(data)
        vectors = corpus.vectors.toarray() if sparse else corpus.vectors
        np.testing.assert_array_equal(vectors, np.eye(3))
        assert corpus.split.tolist() == [0, 0, 0]
        assert corpus.labels.tolist() == [-1, -1, -1]
        np.testing.assert_array_equal(corpus.to_pyg().x, x)

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"edge_attr": "ones"}, "no weights"),
            ({"edge_weight": "ones"}, "no weights"),
            ({"y": "rows"}, "Several labels"),
            ({"train_mask": "all", "test_mask": "all"}, "must not overlap"),
            ({"train_mask": "rows"}, "choose one of its columns"),
        ],
    )
    def test_what_cannot_be_kept_is_refused(self, changes: dict[str, str], words: str) -> None:
        import torch
        from torch_geometric.data import Data

        made = {
            "ones": torch.ones(1),
            "rows": torch.ones(3, 2).bool(),
            "all": torch.ones(3).bool(),
        }
        data = Data(x=torch.eye(3), edge_index=torch.tensor([[0], [2]]))
        for name, kind in changes.items():
            data[name] = made[kind]
        with pytest.raises(DataError, match=words):
            Corpus.from_pyg(data)
