"""The page of one run."""

from __future__ import annotations

import re

import pytest

from privacy.plans import statement as make_statement
from privgcn.audit.attacks import AttackRow, Attacks
from privgcn.errors import ConfigError
from privgcn.report.page import run_page
from privgcn.report.text import NOTHING
from report.samples import make_scores, make_settings

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


def test_a_private_run_says_what_is_guaranteed(scores):
    text = text_of(STATEMENT, scores)

    assert "Guarantee: epsilon at most " in text
    assert "The guarantee protects one document: its text, its label and all its edges" in text
    for title in ("Assumed to be public", "Not covered", "May be released, within what is"):
        assert title in text
    assert "Working copy, not for release" in text
    assert "SYNTHETIC" not in text
    assert "SYNTHETIC" in text_of(STATEMENT, make_scores(synthetic=True))


# hazard 32
def test_covered_says_for_whom(scores):
    text = text_of(STATEMENT, scores)

    assert '<th scope="col">training documents</th>' in page_of(STATEMENT, scores)
    rows = ("alone covered 0.600", "full-graph not covered 0.800")
    assert [text.index(row) for row in rows] == sorted(text.index(row) for row in rows)
    assert "Test, validation and new documents have none: scores and predictions may" in text


def test_the_leading_score_is_covered_and_stands_beside_the_best_baseline(scores):
    text = text_of(STATEMENT, scores)

    assert f"baseline: majority {NOTHING} 0.500" in text
    assert "Score 0.700 micro-F1, inference own-graph; 95 %: 0.550 to 0.800" in text
    assert "Baseline to beat 0.600 micro-F1, graph-blind (mode alone)" in text


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
def test_the_mode_to_deploy_leads_and_its_rival_is_the_baseline(
    scores, mode, counts, by, words
):
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


def test_probabilities_of_covered_modes_have_a_table_and_a_diagram(scores):
    text = text_of(STATEMENT, scores)

    assert "own-graph 0.750 0.700 0.200 1.000" in text
    assert "full-graph 0.750" not in text
    assert "own-graph, 0.9: 0.700" in text


def test_a_plain_run_says_so_and_stands_beside_the_best_reference(scores):
    named = {"logistic regression": {"micro_f1": 0.61}}
    scores["references"] = {"own-graph": {"best": "logistic regression", "scores": named}}
    scores["modes"] = {"own-graph": scores["modes"]["own-graph"]}
    text = text_of(None, scores)

    assert "Nothing: there is no privacy guarantee." in text
    assert "ε" not in text
    assert "covered" not in text.replace("not covered", "covered")
    assert "Best without privacy 0.610 micro-F1, logistic regression" in text
    assert "own-graph: logistic regression" in text


def test_seeds_are_a_table_that_says_what_publishing_costs(scores):
    row = {"values": [0.31, 0.41, 0.47], "mean": 0.3967, "std": 0.0808, "interval": [0.2, 0.6]}
    modes = {"own-graph": {"micro_f1": row}}
    scores["repeats"] = {
        "seeds": [0, 1],
        "model": 0,
        "modes": modes,
        "composed_epsilon": 1.7301,
    }
    text = text_of(STATEMENT, scores)

    for words in ("0.397 ± 0.081", "0.200 to 0.600", "would cost epsilon 1.731 together"):
        assert words in text
    assert "The model is that of seed 0, named beforehand" in text


def test_no_page_makes_delta_smaller(scores):
    text = text_of(make_statement(delta=1.2341e-5), scores)

    assert set(re.findall(r"(?:at delta|δ =) (\S+?)\.? ", text)) == {"1.235e-5"}


def test_a_seeded_run_must_not_be_released(scores):
    seeded = text_of(make_statement(releasable=False), scores)

    assert "The model must not be released" in seeded
    assert "May be released, within what is covered" not in seeded


def test_nothing_is_loaded_and_no_script_runs(scores, tmp_path):
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


def test_many_classes_are_numbered():
    html = page_of(STATEMENT, make_scores(tuple(f"class {i}" for i in range(41))))

    assert html.count('class="confusion numbered"') == 3
    assert "Columns are numbered like the rows" in html


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"micro_f1": None}, "no test documents with a label, so nothing was scored"),
        ({"micro_f1": 1.0, "documents": 1}, "on the 1 test document is 1.000"),
    ],
)
def test_a_run_scored_in_one_mode_or_none_has_a_page(entry, words):
    assert words in page_of(STATEMENT, {"modes": {"alone": entry}, "dataset": "x"})


def test_attacks_stand_beside_the_run_that_they_are_about(scores):
    row = AttackRow(
        attack="document membership",
        model="epsilon 1",
        inference="alone",
        covered=True,
        auc=(0.7, 0.6, 0.8),
        tpr=((0.1, 0.0, 0.2), (0.2, 0.1, 0.3)),
    )
    attacks = Attacks(source="archive", unit="document", shadows=16, rows=(row,))
    page = run_page(make_settings(STATEMENT), STATEMENT, scores, attacks=attacks)

    assert "0.700 (0.600 to 0.800)" in page
    assert "epsilon 1, document membership, alone: 0.700" in page
    elsewhere = attacks.model_copy(update={"source": "elsewhere"})
    with pytest.raises(ConfigError, match="Attack the run itself"):
        run_page(make_settings(STATEMENT), STATEMENT, scores, attacks=elsewhere)
