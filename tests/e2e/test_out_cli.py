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
from privgcn.errors import ConfigError, DataError, PrivacyContractError

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


@pytest.fixture
def run(tmp_path: Path, letters: Path) -> Path:
    call(
        "train", str(letters), *CHOSEN, "--features", "hashing", "--out", str(tmp_path / "run")
    )
    return tmp_path / "run"


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_predictions_replace_predictions_and_nothing_else(
    tmp_path: Path, letters: Path, run: Path, suffix: str
) -> None:
    import polars as pl

    out = tmp_path / f"answers{suffix}"
    for more in ([], ["--all-classes"], []):
        call("predict", str(run), str(letters), "--out", str(out), *more)
    mine = letters / "documents.jsonl"
    frame = pl.read_ndjson(mine)
    if suffix != ".jsonl":
        mine = tmp_path / f"documents{suffix}"
        (frame.write_csv if suffix == ".csv" else frame.write_parquet)(mine)
    before = mine.read_bytes()
    with pytest.raises(ConfigError, match="will not be replaced"):
        call("predict", str(run), str(letters), "--out", str(mine))
    mine.write_bytes(b"\xff\x00 something else")
    with pytest.raises(ConfigError, match="will not be replaced"):
        call("predict", str(run), str(letters), "--out", str(mine))
    assert before != mine.read_bytes() == b"\xff\x00 something else"


def test_a_report_replaces_a_report_and_nothing_else(tmp_path: Path, run: Path) -> None:
    for _ in range(2):
        call("report", str(run), "--out", str(tmp_path / "page.html"))
    (tmp_path / "mine.html").write_text("<!DOCTYPE html>\n<title>my thesis</title>")
    with pytest.raises(ConfigError, match="will not be replaced"):
        call("report", str(run), "--out", str(tmp_path / "mine.html"))
    assert "my thesis" in (tmp_path / "mine.html").read_text()


def test_attacks_replace_attacks_and_nothing_else(tmp_path: Path, letters: Path) -> None:
    mine = tmp_path / "notes.json"
    mine.write_text('{"my": "notes"}')
    with pytest.raises(ConfigError, match="will not be replaced"):
        call("attack", str(letters), "--out", str(mine))
    assert mine.read_text() == '{"my": "notes"}'


@pytest.mark.parametrize("verb", ["predict", "report"])
def test_no_file_is_written_into_a_run(run: Path, letters: Path, verb: str) -> None:
    """It would no longer be what its manifest says."""
    words = {
        "predict": [str(letters), "--out", "answers.csv"],
        "report": ["--out", "report.html"],
    }
    *words, name = words[verb]
    with pytest.raises(ConfigError, match="must stay as it is"):
        call(verb, str(run), *words, str(run / name))
    call("verify", str(run))


def test_a_place_for_predictions_is_known_before_the_work(tmp_path: Path, run: Path) -> None:
    for place, words in ((str(tmp_path), "folder"), ("/proc/a.csv", "cannot be written")):
        with pytest.raises(ConfigError, match=words):
            call("predict", str(run), "no such source", "--out", place)


def test_what_to_do_next_can_be_pasted(tmp_path: Path, letters: Path) -> None:
    out = tmp_path / "my run"
    told = call("train", str(letters), *CHOSEN, "--features", "hashing", "--out", str(out))
    assert f"privgcn verify '{out}'; privgcn release '{out}' DIR" in told


def test_without_test_documents_nothing_is_scored(tmp_path: Path, letters: Path) -> None:
    path = letters / "documents.jsonl"
    path.write_text(path.read_text().replace('"test"', '"train"'))
    arguments = ["train", str(letters), *CHOSEN, "--features", "hashing"]
    told = call(*arguments, "--out", str(tmp_path / "run"))
    assert "nothing was scored" in told
    assert "micro-F1" not in told


@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["train", "dry-run"])
def test_what_cannot_train_is_told_before_the_features(letters: Path, more: list[str]) -> None:
    with pytest.raises(PrivacyContractError, match="Add a column 'owner'"):
        call("train", str(letters), *CHOSEN, "--unit", "person", *more)
    for parts, words in (("0", "between 1 and"), ("column:no", "not in the corpus")):
        with pytest.raises(PrivacyContractError, match=words):
            call(
                "train", str(letters), *CHOSEN, "--features", "hashing", "--parts", parts, *more
            )
    path = letters / "documents.jsonl"
    path.write_text(path.read_text().replace('"label"', '"topic"'))
    with pytest.raises(DataError, match="a label for every training document"):
        call("train", str(letters), *CHOSEN, *more)
