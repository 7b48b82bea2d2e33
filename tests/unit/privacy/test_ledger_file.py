"""A ledger's file is whole after any crash, and is never half of what it was."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from privgcn.errors import DataError
from privgcn.privacy.ledger_file import MOST_BYTES, LedgerFile

#: Adds a line in a child that is killed before the n-th line of our code, for every n.
_KILLED_EVERYWHERE = """
import os, shutil, signal, sys
from pathlib import Path
import privgcn.files
from privgcn.privacy.ledger_file import LedgerFile

base, old = Path(sys.argv[1]), [line.encode() for line in sys.argv[2:]]
ours = {"ledger_file.py", "files.py"}


def kill_before(number):
    left = number

    def trace(frame, event, argument):
        nonlocal left
        if os.path.basename(frame.f_code.co_filename) not in ours:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace


def add(file, line):
    with file.adding() as opened:
        if line not in opened.lines:
            opened.add(line)


kills = news = 0
while True:
    folder = base / str(kills)
    folder.mkdir()
    file = LedgerFile(folder / "ledger")
    for line in old:
        add(file, line)
    child = os.fork()
    if not child:
        sys.settrace(kill_before(kills))
        add(file, b"new")
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    lines = file.lines()
    assert lines in (old, [*old, b"new"]), (kills, lines)
    news += lines != old
    # The same release again: once in the file, and the end is protected anew.
    add(file, b"new")
    assert file.lines() == [*old, b"new"], kills
    file.path.write_bytes(b"".join(line + b"\\n" for line in old))
    try:
        file.lines()
    except privgcn.errors.DataError:
        pass
    else:
        raise AssertionError(f"a cut was not noticed after kill {kills}")
    shutil.rmtree(folder)
    if status == 0:
        break
    assert os.WTERMSIG(status) == signal.SIGKILL
    kills += 1
