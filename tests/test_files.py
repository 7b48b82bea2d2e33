"""Files are written whole or not at all, and read only if they are what they seem."""

import os
import resource
import tracemalloc
from pathlib import Path

import pytest

from privgcn.errors import ConfigError, DataError
from privgcn.files import data_folder, read_bounded, write_atomically


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "deep" / "file.txt"
    write_atomically(path, "one")
    write_atomically(path, b"two")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
    try:
        with pytest.raises(ConfigError, match="cannot be written: File too large"):
            write_atomically(path, bytes(1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_text() == "two"
    assert [entry.name for entry in path.parent.iterdir()] == ["file.txt"]


def test_only_a_regular_file_of_bounded_size_is_read(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(10))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name, words in (
        ("file", "at most 9 bytes"),
        ("no", "does not exist"),
        ("file/no", "does not exist"),
        ("pipe", "regular file"),
        ("zero", "regular file"),
        (".", "regular file"),
        ("x" * 1000, "cannot be read"),
    ):
        with pytest.raises(DataError, match=words):
            read_bounded(tmp_path / name, most=9)
    # A small file takes little memory, whatever is allowed.
    tracemalloc.start()
    try:
        assert read_bounded(path, most=1 << 34) == bytes(10)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


# hazard 26
@pytest.mark.parametrize("umask", [0, 0o022])
def test_a_file_is_born_with_its_permissions(tmp_path, monkeypatch, umask):
    modes = []
    replace = os.replace

    def watched(draft, path):
        modes.append(draft.stat().st_mode & 0o777)
        replace(draft, path)

    old = os.umask(umask)
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("a moment with another umask"))
    monkeypatch.setattr(os, "replace", watched)
    try:
        write_atomically(tmp_path / "usual", "x", mode=0o666)
        write_atomically(tmp_path / "private", "x")
    finally:
        monkeypatch.undo()
        os.umask(old)
    assert modes == [0o666 & ~umask, 0o600]
    for name, mode in zip(("usual", "private"), modes, strict=True):
        assert (tmp_path / name).stat().st_mode & 0o777 == mode


def test_where_data_are_looked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVGCN_DATA", "/here")
    assert data_folder() == Path("/here")
    assert data_folder(tmp_path) == tmp_path
    monkeypatch.delenv("PRIVGCN_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert data_folder() == Path("/cache/privgcn/data")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert data_folder() == Path.home() / ".cache" / "privgcn" / "data"
