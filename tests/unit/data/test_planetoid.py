from __future__ import annotations

import os
import pickle
import shutil
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from privgcn.data import load_corpus
from privgcn.data.planetoid import unpickle
from privgcn.errors import DataError


class _Harmful:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("harm-done",)


_FOREIGN = {
    "call": pickle.dumps(_Harmful(), protocol=2),
    "class": pickle.dumps(OrderedDict(a=1), protocol=2),
    "type": pickle.dumps(np.float32, protocol=2),
    # Written out: libraries that replace `print` (Ray does) make it impossible to pickle.
    "builtin": b"cbuiltins\nprint\n.",
}


@pytest.mark.parametrize("content", _FOREIGN.values(), ids=_FOREIGN.keys())
def test_a_pickle_of_any_other_type_is_refused(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="can run any code"):
        unpickle(content)
    assert not (tmp_path / "harm-done").exists()


def test_a_cut_pickle_is_refused() -> None:
    with pytest.raises(DataError, match="cannot be read"):
        unpickle(pickle.dumps([1, 2, 3], protocol=2)[:-3])
    with pytest.raises(DataError, match="cannot be read"):
        unpickle(b"")


@pytest.mark.dataset
@pytest.mark.parametrize(
    "content",
    [
        b"I1\nI2\nI3\ns.",  # an item of a number
        b"S'a'\nI1\na.",  # appends to a text
        b"cnumpy\nndarray\n)R.",  # an array without a shape
        b"cnumpy\ndtype\n(I01\ntR.",  # a type that is none
        b"c" + b"a" * 70_000 + b"\nb\n.",
    ],
)
def test_a_broken_pickle_is_one_short_line(content: bytes) -> None:
    with pytest.raises(DataError, match="Planetoid file") as caught:
        unpickle(content)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_changed_file_is_never_unpickled(raw_data: Path, tmp_path: Path) -> None:
    shutil.copytree(raw_data / "planetoid" / "Cora", tmp_path / "planetoid" / "Cora")
    path = tmp_path / "planetoid" / "Cora" / "raw" / "ind.cora.graph"
    path.write_bytes(pickle.dumps(_Harmful(), protocol=2))
    with pytest.raises(DataError, match=r"ind\.cora\.graph must have the sha256"):
        load_corpus("cora", data_dir=tmp_path)


@pytest.mark.dataset
def test_citeseer_documents_without_a_row_have_zero_vectors(raw_data: Path) -> None:
    corpus = load_corpus("citeseer", data_dir=raw_data)
    assert corpus.vectors is not None
    empty = np.flatnonzero(np.diff(corpus.vectors.indptr) == 0)
    assert len(empty) == 15
    assert (corpus.split[empty] == 0).all()


@pytest.mark.dataset
def test_the_raw_text_cora_is_the_planetoid_cora(raw_data: Path) -> None:
    words, text = (load_corpus(name, data_dir=raw_data) for name in ("cora", "cora-text"))
    assert (words.edges == text.edges).all()
    assert (words.labels == text.labels).all()
    assert (words.split == text.split).all()
    assert words.classes == text.classes


@pytest.mark.dataset
@pytest.mark.parametrize("name", ["Cora", "CiteSeer", "PubMed"])
def test_the_same_data_as_pytorch_geometric(raw_data: Path, name: str, tmp_path: Path) -> None:
    torch_geometric = pytest.importorskip("torch_geometric.datasets")
    shutil.copytree(raw_data / "planetoid" / name, tmp_path / name)
    data = torch_geometric.Planetoid(str(tmp_path), name)[0]
    corpus = load_corpus(name.lower(), data_dir=raw_data)
    assert corpus.vectors is not None
    assert (corpus.labels == data.y.numpy()).all()
    assert abs(corpus.vectors - data.x.numpy()).max() == 0
    assert 2 * corpus.edges.shape[1] == data.edge_index.shape[1]
    upper = data.edge_index.numpy()[:, data.edge_index[0] < data.edge_index[1]]
    assert (corpus.edges == upper[:, np.lexsort(upper[::-1])]).all()
    assert (corpus.split == 1).tolist() == data.val_mask.tolist()
    assert (corpus.split == 2).tolist() == data.test_mask.tolist()
