"""``audit`` and ``attack`` as a user meets them, and attacks on a report."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import planted_defects
import pytest
from click.testing import Result
from typer.testing import CliRunner

from privgcn.cli import app
from privgcn.cli.audit import BROKEN
from privgcn.errors import ConfigError
from privgcn.report import Report

QUICK = ["--repeats", "200", "--canaries", "100", "--confidence", "0.999"]


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def call(*arguments: str) -> str:
    done = invoke(*arguments)
    assert done.exit_code == 0, done.output
    return str(done.stdout)


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own") / "letters"
    folder.mkdir()
    words = {"heart": "pulse pressure valve beat", "skin": "rash itch cream spot"}
    lines, links = [], ["source,target"]
    for number in range(120):
        kind = ("heart", "skin")[number % 2]
        split = "test" if number % 6 > 3 else "train"
        text = f"{words[kind]} letter {number % 7}"
        record = {"id": f"d{number}", "text": text, "label": kind, "split": split}
        lines.append(json.dumps({**record, "ward": f"w{number % 3}"}))
        if number >= 8:
            links.append(f"d{number},d{number - 8}")
    (folder / "documents.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "edges.csv").write_text("\n".join(links) + "\n")
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, letters: Path) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    wishes = ["--epsilon", "4", "--delta", "1e-3", "--features", "hashing"]
    call("train", str(letters), *wishes, "--out", str(folder))
    return folder


@pytest.fixture(scope="module")
def attacks(tmp_path_factory: pytest.TempPathFactory, run: Path) -> Path:
    out = tmp_path_factory.mktemp("evidence") / "attacks.json"
    shown = call("attack", str(run), "--shadows", "4", "--column", "ward", "--out", str(out))
    assert "document membership" in shown
    assert f"privgcn report RUN --evidence {out}" in shown
    # Tables fit on a terminal.
    assert all(len(line) <= 80 for line in shown.splitlines() if "±" in line)
    assert "TPR at 0.1% FPR" in shown
    return out


def test_a_run_is_audited_against_its_own_statement(run: Path) -> None:
    record = json.loads(call("audit", str(run), *QUICK, "--json"))
    statement = json.loads((run / "statement.json").read_text())
    assert record["claim"] == statement["epsilon"]
    assert record["source"] == str(run)
    assert record["broken"] == []
    assert 0.0 < record["epsilon"] <= record["claim"]
    assert record["share"] == record["epsilon"] / record["claim"]
    methods = {(found["method"], found["adversary"]) for found in record["findings"]}
    assert ("many runs", "all releases") in methods
    assert ("one run", "canaries in predictions") in methods


def test_a_corpus_is_audited_for_a_claim_that_nobody_made_yet(letters: Path) -> None:
    wishes = ["--epsilon", "2", "--delta", "1e-3", "--features", "hashing"]
    shown = call("audit", str(letters), *wishes, *QUICK)
    assert "Claim: epsilon <= 2.000 at delta = 0.001, unit document" in shown
    assert "it is no proof" in shown


def test_an_audit_that_finds_a_defect_fails_loudly(letters: Path) -> None:
    wishes = ["--epsilon", "1", "--delta", "1e-3", "--features", "hashing"]
    with planted_defects.no_clipping():
        done = invoke("audit", str(letters), *wishes, *QUICK, "--json")
    assert done.exit_code == BROKEN
    assert "THE CLAIM IS BROKEN: epsilon is at least" in done.stderr
    record = json.loads(done.stdout)
    assert record["epsilon"] > record["claim"]
    assert len(record["broken"]) > 1


def test_a_run_takes_no_settings_and_a_plain_one_has_no_claim(run: Path, letters: Path) -> None:
    with pytest.raises(ConfigError, match=r"are its own. Got --epsilon"):
        invoke("audit", str(run), "--epsilon", "1")
    with pytest.raises(ConfigError, match="without a claim there is nothing"):
        invoke("audit", str(letters), "--features", "hashing")


def test_attacks_on_a_run_stand_beside_models_without_privacy(attacks: Path) -> None:
    record: dict[str, Any] = json.loads(attacks.read_text())
    assert record["source"] == "letters"
    assert record["epsilon"] == pytest.approx(4.0, rel=1e-3)
    assert {row["attack"] for row in record["rows"]} == {
        "document membership",
        "links",
        "column",
    }
    models = {row["model"] for row in record["rows"]}
    assert models == {"without privacy", "epsilon 4", "texts alone"}
    assert all(len(row["auc"]) == 3 and len(row["tpr"]) == 2 for row in record["rows"])


def test_a_report_shows_attacks_only_if_told_to(
    run: Path, attacks: Path, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    call("report", str(run), "--out", str(page))
    assert 'id="attacks"' not in page.read_text()
    call("report", str(run), "--evidence", str(attacks), "--out", str(page))
    text = page.read_text()
    assert 'id="attacks"' in text
    assert "Attacks on models of letters" in text
    assert text.count("document membership") > 6
    # Intervals stand in the table; whiskers are shorter, and the page says so.
    assert "In the figure, ± is one standard error." in text


def test_a_report_refuses_evidence_about_something_else(
    run: Path, attacks: Path, tmp_path: Path
) -> None:
    record = json.loads(attacks.read_text())
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**record, "source": "cora"}))
    with pytest.raises(ConfigError, match="about the documents of its run"):
        Report.of_folders([run], evidence=other)
    twin = Path(shutil.copytree(run, tmp_path / "twin"))
    with pytest.raises(ConfigError, match="must be of one run"):
        Report.of_folders([run, twin], evidence=attacks)
