"""The privacy card."""

from __future__ import annotations

from functools import partial

import pytest

from privgcn.errors import PrivacyContractError
from privgcn.report.card import privacy_card
from report.samples import make_settings, make_statement

MARKDOWN = partial(privacy_card, template="card.md")
HTML = partial(privacy_card, template="card.html")
BOTH = pytest.mark.parametrize("make", [MARKDOWN, HTML])
STATEMENT = make_statement()
SETTINGS = make_settings(STATEMENT)


@BOTH
def test_a_card_states_the_guarantee(make):
    card = make(STATEMENT, SETTINGS)

    for words in ("epsilon at most", "one document", "Assumed to be public", "Not covered"):
        assert words in card
    assert STATEMENT.digest in card
    assert make(STATEMENT, SETTINGS) == card


@BOTH
def test_nothing_uncovered_gets_in(make):
    data = {"data.source": "/home/me/letters", "data.classes": ["sick", "well"]}
    card = make(STATEMENT, SETTINGS.changed(data)).rpartition("</style>")[2]

    assert card == make(STATEMENT, SETTINGS).rpartition("</style>")[2]
    for word in ("/home/me", "sick", "data.source", "micro-F1", "Confusion", "baseline"):
        assert word not in card
    assert "seconds" not in card


def test_only_releasable_models_have_a_card():
    with pytest.raises(PrivacyContractError, match="may be released"):
        MARKDOWN(make_statement(releasable=False), SETTINGS)


@BOTH
def test_a_card_says_what_a_model_card_says(make):
    bare = make(STATEMENT, SETTINGS)
    said = make(
        STATEMENT,
        SETTINGS,
        about="Letters to a clinic",
        classes=("sick", "well"),
        intended_use="For triage",
        contact="ask@example.org",
    )

    for title in ("Intended use", "Training documents", "Classes", "Limits", "Contact"):
        assert title in bare
    assert "200 training documents" in bare
    for words in ("Letters to a clinic", "2 classes: sick, well", "For triage", "ask@example"):
        assert words in said
        assert words not in bare


def test_what_the_owner_says_stays_text():
    hostile = "<script>alert(1)</script>"
    said = dict.fromkeys(("about", "intended_use", "contact"), hostile)

    assert "<script" not in HTML(STATEMENT, SETTINGS, **said, classes=[hostile])
