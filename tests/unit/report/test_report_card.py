import pytest

from privgcn.config import Settings
from privgcn.errors import PrivacyContractError
from privgcn.report import card_html, card_markdown


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
