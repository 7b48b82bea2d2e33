"""The privacy card: the statement, the training settings and what the owner chose to say.

Scores, counts of labels or edges, timings and where the documents came from have no way in.
"""

from __future__ import annotations

from collections.abc import Sequence

from privgcn.config import Settings, to_toml
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.wording import explained, sentence
from privgcn.report.text import rendered

#: Encoders by kind of features, as the Hugging Face hub names them.
_BASE_MODELS = {
    "minilm": "sentence-transformers/all-MiniLM-L6-v2",
    "transformer": "google-bert/bert-base-multilingual-cased",
}


def privacy_card(
    statement: PrivacyStatement,
    settings: Settings,
    *,
    about: str | None = None,
    classes: Sequence[str] | None = None,
    intended_use: str | None = None,
    contact: str | None = None,
    template: str = "card.md",
) -> str:
    """The card of a model that may be released, as ``card.md`` or ``card.html``.

    Markdown begins with what a hub reads. The ``data`` section of the settings stays out; what
    the documents are (``about``), their classes, use and contact are said where given.
    """
    if statement.void or not statement.releasable:
        raise ValueError("a privacy card is for a model that may be released")
    words = explained(statement)
    kinds = [fact.kind for fact in statement.assumed_public if fact.code == "features"]
    own_encoder = not kinds or "model" in settings.features.options
    card = {
        "title": "Privacy card",
        "synthetic": None,
        "base_model": None if own_encoder else _BASE_MODELS.get(str(kinds[0])),
        "statement": words,
        "trained_on": dict(words["facts"])["Training data"],
        "about": about and sentence(about),
        "classes": classes,
        "intended_use": intended_use and sentence(intended_use),
        "contact": contact,
        "toml": to_toml(settings.model_dump(exclude={"data"})),
    }
    return rendered(template, page=card)
