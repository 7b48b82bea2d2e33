from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from privgcn.errors import DataError
from privgcn.features.fasttext import FastTextModel, fnv_hash

Bytes = Callable[..., bytes]


@pytest.fixture
def matrix() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(13, 4)).astype(np.float32)


@pytest.mark.parametrize(
    ("data", "value"),
    # The published test values of FNV-1a.
    [(b"", 2166136261), (b"a", 3826002220), (b"foobar", 3214735720)],
)
def test_the_hash_is_fnv_1a_on_plain_letters(data: bytes, value: int) -> None:
    assert fnv_hash(data) == value


def test_bytes_above_127_are_signed() -> None:
    plain = ((2166136261 ^ 0xC5) * 16777619) & 0xFFFFFFFF
    signed = ((2166136261 ^ 0xFFFFFFC5) * 16777619) & 0xFFFFFFFF
    assert fnv_hash(b"\xc5") == signed != plain


def test_a_word_is_the_mean_of_its_row_and_its_parts(
    tmp_path: Path, matrix: np.ndarray, fasttext_bytes: Bytes
) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(fasttext_bytes(matrix))
    model = FastTextModel(path)
    parts = ["<pe", "<pes", "pes", "pes>", "es>"]
    rows = [3 + fnv_hash(part.encode()) % 10 for part in parts]
    known, unknown = model.vector("pes"), model.vector("psi")
    assert known is not None
    assert unknown is not None
    assert np.allclose(known, matrix[[1, *rows]].mean(axis=0))
    others = [3 + fnv_hash(p.encode()) % 10 for p in ["<ps", "<psi", "psi", "psi>", "si>"]]
    assert np.allclose(unknown, matrix[others].mean(axis=0))
    end = model.vector("</s>")
    assert end is not None
    assert np.allclose(end, matrix[0])


def test_letters_of_several_bytes_count_once(
    tmp_path: Path, matrix: np.ndarray, fasttext_bytes: Bytes
) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(fasttext_bytes(matrix, shortest=7, longest=7))
    rows = [2, 3 + fnv_hash("<mačka>".encode()) % 10]
    vector = FastTextModel(path).vector("mačka")
    assert vector is not None
    assert np.allclose(vector, matrix[rows].mean(axis=0))


def test_without_parts_an_unknown_word_has_no_vector(
    tmp_path: Path, matrix: np.ndarray, fasttext_bytes: Bytes
) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(fasttext_bytes(matrix, 0, 0))
    model = FastTextModel(path)
    assert model.vector("psi") is None
    known = model.vector("pes")
    assert known is not None
    assert np.allclose(known, matrix[1])


def test_broken_models(tmp_path: Path, matrix: np.ndarray, fasttext_bytes: Bytes) -> None:
    whole = fasttext_bytes(matrix)
    path = tmp_path / "model.bin"
    for size in (0, 6, 40, 90, 130, len(whole) - 60):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError, match="cut"):
            FastTextModel(path)
    path.write_bytes(b"x" * 200)
    with pytest.raises(DataError, match="another format"):
        FastTextModel(path)
    path.write_bytes(fasttext_bytes(matrix, quantised=1))
    with pytest.raises(DataError, match="quantised"):
        FastTextModel(path)
