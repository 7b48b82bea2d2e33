from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from privgcn.errors import DataError
from privgcn.features.cache import VectorCache, cache_contents
from privgcn.progress import watched


def encode(texts: list[str]) -> np.ndarray:
    return np.array([[len(text), sum(map(ord, text)), 1] for text in texts], dtype=np.float32)


def refuse(texts: list[str]) -> np.ndarray:
    raise AssertionError(f"encoded again: {texts}")


def test_a_text_is_encoded_once(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path, "model", 3)
    asked: list[str] = []

    def count(texts: list[str]) -> np.ndarray:
        asked.extend(texts)
        return encode(texts)

    texts = ["b", "long text", "b", "", "\ud800"]
    first = cache.vectors(texts, count)
    assert sorted(asked) == sorted(set(texts))
    assert (first == encode(texts)).all()
    told: list[int] = []
    again = VectorCache(tmp_path, "model", 3).vectors(texts[::-1], refuse, told.append)
    assert (again == first[::-1]).all()
    assert told == [4]
    other = VectorCache(tmp_path, "model 2", 3).vectors(["b"], lambda own: 2 * encode(own))
    assert (other == 2 * encode(["b"])).all()


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "other"])
def test_a_corrupt_file_is_noticed_and_replaced(tmp_path: Path, damage: str) -> None:
    cache = VectorCache(tmp_path, "model", 3)
    expected = cache.vectors(["a", "b"], encode)
    (path,) = tmp_path.glob("*.sqlite3")
    data = path.read_bytes()
    at = data.rindex(expected[0].tobytes())
    spoilt = {
        "flip": data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :],
        "cut": data[:5000],
        "empty": b"",
        "other": b"x" * len(data),
    }
    path.write_bytes(spoilt[damage])
    with nullcontext() if damage == "empty" else pytest.warns(RuntimeWarning, match="corrupt"):
        rows = cache.vectors(["a", "b"], encode)
    assert (rows == expected).all()
    assert (cache.vectors(["b"], refuse) == encode(["b"])).all()


# hazard 18
def test_a_key_is_the_whole_text_and_the_encoder(tmp_path: Path) -> None:
    start = "word " * 5000
    texts = [start + "one", start + "two", "one " + start, start]
    cache = VectorCache(tmp_path, "model", 3)
    for text in texts:
        assert (cache.vectors([text], encode) == encode([text])).all()
    assert (cache.vectors(texts, refuse) == encode(texts)).all()


WORK = """
import sys
from pathlib import Path
import numpy as np
from privgcn.features.cache import VectorCache

start = int(sys.argv[2])
texts = [f"text {row}" for row in range(start, start + 60)]
encode = lambda part: np.array([[len(t), sum(map(ord, t)), 1] for t in part], dtype=np.float32)
rows = VectorCache(Path(sys.argv[1]), "model", 3).vectors(texts, encode)
sys.exit(0 if (rows == encode(texts)).all() else 1)
"""


def test_runs_in_parallel(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WORK, str(tmp_path)]
    runs = [subprocess.Popen([*command, str(20 * run)]) for run in range(2)]
    assert [run.wait() for run in runs] == [0] * 2
    texts = [f"text {row}" for row in range(80)]
    rows = VectorCache(tmp_path, "model", 3).vectors(texts, refuse)
    assert (rows == encode(texts)).all()


SLOW = """
import sys, time
from pathlib import Path
import numpy as np
from privgcn.features.cache import VectorCache

folder, name = Path(sys.argv[1]), sys.argv[2]

def encode(texts):
    (folder / name).write_text("")
    deadline = time.monotonic() + 60
    while not (folder / "go on").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return np.array([[len(t), sum(map(ord, t)), 1] for t in texts], dtype=np.float32)

texts = sys.argv[3:]
rows = VectorCache(folder / "cache", "model", 3).vectors(texts, encode)
print(rows.tolist(), flush=True)
"""


