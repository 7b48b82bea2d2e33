"""What is wrong is said in one line, with the exit code that the contract names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from builders import reseal
from e2e.letters import PRIVATE, RUN, call, ended, letters
from privgcn.errors import ConfigError

EPSILON = ("--epsilon", "1")
TABLE = [
    (["train", "no-such-place"], 2, "no-such-place"),
    (["train", "clinic", "--epsilon", "0"], 2, "epsilon"),
    (["train", "clinic", *EPSILON, "--recipe", "x" * 20_000], 2, "recipe"),
    (["train", "clinic", *EPSILON, "--parts", "column:no"], 2, "no"),
    (["train", "clinic", "--set", "training.speed=9"], 2, "training.speed"),
    (["train", "clinic", "--set", "training.epoch=3"], 2, "Did you mean 'training.epochs'?"),
    (["train", "clinic", "--set", "zzz.q=1"], 2, "Known: "),
    (["train", "clinic", "--config", "nowhere.toml"], 2, "nowhere.toml"),
    (["train", "clinic", "--unit", "person"], 2, "without an epsilon"),
    (["train", "clinic", *EPSILON, "--set", "privacy.epsilon=2"], 2, "1.0 from a flag"),
    (["train", "clinic", *EPSILON, "--features", "magic"], 2, "magic"),
    (["train", "clinic", "--device", "tpu"], 2, "training.device"),
    (["train", "clinic", "--language", "klingon"], 2, "--features hashing"),
    (["train", "clinic", "--seeds", "0"], 2, "--seeds"),
    (["tune", "clinic"], 2, "epsilon"),
    (["tune", "clinic", *EPSILON, "--try", "privacy.epsilon=1,2"], 2, "privacy.epsilon"),
    (["evaluate", "nowhere"], 2, "nowhere"),
    (["verify", "nowhere"], 2, "nowhere"),
    (["release", "nowhere", "out"], 2, "nowhere"),
    (["release", "nowhere", "out", "--budget", "3"], 2, "--ledger"),
    (["predict", "nowhere", "clinic"], 2, "nowhere"),
    (["predict", "nowhere", "clinic", "--inference", "sideways"], 2, "sideways"),
    (["predict", "nowhere", "clinic", "--out", "p.parq"], 2, "ends with .csv"),
    (["predict", "nowhere", "clinic", "--out", "/proc/a.csv"], 2, "cannot be written"),
    (["report", "nowhere"], 2, "nowhere"),
    (["fetch", "nope"], 2, "nope"),
    (["fetch", "cora", "--data-dir", ".", "--from", "nowhere"], 3, "nowhere"),
    (["plan", "--documents", "100", "--classes", "1"], 2, "--classes"),
    (["account"], 2, "--noise-multiplier"),
    (["plan", "--steps", "9", "--documents", "9", "--classes", "2"], 2, "--documents"),
    (["ledger", "nowhere"], 2, "nowhere"),
    (["check", "nowhere"], 2, "nowhere"),
    (["check", "clinic", "--id", "letter"], 2, "documents of your own"),
    (["account", "--noise-multiplier", "0", "--steps", "100"], 2, "noise_multiplier"),
    (["account", "--noise-multiplier", "4", "--steps", "9", "--sensitivity", "3"], 2, "3"),
    (["calibrate", "--epsilon", "0.01", "--steps", "9", "--accountant", "moments"], 2, "0.01"),
    (["nonsense"], 2, "nonsense"),
    (["train", "clinic", "--nonsense"], 2, "--nonsense"),
]


@pytest.mark.parametrize(("words", "code", "said"), TABLE, ids=lambda v: str(v)[:60])
def test_a_mistake_is_one_line_or_one_object(
    tmp_path, monkeypatch, capsys, words, code, said
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ended(monkeypatch, *words) == code
    shown = capsys.readouterr()

    assert shown.out == ""
    error = [line for line in shown.err.splitlines() if line.startswith("Error: ")]
    assert len(error) == 1, shown.err
    assert said in error[0]
    assert len(error[0]) < 2_500
    assert "Traceback" not in shown.err
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert ended(monkeypatch, *words, "--json") == code
    shown = capsys.readouterr()
    found = json.loads(shown.out)["error"]
    assert found["exit_code"] == code
    assert found["kind"].endswith("Error")
    assert said in found["message"]
    assert "Error" not in shown.err


@pytest.mark.parametrize("verbose", [False, True])
def test_a_bug_is_exit_code_one_and_json_too(monkeypatch, capsys, verbose) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a division\nby zero")

    monkeypatch.setattr("privgcn.data.load_corpus", broken)
    words = ["train", "clinic", "--json", *["--verbose"] * verbose]
    assert ended(monkeypatch, *words) == 1
    shown = capsys.readouterr()
    error = json.loads(shown.out)["error"]
    assert (error["kind"], error["exit_code"]) == ("ZeroDivisionError", 1)
    assert error["message"].startswith(r"a division\nby zero (a bug of privgcn")
    assert ("Traceback" in shown.err and "in broken" in shown.err) == verbose
    with pytest.raises(ZeroDivisionError):
        ended(monkeypatch, "train", "clinic")
    # Of a mistake it shows where it arose, too.
    assert ended(monkeypatch, "verify", "nowhere", *["--verbose"] * verbose) == 2
    assert ("Traceback" in capsys.readouterr().err) == verbose


def test_data_that_are_not_here_exit_with_three(tmp_path) -> None:
    environment = {**os.environ, "PRIVGCN_DATA": str(tmp_path)}
    done = subprocess.run([*RUN, "train", "cora"], env=environment, capture_output=True)
    assert done.returncode == 3
    assert done.stderr.startswith(b"Error: The dataset 'cora' is not on this machine")
    assert b"privgcn fetch cora" in done.stderr
    assert done.stderr.count(b"\n") == 1


def _record(**changes: object):
    def edit(content: bytes) -> bytes:
        tree = json.loads(content)
        for name, value in changes.items():
            *path, last = name.split("__")
            node = tree
            for key in path:
                node = node[key]
            node[last] = value
        return json.dumps(tree).encode()

    return edit


MODELS = {
    "broken settings": ("settings.toml", lambda _: b"recipe = ["),
    "many hops": ("settings.toml", lambda c: c.replace(b"hops = 10", b"hops = 999999999")),
    "deep model": ("model.json", lambda _: b'{"a":' * 100_000),
    "digits": ("model.json", lambda _: b'{"format": ' + b"3" * 5000 + b"}"),
    "endless rounds": ("model.json", _record(matching__rounds=10**12)),
    "plan of many steps": ("statement.json", _record(plan__steps=10**15)),
    "weights that are none": ("model.safetensors", lambda _: b"\xff" * 100),
    "no weights": ("model.safetensors", lambda _: None),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_hostile_model_is_one_line(shelf, tmp_path, monkeypatch, capsys, name) -> None:
    """Under a manifest that fits: whoever can write a folder can write that too."""
    file, edit = MODELS[name]
    run = shutil.copytree(shelf / "run", tmp_path / "run")
    reseal(run, {file: edit((run / file).read_bytes())})
    for words in (
        ["predict", run, shelf / "letters", "--out", tmp_path / "p.csv"],
        ["release", run, tmp_path / "out", "--ledger", tmp_path / "ledger.jsonl"],
    ):
        assert ended(monkeypatch, *words) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.startswith("Error: ")
        assert shown.err.count("\n") == 1
        assert shown.err[:-1].isprintable()
    assert {path.name for path in tmp_path.iterdir()} == {"run"}


class TestOut:
    """Nothing of others is touched, and nothing is half-written."""

    @pytest.mark.parametrize("more", [[], ["--overwrite"]], ids=["plain", "overwrite"])
    @pytest.mark.parametrize(
        "words",
        [
            ["train", "{shelf}/letters", *PRIVATE, "--out", "{thesis}"],
            ["demo", "--out", "{thesis}"],
            ["tune", "{shelf}/letters", *PRIVATE, "--out", "{thesis}"],
            ["release", "{shelf}/run", "{thesis}", "--ledger", "{thesis}.jsonl"],
        ],
        ids=lambda words: words[0],
    )
    def test_a_folder_of_somebody_else_is_not_ours(self, shelf, tmp_path, words, more):
        thesis = tmp_path / "thesis"
        thesis.mkdir()
        (thesis / "model.json").write_text("{}")
        (thesis / "thesis.tex").write_text("three years of work")
        with pytest.raises(ConfigError, match="nothing in it will be replaced"):
            call(*(word.format(shelf=shelf, thesis=thesis) for word in words), *more)
        assert (thesis / "thesis.tex").read_text() == "three years of work"
        # Refused before anything was spent.
        assert list(tmp_path.iterdir()) == [thesis]

    @pytest.mark.parametrize("place", ["/proc/run", "{file}", "{file}/run"])
    def test_a_place_that_cannot_be_written_is_known_before_training(
        self, shelf, tmp_path, place, monkeypatch, capsys
    ):
        out = place.format(file=shelf / "letters" / "documents.jsonl")
        endless = ["--recipe", "paper-split", "--set", "training.epochs=1000000"]
        words = ["train", shelf / "letters", *PRIVATE, *endless, "--out", out]
        assert ended(monkeypatch, *words) == 2
        assert capsys.readouterr().err.startswith("Error: ")

    @pytest.mark.parametrize(
        "words", [["predict", "run", "letters"], ["report", "run"]], ids=lambda words: words[0]
    )
    def test_a_file_is_replaced_if_that_is_said(self, shelf, tmp_path, words):
        words = [words[0], *(shelf / word for word in words[1:]), "--out"]
        out = tmp_path / "deep" / "out.csv"
        call(*words, out)
        out.write_text("mine")
        with pytest.raises(ConfigError, match="Add --overwrite"):
            call(*words, out)
        assert out.read_text() == "mine"
        call(*words, out, "--overwrite")
        assert out.read_text() != "mine"
        (tmp_path / "link.csv").symlink_to(shelf / "run" / "model.json")
        (tmp_path / "folder.csv").mkdir()
        (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
        call(*words, tmp_path / "loop.csv")
        for place, rule in (
            (shelf / "run" / "new.csv", "must stay as it is"),
            (tmp_path / "link.csv", "must stay as it is"),
            (tmp_path / "folder.csv", "regular file"),
            (Path("/dev/null"), "regular file"),
            (out / "below.csv", "cannot be written"),
        ):
            with pytest.raises(ConfigError, match=rule):
                call(*words, place, "--overwrite")
        call("verify", shelf / "run")


@pytest.mark.parametrize("recipe", ["auto", "plain", "paper-split"])
@pytest.mark.parametrize("shape", ["no edges", "self-loops", "hub", "one class", "tiny"])
def test_a_degenerate_graph_trains(tmp_path, recipe, shape) -> None:
    source = letters(tmp_path / "letters", range(2 if shape == "tiny" else 60))
    path, edges = source / "documents.jsonl", source / "edges.csv"
    pairs = {
        "self-loops": [f"d{i},d{i}" for i in range(60)],
        "hub": [f"d0,d{i}" for i in range(1, 60)],
    }.get(shape, [])
    edges.write_text("\n".join(["source,target", *pairs]) + "\n")
    if shape == "one class":
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        rows = [{**x, "label": "heart"} if x["split"] == "train" else x for x in lines]
        path.write_text("\n".join(map(json.dumps, rows)))
    words = ["--features", "hashing", "--set", "training.epochs=2", "--recipe", recipe]
    if recipe != "plain":
        words += ["--set", "privacy.noise_multiplier=4", "--delta", "1e-3"]
    words += ["--parts", "2"] if recipe == "paper-split" else []
    call("train", source, *words, "--out", tmp_path / "run")
    assert (tmp_path / "run" / "scores.json").exists()