print(kills, news)
"""


@pytest.mark.parametrize("old", [[], ["one"], ["one", "two"]], ids=len)
def test_killed_at_any_moment_it_holds_the_old_lines_or_the_new(
    tmp_path: Path, old: list[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _KILLED_EVERYWHERE, str(tmp_path), *old],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kills, news = map(int, done.stdout.split())
    assert kills > 30
    assert 1 < news < kills  # Some died before the new line was there, and some after.


def filled(path: Path, *lines: bytes) -> LedgerFile:
    file = LedgerFile(path)
    for line in lines:
        with file.adding() as opened:
            opened.add(line)
    return file


def test_two_at_once_wait_for_each_other(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    other = threading.Thread(target=filled, args=(path, b"two"))
    with LedgerFile(path).adding() as opened:
        other.start()
        other.join(0.3)  # Long enough to add its line, if nothing kept it out.
        assert other.is_alive()
        opened.add(b"one")
    other.join()
    assert LedgerFile(path).lines() == [b"one", b"two"]


def test_without_its_head_it_is_refused(tmp_path: Path) -> None:
    file = filled(tmp_path / "ledger", b"one")
    file.head.unlink()
    for use in (file.lines, lambda: filled(file.path, b"two")):
        with pytest.raises(DataError, match="head beside it"):
            use()
    assert not file.head.exists()


@pytest.mark.parametrize("head", [b"", b"x", b"\xff" * 999, b"0" * 64 + b"\n"])
def test_an_edited_head_is_noticed(tmp_path: Path, head: bytes) -> None:
    file = filled(tmp_path / "ledger", b"one")
    file.head.write_bytes(head)
    for use in (file.lines, lambda: filled(file.path, b"two")):
        with pytest.raises(DataError, match="changed, cut off or deleted"):
            use()


def test_an_older_copy_of_the_lines_is_noticed(tmp_path: Path) -> None:
    file = filled(tmp_path / "ledger", b"one")
    older = file.path.read_bytes()
    filled(file.path, b"two")
    file.path.write_bytes(older)
    with pytest.raises(DataError, match="changed, cut off or deleted"):
        file.lines()


def test_what_the_owner_of_both_files_can_still_do(tmp_path: Path) -> None:
    """No promise, but the truth: the docs say so, and must change when this does."""
    file = filled(tmp_path / "ledger", b"one")
    older = file.path.read_bytes(), file.head.read_bytes()
    filled(file.path, b"two")
    file.path.write_bytes(older[0])
    file.head.write_bytes(older[1])
    assert file.lines() == [b"one"]
    file.path.unlink()
    file.head.unlink()
    assert file.lines() == []


def test_an_error_in_the_block_writes_nothing(tmp_path: Path) -> None:
    file = filled(tmp_path / "ledger", b"one")
    with pytest.raises(KeyError), file.adding():
        raise KeyError
    assert file.lines() == [b"one"]
    # Nor does it make the head that of a line which turned out to be unreadable.
    head = file.head.read_bytes()
    file.path.write_bytes(b"one\nbad\n")
    with pytest.raises(KeyError), file.adding() as opened:
        raise KeyError(opened.lines)
    assert file.head.read_bytes() == head


def test_links_lead_to_one_ledger_with_one_lock(tmp_path: Path) -> None:
    file = filled(tmp_path / "ledger", b"one")
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link"
    link.symlink_to(file.path)
    filled(link, b"two")
    assert file.lines() == [b"one", b"two"]
    assert link.is_symlink()
    assert [place.name for place in link.parent.iterdir()] == ["link"]


@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "loop"])
@pytest.mark.parametrize("with_head", [True, False])
def test_what_is_no_file_is_one_error(tmp_path: Path, kind: str, with_head: bool) -> None:
    path = tmp_path / "ledger"
    if with_head:
        filled(path, b"one")
        path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path if kind == "loop" else "/dev/zero")
    for use in (LedgerFile(path).lines, lambda: filled(path, b"two")):
        with pytest.raises(DataError, match=r"plain file|cannot be read|head"):
            use()


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_a_head_that_is_no_file_is_one_error(tmp_path: Path, kind: str) -> None:
    file = LedgerFile(tmp_path / "ledger")
    if kind == "folder":
        file.head.mkdir()
    else:
        os.mkfifo(file.head)
    for use in (file.lines, lambda: filled(file.path, b"two")):
        with pytest.raises(DataError, match="cannot be read or written"):
            use()


def test_a_huge_file_is_not_read_and_not_made(tmp_path: Path) -> None:
    file = filled(tmp_path / "ledger", b"one")
    with pytest.raises(DataError, match="at most"):
        filled(file.path, b"x" * MOST_BYTES)
    assert file.lines() == [b"one"]
    os.truncate(file.path, 1 << 40)
    with pytest.raises(DataError, match="at most"):
        file.lines()


@pytest.mark.parametrize("name", ["missing/ledger", "file/ledger", "x" * 300])
def test_a_place_that_cannot_be_is_one_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot be read or written"):
        filled(tmp_path / name, b"one")


def test_a_folder_that_nobody_can_write_is_one_error() -> None:
    # Not even the system's own user may make files there.
    with pytest.raises(DataError, match="cannot be read or written"):
        filled(Path("/sys/ledger"), b"one")


def test_a_disk_without_room_leaves_the_old_lines(tmp_path: Path) -> None:
    file = filled(tmp_path / "ledger", b"one")
    program = """
import resource, sys
from privgcn.errors import ConfigError
from privgcn.privacy.ledger_file import LedgerFile
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    with LedgerFile(sys.argv[1]).adding() as opened:
        opened.add(b"x" * 200)
except ConfigError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(file.path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "cannot be written: File too large" in done.stdout
    assert file.lines() == [b"one"]
    assert sorted(place.name for place in tmp_path.iterdir()) == ["ledger", "ledger.head"]
