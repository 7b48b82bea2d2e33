"""The privacy card: what a released model says about itself, and nothing that is not covered.

A card holds the statement and the training settings. Scores, counts of labels or links,
timings and where the documents came from have no way in: the settings are checked against
the known ones, and what names the data is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privgcn.config import DataSettings, parse_settings
from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.privacy.statement import PrivacyStatement
from privgcn.report.citation import citations
from privgcn.report.rendering import render
from privgcn.report.summarise import settings_rows
from privgcn.report.tables import markdown_text
from privgcn.report.wording import explained


def card_markdown(statement: PrivacyStatement, settings_public: Mapping[str, Any]) -> str:
    """The card as Markdown.

    Args:
        statement: Of the released model.
        settings_public: The settings without a ``data`` section.

    Raises:
        PrivacyContractError: The model must not be released, or the settings hold what the
            guarantee does not cover.
    """
    card = _card(statement, settings_public)
    words = card["statement"]
    lines = ["# Privacy card", "", f"**{_md(words['claim'])}**", "", _md(words["promise"]), ""]
    lines += _bullets(words["meaning"])
    lines += _section("Before you rely on it", words["warnings"])
    lines += ["", "## How it was computed", "", "| what | value |", "| :-- | :-- |"]
    lines += [f"| {_md(name)} | {_md(value)} |" for name, value in words["facts"]]
    lines += _section(
        "Which predictions are covered",
        [
            f"{mode['mode']}: the model sees {mode['sees']}: "
            + ("covered, for the training data." if mode["covered"] else "NOT covered.")
            for mode in words["modes"]
        ],
    )
    lines += _section("Assumed to be public", words["assumed_public"])
    lines += _section("Not covered", words["not_covered"])
    lines += _section("Remember", words["notes"])
    lines += ["", "## Settings of the training", "", "| setting | value |", "| :-- | :-- |"]
    lines += [f"| {_md(name)} | {_md(value)} |" for name, value in card["settings"]]
    lines += ["", "## Check it", ""]
    lines += ["`privgcn verify FOLDER` computes epsilon again from the files beside this card."]
    lines += ["", f"Statement digest: `{words['digest']}`", "", "## How to cite", ""]
    lines += _bullets([f"{entry['what']}: {entry['words']}" for entry in card["citations"]])
    return "\n".join(lines).rstrip() + "\n"


def card_html(statement: PrivacyStatement, settings_public: Mapping[str, Any]) -> str:
    """The card as one self-contained page; the same content as :func:`card_markdown`."""
    return render("card.html", _card(statement, settings_public))


def _card(statement: PrivacyStatement, settings_public: Mapping[str, Any]) -> dict[str, Any]:
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
    return {
        "title": "Privacy card",
        "synthetic": None,
        "statement": explained(statement),
        "checked": [],
        "settings": settings_rows(_public(settings_public)),
        "citations": citations(),
    }


def _public(settings: Mapping[str, Any]) -> dict[str, Any]:
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
    return {key: value for key, value in settings.items() if key != "data"}


def _md(text: object) -> str:
    return markdown_text(text)


def _bullets(lines: list[str]) -> list[str]:
    return [f"- {_md(line)}" for line in lines]


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", f"## {title}", "", *_bullets(lines)] if lines else []
