"""A folder is ours only if its manifest fits, and nothing else is ever touched."""

from __future__ import annotations

import os
import resource
import shutil
from pathlib import Path

import pytest

from privgcn.errors import ConfigError, DataError
from privgcn.runs import folder as module
from privgcn.runs.folder import (
    MANIFEST,
    MODEL,
    REPORT,
    SCORES,
    WEIGHTS,
    check_target,
    is_stored,
    read_folder,
    write_folder,
)
from privgcn.runs.run import Run

FILES = {MODEL: '{"a": 1}', WEIGHTS: b"weights", SCORES: "{}"}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_folder(tmp_path / "run", "run", FILES)
    return tmp_path / "run"


def contents(folder: Path) -> dict[str, bytes]:
    """All files; beside the folder there is nothing."""
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_was_written_is_read_and_replaced_only_when_told_to(run: Path) -> None:
    written = {MODEL: b'{"a": 1}', WEIGHTS: b"weights", SCORES: b"{}"}
    assert read_folder(run) == ("run", written)
    assert is_stored(run)
    with pytest.raises(DataError, match=r"no report\.html"):
        Run(run).content(REPORT)
    for refused in (check_target, lambda at, **more: write_folder(at, "run", FILES, **more)):
        with pytest.raises(ConfigError, match="Add --overwrite"):
            refused(run, overwrite=False)
    write_folder(run, "release", {MODEL: "{}"}, overwrite=True)
    assert set(contents(run)) == {MODEL, MANIFEST}
    assert read_folder(run)[0] == "release"


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"[" * 60_000,
        b" " * (1 << 17),
        b'{"format": 1, "kind": "run", "files": {}}',
        b'{"format": 2, "kind": "run", "files": {"../secret": "' + b"0" * 64 + b'"}}',
        b'{"format": 2, "kind": "run", "files": {"model.json": "0"}}',
    ],
)
def test_a_manifest_must_be_one(run: Path, manifest: bytes) -> None:
    (run / MANIFEST).write_bytes(manifest)
    with pytest.raises(DataError):
        read_folder(run)
    before = contents(run)
    with pytest.raises(ConfigError, match="nothing in it will be replaced"):
        write_folder(run, "run", FILES, overwrite=True)
    assert contents(run) == before


@pytest.mark.parametrize("name", [WEIGHTS, MANIFEST])
@pytest.mark.parametrize(
    "trick", [os.mkfifo, lambda at: at.symlink_to("/dev/zero"), Path.mkdir]
)
def test_a_file_that_is_no_file_or_too_large_is_refused(
    run: Path, name: str, trick: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module, "_MOST_BINARY", 3)
        with pytest.raises(DataError, match="at most 3 bytes"):
            read_folder(run)
    (run / name).unlink()
    trick(run / name)  # type: ignore[operator]
    with pytest.raises(DataError, match="regular file"):
        read_folder(run)


@pytest.mark.parametrize("name", ["thesis.txt", "model.json"])
@pytest.mark.parametrize("in_a_run", [True, False])
def test_somebody_elses_files_are_never_touched(run: Path, name: str, in_a_run: bool) -> None:
    if not in_a_run:
        shutil.rmtree(run)
        run.mkdir()
    (run / name).write_text("three years of work")
    before = contents(run)
    for overwrite in (False, True):
        with pytest.raises(ConfigError, match="nothing in it will be replaced"):
            write_folder(run, "run", FILES, overwrite=overwrite)
    assert contents(run) == before


def test_what_appears_while_a_run_is_replaced_stays(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = module.check_target

    def check_and_add(folder: Path, *, overwrite: bool) -> None:
        check(folder, overwrite=overwrite)
        (run / "late.txt").write_text("mine")

    monkeypatch.setattr(module, "check_target", check_and_add)
    write_folder(run, "run", FILES, overwrite=True)
    read_folder(run)
    assert [path.read_text() for path in run.parent.rglob("late.txt")] == ["mine"]


def test_targets_are_known_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for target in (Path("/proc/nowhere/run"), tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(ConfigError):
            check_target(target, overwrite=True)
    check_target(tmp_path / "deep" / "run", overwrite=False)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    # An empty folder and a link to one are taken.
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    for files in (FILES, {MODEL: "{}"}):
        write_folder(tmp_path / "link", "run", files, overwrite=True)
        assert (tmp_path / "link").is_symlink()
        assert set(read_folder(tmp_path / "empty")[1]) == set(files)


@pytest.mark.parametrize("failure", ["a full disk", "the last rename"])
def test_a_failure_is_one_line_and_leaves_what_was_there(
    run: Path, failure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, calls, rename = contents(run), [], os.replace

    def fail_once(source: str, target: str) -> None:
        calls.append(target)
        if len(calls) == 2:
            raise OSError(27, "File too large")
        rename(source, target)

    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    if failure == "a full disk":
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, usual[1]))
    else:
        monkeypatch.setattr(os, "replace", fail_once)
    try:
        with pytest.raises(ConfigError, match="cannot be written: File too large"):
            write_folder(run, "run", {**FILES, WEIGHTS: bytes(5000)}, overwrite=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert contents(run) == before


@pytest.mark.parametrize("number", range(4))
def test_a_program_killed_at_any_file_leaves_the_old_run(
    run: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, done, write = contents(run), [], module.write_synced

    def killed(path: Path, data: bytes, *, mode: int) -> None:
        if len(done) == number:
            patch.setattr(shutil, "rmtree", lambda *_, **__: None)  # nobody tidies up
            raise KeyboardInterrupt
        done.append(write(path, data, mode=mode))

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_synced", killed)
        with pytest.raises(KeyboardInterrupt):
            write_folder(run, "run", FILES, overwrite=True)
    (draft,) = run.parent.glob(".run.*")
    with pytest.raises(DataError):
        read_folder(draft)
    shutil.rmtree(draft)
    assert contents(run) == before


# hazard 26
@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_a_run_is_for_its_owner_alone_whatever_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int
) -> None:
    seen: list[int] = []
    write = module.write_synced

    def watched(path: Path, data: bytes, *, mode: int) -> None:
        write(path, data, mode=mode)
        seen.extend(entry.stat().st_mode & 0o077 for entry in (path, path.parent))

    monkeypatch.setattr(module, "write_synced", watched)
    old = os.umask(umask)
    try:
        write_folder(tmp_path / "run", "run", FILES)
        write_folder(tmp_path / "model", "model", FILES)
        # One that others could read is replaced by one that they cannot.
        (tmp_path / "run").chmod(0o755)
        write_folder(tmp_path / "run", "run", FILES, overwrite=True)
        assert os.umask(umask) == umask
        assert not any(seen)
        for path in tmp_path.rglob("*"):
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)
        # A release has the usual permissions.
        write_folder(tmp_path / "release", "release", FILES)
        assert (tmp_path / "release").stat().st_mode & 0o777 == 0o777 & ~umask
        assert (tmp_path / "release" / MODEL).stat().st_mode & 0o777 == 0o666 & ~umask
    finally:
        os.umask(old)
