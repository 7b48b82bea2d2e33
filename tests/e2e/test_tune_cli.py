"""``tune`` and ``plan`` as a user meets them."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from privgcn.cli import app, plan, tune
from privgcn.errors import ConfigError

VERBS = typer.Typer()
VERBS.command("tune")(tune.tune)
VERBS.command("plan")(plan.plan)


def call(*arguments: str, verbs: typer.Typer = VERBS) -> str:
    done = CliRunner().invoke(verbs, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def letters(tmp_path_factory: Any) -> Path:
    folder = tmp_path_factory.mktemp("letters")
    words = {"heart": "pulse pressure valve beat", "skin": "rash itch cream spot"}
    lines = []
    for number in range(240):
        kind = ("heart", "skin")[number % 2]
        split = ("train", "train", "train", "train", "validation", "test")[number // 2 % 6]
        text = f"{words[kind]} letter {number % 7}"
        record = {"id": f"d{number}", "text": text, "label": kind, "split": split}
        lines.append(json.dumps({**record, "owner": f"p{number}"}))
    (folder / "documents.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: Any, letters: Path) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("runs") / "tuned"
    arguments = ["--epsilon", "8", "--unit", "person", "--try", "training.reach=1,2"]
    text = call("tune", str(letters), *arguments, "--out", str(folder), "--json")
    return folder, json.loads(text)


def test_the_winner_is_a_run_like_any_other(tuned: tuple[Path, dict[str, Any]]) -> None:
    folder, record = tuned
    assert record["statement"]["epsilon"] <= 8
    assert record["statement"]["plan"]["selection"]["validation_units"] == 40
    assert set(record["scores"]) == {"alone", "own-graph", "full-graph"}
    assert record["chosen"] in ({"training.reach": 1}, {"training.reach": 2})
    assert {path.name for path in folder.iterdir()} == {
        "settings.toml",
        "statement.json",
        "scores.json",
        "model.safetensors",
        "model.json",
        "report.html",
        "trained.json",
        "manifest.json",
    }
    assert "secret number of runs" in (folder / "report.html").read_text()


def test_nothing_tells_how_many_runs_there_were(tuned: tuple[Path, dict[str, Any]]) -> None:
    assert set(tuned[1]) == {
        "run",
        "dataset",
        "synthetic",
        "chosen",
        "settings",
        "statement",
        "scores",
        "baselines",
        "baselines_left_out",
    }
    assert set(tuned[1]["statement"]["plan"]["selection"]) == {
        "law",
        "expected_runs",
        "candidates",
        "score",
        "validation_units",
    }


def test_it_is_verified_and_released_with_the_cost_of_the_search(
    tmp_path: Path, tuned: tuple[Path, dict[str, Any]]
) -> None:
    run, record = tuned
    verified = json.loads(call("verify", str(run), "--json", verbs=app))
    assert verified["epsilon"] == record["statement"]["epsilon"]
    assert set(verified["checked"]) >= {"statement", "settings", "weights", "record"}
    ledger = str(tmp_path / "ledger.jsonl")
    released = json.loads(
        call(
            "release", str(run), str(tmp_path / "out"), "--ledger", ledger, "--json", verbs=app
        )
    )
    assert released["spent"] == pytest.approx(record["statement"]["epsilon"])
    assert "Search" in (tmp_path / "out" / "card.md").read_text()


def test_a_forged_number_of_runs_is_noticed(
    tmp_path: Path, tuned: tuple[Path, dict[str, Any]]
) -> None:
    statement = json.loads((tuned[0] / "statement.json").read_text())
    statement["plan"]["selection"]["expected_runs"] = 2.0
    forged = tmp_path / "statement.json"
    forged.write_text(json.dumps(statement))
    done = CliRunner().invoke(app, ["verify", str(forged)])
    assert done.exit_code != 0


def test_public_validation_is_stated(tmp_path: Path, letters: Path) -> None:
    out = tmp_path / "run"
    text = call(
        "tune",
        str(letters),
        "--epsilon",
        "8",
        "--try",
        "prediction.hops=2,5",
        "--public-validation",
        "--expected-runs",
        "2",
        "--out",
        str(out),
    )
    assert "Epsilon covers the whole search." in text
    statement = json.loads((out / "statement.json").read_text())
    assert statement["plan"]["selection"]["score"] is None
    assert {"code": "public_validation"} in statement["assumed_public"]


def test_one_run_is_no_search(letters: Path) -> None:
    with pytest.raises(ConfigError, match="One run is no search"):
        call("tune", str(letters), "--epsilon", "8", "--expected-runs", "1")


def test_another_accountant_is_refused_and_not_dropped(letters: Path) -> None:
    with pytest.raises(ConfigError, match="must be rdp"):
        call("tune", str(letters), "--epsilon", "8", "--set", "privacy.accountant=pld")


def test_a_setting_that_is_tried_is_not_fixed_as_well(letters: Path) -> None:
    words = ["--set", "privacy.clip_norm=0.5", "--try", "privacy.clip_norm=1,2"]
    with pytest.raises(ConfigError, match="not both"):
        call("tune", str(letters), "--epsilon", "8", *words)


def test_plan_says_noise_steps_and_score() -> None:
    arguments = ["plan", "--documents", "1208", "--classes", "7", "--features", "1433"]
    record = json.loads(call(*arguments, "--epsilon", "1", "--json"))
    assert record["noise_multiplier"] == pytest.approx(20.43, abs=0.05)
    assert record["steps"] == 30
    low, high = record["expected"]["micro_f1"]
    assert 0 < low < high < 1
    assert 0 < record["expected"]["reach"] < 1.2
    text = call(*arguments, "--epsilon", "0.1")
    assert "1,208 documents at epsilon 0.1: expect no better than guessing" in text
    assert "you need about" in text
