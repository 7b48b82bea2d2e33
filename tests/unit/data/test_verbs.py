"""The verbs of this room, run on their own: the joined command line is tested end to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from privgcn.cli.datasets import datasets
from privgcn.cli.fetch import fetch
from privgcn.errors import DataError, DataNotAvailableError

app = typer.Typer()
app.command("datasets")(datasets)
app.command("fetch")(fetch)


def test_datasets_as_json_and_as_a_table(tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, ["datasets", "--json", "--data-dir", str(tmp_path)])
    assert answer.exit_code == 0
    record = json.loads(answer.stdout)
    known = {entry["name"]: entry for entry in record["datasets"]}
    assert known["clinic"]["synthetic"] is True
    assert known["clinic"]["available"] is True
    assert known["cora"]["where"] == "not fetched"
    assert known["cora"]["documents"] == 2708
    table = CliRunner(env={"FORCE_COLOR": None, "NO_COLOR": "1"}).invoke(
        app, ["datasets", "--data-dir", str(tmp_path)], terminal_width=200
    )
    assert table.exit_code == 0
    for word in ("clinic", "synthetic", "real", "not fetched", "2,708"):
        assert word in table.stdout


@pytest.mark.dataset
def test_datasets_say_where_they_are(raw_data: Path) -> None:
    answer = CliRunner().invoke(app, ["datasets", "--json", "--data-dir", str(raw_data)])
    known = {entry["name"]: entry for entry in json.loads(answer.stdout)["datasets"]}
    assert known["cora"]["where"] == str(raw_data / "planetoid" / "Cora" / "raw")


@pytest.mark.dataset
def test_fetch_finds_what_is_there(raw_data: Path) -> None:
    answer = CliRunner().invoke(app, ["fetch", "cora", "--json", "--data-dir", str(raw_data)])
    assert answer.exit_code == 0
    assert len(json.loads(answer.stdout)["files"]) == 8


def test_fetch_of_a_generated_dataset() -> None:
    answer = CliRunner().invoke(app, ["fetch", "clinic"])
    assert "nothing to download" in answer.stdout


def test_fetch_of_an_unknown_dataset() -> None:
    answer = CliRunner().invoke(app, ["fetch", "pubmet"])
    assert isinstance(answer.exception, DataError)
    assert "Did you mean 'pubmed'" in str(answer.exception)


def test_fetch_of_what_has_no_address(tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, ["fetch", "cora-text", "--data-dir", str(tmp_path)])
    assert isinstance(answer.exception, DataNotAvailableError)
