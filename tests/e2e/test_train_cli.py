"""The verbs as a user meets them, through the command line."""

from __future__ import annotations

import inspect
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer
from rich.text import Text
from typer.testing import CliRunner

from privgcn.cli import app, main
from privgcn.errors import PrivGCNError
from privgcn.evaluation.references import REFERENCES
from privgcn.runs.folder import read_folder, write_folder
from privgcn.training.outlook import outlook

RUN = [sys.executable, "-c", "from privgcn.cli import main; main()"]


def call(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def letters(tmp_path_factory) -> Path:
    """A user's own folder: two kinds of letters, linked within their kind."""
    folder = tmp_path_factory.mktemp("letters")
    words = {"heart": "pulse pressure valve beat", "skin": "rash itch cream spot"}
    lines, links = [], ["source,target"]
    for number in range(240):
        kind = ("heart", "skin")[number % 2]
        split = "test" if number % 6 == 5 or number % 6 == 4 else "train"
        text = f"{words[kind]} letter {number % 7}"
        record = {"id": f"d{number}", "text": text, "label": kind, "split": split}
        lines.append(json.dumps({**record, "owner": f"p{number}"}))
        if number >= 12:
            links.append(f"d{number},d{number - 12}")
    (folder / "documents.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "edges.csv").write_text("\n".join(links) + "\n")
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory, letters) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    call("train", str(letters), "--epsilon", "8", "--delta", "1e-4", "--out", str(folder))
    return folder


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "NOT PRIVATE: no --epsilon was given."),
        (("--epsilon", "8"), "--unit person protects all documents of a person together."),
    ],
)
def test_train_says_what_it_read_and_what_it_protects(
    tmp_path, letters, arguments: tuple[str, ...], words: str
) -> None:
    chosen = ["--features", "hashing", "--set", "training.epochs=2", *arguments]
    done = CliRunner().invoke(
        app, ["train", str(letters), *chosen, "--out", str(tmp_path / "run")]
    )
    assert "Read 240 documents of 240 owners in 2 classes and 228 links." in done.stderr
    assert words in done.stderr


def test_train_json_has_what_the_contract_names(tmp_path, letters) -> None:
    record = json.loads(
        call("train", str(letters), "--epsilon", "8", "--json", "--out", str(tmp_path / "r"))
    )
    assert {"run", "dataset", "seconds", "settings", "statement", "scores"} <= set(record)
    assert set(record["scores"]) == {"alone", "own-graph", "full-graph"}
    for row in record["scores"].values():
        assert set(row) == {"micro_f1", "macro_f1", "accuracy", "documents", "intervals"}
    assert record["statement"]["epsilon"] <= 8
    assert record["scores"]["own-graph"]["micro_f1"] > 0.9


def test_a_plain_run_has_no_statement_and_says_so(tmp_path, letters) -> None:
    out = tmp_path / "plain"
    record = json.loads(call("train", str(letters), "--json", "--out", str(out)))
    assert record["statement"] is None
    assert not (out / "statement.json").exists()
    assert "No privacy guarantee" in call("evaluate", str(out))


def test_a_run_folder_holds_exactly_the_contract(run) -> None:
    assert {path.name for path in run.iterdir()} == {
        "settings.toml",
        "statement.json",
        "scores.json",
        "model.safetensors",
        "model.json",
        "report.html",
        "trained.json",
        "manifest.json",
    }
    for path in run.iterdir():
        if path.name not in ("report.html", "model.safetensors"):
            text = path.read_text()
            assert "pulse pressure" not in text
            assert "loss" not in text


def test_train_twice_replaces_the_run_only_when_told_to(tmp_path, letters) -> None:
    out = tmp_path / "again"
    arguments = ["train", str(letters), "--epsilon", "8", "--out", str(out)]
    call(*arguments)
    first = (out / "model.safetensors").read_bytes()
    with pytest.raises(PrivGCNError, match="--overwrite"):
        call(*arguments)
    assert (out / "model.safetensors").read_bytes() == first
    call(*arguments, "--overwrite")
    assert (out / "model.safetensors").read_bytes() != first
    assert [path.name for path in tmp_path.iterdir()] == ["again"]


def test_two_releasable_runs_of_one_seed_differ(tmp_path, letters) -> None:
    weights = []
    for name in ("a", "b"):
        call(
            "train",
            str(letters),
            "--epsilon",
            "8",
            "--seed",
            "3",
            "--out",
            str(tmp_path / name),
        )
        weights.append((tmp_path / name / "model.safetensors").read_bytes())
    assert weights[0] != weights[1]


