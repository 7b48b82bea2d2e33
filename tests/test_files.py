from __future__ import annotations

import os
import resource
import sys
import tracemalloc
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from privgcn.errors import ConfigError, DataError
from privgcn.files import check_output, flush_folder, lock, read_bounded, write_atomically


@contextmanager
def full_disk(most: int = 500) -> Iterator[None]:
    """No file may grow beyond ``most`` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_is_replaced_whole(tmp_path) -> None:
    path = tmp_path / "deep" / "file.txt"
    write_atomically(path, "one")
    write_atomically(path, b"two")
    assert path.read_text() == "two"
    assert [entry.name for entry in path.parent.iterdir()] == ["file.txt"]


def test_a_failed_write_leaves_the_old_file(tmp_path) -> None:
    path = tmp_path / "file.txt"
    write_atomically(path, "one")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")
    with full_disk(), pytest.raises(ConfigError, match="cannot be written: File too large"):
        write_atomically(path, bytes(1000))
    assert path.read_text() == "one"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.txt"]


def test_only_a_regular_file_of_bounded_size_is_read(tmp_path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(10))
    assert read_bounded(path, most=10) == bytes(10)
    with pytest.raises(DataError, match="at most 9 bytes"):
        read_bounded(path, most=9)
    with pytest.raises(DataError, match="does not exist"):
        read_bounded(tmp_path / "no", most=9)
    with pytest.raises(DataError, match="does not exist"):
        read_bounded(path / "no", most=9)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero", "."):
        with pytest.raises(DataError, match="regular file"):
            read_bounded(tmp_path / name, most=9)
    with pytest.raises(DataError, match="cannot be read"):
        read_bounded(tmp_path / ("x" * 1000), most=9)


def test_a_lock_keeps_others_out_until_the_file_is_closed(tmp_path) -> None:
    path = tmp_path / "locked"
    with path.open("w") as first, path.open("r") as second:
        lock(first.fileno(), wait=False)
        with pytest.raises(BlockingIOError):
            lock(second.fileno(), wait=False)
        with pytest.raises(BlockingIOError):
            lock(second.fileno(), shared=True, wait=False)
        first.close()
        lock(second.fileno(), shared=True, wait=False)
        with path.open("r") as third:
            lock(third.fileno(), shared=True, wait=False)


def test_on_windows_the_lock_lies_beyond_the_content(tmp_path, monkeypatch) -> None:
    """There is no Windows here: what its library would be asked is recorded."""
    asked: list[tuple[int, int]] = []

    def locking(handle: int, mode: int, size: int) -> None:
        asked.append((os.lseek(handle, 0, os.SEEK_CUR), size))
        if len(asked) == 1:
            raise PermissionError(13, "in use")

    library = types.SimpleNamespace(LK_NBLCK=2, locking=locking)
    monkeypatch.setitem(sys.modules, "msvcrt", library)
    monkeypatch.setattr(sys, "platform", "win32")
    with (tmp_path / "file").open("w") as file:
        lock(file.fileno())
        assert asked == [(1 << 30, 1)] * 2
        asked.clear()
        with pytest.raises(BlockingIOError):
            lock(file.fileno(), wait=False)
    flush_folder(tmp_path / "nowhere")


def test_a_small_file_takes_little_memory_whatever_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "small"
    path.write_bytes(b"abc")
    tracemalloc.start()
    try:
        assert read_bounded(path, most=1 << 34) == b"abc"
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_only_a_file_of_ours_or_an_empty_one_is_replaced(tmp_path) -> None:
    path = tmp_path / "deep" / "file"
    check_output(path, lambda _: False)
    assert list(tmp_path.iterdir()) == []
    path.parent.mkdir()
    path.touch()
    check_output(path, lambda _: False)
    path.write_text("mine")
    check_output(path, lambda found: found.read_text() == "mine")
    with pytest.raises(ConfigError, match="holds something else, and will not be replaced"):
        check_output(path, lambda _: False)
    for place, words in ((tmp_path, "must not be a folder"), ("/dev/null", "regular file")):
        with pytest.raises(ConfigError, match=words):
            check_output(Path(place), lambda _: True)
    with pytest.raises(ConfigError, match="cannot be written"):
        check_output(path / "below", lambda _: True)