def slow(folder: Path, name: str, *texts: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SLOW, str(folder), name, *texts]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def until(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def first(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run that is encoding two texts, until the file ``go on`` appears."""
    run = slow(tmp_path, "first", "a", "bb")
    until(tmp_path / "first")
    yield run
    run.kill()
    run.communicate()


def test_of_two_runs_with_the_same_texts_one_encodes(
    tmp_path: Path, first: subprocess.Popen[str]
) -> None:
    other = slow(tmp_path, "other", "c")
    until(tmp_path / "other")  # texts of its own: no need to wait
    second = slow(tmp_path, "second", "bb", "a")
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(timeout=2)
    (tmp_path / "go on").write_text("")
    assert second.communicate(timeout=60)[0] == f"{encode(['bb', 'a']).tolist()}\n"
    assert not (tmp_path / "second").exists()
    assert other.communicate(timeout=60)[0] == f"{encode(['c']).tolist()}\n"
    assert [first.wait(60), other.returncode, second.returncode] == [0, 0, 0]
    assert list((tmp_path / "cache").rglob("*.lock")) == []


def test_a_run_that_dies_leaves_its_texts_to_the_next(
    tmp_path: Path, first: subprocess.Popen[str]
) -> None:
    second = slow(tmp_path, "second", "a", "bb")
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(timeout=2)
    assert not (tmp_path / "second").exists()
    first.kill()
    until(tmp_path / "second")
    (tmp_path / "go on").write_text("")
    assert second.communicate(timeout=60)[0] == f"{encode(['a', 'bb']).tolist()}\n"


def test_whoever_waits_says_so(tmp_path: Path, first: subprocess.Popen[str]) -> None:
    said: list[str] = []

    class Watcher:
        def begin(self, name: str) -> None:
            said.append(name)
            if name.startswith("waiting"):
                (tmp_path / "go on").write_text("")

        def advance(self, done: int, total: int) -> None: ...

    with watched(Watcher()):
        VectorCache(tmp_path / "cache", "model", 3).vectors(["a", "bb"], refuse)
    assert said == ["waiting for a run that encodes the same texts", "features"]


# hazard 26
def test_vectors_of_private_texts_are_for_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        VectorCache(tmp_path / "cache", "model", 3).vectors(["a"], encode)
    finally:
        os.umask(before)
    (path,) = (tmp_path / "cache").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_what_can_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = tmp_path / "cache"
    VectorCache(cache, "model", 3).vectors(["a"], encode)
    (path,) = cache.iterdir()
    path.unlink()
    path.mkdir()
    for folder in (tmp_path / "file", cache):
        with pytest.raises(DataError, match="must be writable"):
            VectorCache(folder, "model", 3).vectors(["a"], encode)


def test_what_is_stored_can_be_listed_and_deleted(tmp_path: Path) -> None:
    for identity in ("model", "model 2"):
        VectorCache(tmp_path, identity, 3).vectors(["a", "b"], encode)
    stored = list(tmp_path.iterdir())
    (tmp_path / f"{stored[0].name}-journal").write_bytes(b"half")
    contents = cache_contents(tmp_path)
    assert (contents.encoders, contents.files) == (2, 3)
    assert contents.size == 4 + sum(path.stat().st_size for path in stored)
    assert cache_contents(tmp_path, purge=True) == contents
    assert list(tmp_path.iterdir()) == []
    assert cache_contents(tmp_path / "nowhere").files == 0


def test_nothing_of_another_origin_is_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    VectorCache(folder, "model", 3).vectors(["a"], encode)
    (path,) = folder.iterdir()
    letter, photos = folder / "letter.sqlite3", folder / "photos"
    photos.mkdir()
    elsewhere = tmp_path / "elsewhere.sqlite3"
    others = (letter, photos / path.name, elsewhere)
    for other in others:
        other.write_text("mine")
    (folder / f"{'0' * 32}.sqlite3").symlink_to(elsewhere)
    cache_contents(folder, purge=True)
    assert not path.exists()
    for other in others:
        assert other.read_text() == "mine"
