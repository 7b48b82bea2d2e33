"""Several runs on one page, and pages of folders."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from builders import reseal, run_folder
from privgcn.config import to_toml
from privgcn.errors import ConfigError, DataError, PrivacyContractError
from privgcn.report.comparison import folders_page, runs_page
from privgcn.report.page import RunRecord
from privgcn.runs.folder import write_folder
from report.samples import make_scores, make_settings, make_statement


def record(name, statement=None, scores=None):
    return RunRecord(make_settings(statement), statement, scores or make_scores(), name)


def private(count=2, **changes):
    for i in range(count):
        statement = make_statement(noise_multiplier=8.0 * (i + 1), **changes)
        yield record(f"run-{i}", statement)


def test_runs_stand_side_by_side_with_a_curve():
    plain = record("plain", scores=make_scores(best=0.9, synthetic=True))
    html = runs_page([*private(), *private(1, relation="replace"), plain])

    assert "4 runs side by side" in html
    assert "PARTLY SYNTHETIC" in html
    # Another relation has a chart of its own.
    assert html.count('data-test="figure"') == 2
    assert "archive: score against epsilon (unit document, relation remove)" in html
    assert "without privacy, own-graph" in html
    assert "Some of these models were trained without privacy" in html
    assert "0.550 to 0.800" in html


def test_repeated_runs_are_averaged():
    statement = make_statement()
    runs = [record(f"r{best}", statement, make_scores(best=best)) for best in (0.7, 0.8)]

    assert re.findall(r"<title>auto, own-graph, [^:]*: (.*?)</title>", runs_page(runs)) == [
        "0.650"
    ]


def folder(path, statement, **changes):
    """A run folder without a model, under a manifest that fits."""
    files = {
        "settings.toml": to_toml(make_settings(statement).model_dump()),
        "scores.json": json.dumps(make_scores()),
    }
    if statement is not None:
        files["statement.json"] = statement.to_json()
    files |= changes
    write_folder(path, "run", {k: v for k, v in files.items() if v is not None})
    return path


def test_runs_without_privacy_are_read_from_their_folders(tmp_path):
    one, two = folder(tmp_path / "a" / "run", None), folder(tmp_path / "b" / "run", None)
    html = folders_page([one, two])

    assert "a/run" in html
    assert "b/run" in html
    assert "run report · <bdi>run</bdi>" in folders_page([one])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("scores.json", "{", "not valid JSON"),
        ("settings.toml", "a = ", "not valid TOML"),
        ("settings.toml", None, "no settings.toml"),
    ],
)
def test_bad_files_get_one_clear_error(tmp_path, name, content, words):
    run = folder(tmp_path / "run", None, **{name: content})

    with pytest.raises((DataError, ConfigError), match=words) as caught:
        folders_page([run])
    assert caught.value.exit_code == 2


def test_a_lost_statement_is_not_a_run_without_privacy(tmp_path):
    run = folder(tmp_path / "run", make_statement(), **{"statement.json": None})

    with pytest.raises(DataError, match=r"has no statement\.json"):
        folders_page([run])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return run_folder(tmp_path_factory.mktemp("trained") / "run")


def test_an_edited_statement_is_never_repeated(trained, tmp_path):
    checked = "Checked again when this page was made: statement"
    assert checked in folders_page([trained])
    run = shutil.copytree(trained, tmp_path / "run")
    record = json.loads((run / "statement.json").read_text())
    reseal(run, {"statement.json": json.dumps({**record, "epsilon": 0.01})})

    with pytest.raises((ConfigError, PrivacyContractError), match=r"epsilon|edited"):
        folders_page([run])


def test_bad_folders_get_one_clear_error(tmp_path):
    run = folder(tmp_path / "run", None)
    with pytest.raises(DataError, match="There is no folder"):
        folders_page([tmp_path / "nowhere"])
    with pytest.raises(DataError, match="which is none"):
        folders_page([tmp_path])
    with pytest.raises(ConfigError, match="at least one folder"):
        folders_page([])
    with pytest.raises(ConfigError, match="twice"):
        folders_page([run, run / ".." / "run"])
    with pytest.raises(ConfigError, match="of one run"):
        folders_page([run, folder(tmp_path / "two", None)], evidence=tmp_path / "attacks.json")


def test_a_release_has_a_card_and_no_report(tmp_path):
    settings = to_toml(make_settings(make_statement()).model_dump())
    write_folder(tmp_path / "out", "release", {"settings.toml": settings})

    with pytest.raises(DataError, match=r"Name the run itself.*card\.html"):
        folders_page([tmp_path / "out"])
