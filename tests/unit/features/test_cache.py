from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from privgcn.errors import DataError
from privgcn.features.cache import VectorCache, cache_contents, purge_cache


def encode(texts: list[str]) -> np.ndarray:
    return np.array([[len(text), sum(map(ord, text)), 1] for text in texts], dtype=np.float32)


def refuse(texts: list[str]) -> np.ndarray:
    raise AssertionError(f"encoded again: {texts}")


def shards(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.npz"))


def draft_of(shard: Path) -> Path:
    """What a writer that was killed leaves behind."""
    return shard.with_name(f".{shard.name}.k2_x8abc")


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
    again = VectorCache(tmp_path, "model", 3).vectors(texts[::-1], refuse)
    assert (again == first[::-1]).all()


def test_another_encoder_has_its_own_vectors(tmp_path: Path) -> None:
    VectorCache(tmp_path, "model", 3).vectors(["a"], encode)
    other = VectorCache(tmp_path, "model 2", 3).vectors(["a"], lambda texts: 2 * encode(texts))
    assert (other == 2 * encode(["a"])).all()


def test_a_stopped_run_keeps_what_it_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privgcn.features.cache._SHARD_TEXTS", 2)
    texts = ["dddd", "ccc", "bb", "a"]

    def stops(batch: list[str]) -> np.ndarray:
        if "a" in batch:
            raise KeyboardInterrupt
        return encode(batch)

    with pytest.raises(KeyboardInterrupt):
        VectorCache(tmp_path, "model", 3).vectors(texts, stops)
    asked: list[str] = []

    def count(batch: list[str]) -> np.ndarray:
        asked.extend(batch)
        return encode(batch)

    VectorCache(tmp_path, "model", 3).vectors(texts, count)
    assert asked == ["bb", "a"]


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_a_damaged_shard_is_noticed_and_replaced(tmp_path: Path, damage: str) -> None:
    cache = VectorCache(tmp_path, "model", 3)
    cache.vectors(["a", "b"], encode)
    (shard,) = shards(tmp_path)
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    spoilt = {"flip": bytes(data), "cut": bytes(data[:100]), "empty": b""}
    shard.write_bytes(spoilt[damage])
    with pytest.warns(RuntimeWarning, match="damaged"):
        rows = cache.vectors(["a", "b"], encode)
    assert (rows == encode(["a", "b"])).all()
    assert (cache.vectors(["b"], refuse) == encode(["b"])).all()


def test_a_half_written_file_is_not_read(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path, "model", 3)
    cache.vectors(["a"], encode)
    draft_of(shards(tmp_path)[0]).write_bytes(b"half")
    assert (cache.vectors(["a"], refuse) == encode(["a"])).all()


WORK = """
import sys
from pathlib import Path
import numpy as np
from privgcn.features.cache import VectorCache, cache_contents, purge_cache

start = int(sys.argv[2])
texts = [f"text {row}" for row in range(start, start + 60)]
encode = lambda part: np.array([[len(t), sum(map(ord, t)), 1] for t in part], dtype=np.float32)
rows = VectorCache(Path(sys.argv[1]), "model", 3).vectors(texts, encode)
sys.exit(0 if (rows == encode(texts)).all() else 1)
"""


def test_runs_in_parallel(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WORK, str(tmp_path)]
    runs = [subprocess.Popen([*command, str(20 * run)]) for run in range(4)]
    assert [run.wait() for run in runs] == [0] * 4
    texts = [f"text {row}" for row in range(120)]
    rows = VectorCache(tmp_path, "model", 3).vectors(texts, refuse)
    assert (rows == encode(texts)).all()


def test_vectors_of_private_texts_are_for_their_owner_only(tmp_path: Path) -> None:
    VectorCache(tmp_path / "cache", "model", 3).vectors(["a"], encode)
    (shard,) = shards(tmp_path)
    assert stat.S_IMODE(shard.stat().st_mode) == 0o600
    assert stat.S_IMODE(shard.parent.stat().st_mode) == 0o700


def test_a_folder_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="must be writable"):
        VectorCache(tmp_path / "file", "model", 3).vectors(["a"], encode)


def test_progress_starts_with_what_is_stored(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path, "model", 3)
    cache.vectors(["a", "b"], encode)
    seen: list[int] = []
    cache.vectors(["a", "b", "c"], encode, seen.append)
    assert seen == [2, 3]


def test_what_is_kept_can_be_seen_and_deleted(tmp_path: Path) -> None:
    for identity in ("model", "model 2"):
        VectorCache(tmp_path, identity, 3).vectors(["a", "b"], encode)
    draft_of(shards(tmp_path)[0]).write_bytes(b"half")
    held = cache_contents(tmp_path)
    assert (held.encoders, held.files) == (2, 3)
    assert held.size == 4 + sum(path.stat().st_size for path in shards(tmp_path))
    assert purge_cache(tmp_path) == held
    assert list(tmp_path.iterdir()) == []
    assert cache_contents(tmp_path / "nowhere").files == 0


def test_nothing_of_another_origin_is_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    VectorCache(folder, "model", 3).vectors(["a"], encode)
    (shard,) = shards(folder)
    letter, other = shard.parent / "letter.txt", folder / "photos" / shard.name
    other.parent.mkdir()
    elsewhere = tmp_path / "elsewhere" / shard.name
    elsewhere.parent.mkdir()
    for path in (letter, other, elsewhere):
        path.write_text("mine")
    (folder / ("0" * 32)).symlink_to(elsewhere.parent)
    purge_cache(folder)
    assert not shard.exists()
    for path in (letter, other, elsewhere):
        assert path.read_text() == "mine"
