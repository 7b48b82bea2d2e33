import tomllib
from pathlib import Path

import pytest

from privgcn.config import Settings
from privgcn.errors import PrivacyContractError
from privgcn.report import About, card_html, card_markdown

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def public(build, statement):
    return build.settings(statement).model_dump(exclude={"data"})


@pytest.mark.parametrize("make", [card_markdown, card_html])
def test_card_states_the_guarantee(make, statement, public):
    card = make(statement, public)

    for words in ("ε ≤", "one document", "Assumed to be public", "Not covered", "verify"):
        assert words in card
    assert statement.stored_digest in card
    assert make(statement, public) == card


@pytest.mark.parametrize("make", [card_markdown, card_html])
@pytest.mark.parametrize(
    "extra",
    [
        {"scores": {"full-graph": 0.9}},
        {"seconds": 3.5},
        {"training": {"seconds": 3}},
        {"data": {"source": "/home/me/letters"}},
        {"data": {"classes": ["sick", "well"]}},
    ],
)
def test_nothing_uncovered_gets_in(make, statement, public, extra):
    with pytest.raises(PrivacyContractError, match="privacy card"):
        make(statement, {**public, **extra})


def test_an_empty_data_section_is_no_secret(statement, build):
    settings = build.settings(statement).model_dump()

    assert "data.source" not in card_markdown(statement, settings)


def test_only_releasable_models_have_a_card(build, public):
    with pytest.raises(PrivacyContractError, match="may be released"):
        card_markdown(build.statement(releasable=False), public)
    with pytest.raises(PrivacyContractError, match="no card"):
        card_markdown(None, Settings().model_dump())


def test_no_scores_counts_or_timings_on_the_page(statement, public):
    page = card_html(statement, public).split("</style>")[1]

    for word in ("micro-F1", "Confusion", "baseline", "seconds", "test documents"):
        assert word not in page


@pytest.mark.parametrize("make", [card_markdown, card_html])
def test_a_card_says_what_a_model_card_says(make, statement, public):
    bare = make(statement, public)
    told = make(
        statement,
        public,
        About("Letters to a clinic", ("sick", "well"), "For triage", "ask@example.org"),
    )

    for title in ("Intended use", "Training documents", "Classes", "Limits", "Contact"):
        assert title in bare
    assert "200 training documents" in bare
    for words in ("Letters to a clinic", "2 classes: sick, well", "For triage", "ask@example"):
        assert words in told
        assert words not in bare


def test_what_the_owner_says_stays_text(statement, public):
    hostile = "<script>alert(1)</script>"
    card = card_html(statement, public, About(hostile, (hostile,), hostile, hostile))

    assert "<script" not in card


def test_the_program_is_cited_with_author_year_and_address(statement, public):
    entry = card_html(statement, public).split("@software")[1].split("</pre>")[0]
    address = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]

    assert "author  = {{privgcn contributors}}" in entry
    assert "year    = {2026}" in entry
    assert address["Repository"] in entry
