"""The privacy card."""

from __future__ import annotations

import pytest

from privacy.plans import statement as make_statement
from privgcn.report.card import privacy_card
from report.samples import make_settings

BOTH = pytest.mark.parametrize("template", ["card.md", "card.html"])
STATEMENT = make_statement()
SETTINGS = make_settings(STATEMENT)
HOSTILE = "<script>alert(1)</script>"


@BOTH
def test_a_card_states_the_guarantee_and_nothing_uncovered(template):
    data = {"data.source": "/home/me/letters", "data.classes": ["sick", "well"]}
    card = privacy_card(STATEMENT, SETTINGS.changed(data), template=template)
    for words in ("epsilon at most", "one document", "Assumed to be public", "Not covered"):
        assert words in card
    assert STATEMENT.digest in card
    assert card == privacy_card(STATEMENT, SETTINGS, template=template)
    body = card.rpartition("</style>")[2]
    for word in ("/home/me", "sick", "[data]", "micro-F1", "Confusion", "baseline", "seconds"):
        assert word not in body


def test_only_releasable_models_have_a_card():
    with pytest.raises(ValueError, match="may be released"):
        privacy_card(make_statement(releasable=False), SETTINGS)


@BOTH
def test_a_card_says_what_a_model_card_says(template):
    bare = privacy_card(STATEMENT, SETTINGS, template=template)
    answers = {"about": "Letters to a clinic", "classes": ("sick", "well")}
    answers |= {"intended_use": "For triage", "contact": "ask@example.org"}
    said = privacy_card(STATEMENT, SETTINGS, **answers, template=template)
    for title in ("Intended use", "Training documents", "Classes", "Limits", "Contact"):
        assert title in bare
    assert "100 training documents" in bare
    for words in ("Letters to a clinic", "2 classes: sick, well", "For triage", "ask@example"):
        assert words in said
        assert words not in bare


def test_a_hub_reads_the_front_matter_and_what_the_owner_says_stays_text():
    said = {"about": HOSTILE, "intended_use": HOSTILE, "contact": HOSTILE, "classes": [HOSTILE]}
    assert "<script" not in privacy_card(STATEMENT, SETTINGS, **said, template="card.html")
    settings = SETTINGS.changed({"features.options": {"```\n": "\n```\n<script>"}})
    markdown = privacy_card(STATEMENT, settings, **said)
    assert len([line for line in markdown.splitlines() if line.startswith("```")]) == 2
    assert markdown.startswith("---\nlibrary_name: privgcn\npipeline_tag: text-class")
    assert "\\<script\\>" in markdown
