from __future__ import annotations

import os
import resource
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from privgcn.errors import ConfigError, DataError
from privgcn.files import check_output, read_bounded, write_atomically


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


# hazard 26
@pytest.mark.parametrize("umask", [0, 0o022])
def test_a_file_is_born_with_its_permissions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int
) -> None:
    modes: list[int] = []
    replace = os.replace

    def watched(draft: Path, path: Path) -> None:
        modes.append(draft.stat().st_mode & 0o777)
        replace(draft, path)

    old = os.umask(umask)
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("a moment with another umask"))
    monkeypatch.setattr(os, "replace", watched)
    try:
        write_atomically(tmp_path / "usual", "x")
        write_atomically(tmp_path / "private", "x", mode=0o600)
    finally:
        monkeypatch.undo()
        os.umask(old)
    assert modes == [0o666 & ~umask, 0o600]
    for name, mode in zip(("usual", "private"), modes, strict=True):
        assert (tmp_path / name).stat().st_mode & 0o777 == mode


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
    check_output(path, lambda file: file.read_text() == "mine")
    with pytest.raises(ConfigError, match="holds something else, and will not be replaced"):
        check_output(path, lambda _: False)
    for folder, words in ((tmp_path, "must not be a folder"), ("/dev/null", "regular file")):
        with pytest.raises(ConfigError, match=words):
            check_output(Path(folder), lambda _: True)
    with pytest.raises(ConfigError, match="cannot be written"):
        check_output(path / "below", lambda _: True)
