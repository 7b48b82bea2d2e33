from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys

import numpy as np
import pytest

from privgcn.errors import DataError
from privgcn.features.cache import VectorCache, cache_contents


def encode(texts):
    return np.array([[len(text), sum(map(ord, text)), 1] for text in texts], dtype=np.float32)


def refuse(texts):
    raise AssertionError(f"encoded again: {texts}")


def rows_of(folder, texts, by=encode, model="model"):
    return VectorCache(folder, model, 3).vectors(texts, by)


def test_a_text_is_encoded_once(tmp_path):
    texts, encoded = ["b", "long text", "b", "", "\ud800"], []
    first = rows_of(tmp_path, texts, lambda some: encoded.extend(some) or encode(some))
    assert sorted(encoded) == sorted(set(texts))
    assert (first == encode(texts)).all()
    assert (rows_of(tmp_path, texts[::-1], refuse) == first[::-1]).all()
    other = rows_of(tmp_path, ["b"], lambda own: 2 * encode(own), model="model 2")
    assert (other == 2 * encode(["b"])).all()


@pytest.mark.parametrize("damage", ["cut", "empty", "other", "vector"])
def test_a_corrupt_file_is_replaced(tmp_path, damage):
    expected = rows_of(tmp_path, ["a", "b"])
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    if damage == "vector":
        with sqlite3.connect(path) as base:
            base.execute("UPDATE vectors SET vector = substr(vector, 1, 7)")
        base.close()
    else:
        path.write_bytes({"cut": data[:5000], "empty": b"", "other": b"x" * len(data)}[damage])
    assert (rows_of(tmp_path, ["a", "b"]) == expected).all()
    assert (rows_of(tmp_path, ["b"], refuse) == encode(["b"])).all()


# hazard 18
def test_a_key_is_the_whole_text_and_the_encoder(tmp_path):
    start = "word " * 5000
    texts = [start + "one", start + "two", "one " + start, start]
    for text in texts:
        assert (rows_of(tmp_path, [text]) == encode([text])).all()
    assert (rows_of(tmp_path, texts, refuse) == encode(texts)).all()


WORK = """
import sys
from pathlib import Path
from tests.features.test_cache import encode, rows_of

texts = [f"text {row}" for row in range(int(sys.argv[2]), int(sys.argv[2]) + 60)]
sys.exit(0 if (rows_of(Path(sys.argv[1]), texts) == encode(texts)).all() else 1)
"""


def test_runs_in_parallel(tmp_path):
    command = [sys.executable, "-c", WORK, str(tmp_path)]
    runs = [subprocess.Popen([*command, str(20 * run)]) for run in range(2)]
    assert [run.wait() for run in runs] == [0] * 2
    texts = [f"text {row}" for row in range(80)]
    assert (rows_of(tmp_path, texts, refuse) == encode(texts)).all()


# hazard 26
def test_vectors_of_private_texts_are_for_their_owner_only(tmp_path):
    before = os.umask(0)
    try:
        rows_of(tmp_path / "cache", ["a"])
    finally:
        os.umask(before)
    (path,) = (tmp_path / "cache").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_what_can_not_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    VectorCache(tmp_path / "cache", "model", 3).path.mkdir(parents=True)
    for folder in (tmp_path / "file", tmp_path / "cache"):
        with pytest.raises(DataError, match="must be writable"):
            rows_of(folder, ["a"])


def test_what_is_stored_is_listed_and_deleted_and_nothing_else(tmp_path):
    folder, elsewhere = tmp_path / "cache", tmp_path / "elsewhere.sqlite3"
    for model in ("model", "model 2"):
        rows_of(folder, ["a", "b"], model=model)
    stored = list(folder.iterdir())
    (folder / f"{stored[0].name}-journal").write_bytes(b"half")
    (folder / "photos").mkdir()
    others = (folder / "letter.sqlite3", folder / "photos" / stored[0].name, elsewhere)
    for other in others:
        other.write_text("mine")
    (folder / f"{'0' * 32}.sqlite3").symlink_to(elsewhere)
    contents = 3, 4 + sum(path.stat().st_size for path in stored)
    assert cache_contents(folder) == cache_contents(folder, purge=True) == contents
    assert cache_contents(folder) == cache_contents(tmp_path / "nowhere") == (0, 0)
    for other in others:
        assert other.read_text() == "mine"
