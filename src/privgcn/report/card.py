"""The privacy card: what a released model says about itself, and nothing that is not covered.

A card holds the statement, the training settings and what the owner of the documents chose
to say about them. Scores, counts of labels or edges, timings and where the documents came
from have no way in.
"""

from __future__ import annotations

from collections.abc import Sequence

from privgcn.config import DataSettings, Settings
from privgcn.errors import PrivacyContractError
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.wording import explained, sentence
from privgcn.report.page import render, shown_settings, texts

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
    """The card; the same content in both formats. Markdown begins with what a hub reads.

    Args:
        statement: Of the released model.
        settings: Of its training; the ``data`` section stays out of the card.
        about: What the training documents are, where their owner makes it public.
        classes: Names of the classes, where they were declared and not read off the labels.
        intended_use: What the model is for.
        contact: Whom to ask.
        template: ``card.md``, or ``card.html`` for one self-contained page.

    Raises:
        PrivacyContractError: The model must not be released.
    """
    if not statement.releasable or statement.void:
        wrong = "whose claim is void" if statement.void else "whose noise came from a seed"
        raise PrivacyContractError(
            "The 'statement' of a privacy card must be of a run that may be released. Got one "
            f"{wrong}. Train again, once, without --reproducible."
        )
    kinds = [fact.kind for fact in statement.assumed_public if fact.code == "features"]
    base_model = _BASE_MODELS.get(str(kinds[0])) if kinds else None
    words, usual = explained(statement), texts()["card"]
    named = usual["classes"]
    if classes is not None:
        named = f"{len(classes)} classes: {', '.join(classes)}."
    trained = f"The model was trained on {dict(words['facts'])['Training data']}."
    sections = [
        ("Intended use", [sentence(intended_use or usual["use"]), usual["misuse"]]),
        ("Training documents", [trained, sentence(about or usual["corpus"])]),
        ("Classes", [named]),
        ("Limits", usual["limits"]),
        ("Contact", [contact or usual["contact"]]),
    ]
    public = settings.model_copy(update={"data": DataSettings()})
    card = {
        "title": "Privacy card",
        "synthetic": None,
        "base_model": None if "model" in settings.features.options else base_model,
        "statement": words,
        "about": sections,
        "settings": shown_settings(public),
    }
    return render(template, card)
