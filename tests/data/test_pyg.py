"""Exchange with PyTorch Geometric, and its datasets by name, offline."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from privgcn.data import Corpus, load_corpus
from privgcn.errors import DataError, DataNotAvailableError, MissingExtraError

pytest.importorskip("torch_geometric")


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
def test_what_cannot_be_kept_is_refused(changes: dict[str, str], words: str) -> None:
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


# hazard 23
def test_owners_of_a_data_may_be_names_or_numbers() -> None:
    import torch
    from torch_geometric.data import Data

    data = Data(x=torch.eye(3), edge_index=torch.tensor([[0], [2]]))
    data.owners = torch.tensor([10, 9, 10])
    corpus = Corpus.from_pyg(data)
    assert corpus.owner_names == ("9", "10")
    assert corpus.owners is not None
    assert corpus.owners.tolist() == [1, 0, 1]
    data.owners = ["ann", " ann", "bob"]
    assert Corpus.from_pyg(data).owner_names == ("ann", "bob")
    data.owners = ["ann", "Ann", "bob"]
    with pytest.raises(DataError, match="upper and lower case"):
        Corpus.from_pyg(data)


def _three_pages(folder: Path) -> None:
    """The raw files of WebKB with three pages; it has ten splits."""
    raw = folder / "webkb" / "cornell" / "raw"
    raw.mkdir(parents=True)
    (raw / "out1_node_feature_label.txt").write_text(
        "node_id\tfeature\tlabel\n0\t1,0\t0\n1\t0,1\t1\n2\t1,1\t0\n"
    )
    (raw / "out1_graph_edges.txt").write_text("a\tb\n0\t1\n1\t2\n")
    masks = {"train_mask": [1, 1, 0], "val_mask": [0, 0, 0], "test_mask": [0, 0, 1]}
    for number in range(10):
        name = f"cornell_split_0.6_0.2_{number}.npz"
        np.savez(raw / name, **{k: np.array(v) for k, v in masks.items()})


def test_what_is_missing_is_named_and_nothing_is_fetched_or_written(tmp_path: Path) -> None:
    with pytest.raises(DataNotAvailableError, match=r"Missing: ind\.cora\.x, ") as caught:
        load_corpus("pyg:Planetoid/Cora", data_dir=tmp_path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "planetoid" / "Cora" / "raw") in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_several_splits_are_refused_after_reading_the_raw_files(tmp_path: Path) -> None:
    _three_pages(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DataError, match=r"train_mask.*choose one of its columns"):
        load_corpus("pyg:WebKB/cornell", data_dir=tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pyg:", "named like pyg:Planetoid/Cora"),
        ("pyg:../../etc", "named like pyg:Planetoid/Cora"),
        ("pyg:Nothing/Cora", r"torch_geometric\.datasets. Got 'Nothing'"),
        ("pyg:Planetoid/Cora?colour=red", "It says: .*colour"),
        ("pyg:KarateClub?root=x", "It says: .*root"),
    ],
)
def test_wrong_names_are_refused_in_one_line(name: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=words) as caught:
        load_corpus(name, data_dir=tmp_path)
    assert "\n" not in str(caught.value)


def test_the_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    with pytest.raises(MissingExtraError, match=r"privgcn\[graph\]"):
        load_corpus("pyg:Planetoid/Cora", data_dir=tmp_path)


@pytest.mark.dataset
@pytest.mark.parametrize(("options", "train"), [("", 140), ("?split=full", 1208)])
def test_cora_is_the_catalogues_cora(options: str, train: int) -> None:
    if not os.environ.get("PRIVGCN_DATA"):
        pytest.skip("set PRIVGCN_DATA to the folder of raw datasets")
    theirs, ours = load_corpus(f"pyg:Planetoid/Cora{options}"), load_corpus("cora")
    np.testing.assert_array_equal(theirs.labels, ours.labels)
    np.testing.assert_array_equal(theirs.edges, ours.edges)
    assert len(theirs.train) == train
    if options:
        np.testing.assert_array_equal(theirs.split, ours.split)
