"""Datasets of PyTorch Geometric by name, offline."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from privgcn import load_corpus
from privgcn.data.catalogue import resolved_source
from privgcn.errors import DataError, DataNotAvailableError, MissingExtraError

pytest.importorskip("torch_geometric")


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


def test_its_name_means_the_same_from_anywhere() -> None:
    assert resolved_source("pyg:Planetoid/Cora") == "pyg:Planetoid/Cora"


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
