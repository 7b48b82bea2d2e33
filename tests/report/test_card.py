"""The privacy card."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from privgcn.config import Settings
from privgcn.errors import PrivacyContractError
from privgcn.report.card import About, card_html, card_markdown
from report.samples import make_settings, make_statement

ROOT = Path(__file__).resolve().parents[2]
BOTH = pytest.mark.parametrize("make", [card_markdown, card_html])
STATEMENT = make_statement()
PUBLIC = make_settings(STATEMENT).model_dump(exclude={"data"})


@BOTH
def test_a_card_states_the_guarantee(make):
    card = make(STATEMENT, PUBLIC)

    for words in ("epsilon at most", "one document", "Assumed to be public", "Not covered"):
        assert words in card
    assert STATEMENT.digest() in card
    assert make(STATEMENT, PUBLIC) == card


@BOTH
@pytest.mark.parametrize(
    "extra",
    [
        {"scores": {"full-graph": 0.9}},
        {"training": {"seconds": 3}},
        {"data": {"source": "/home/me/letters"}},
        {"data": {"classes": ["sick", "well"]}},
    ],
)
def test_nothing_uncovered_gets_in(make, extra):
    with pytest.raises(PrivacyContractError, match="privacy card"):
        make(STATEMENT, {**PUBLIC, **extra})


def test_an_empty_data_section_is_no_secret():
    assert "data.source" not in card_markdown(STATEMENT, make_settings(STATEMENT).model_dump())


def test_only_releasable_models_have_a_card():
    with pytest.raises(PrivacyContractError, match="may be released"):
        card_markdown(make_statement(releasable=False), PUBLIC)
    with pytest.raises(PrivacyContractError, match="no card"):
        card_markdown(None, Settings().model_dump())


def test_no_scores_counts_or_timings_on_the_page():
    page = card_html(STATEMENT, PUBLIC).split("</style>")[1]

    for word in ("micro-F1", "Confusion", "baseline", "seconds"):
        assert word not in page


@BOTH
def test_a_card_says_what_a_model_card_says(make):
    bare = make(STATEMENT, PUBLIC)
    said = make(
        STATEMENT,
        PUBLIC,
        About("Letters to a clinic", ("sick", "well"), "For triage", "ask@example.org"),
    )

    for title in ("Intended use", "Training documents", "Classes", "Limits", "Contact"):
        assert title in bare
    assert "200 training documents" in bare
    for words in ("Letters to a clinic", "2 classes: sick, well", "For triage", "ask@example"):
        assert words in said
        assert words not in bare


def test_what_the_owner_says_stays_text():
    hostile = "<script>alert(1)</script>"

    assert "<script" not in card_html(
        STATEMENT, PUBLIC, About(hostile, (hostile,), hostile, hostile)
    )


def test_the_program_is_cited_with_author_year_and_address():
    entry = card_html(STATEMENT, PUBLIC).split("@software")[1].split("</pre>")[0]
    address = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]

    assert "author  = {{privgcn contributors}}" in entry
    assert "year    = {2026}" in entry
    assert address["Repository"] in entry
