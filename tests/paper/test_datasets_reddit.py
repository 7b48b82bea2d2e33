from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from privgcn.data import load_corpus
from privgcn.errors import DataError
from privgcn_paper.datasets.reddit import class_preserving_sample

SIZES = (15_343, 2_383, 5_570)
N = sum(SIZES)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def raw(tmp_path: Path) -> tuple[Path, Path]:
    folder = tmp_path / "reddit" / "raw"
    folder.mkdir(parents=True)
    data, graph = folder / "reddit_data.npz", folder / "reddit_graph.npz"
    draw = np.random.default_rng(0)
    ends = draw.integers(0, N, (2, 40_000), dtype=np.int32)
    np.savez(
        data,
        feature=draw.standard_normal((N, 5)),
        label=draw.choice(41, N, p=np.arange(9, 50) / 1189).astype(np.int32),
        node_types=draw.permutation(np.repeat([1, 2, 3], SIZES)).astype(np.int32),
    )
    np.savez(graph, row=np.concatenate(ends), col=np.concatenate(ends[::-1]))
    return data, graph


def test_the_published_files_give_the_paper_s_sizes() -> None:
    random = np.random.default_rng(0)
    split = np.repeat([0, 1, 2], [153_431, 23_831, 55_703])
    labels = random.choice(41, len(split), p=np.arange(1, 42) / 861)
    rows = class_preserving_sample(labels, split, seed=0)
    assert np.bincount(split[rows]).tolist() == [15_252, 2_383, 5_643]
    assert len(np.unique(rows)) == len(rows)
    for code in range(3):
        parent = np.bincount(labels[split == code], minlength=41) / (split == code).sum()
        part = np.bincount(labels[rows][split[rows] == code], minlength=41)
        assert abs(part - parent * part.sum()).max() <= 1
    assert (rows == class_preserving_sample(labels, split, seed=0)).all()
    assert (rows != class_preserving_sample(labels, split, seed=1)).any()


def test_the_sample_is_the_induced_graph(raw: tuple[Path, Path], tmp_path: Path) -> None:
    corpus = load_corpus("reddit", data_dir=tmp_path)
    # The seed of the user does not make another dataset.
    assert list(load_corpus("reddit", data_dir=tmp_path, seed=1).ids) == list(corpus.ids)
    assert np.bincount(corpus.split).tolist() == [1525, 238, 564]
    assert (corpus.num_classes, corpus.facts.split_origin) == (41, "stratified")
    assert corpus.facts.not_covered
    assert corpus.facts.public_vectors
    rows = np.asarray(corpus.ids).astype(np.int64)
    with np.load(raw[0]) as arrays:
        assert np.allclose(corpus.vectors, arrays["feature"][rows])
        assert (corpus.labels == arrays["label"][rows]).all()
        assert (corpus.split == arrays["node_types"][rows] - 1).all()
    place = {row: number for number, row in enumerate(rows.tolist())}
    with np.load(raw[1]) as arrays:
        pairs = zip(arrays["row"].tolist(), arrays["col"].tolist(), strict=True)
        ends = [(place[a], place[b]) for a, b in pairs if a in place and b in place]
    expected = {(a, b) for a, b in ends if a < b}
    assert {tuple(pair) for pair in corpus.edges.T} == expected


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _without(path: Path, name: str, **instead: np.ndarray) -> None:
    with np.load(path) as old:
        others = {key: old[key] for key in old.files if key != name}
    np.savez(path, **others, **instead)  # type: ignore[arg-type]


def _promise(path: Path) -> None:
    """Gives the labels a header that promises terabytes."""
    words = f"{{'descr': '<i4', 'fortran_order': False, 'shape': ({10**14},), }}".encode()
    head = b"\x93NUMPY\x02\x00" + len(words).to_bytes(4, "little") + words
    _without(path, "label")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("label.npy", head + bytes(64))


def _labels(path: Path, values: object) -> None:
    _without(path, "label", label=np.asarray(values))


BROKEN = {
    "cut data": (0, _cut, "zip"),
    "cut graph": (1, _cut, "zip"),
    "no labels": (0, lambda path: _without(path, "label"), "label"),
    "labels too few": (0, lambda path: _labels(path, np.zeros(5, int)), "each post"),
    "a wild label": (0, lambda path: _labels(path, np.full(N, 41)), "0 to 40"),
    "not finite": (
        *(0, lambda path: _without(path, "feature", feature=np.full((N, 2), np.nan))),
        "finite",
    ),
    "ids out of range": (
        *(1, lambda path: _without(path, "row", row=np.full(80_000, N))),
        "'row'",
    ),
    "objects": (0, lambda path: _labels(path, [None] * N), "pickle"),
    "words": (0, lambda path: _labels(path, ["a"] * N), "'label' is <U1"),
    "a promise of terabytes": (0, _promise, ""),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_archive_gives_one_error_and_leaves_nothing(
    raw: tuple[Path, Path], tmp_path: Path, cache: Path, case: str
) -> None:
    which, spoil, word = BROKEN[case]
    spoil(raw[which])
    with pytest.raises(DataError) as caught:
        load_corpus("reddit", data_dir=tmp_path)
    assert caught.value.exit_code == 2
    assert raw[which].name in str(caught.value)
    assert "get it again" in str(caught.value)
    assert word in str(caught.value)
    assert list((cache / "privgcn" / "prepared").iterdir()) == []
