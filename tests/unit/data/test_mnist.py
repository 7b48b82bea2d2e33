from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from privgcn.data import load_corpus
from privgcn.data.mnist import read_idx
from privgcn.errors import DataError


def idx(array: np.ndarray, kind: int = 8) -> bytes:
    head = struct.pack(">HBB", 0, kind, array.ndim) + struct.pack(
        f">{array.ndim}I", *array.shape
    )
    return gzip.compress(head + array.tobytes())


def test_an_idx_file() -> None:
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    assert (read_idx(idx(array), "x") == array).all()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no gzip",
        gzip.compress(b""),
        gzip.compress(b"\0\0\x08\x03\0\0"),
        idx(np.zeros((2, 2), dtype=np.uint8), kind=13),
        idx(np.zeros((2, 2), dtype=np.uint8))[:-9],
        gzip.compress(gzip.decompress(idx(np.zeros((2, 2), dtype=np.uint8)))[:-1]),
    ],
    ids=["empty", "no gzip", "empty gzip", "short head", "kind", "cut gzip", "short body"],
)
def test_a_broken_idx_file(data: bytes) -> None:
    with pytest.raises(DataError, match=r"some\.gz must be a complete idx file"):
        read_idx(data, "some.gz")


@pytest.mark.dataset
def test_the_real_files(raw_data: Path) -> None:
    corpus = load_corpus("mnist", data_dir=raw_data)
    assert [len(part) for part in (corpus.train, corpus.validation, corpus.test)] == [
        60_000,
        0,
        10_000,
    ]
    assert isinstance(corpus.vectors, np.ndarray)
    assert corpus.vectors.shape == (70_000, 784)
    assert corpus.vectors.min() == 0
    assert corpus.vectors.max() == 1
    assert corpus.labels[:5].tolist() == [5, 0, 4, 1, 9]
