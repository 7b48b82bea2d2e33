"""Arrays in files that nobody else can open."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import numpy as np
import pytest

from privgcn.data import scratch
from privgcn.data.corpus import Corpus, canonical_edges
from privgcn.data.scratch import (
    ChosenRows,
    Scratch,
    as_float32,
    canonical_on_disk,
    each_stretch,
    is_mapped,
    let_go,
    mapped_file,
)
from privgcn.errors import ConfigError


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_scratch_file_has_no_name_and_no_rights_for_others(temporary: Path) -> None:
    file = Scratch()
    file.write(np.arange(10_000))
    assert list(temporary.iterdir()) == []
    mode = os.fstat(file._file.fileno()).st_mode
    assert stat.S_IMODE(mode) & 0o077 == 0
    array = file.mapped(np.int64, (10_000,))
    del file
    assert list(temporary.iterdir()) == []
    assert array[-1] == 9_999


def test_what_was_let_go_is_read_again() -> None:
    file = Scratch()
    file.write(np.arange(6.0), 48)
    file.write(-np.arange(6.0), 0)
    array = file.mapped(np.float64, (12,))
    assert is_mapped(array.ctypes.data)
    let_go(array.ctypes.data)
    np.testing.assert_array_equal(array, [*-np.arange(6.0), *np.arange(6.0)])


def test_ordinary_memory_is_never_let_go() -> None:
    array = np.arange(100_000)
    let_go(array.ctypes.data)
    assert not is_mapped(array.ctypes.data)
    assert array[-1] == 99_999


def test_a_file_is_not_changed_by_what_is_written_to_its_array(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((2, 3), dtype=np.float32))
    mapped_file(tmp_path / "a.npy")[:] = 1
    assert not np.load(tmp_path / "a.npy").any()


def test_a_full_disk_is_one_line_for_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    file = Scratch()

    with Path("/dev/full").open("r+b", buffering=0) as full:
        monkeypatch.setattr(file, "_file", full)
        with pytest.raises(ConfigError, match="No space left on device"):
            file.write(np.arange(3))


@pytest.mark.parametrize("dtype", [np.float64, np.int16])
def test_other_types_and_layouts_become_float32_rows(dtype: type, tmp_path: Path) -> None:
    table = np.asfortranarray(np.arange(12).reshape(4, 3).astype(dtype))
    np.save(tmp_path / "a.npy", table)
    rows = as_float32(mapped_file(tmp_path / "a.npy"))
    assert rows.array.dtype == np.float32
    np.testing.assert_array_equal(np.asarray(rows), table)


def test_chosen_rows_are_read_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_BYTES_AT_ONCE", 24)
    table = np.arange(20, dtype=np.float32).reshape(10, 2)
    chosen = ChosenRows(table)[np.array([7, 1, 3, 9])][np.array([2, 0])]
    assert chosen.shape == (2, 2)
    np.testing.assert_array_equal(np.asarray(chosen), table[[3, 7]])
    np.testing.assert_array_equal(np.concatenate(list(chosen.pieces())), table[[3, 7]])
    np.testing.assert_array_equal(chosen.row(1), table[7])
    assert len(list(ChosenRows(table).pieces())) == 4


def test_a_view_of_a_corpus_on_disk_is_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the same links and vectors as in memory."""
    monkeypatch.setattr(scratch, "LINKS_AT_ONCE", 7)
    rng = np.random.default_rng(0)
    links = canonical_edges(rng.integers(0, 30, 90), rng.integers(0, 30, 90), 30)
    vectors = rng.normal(size=(30, 3)).astype(np.float32)
    file = Scratch()
    file.write(links)
    mapped = file.mapped(np.int64, links.shape)
    fields = {
        "name": "x",
        "ids": np.arange(30).astype(str),
        "labels": np.zeros(30, dtype=np.int64),
        "classes": ("a", "b"),
        "split": np.arange(30, dtype=np.int8) % 3,
    }
    near = Corpus(**fields, edges=links, vectors=vectors)
    far = Corpus(**fields, edges=mapped, vectors=ChosenRows(vectors))
    np.testing.assert_array_equal(near.train.edges, far.train.edges)
    np.testing.assert_array_equal(near.train.vectors, np.asarray(far.train.vectors))
    assert is_mapped(far.train.edges.ctypes.data)
    assert isinstance(far.train.vectors, ChosenRows)


def test_links_on_disk_are_made_canonical_as_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "LINKS_AT_ONCE", 60)
    ends = np.random.default_rng(0).integers(0, 40, (2, 500))
    file = Scratch()
    file.write(ends)
    found = canonical_on_disk(file.mapped(np.int64, ends.shape), 40)
    assert is_mapped(found.ctypes.data)
    np.testing.assert_array_equal(found, canonical_edges(*ends, 40))


def test_no_link_may_be_left() -> None:
    file = Scratch()
    file.write(np.array([[0, 1], [2, 3]]))
    links = file.mapped(np.int64, (2, 2))
    assert each_stretch(links, lambda own: own[:, :0]).shape == (2, 0)
