"""Exchange with PyTorch Geometric."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from privgcn.data import Corpus
from privgcn.errors import DataError, MissingExtraError

torch = pytest.importorskip("torch")
Data = pytest.importorskip("torch_geometric.data").Data

pytestmark = pytest.mark.filterwarnings("ignore")

COLUMNS = {
    "text": ["an invoice", "a parcel", "a refund", "a bill"],
    "label": ["billing", "delivery", "returns", "billing"],
    "owner": ["ann", "bob", "ann", "cat"],
}


def test_there_and_back_again() -> None:
    frame = {**COLUMNS, "split": ["train", "validation", "test", "train"]}
    corpus = Corpus.from_frame(frame, edges=[(0, 1), (2, 3)])
    data = corpus.to_pyg()
    assert data.edge_index.shape == (2, 4)
    assert data.val_mask.tolist() == [False, True, False, False]
    assert data.is_undirected()
    again = Corpus.from_pyg(data)
    assert again.texts == tuple(corpus.texts or ())
    assert again.vectors is None
    assert again.edges.tolist() == corpus.edges.tolist()
    for name in ("labels", "split", "owners"):
        np.testing.assert_array_equal(getattr(again, name), getattr(corpus, name))


@pytest.mark.parametrize("sparse", [False, True])
def test_vectors_come_dense_or_sparse(sparse: bool) -> None:
    x = torch.eye(3)
    data = Data(x=x.to_sparse() if sparse else x, edge_index=torch.tensor([[0], [2]]))
    corpus = Corpus.from_pyg(data)
    vectors = corpus.vectors.toarray() if sparse else corpus.vectors
    np.testing.assert_array_equal(vectors, np.eye(3))
    assert corpus.split.tolist() == [0, 0, 0]
    assert corpus.labels.tolist() == [-1, -1, -1]
    np.testing.assert_array_equal(corpus.to_pyg().x, x)


ONES, ROWS, ALL = torch.ones(1), torch.ones(3, 2).bool(), torch.ones(3).bool()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"edge_attr": ONES}, "no weights"),
        ({"edge_weight": ONES}, "no weights"),
        ({"y": ROWS}, "Several labels"),
        ({"train_mask": ALL, "test_mask": ALL}, "must not overlap"),
        ({"train_mask": ROWS}, "choose one of its columns"),
    ],
)
def test_what_cannot_be_kept_is_refused(changes: dict[str, Any], words: str) -> None:
    data = Data(x=torch.eye(3), edge_index=torch.tensor([[0], [2]]), **changes)
    with pytest.raises(DataError, match=words):
        Corpus.from_pyg(data)


# hazard 23
def test_owners_of_a_data_may_be_names_or_numbers() -> None:
    data = Data(x=torch.eye(3), edge_index=torch.tensor([[0], [2]]))
    data.owners = torch.tensor([10, 9, 10])
    corpus = Corpus.from_pyg(data)
    assert corpus.owner_names == ("10", "9")
    assert corpus.owners is not None
    assert corpus.owners.tolist() == [0, 1, 0]
    data.owners = ["ann", " ann", "bob"]
    assert Corpus.from_pyg(data).owner_names == ("ann", "bob")
    data.owners = ["ann", "Ann", "bob"]
    with pytest.raises(DataError, match="upper and lower case"):
        Corpus.from_pyg(data)


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_geometric.data", None)
    with pytest.raises(MissingExtraError, match=r"privgcn\[graph\]"):
        Corpus.from_frame(COLUMNS).to_pyg()
