"""Pages of one run, of several, and of folders."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from builders import reseal, run_folder
from privacy.plans import statement as make_statement
from privgcn.audit.attacks import AttackRow, Attacks
from privgcn.config import to_toml
from privgcn.errors import ConfigError, DataError, PrivacyContractError
from privgcn.report.page import folders_page, run_page, runs_page
from privgcn.report.text import NOTHING
from privgcn.runs.folder import write_folder
from report.samples import make_scores, make_settings, record

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'
STATEMENT = make_statement()


@pytest.fixture
def scores():
    return make_scores()


def page_of(statement, scores, **settings):
    return run_page(make_settings(statement, **settings), statement, scores)


def text_of(statement, scores):
    body = re.sub(r"<style>.*?</style>", "", page_of(statement, scores), flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", body).split())


def test_a_private_run_says_what_is_guaranteed_and_how_it_scored(scores):
    text = text_of(STATEMENT, scores)
    for words in (
        *("Guarantee: epsilon at most ", "Assumed to be public", "Not covered"),
        "The guarantee protects one document: its text, its label and all its edges",
        *("May be released, within what is", "Working copy, not for release"),
        # The score that leads is covered, and stands beside the best baseline.
        "Score 0.700 micro-F1, inference own-graph; 95 %: 0.550 to 0.800",
        "Baseline to beat 0.600 micro-F1, graph-blind (mode alone)",
        f"baseline: majority {NOTHING} 0.500",
        # Probabilities of covered modes have a table and a diagram.
        *("own-graph 0.750 0.700 0.200 1.000", "own-graph, 0.9: 0.700"),
    ):
        assert words in text
    assert "full-graph 0.750" not in text
    assert "SYNTHETIC" not in text
    assert "SYNTHETIC" in text_of(STATEMENT, make_scores(synthetic=True))


# hazard 32
def test_covered_says_for_whom(scores):
    text = text_of(STATEMENT, scores)
    assert '<th scope="col">training documents</th>' in page_of(STATEMENT, scores)
    rows = ("alone covered 0.600", "full-graph not covered 0.800")
    assert [text.index(row) for row in rows] == sorted(text.index(row) for row in rows)
    assert "Test, validation and new documents have none: scores and predictions may" in text


@pytest.mark.parametrize(
    ("mode", "counts", "by", "words"),
    [
        ("own-graph", (4, 40, 1e-8), "validation", "Edges help: deploy own-graph"),
        ("own-graph", (4, 6, 0.754), "validation", "Edges seem to help, which may be chance"),
        ("alone", (6, 4, 0.754), "test", "Edges do not seem to help: deploy alone"),
        ("alone", (40, 4, 1e-8), "test", "Edges harm: deploy alone"),
        ("alone", (0, 0, 1.0), "test", "There are no edges: deploy alone"),
    ],
)
def test_the_mode_to_deploy_leads_over_its_rival(scores, mode, counts, by, words):
    keys = ("alone_only", "own_graph_only", "p_value")
    counted = dict(zip(keys, counts, strict=True))
    scores["deploy"] = {"mode": mode, "documents": 90, "decided_by": by, **counted}
    scores["deploy"]["edges"] = any(counts[:2])
    text = text_of(STATEMENT, scores)
    assert words in text
    assert f"Of 90 {by} documents, own-graph gets {counts[1]} right" in text
    assert f"micro-F1, inference {mode}" in text
    blind = "Baseline to beat 0.600 micro-F1, graph-blind (mode alone)"
    assert (blind in text) == (mode == "own-graph")
    assert ("had no say" in text) == (by == "validation")


def test_a_plain_run_says_so_and_stands_beside_the_best_reference(scores):
    named = {"logistic regression": {"micro_f1": 0.61}}
    scores["references"] = {"own-graph": {"best": "logistic regression", "scores": named}}
    scores["modes"] = {"own-graph": scores["modes"]["own-graph"]}
    text = text_of(None, scores)
    assert "Nothing: there is no privacy guarantee." in text
    assert not re.search("ε|covered", text)
    assert "Best without privacy 0.610 micro-F1, logistic regression" in text
    assert "own-graph: logistic regression" in text


def test_seeds_are_a_table_that_says_what_publishing_costs(scores):
    row = {"values": [0.31, 0.41, 0.47], "mean": 0.3967, "std": 0.0808, "interval": [0.2, 0.6]}
    repeats = {"seeds": [0, 1], "model": 0, "modes": {"own-graph": {"micro_f1": row}}}
    scores["repeats"] = {**repeats, "composed_epsilon": 1.7301}
    text = text_of(STATEMENT, scores)
    for words in ("0.397 ± 0.081", "0.200 to 0.600", "would cost epsilon 1.731 together"):
        assert words in text
    assert "The model is that of seed 0, named beforehand" in text


def test_no_page_makes_delta_smaller_and_a_seeded_run_must_not_be_released(scores):
    text = text_of(make_statement(delta=1.2341e-5, releasable=False), scores)
    assert set(re.findall(r"(?:at delta|δ =) (\S+?)\.? ", text)) == {"1.235e-5"}
    assert "The model must not be released" in text
    assert "May be released, within what is covered" not in text


def test_nothing_is_loaded_and_no_script_runs(scores):
    html = page_of(STATEMENT, scores)
    assert html.startswith("<!DOCTYPE html>")
    assert "<script" not in html
    assert not re.findall(r'(?:src|href)="(?!#|data:,)', html)
    assert not re.search(r"@import|url\((?!#)", html)
    assert "default-src 'none'" in html
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', html)) <= set(ids)
    assert html == page_of(STATEMENT, scores)


# hazard 31
def test_hostile_labels_names_and_paths_stay_text():
    scores = make_scores((HOSTILE, "b\x00\ud800"))
    scores["dataset"] = HOSTILE
    scores["baselines"][HOSTILE] = {"micro_f1": 0.1}
    html = page_of(STATEMENT, scores, **{"data.source": HOSTILE, "recipe": HOSTILE})
    assert "<script" not in html
    assert "<img" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    html.encode("utf-8")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"micro_f1": None, "documents": 0}, "no test documents with a label, so nothing was"),
        ({"micro_f1": 1.0, "documents": 1}, "on the 1 test document is 1.000"),
    ],
)
def test_a_run_scored_in_one_mode_or_none_has_a_page(entry, words):
    assert words in page_of(STATEMENT, {"modes": {"alone": entry}, "dataset": "x"})


def test_attacks_stand_beside_the_run_that_they_are_about(scores):
    tried = {"attack": "document membership", "model": "epsilon 1", "inference": "alone"}
    rates = {"auc": (0.7, 0.6, 0.8), "tpr": ((0.1, 0.0, 0.2), (0.2, 0.1, 0.3))}
    row = AttackRow(**tried, **rates, covered=True)
    attacks = Attacks(source="archive", shadows=16, rows=(row,))
    page = run_page(make_settings(STATEMENT), STATEMENT, scores, attacks=attacks)
    assert "0.700 (0.600 to 0.800)" in page
    assert "epsilon 1, document membership, alone: 0.700" in page
    elsewhere = attacks.model_copy(update={"source": "elsewhere"})
    with pytest.raises(ConfigError, match="Attack the run itself"):
        run_page(make_settings(STATEMENT), STATEMENT, scores, attacks=elsewhere)


def test_runs_stand_side_by_side_in_a_table():
    claims = [make_statement(), make_statement(relation="replace")]
    private = [record("private", statement, make_scores()) for statement in claims]
    html = runs_page([*private, record("plain", None, make_scores(synthetic=True))])
    for words in (
        *("3 runs side by side", "3 runs, 2 of them with", "archive (synthetic)"),
        *("one document, relation remove", "one document, relation replace", "no guarantee"),
        *("trained without privacy may reveal", "0.550 to 0.800", "Working copy"),
    ):
        assert words in html


def folder(path, **changes):
    """A run folder without a model, under a manifest that fits."""
    files = {
        "settings.toml": to_toml(make_settings(None).model_dump()),
        "scores.json": json.dumps(make_scores()),
        **changes,
    }
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
    with pytest.raises(DataError, match=r"three.* holds no scores"):
        folders_page([one, folder(tmp_path / "three", **{"scores.json": "{}"})])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("scores.json", "{", "not valid JSON"),
        ("scores.json", '{"modes": {}}', "holds no scores"),
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