def test_reproducible_runs_agree_and_are_never_released(tmp_path, letters) -> None:
    weights = []
    for name in ("a", "b"):
        out = tmp_path / name
        call("train", str(letters), "--epsilon", "8", "--reproducible", "--out", str(out))
        weights.append((out / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]
    with pytest.raises(PrivGCNError, match="seeded"):
        call("release", str(tmp_path / "a"), str(tmp_path / "released"))
    assert not (tmp_path / "released").exists()


def test_a_private_run_says_which_baseline_it_cannot_afford(tmp_path, letters) -> None:
    words = ["--recipe", "paper-full", "--epsilon", "8", "--set", "training.epochs=2"]
    out = str(tmp_path / "r")
    shown = call("train", str(letters), *words, "--out", out)
    assert "No graph-blind baseline" in shown
    assert "A baseline is missing" in (tmp_path / "r" / "report.html").read_text()
    again = ["--out", out, "--overwrite", "--json"]
    record = json.loads(call("train", str(letters), *words, *again))
    assert set(record["baselines"]) == {"majority", "random"}
    assert len(record["baselines_left_out"]) == 1
    plain = ["--set", "training.epochs=2", "--out", str(tmp_path / "p"), "--json"]
    record = json.loads(call("train", str(letters), *plain))
    assert set(record["references"]["own-graph"]["scores"]) == set(REFERENCES)
    assert record["baselines_left_out"] == []


def test_a_plain_run_names_the_best_without_privacy(tmp_path, letters) -> None:
    words = [
        "--features",
        "hashing",
        "--set",
        "training.epochs=2",
        "--out",
        str(tmp_path / "p"),
    ]
    shown = call("train", str(letters), *words)
    lines = [line for line in shown.splitlines() if "Best on the validation documents" in line]
    assert [line.split(":")[0] for line in lines] == ["alone", "own-graph", "full-graph"]
    assert all(name in lines[0] for name in REFERENCES)
    page = (tmp_path / "p" / "report.html").read_text()
    assert "Micro-F1 without privacy, by inference mode" in page
    assert "Best without privacy" in page


def test_every_score_has_its_documents_and_an_interval(run) -> None:
    scores = json.loads((run / "scores.json").read_text())
    for row in (*scores["modes"].values(), *scores["baselines"].values()):
        assert row["documents"] == 80
        for name in ("micro_f1", "macro_f1", "accuracy"):
            low, high = row["intervals"][name]
            assert 0 <= low <= row[name] <= high <= 1
    shown = call("evaluate", str(run))
    assert "80 test documents" in shown
    low, high = scores["modes"]["alone"]["intervals"]["micro_f1"]
    assert f"({low:.3f}-{high:.3f})" in "".join(shown.split()).replace("│", " ")
    assert f"{low:.3f} to {high:.3f}" in (run / "report.html").read_text()


def test_train_says_what_to_expect_and_whether_it_came(tmp_path, letters) -> None:
    words = ["--epsilon", "8", "--delta", "1e-4", "--features", "hashing"]
    done = CliRunner().invoke(
        app, ["train", str(letters), *words, "--out", str(tmp_path / "r")]
    )
    assert done.exit_code == 0, done.output
    expected = outlook(160, 2, 8.0, kind="hashing", delta=1e-4).expected
    low, high = expected.interval
    assert f"Expect a micro-F1 of {low:.2f} to {high:.2f} (own-graph)" in done.stderr
    scores = json.loads((tmp_path / "r" / "scores.json").read_text())
    assert scores["expected"]["interval"] == [low, high]
    value = scores["modes"]["own-graph"]["micro_f1"]
    assert scores["expected"]["score"] == value
    where = "below" if value < low else "above" if value > high else "within"
    assert f"lies {where} what was expected" in done.stdout
    assert f"The score lies {where} that" in (tmp_path / "r" / "report.html").read_text()


def test_a_budget_too_small_is_said_before_training(tmp_path, letters) -> None:
    words = ["--epsilon", "0.2", "--delta", "1e-4", "--features", "hashing"]
    done = CliRunner().invoke(
        app, ["train", str(letters), *words, "--out", str(tmp_path / "r")]
    )
    assert done.exit_code == 0, done.output
    assert "160 documents at epsilon 0.2: expect no better than guessing" in done.stderr


def test_seeds_show_the_spread_and_what_publishing_it_costs(tmp_path, letters) -> None:
    out = tmp_path / "r"
    words = ["--epsilon", "1", "--delta", "1e-4", "--features", "hashing", "--seeds", "3"]
    done = CliRunner().invoke(app, ["train", str(letters), *words, "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "The model is that of seed 0, whatever it scores" in done.stderr
    scores = json.loads((out / "scores.json").read_text())
    row = scores["repeats"]["modes"]["own-graph"]["micro_f1"]
    assert row["values"][0] == scores["modes"]["own-graph"]["micro_f1"]
    assert f"{row['mean']:.3f} ± {row['std']:.3f} over 3 seeds" in done.stdout
    cost = scores["repeats"]["composed_epsilon"]
    assert 1.0 < cost < 3.0
    assert "would be 3 releases: epsilon at most 1." in done.stdout
    assert "Scores over 3 seeds" in (out / "report.html").read_text()
    statement = json.loads((out / "statement.json").read_text())
    assert statement["epsilon"] <= 1.0, "the claim is that of the model alone"


def test_plan_gives_an_interval_and_says_when_a_budget_is_too_small() -> None:
    words = ["plan", "--documents", "300", "--classes", "10", "--kind", "hashing"]
    found = outlook(300, 10, 1.0, kind="hashing")
    low, high = found.expected.interval
    shown = call(*words)
    assert f"micro-F1 {low:.2f} to {high:.2f} (inference own-graph)" in shown
    assert "300 documents at epsilon 1: expect no better than guessing" in shown
    record = json.loads(call(*words, "--json"))
    assert record["expected"]["micro_f1"] == [low, high]
    assert record["kind"] == "hashing"
    assert record["features"] == 4096


def test_evaluate_finds_the_scores_of_the_run_again(run) -> None:
    again = json.loads(call("evaluate", str(run), "--json"))["scores"]
    stored = json.loads((run / "scores.json").read_text())["modes"]
    assert again == stored
    one = json.loads(call("evaluate", str(run), "--inference", "alone", "--json"))["scores"]
    assert list(one) == ["alone"]


def test_predict_never_takes_training_documents_for_new_ones(tmp_path, run, letters) -> None:
    out = tmp_path / "p.csv"
    call("predict", str(run), str(letters), "--out", str(out))
    rows = out.read_text().splitlines()
    assert rows[0] == "id,label,probability"
    assert len(rows) == 1 + 80
    assert {row.split(",")[1] for row in rows[1:]} == {"heart", "skin"}


def test_predict_takes_a_folder_without_labels(tmp_path, run) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / "documents.csv").write_text("id,text\n1,pulse valve beat\n2,rash itch cream\n")
    out = tmp_path / "p.csv"
    call("predict", str(run), str(folder), "--out", str(out), "--inference", "alone")
    labels = [row.split(",")[1] for row in out.read_text().splitlines()[1:]]
    assert labels == ["heart", "skin"]


def test_a_release_holds_nothing_that_is_not_covered(tmp_path, run, letters) -> None:
    out = tmp_path / "released"
    call("release", str(run), str(out), "--ledger", str(tmp_path / "ledger.jsonl"))
    names = {path.name for path in out.iterdir()}
    assert names == {
        "model.safetensors",
        "model.json",
        "settings.toml",
        "statement.json",
        "card.md",
        "card.html",
        "manifest.json",
    }
    for path in out.iterdir():
        content = path.read_bytes()
        assert str(letters).encode() not in content
        assert b"full_graph" not in content or path.name == "statement.json"
        assert b"micro_f1" not in content
    assert "verified" in call("verify", str(out))
    call("predict", str(out), str(letters), "--out", str(tmp_path / "p.csv"))


def test_a_release_does_not_say_where_word_vectors_lay(tmp_path, letters) -> None:
    words = ["pulse", "pressure", "valve", "beat", "rash", "itch", "cream", "spot"]
    vectors = tmp_path / "secret-place" / "vectors.txt"
    vectors.parent.mkdir()
    vectors.write_text("".join(f"{w} {i} {i % 3} {8 - i}\n" for i, w in enumerate(words)))
    run, out = tmp_path / "run", tmp_path / "released"
    place = f"features.options.source={vectors}"
    chosen = ["--epsilon", "8", "--delta", "1e-4", "--features", "word-vectors", "--set", place]
    call("train", str(letters), *chosen, "--out", str(run))
    call("release", str(run), str(out))
    for path in out.iterdir():
        assert b"secret-place" not in path.read_bytes(), path.name
    assert "verified" in call("verify", str(out))
    assert "vectors.txt" in (out / "model.json").read_text()


def test_a_budget_refuses_one_release_too_many(tmp_path, letters) -> None:
    ledger = str(tmp_path / "ledger.jsonl")
    for name in ("a", "b"):
        call("train", str(letters), "--epsilon", "8", "--out", str(tmp_path / name))
    budget = ("--ledger", ledger, "--budget", "9", "--delta", "1e-5")
    call("release", str(tmp_path / "a"), str(tmp_path / "ra"), *budget)
    with pytest.raises(PrivGCNError, match="budget"):
        call("release", str(tmp_path / "b"), str(tmp_path / "rb"), *budget)
    assert not (tmp_path / "rb").exists()


def test_parts_of_different_cuts_share_no_ledger(tmp_path, letters) -> None:
    ledger = ("--ledger", str(tmp_path / "ledger.jsonl"))
    chosen = ["--epsilon", "8", "--unit", "part", "--parts", "40"]
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        out = str(tmp_path / name)
        call("train", str(letters), *chosen, "--seed", seed, "--out", out)
    call("release", str(tmp_path / "a"), str(tmp_path / "ra"), *ledger)
    both = call("release", str(tmp_path / "b"), str(tmp_path / "rb"), *ledger, "--json")
    assert json.loads(both)["spent"] > 8
    with pytest.raises(PrivGCNError, match=r"seed 2\) after .*seed 1\)"):
        call("release", str(tmp_path / "c"), str(tmp_path / "rc"), *ledger)
    assert not (tmp_path / "rc").exists()


@pytest.mark.parametrize("ledger", ["folder", "pipe", "emptied", "text", "nowhere"])
def test_a_ledger_that_is_none_is_one_clear_line(
    tmp_path, run, monkeypatch, capsys, ledger
) -> None:
    path = tmp_path / "ledger.jsonl"
    if ledger == "folder":
        path.mkdir()
    elif ledger == "pipe":
        os.mkfifo(path)
    elif ledger == "emptied":
        call("release", str(run), str(tmp_path / "first"), "--ledger", str(path))
        path.write_bytes(b"")
    elif ledger == "text":
        path.write_bytes(b"\xff{\n")
    else:
        path = tmp_path / "missing" / "ledger.jsonl"
    out = str(tmp_path / "released")
    command = ["privgcn", "release", str(run), out, "--ledger", str(path)]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as stop:
        main()
    said = capsys.readouterr()
    assert stop.value.code == 2
    assert said.err.startswith("Error: The ledger")
    assert said.err.count("\n") == 1
    assert not (tmp_path / "released").exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [("epsilon", 0.5), ("noise_multiplier", 99.0), ("steps", 1), ("unit", "person")],
)
def test_an_edited_statement_is_found_out(tmp_path, run, field, value) -> None:
    record = json.loads((run / "statement.json").read_text())
    record[field] = value
    (tmp_path / "statement.json").write_text(json.dumps(record))
    with pytest.raises(PrivGCNError):
        call("verify", str(tmp_path))


@pytest.mark.parametrize("listed", [False, True], ids=["old manifest", "new manifest"])
@pytest.mark.parametrize("name", ["model.safetensors", "model.json", "settings.toml"])
def test_a_run_with_an_edited_file_is_not_released(tmp_path, run, name, listed) -> None:
    """Other weights would leave the house under a claim that is not theirs."""
    edited, out, ledger = (tmp_path / part for part in ("run", "out", "ledger.jsonl"))
    shutil.copytree(run, edited)
    stored = read_folder(edited)
    content = stored.content(name)
    if name == "model.safetensors":
        changed = content[:-1] + bytes([content[-1] ^ 1])
    else:
        changed = content.replace(b"0.0001", b"0.0002")
    assert changed != content
    if listed:
        write_folder(edited, stored.kind, {**stored.files, name: changed}, overwrite=True)
    else:
        (edited / name).write_bytes(changed)
    with pytest.raises(PrivGCNError):
        call("release", str(edited), str(out), "--ledger", str(ledger))
    assert not out.exists()
    assert not ledger.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["train", "no-such-place"], 2, "no-such-place"),
        (["train", "clinic", "--epsilon", "0"], 2, "epsilon"),
        (["train", "clinic", "--epsilon", "1", "--delta", "0.5"], 2, "delta"),
        (["train", "clinic", "--epsilon", "1", "--recipe", "best"], 2, "recipe"),
        (["train", "clinic", "--epsilon", "1", "--parts", "0"], 2, "parts"),
        (["train", "clinic", "--set", "training.speed=9"], 2, "training.speed"),
        (["train", "clinic", "--unit", "person"], 2, "without an epsilon"),
        (["tune", "clinic", "--unit", "person"], 2, "without an epsilon"),
        (["tune", "clinic"], 2, "epsilon"),
        (["train", "clinic", "--epsilon", "1", "--set", "privacy.epsilon=2"], 2, "--epsilon 1"),
        (["train", "clinic", "--features", "magic"], 2, "magic"),
        (["evaluate", "nowhere"], 2, "nowhere"),
        (["verify", "nowhere"], 2, "nowhere"),
        (["release", "nowhere", "out"], 2, "does not exist"),
        (["predict", "nowhere", "clinic"], 2, "nowhere"),
        (["nonsense"], 2, "nonsense"),
    ],
)
def test_a_users_mistake_is_one_clear_line(
    tmp_path, monkeypatch, capsys, arguments, code, words
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["privgcn", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    said = capsys.readouterr()
    assert stop.value.code == code
    assert words in said.err
    assert "Traceback" not in said.err
    assert said.out == ""
    assert not list(tmp_path.iterdir())


def test_data_that_are_not_there_exit_with_three(tmp_path) -> None:
    environment = {**os.environ, "PRIVGCN_DATA": str(tmp_path)}
    done = subprocess.run(
        [*RUN, "train", "cora"], cwd=tmp_path, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 3
    assert "privgcn fetch cora" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_run_leaves_no_half_written_folder(tmp_path, letters, blow) -> None:
    arguments = ["--recipe", "paper-split", "--epsilon", "8", "--set", "training.epochs=100000"]
    process = subprocess.Popen(
        [*RUN, "train", str(letters), *arguments, "--set", "privacy.accountant=rdp"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(5)
    process.send_signal(blow)
    _, errors = process.communicate(timeout=30)
    if blow == signal.SIGINT:
        assert process.returncode == 130, errors
        assert "Traceback" not in errors
    left = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert not [name for name in left if name in ("scores.json", "statement.json")]


def _read_until(terminal: int, sign: bytes, seconds: float = 60.0) -> bytes:
    """What a program wrote to a terminal until a sign appears, or until it closed it."""
    text, deadline = b"", time.monotonic() + seconds
    while sign not in text and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                more = os.read(terminal, 4096)
            except OSError:
                break
            if not more:
                break
            text += more
    return text


@contextmanager
def _on_a_terminal(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The program with a terminal for its errors, and our end of that terminal."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [*RUN, *words], cwd=folder, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_an_interrupt_is_answered_and_gives_the_cursor_back(tmp_path, letters) -> None:
    arguments = ["--recipe", "paper-split", "--epsilon", "8", "--set", "training.epochs=100000"]
    words = ["train", str(letters), *arguments, "--set", "privacy.accountant=rdp"]
    with _on_a_terminal(tmp_path, *words) as (process, terminal):
        seen = _read_until(terminal, b"training")
        assert b"training" in seen, seen
        process.send_signal(signal.SIGINT)
        seen += _read_until(terminal, b"left behind.")
        assert process.wait(timeout=60) == 130, seen
    assert b"Stopped. Nothing unfinished was left behind." in seen
    assert seen.rindex(b"\x1b[?25h") > seen.rindex(b"\x1b[?25l")


def test_a_mistake_does_not_touch_the_terminal(tmp_path) -> None:
    words = ["reproduce", "table1", "--datasets", "typo"]
    with _on_a_terminal(tmp_path, *words) as (process, terminal):
        seen = _read_until(terminal, b"'typo'.")
        assert process.wait(timeout=60) == 2, seen
    assert b"Error: " in seen
    assert b"\x1b[?25l" not in seen


@pytest.mark.parametrize("command", app.registered_commands, ids=lambda command: command.name)
def test_every_verb_answers_an_interrupt(command, capsys, monkeypatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    verb = inspect.unwrap(command.callback)
    monkeypatch.setattr(verb, "__code__", interrupted.__code__)
    monkeypatch.setattr(verb, "__defaults__", None)
    with pytest.raises(typer.Exit) as stop:
        command.callback()
    assert stop.value.exit_code == 130
    said = capsys.readouterr().err
    assert said.startswith("Stopped. Nothing unfinished was left behind.")
    assert ("--resume" in said) == (command.name == "reproduce")


@pytest.mark.parametrize("command", app.registered_commands, ids=lambda command: command.name)
def test_help_shows_every_word(command) -> None:
    group = typer.main.get_command(app)
    for option in group.commands[command.name].params:
        text = getattr(option, "help", None) or ""
        assert Text.from_markup(text).plain == text, "brackets would be taken for markup"


def test_a_device_that_is_not_there_is_refused_before_anything_is_read(
    letters, monkeypatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    done = CliRunner().invoke(app, ["train", str(letters), "--device", "cuda"])
    assert isinstance(done.exception, PrivGCNError)
    assert "cuda" in str(done.exception)
    assert "240 documents" not in done.output
