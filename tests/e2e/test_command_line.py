"""What people expect of any command line: JSON, pipes, quiet, hints, completion."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from privgcn.cli import app, main
from privgcn.cli import train as train_verb
from privgcn.cli.score_lines import expected_lines
from terminal import Terminal

FEATURES = ["--features", "hashing"]


def call(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def ended(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of the whole program."""
    monkeypatch.setattr(sys, "argv", ["privgcn", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own") / "letters"
    folder.mkdir()
    words = {"heart": "pulse valve beat", "skin": "rash itch spot"}
    topics = [list(words)[row % 2] for row in range(90)]
    pl.DataFrame(
        {
            "id": [f"d{row}" for row in range(90)],
            "text": [f"{words[topic]} {row % 7}" for row, topic in enumerate(topics)],
            "label": topics,
            "owner": [f"p{row // 2}" for row in range(90)],
        }
    ).write_csv(folder / "documents.csv")
    pl.DataFrame(
        {
            "source": ["d0", "d1", "d1", "d4"],
            "target": ["d2", "d3", "d1", "d0"],
        }
    ).write_parquet(folder / "edges.parquet")
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, letters: Path) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    call("train", str(letters), "--epsilon", "8", *FEATURES, "--out", str(folder))
    return folder


def test_links_come_as_parquet_and_train_says_what_was_read(run: Path, letters: Path) -> None:
    done = CliRunner().invoke(app, ["train", str(letters), "--dry-run", *FEATURES])
    assert done.stderr.splitlines()[0] == "NOT PRIVATE: no --epsilon was given."
    assert (
        "Read 90 documents of 45 owners in 2 classes and 3 links; left out 1 to themselves."
    ) in done.stderr


def test_a_dry_run_trains_and_writes_nothing(
    tmp_path: Path, letters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = call("train", str(letters), "--epsilon", "1", "--dry-run")
    assert said == "Dry run: nothing was trained or written.\n"
    record = json.loads(call("train", str(letters), "--epsilon", "1", "--dry-run", "--json"))
    assert record["read"]["links_kept"] == 3
    assert record["settings"]["privacy"]["unit"] == "document"
    assert list(tmp_path.iterdir()) == []


def test_counts_of_classes_are_shown_of_public_data_only(letters: Path) -> None:
    public = CliRunner().invoke(app, ["train", "clinic", "--dry-run"])
    assert "Classes: cardiology 592, " in public.stderr
    own = CliRunner().invoke(app, ["train", str(letters), "--dry-run"])
    assert "Classes:" not in own.stderr


@pytest.mark.parametrize(("answer", "unit"), [("person", "person"), ("\n", "document")])
def test_at_a_terminal_the_unit_is_asked_for(
    letters: Path, answer: str, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from privgcn.config import make_settings

    monkeypatch.setattr(train_verb.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(train_verb.sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer._click.termui.visible_prompt_func", lambda words: answer.strip())
    settings = make_settings(epsilon=1.0)
    changed = train_verb._with_unit(settings, asks=True)
    assert changed.privacy is not None
    assert changed.privacy.unit == unit


def test_a_script_is_not_asked_but_told(letters: Path) -> None:
    arguments = ["train", str(letters), "--epsilon", "1", "--dry-run"]
    done = CliRunner().invoke(app, arguments)
    assert "--unit person protects all documents of a person together." in done.stderr
    spoken = CliRunner().invoke(app, [*arguments, "--unit", "person"])
    assert "together" not in spoken.stderr


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ("training.epoch=3", "'training.epoch'. Did you mean 'training.epochs'?"),
        ("epochs=3", "'epochs'. Did you mean 'training.epochs'?"),
        ("privacy.eps=3", "'privacy.eps'. Did you mean 'privacy.epsilon'?"),
        ("privacy.zzz=3", "'privacy.zzz'. Known settings: privacy.epsilon, "),
        ("zzz.q=1", "'zzz.q'. Known settings: "),
    ],
)
def test_an_unknown_setting_gets_a_hint(
    wrong: str, hint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = ended(monkeypatch, "train", "clinic", "--epsilon", "1", "--set", wrong)
    assert code == 2
    assert f"Error: There is no setting {hint}" in capsys.readouterr().err


def test_a_score_and_what_was_expected_have_the_same_digits() -> None:
    expected = {"mode": "own-graph", "interval": [0.3701, 0.8724], "score": 0.8718}
    line = "The micro-F1 of 0.872 (own-graph) lies within what was expected, 0.370 to 0.872."
    assert expected_lines({"expected": expected}) == [line]


def test_a_long_value_does_not_make_a_long_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    setting = "recipe=" + "x" * 20_000
    assert ended(monkeypatch, "train", "clinic", "--epsilon", "1", "--set", setting) == 2
    said = capsys.readouterr().err
    assert said.startswith("Error: The 'recipe' must be one of ")
    assert " … " in said
    assert len(said) < 2_500


def test_a_download_that_cannot_begin_is_one_line(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["fetch", "pokec", "--data-dir", str(tmp_path)])
    assert done.exit_code == 1
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        (("train", "nowhere", "--json"), "DataError", "nowhere"),
        (("verify", "nowhere", "--json"), "DataError", "nowhere"),
        (("account", "--json"), "UsageError", "--noise-multiplier"),
        (("no-such-verb", "--json"), "UsageError", "no-such-verb"),
        (("predict", "a", "b", "--json", "--out", "-"), "ConfigError", "standard output"),
    ],
)
def test_errors_are_json_where_json_was_asked_for(
    arguments: tuple[str, ...],
    kind: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ended(monkeypatch, *arguments) == 2
    said = capsys.readouterr()
    error = json.loads(said.out)["error"]
    assert (error["kind"], error["exit_code"]) == (kind, 2)
    assert words in error["message"]
    assert "Error" not in said.err


def test_verbose_shows_where_an_error_arose(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(monkeypatch, "verify", "nowhere", "--verbose") == 2
    assert "Traceback" in capsys.readouterr().err
    assert ended(monkeypatch, "verify", "nowhere") == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("verbose", [False, True])
def test_a_bug_is_json_too_and_only_verbose_shows_where(
    verbose: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a division\nby zero")

    monkeypatch.setattr("privgcn.data.load_corpus", broken)
    words = ["train", "clinic", "--json", *(["--verbose"] if verbose else [])]
    assert ended(monkeypatch, *words) == 1
    said = capsys.readouterr()
    error = json.loads(said.out)["error"]
    assert (error["kind"], error["exit_code"]) == ("ZeroDivisionError", 1)
    assert error["message"].startswith(r"a division\nby zero (a bug of privgcn")
    assert ("Traceback" in said.err and "in broken" in said.err) == verbose
    assert ("Traceback" in said.err) == verbose
    with pytest.raises(ZeroDivisionError):
        ended(monkeypatch, "train", "clinic")


@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("verb", ["predict", "evaluate", "report"])
def test_at_a_terminal_every_long_verb_names_its_stages(
    verb: str, quiet: bool, run: Path, letters: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    words = {
        "predict": [str(letters), "--out", str(tmp_path / "p.csv")],
        "evaluate": [],
        "report": ["--out", str(tmp_path / "r.html")],
    }
    assert ended(monkeypatch, verb, str(run), *words[verb], *["--quiet"] * quiet) == 0
    stage = "prediction" if verb != "report" else "report"
    assert (stage in sys.stderr.getvalue()) != quiet  # type: ignore[attr-defined]


def test_quiet_says_nothing_beside_the_result(letters: Path) -> None:
    done = CliRunner().invoke(app, ["train", str(letters), "--dry-run", "--quiet"])
    assert (done.stdout, done.stderr) == ("Dry run: nothing was trained or written.\n", "")
    loud = CliRunner().invoke(app, ["train", str(letters), "--dry-run", "--verbose"])
    assert "[training]" in loud.stderr


def test_predictions_go_to_standard_output(run: Path, letters: Path, tmp_path: Path) -> None:
    arguments = ["predict", str(run), str(letters)]
    done = CliRunner().invoke(app, [*arguments, "--out", "-", "--all-classes"])
    header, *rows = done.stdout.splitlines()
    assert header == "id,label,probability,probability of heart,probability of skin"
    assert "Answered" in done.stderr
    call(*arguments, "--out", str(tmp_path / "p.parquet"), "--all-classes")
    call(*arguments, "--out", str(tmp_path / "p.jsonl"))
    table = pl.read_parquet(tmp_path / "p.parquet")
    assert table.columns == header.split(",")
    assert len(table) == len(rows)
    shares = table["probability of heart"] + table["probability of skin"]
    assert (shares - 1.0).abs().max() < 1e-9
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert [line["label"] for line in lines] == table["label"].to_list()


def test_predict_says_which_documents_it_answers(
    run: Path, letters: Path, tmp_path: Path
) -> None:
    said = call("predict", str(run), str(letters), "--out", str(tmp_path / "p.csv"))
    answered = len((tmp_path / "p.csv").read_text().splitlines()) - 1
    assert f"Answered {answered} of 90 documents." in said
    assert "trained the model" in said


def test_predictions_have_a_format(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(monkeypatch, "predict", str(run), "clinic", "--out", "p.parq") == 2
    assert ".csv, .jsonl, .parquet" in capsys.readouterr().err


def test_a_report_goes_to_standard_output_or_is_named_in_json(
    run: Path, tmp_path: Path
) -> None:
    assert "</html>" in call("report", str(run), "--out", "-")
    record = json.loads(call("report", str(run), "--out", str(tmp_path / "r.html"), "--json"))
    assert Path(record["report"]).read_text().startswith("<!")


def test_spaces_in_a_list_do_not_count(letters: Path) -> None:
    arguments = ["train", str(letters), "--dry-run", "--json", "--classes", "heart, skin ,"]
    assert json.loads(call(*arguments))["settings"]["data"]["classes"] == ["heart", "skin"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_the_verbs(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_PRIVGCN_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("COMP_WORDS", "privgcn tr")
    monkeypatch.setenv("COMP_CWORD", "1")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "privgcn tr")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    done = CliRunner().invoke(app, [], prog_name="privgcn")
    assert "train" in done.stdout
    assert "verify" not in done.stdout


@pytest.mark.parametrize("verb", [command.name for command in app.registered_commands])
def test_every_verb_has_json_quiet_and_verbose(verb: str) -> None:
    shown = CliRunner().invoke(app, [verb, "--help"], env={"COLUMNS": "200"}).stdout
    for option in ("--json", "--quiet", "--verbose"):
        assert option in shown, option
