"""Several runs on one page, and pages of folders."""

from __future__ import annotations

import json
import shutil

import pytest

from builders import reseal, run_folder
from privacy.plans import statement as make_statement
from privgcn.config import to_toml
from privgcn.errors import ConfigError, DataError, PrivacyContractError
from privgcn.report.page import folders_page, runs_page
from privgcn.runs.folder import write_folder
from report.samples import make_scores, make_settings, record


def test_runs_stand_side_by_side_with_a_curve():
    claims = [make_statement(), make_statement(relation="replace")]
    private = [record("private", statement, make_scores()) for statement in claims]
    html = runs_page([*private, record("plain", None, make_scores(synthetic=True))])

    assert "3 runs side by side" in html
    assert "archive (synthetic)" in html
    # Another relation has a chart of its own.
    assert html.count('data-test="figure"') == 2
    assert "archive: score against epsilon (unit document, relation remove)" in html
    assert "without privacy, own-graph" in html
    assert "trained without privacy may reveal" in html
    assert "0.550 to 0.800" in html


def folder(path, statement=None, **changes):
    """A run folder without a model, under a manifest that fits."""
    files = {
        "settings.toml": to_toml(make_settings(statement).model_dump()),
        "scores.json": json.dumps(make_scores()),
    }
    files |= changes
    write_folder(path, "run", {k: v for k, v in files.items() if v is not None})
    return path


def test_runs_without_privacy_are_read_from_their_folders(tmp_path):
    one, two = folder(tmp_path / "a" / "run"), folder(tmp_path / "b" / "run")
    html = folders_page([one, two])

    assert "a/run" in html
    assert "b/run" in html
    assert "run report · <bdi>run</bdi>" in folders_page([one])
    with pytest.raises(ConfigError, match="of one run"):
        folders_page([one, two], evidence=tmp_path / "attacks.json")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("scores.json", "{", "not valid JSON"),
        ("scores.json", '{"modes": {}}', "holds no scores"),
        ("scores.json", '{"modes": {"alone": [1]}}', "holds no scores"),
        ("scores.json", '{"modes": {"alone": {"micro_f1": "x"}}}', "holds no scores"),
        ("settings.toml", "a = ", "not valid TOML"),
        ("settings.toml", None, "no settings.toml"),
        # A lost statement makes no run without privacy.
        ("settings.toml", "[privacy]", r"has no statement\.json"),
    ],
)
def test_bad_files_get_one_clear_error(tmp_path, name, content, words):
    run = folder(tmp_path / "run", **{name: content})
    with pytest.raises(DataError, match=words):
        folders_page([run])


def test_of_several_runs_one_may_hold_no_scores(tmp_path):
    runs = [folder(tmp_path / "one"), folder(tmp_path / "two", **{"scores.json": "{}"})]
    with pytest.raises(DataError, match="holds no scores"):
        folders_page(runs)


def test_an_edited_statement_is_never_repeated(tmp_path):
    run = run_folder(tmp_path / "run")
    assert "Checked again when this page was made: statement" in folders_page([run])
    edited = shutil.copytree(run, tmp_path / "edited")
    claim = json.loads((edited / "statement.json").read_text())
    reseal(edited, {"statement.json": json.dumps({**claim, "epsilon": 0.01})})

    with pytest.raises((ConfigError, PrivacyContractError), match=r"epsilon|edited"):
        folders_page([edited])


def test_a_release_has_a_card_and_no_report(tmp_path):
    write_folder(tmp_path / "out", "release", {"settings.toml": ""})
    with pytest.raises(DataError, match=r"Name the run itself.*card\.html"):
        folders_page([tmp_path / "out"])
