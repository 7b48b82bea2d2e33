"""The privacy card: what a released model says about itself, and nothing that is not covered.

A card holds the statement, the training settings and what the owner of the documents chose
to say about them. Scores, counts of labels or edges, timings and where the documents came
from have no way in: the settings are checked against the known ones, and what names the data
is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privgcn.config import DataSettings, Settings, parse_settings
from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.wording import explained, sentence
from privgcn.report.page import effective_settings, render, texts


@dataclass(frozen=True)
class About:
    """What the owner of the documents declares public about them and the model.

    Attributes:
        corpus: What the training documents are.
        classes: Names of the classes, where they were declared and not read off the labels.
        intended_use: What the model is for.
        contact: Whom to ask.
    """

    corpus: str | None = None
    classes: Sequence[str] | None = None
    intended_use: str | None = None
    contact: str | None = None


def card_markdown(
    statement: PrivacyStatement, settings_public: Mapping[str, Any], about: About | None = None
) -> str:
    """The card as Markdown.

    Args:
        statement: Of the released model.
        settings_public: The settings without a ``data`` section.
        about: What else the owner wants the card to say.

    Raises:
        PrivacyContractError: The model must not be released, or the settings hold what the
            guarantee does not cover.
    """
    return render("card.md", _card(statement, settings_public, about))


def card_html(
    statement: PrivacyStatement, settings_public: Mapping[str, Any], about: About | None = None
) -> str:
    """The card as one self-contained page; the same content as ``card_markdown``."""
    return render("card.html", _card(statement, settings_public, about))


def _card(
    statement: PrivacyStatement, settings_public: Mapping[str, Any], about: About | None
) -> dict[str, Any]:
    if not isinstance(statement, PrivacyStatement):
        raise PrivacyContractError(
            f"The 'statement' of a privacy card must be a PrivacyStatement. Got {statement!r}. "
            "A model without a guarantee has no card."
        )
    if not statement.releasable:
        raise PrivacyContractError(
            "The 'statement' of a privacy card must be of a run that may be released. Got one "
            "whose noise came from a seed. Train again without --reproducible."
        )
    words = explained(statement)
    return {
        "title": "Privacy card",
        "synthetic": None,
        "statement": words,
        "about": _about(dict(words["facts"])["Training data"], about or About()),
        "settings": effective_settings(_public(settings_public)),
    }


def _about(trained_on: str, about: About) -> list[tuple[str, list[str]]]:
    """The sections of a model card that are not about the guarantee."""
    usual = texts()["card"]
    classes = usual["classes"]
    if about.classes is not None:
        classes = f"{len(about.classes)} classes: {', '.join(about.classes)}."
    return [
        ("Intended use", [sentence(about.intended_use or usual["use"]), usual["misuse"]]),
        (
            "Training documents",
            [
                f"The model was trained on {trained_on}.",
                sentence(about.corpus or usual["corpus"]),
            ],
        ),
        ("Classes", [classes]),
        ("Limits", usual["limits"]),
        ("Contact", [about.contact or usual["contact"]]),
    ]


def _public(settings: Mapping[str, Any]) -> Settings:
    """The settings, if they are settings and say nothing about the documents."""
    try:
        checked = parse_settings(settings)
    except ConfigError as error:
        raise PrivacyContractError(
            "The settings on a privacy card must be settings of a run and nothing else. "
            f"{error}"
        ) from None
    if checked.data != DataSettings():
        raise PrivacyContractError(
            "The settings on a privacy card must not say where the documents are. Got a 'data' "
            "section. Leave it out."
        )
    return checked
