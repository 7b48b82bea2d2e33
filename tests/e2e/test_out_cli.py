"""``--out`` as a user meets it: nothing of others is touched, and nothing is half-written."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from privgcn.cli import app
from privgcn.errors import ConfigError, DataError

RUN = [sys.executable, "-c", "from privgcn.cli import main; main()"]
CHOSEN = ["--epsilon", "8", "--delta", "1e-3"]


def call(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    folder = tmp_path / "letters"
    folder.mkdir()
    lines = []
    for number in range(120):
        kind = ("heart", "skin")[number % 2]
        split = ("train", "train", "validation", "test")[number // 2 % 4]
        text = f"{kind} letter word{number}"
        record = {"id": f"d{number}", "text": text, "label": kind, "split": split}
        lines.append(json.dumps(record))
    (folder / "documents.jsonl").write_text("\n".join(lines))
    return folder


@pytest.mark.parametrize("verb", ["train", "demo", "tune", "release"])
@pytest.mark.parametrize("more", [[], ["--overwrite"]], ids=["plain", "overwrite"])
def test_a_folder_with_a_file_called_model_json_is_not_ours(
    tmp_path: Path, letters: Path, verb: str, more: list[str]
) -> None:
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    (thesis / "model.json").write_text("{}")
    (thesis / "thesis.tex").write_text("three years of work")
    arguments = {
        "train": ["train", str(letters), *CHOSEN, "--out", str(thesis)],
        "demo": ["demo", "--out", str(thesis)],
        "tune": ["tune", str(letters), "--epsilon", "8", "--out", str(thesis)],
    }
    if verb == "release":
        call("train", str(letters), *CHOSEN, "--out", str(tmp_path / "run"))
        arguments["release"] = [
            "release",
            str(tmp_path / "run"),
            str(thesis),
            "--ledger",
            str(tmp_path / "l.jsonl"),
        ]
    before = contents(thesis)
    with pytest.raises(ConfigError, match="nothing in it will be replaced"):
        call(*arguments[verb], *more)
    assert contents(thesis) == before
    # Refused before anything was spent.
    assert not (tmp_path / "l.jsonl").exists()


def test_an_edited_run_is_not_replaced(tmp_path: Path, letters: Path) -> None:
    out = tmp_path / "run"
    arguments = ["train", str(letters), *CHOSEN, "--out", str(out), "--overwrite"]
    call(*arguments)
    (out / "scores.json").write_text('{"my": "own figures"}')
    with pytest.raises(ConfigError, match=r"scores\.json was edited"):
        call(*arguments)
    assert (out / "scores.json").read_text() == '{"my": "own figures"}'


def test_a_release_replaces_only_a_release_or_run_and_when_told_to(
    tmp_path: Path, letters: Path
) -> None:
    run, out = tmp_path / "run", tmp_path / "released"
    call("train", str(letters), *CHOSEN, "--out", str(run))
    call("release", str(run), str(out))
    with pytest.raises(ConfigError, match="holds a release already"):
        call("release", str(run), str(out))
    call("release", str(run), str(out), "--overwrite")
    call("verify", str(out))


def test_the_demo_runs_twice_in_its_own_folder_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        call("demo")
    with pytest.raises(ConfigError, match="--overwrite"):
        call("demo", "--out", "./runs/../runs/demo/../demo")
    (tmp_path / "runs" / "demo" / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match=r"notes\.txt was added"):
        call("demo")


def test_the_demo_does_not_replace_another_run(
    tmp_path: Path, letters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call("train", str(letters), *CHOSEN, "--out", "runs/demo")
    with pytest.raises(ConfigError, match="--overwrite"):
        call("demo")


@pytest.mark.parametrize("place", ["/proc/run", "letters/documents.jsonl", "{file}/run"])
def test_a_place_that_cannot_be_written_is_known_before_training(
    tmp_path: Path, letters: Path, place: str
) -> None:
    out = place.format(file=letters / "documents.jsonl")
    endless = ["--recipe", "paper-split", "--set", "training.epochs=1000000"]
    done = subprocess.run(
        [*RUN, "train", str(letters), *CHOSEN, *endless, "--out", out],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1


def test_a_full_disk_is_one_line_and_leaves_the_earlier_run(
    tmp_path: Path, letters: Path
) -> None:
    out = tmp_path / "run"
    arguments = ["train", str(letters), *CHOSEN, "--out", str(out), "--overwrite"]
    call(*arguments)
    before = contents(tmp_path)
    done = subprocess.run(
        [*RUN, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "cannot be written: File too large" in done.stderr
    assert contents(tmp_path) == before
