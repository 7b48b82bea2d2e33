from __future__ import annotations

import pytest

from privgcn.errors import ConfigError
from privgcn.files import folder_written_atomically, write_atomically


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
    assert path.read_text() == "one"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.txt"]


def test_a_failed_block_leaves_the_old_folder(tmp_path) -> None:
    folder = tmp_path / "run"
    with folder_written_atomically(folder, marker="mark") as draft:
        (draft / "mark").write_text("first")

    def fail() -> None:
        with folder_written_atomically(folder, marker="mark") as draft:
            (draft / "mark").write_text("second")
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        fail()
    assert (folder / "mark").read_text() == "first"
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_a_folder_of_ours_is_replaced_and_somebody_elses_is_not(tmp_path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for text in ("first", "second"):
        with folder_written_atomically(ours, marker="mark") as draft:
            (draft / "mark").write_text(text)
    assert (ours / "mark").read_text() == "second"
    theirs.mkdir()
    (theirs / "letter.txt").write_text("dear")
    with (
        pytest.raises(ConfigError, match="not written by privgcn"),
        folder_written_atomically(theirs, marker="mark"),
    ):
        pass
    assert (theirs / "letter.txt").read_text() == "dear"
