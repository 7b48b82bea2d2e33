import gzip
import os
import pickle
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

from privgcn.data import load_corpus
from privgcn.data.catalogue import dataset, dataset_names
from privgcn.errors import DataError
from privgcn_paper.datasets.mnist import read_idx
from privgcn_paper.datasets.planetoid import unpickle
from privgcn_paper.datasets.raw import PublishedDataset

SIZES = {
    "clinic": (2909, 364, 327),
    "cora": (1208, 500, 1000),
    "citeseer": (1827, 500, 1000),
    "pubmed": (18217, 500, 1000),
    "cora-text": (1208, 500, 1000),
    "citeseer-text": (2548, 319, 319),
    "mnist": (60_000, 0, 10_000),
}
"""Training, validation and test documents; the paper's sizes where it has the dataset."""


@pytest.fixture(scope="session")
def raw_data():
    folder = os.environ.get("PRIVGCN_DATA")
    if not folder:
        pytest.skip("PRIVGCN_DATA is not set: the real datasets are not on this machine")
    return Path(folder)


def test_the_datasets_of_the_paper_are_known_by_name():
    assert set(dataset_names()) >= {*SIZES, "pokec", "reddit"}
    for name in dataset_names():
        card = dataset(name)
        assert card.name == name
        files = card.files if isinstance(card, PublishedDataset) else ()
        assert ("synthetic" in card.title.lower()) == (not files)
        assert all(file.sha256 and file.size for file in files if file.url)
        paths = [Path(file.path) for file in files]
        assert not any(path.is_absolute() or ".." in path.parts for path in paths)


@pytest.fixture(scope="module", params=SIZES)
def loaded(request, raw_data):
    card = dataset(request.param)
    if card.missing(raw_data):
        pytest.skip(f"PRIVGCN_DATA does not hold '{card.name}'")
    return card, load_corpus(card.name, data_dir=raw_data)


@pytest.mark.dataset
def test_the_card_tells_the_truth(loaded):
    card, corpus = loaded
    assert len(corpus) == card.documents
    assert card.edges is None or corpus.edges.shape[1] == card.edges
    assert corpus.num_classes == card.classes
    assert corpus.name == corpus.facts.source == card.name
    assert corpus.facts.synthetic == ("synthetic" in card.title.lower())
    views = (corpus.train, corpus.validation, corpus.test)
    assert tuple(len(view) for view in views) == SIZES[card.name]
    assert len(set(corpus.ids)) == len(corpus)
    assert corpus.facts.classes_declared
    if corpus.vectors is not None:
        assert corpus.vectors.dtype == np.float32
        assert corpus.facts.public_vectors
    if corpus.texts is not None:
        assert all(text.strip() for text in corpus.texts)
    if corpus.name == "mnist":
        assert corpus.labels[:5].tolist() == [5, 0, 4, 1, 9]
        assert (corpus.vectors.min(), corpus.vectors.max()) == (0, 1)
    if corpus.name == "citeseer":
        # Documents without a row have zero vectors.
        empty = np.flatnonzero(np.diff(corpus.vectors.indptr) == 0)
        assert len(empty) == 15
        assert (corpus.split[empty] == 0).all()
    corpus.check_trainable()


class _Harmful:
    def __reduce__(self):
        return os.mkdir, ("harm-done",)


_FOREIGN = {
    "call": pickle.dumps(_Harmful(), protocol=2),
    "type": pickle.dumps(np.float32, protocol=2),
    # Written out: libraries that replace `print` (Ray does) make it impossible to pickle.
    "builtin": b"cbuiltins\nprint\n.",
}


@pytest.mark.parametrize("content", _FOREIGN.values(), ids=_FOREIGN.keys())
def test_a_pickle_of_any_other_type_is_refused(content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="can run any code"):
        unpickle(content)
    assert not (tmp_path / "harm-done").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        pickle.dumps([1, 2, 3], protocol=2)[:-3],
        b"cnumpy\ndtype\n(I01\ntR.",  # a type that is none
        b"c" + b"a" * 70_000 + b"\nb\n.",
    ],
)
def test_a_broken_pickle_is_one_short_line(content):
    with pytest.raises(DataError, match="Planetoid file") as caught:
        unpickle(content)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.dataset
def test_a_changed_file_is_never_unpickled(raw_data, tmp_path):
    shutil.copytree(raw_data / "planetoid" / "Cora", tmp_path / "planetoid" / "Cora")
    path = tmp_path / "planetoid" / "Cora" / "raw" / "ind.cora.graph"
    path.write_bytes(pickle.dumps(_Harmful(), protocol=2))
    with pytest.raises(DataError, match=r"ind\.cora\.graph must have the sha256"):
        load_corpus("cora", data_dir=tmp_path)


@pytest.mark.dataset
def test_the_raw_text_cora_is_the_planetoid_cora(raw_data):
    words, text = (load_corpus(name, data_dir=raw_data) for name in ("cora", "cora-text"))
    assert (words.edges == text.edges).all()
    assert (words.labels == text.labels).all()
    assert (words.split == text.split).all()
    assert words.classes == text.classes


@pytest.mark.dataset
@pytest.mark.parametrize("name", ["Cora", "CiteSeer", "PubMed"])
def test_the_same_data_as_pytorch_geometric(raw_data, name, tmp_path):
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


IMAGES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


def idx(array, kind=8):
    head = struct.pack(">HBB", 0, kind, array.ndim) + struct.pack(
        f">{array.ndim}I", *array.shape
    )
    return gzip.compress(head + array.tobytes())


@pytest.mark.parametrize(
    "data",
    [
        b"no gzip",
        gzip.compress(b"\0\0\x08\x03\0\0"),
        idx(IMAGES, kind=13),
        idx(IMAGES)[:-9],
        gzip.compress(gzip.decompress(idx(IMAGES))[:-1]),
    ],
    ids=["no gzip", "short head", "kind", "cut gzip", "short body"],
)
def test_an_idx_file_is_whole_or_refused(data):
    assert (read_idx(idx(IMAGES), "x") == IMAGES).all()
    with pytest.raises(DataError, match=r"some\.gz must be a complete idx file"):
        read_idx(data, "some.gz")
