"""The entry of a release in the deployments registry of OpenDP, as YAML.

The registry (https://registry.opendp.org) lists what was released under differential privacy,
in three tiers of detail. Half of an entry follows from the statement. The other half only a
person knows: it is given by the field names of the registry's schema, and nothing is made up
for what is missing. The tier is the highest one whose fields are all there.

    >>> fill({"name": ["Letters"], "colour": ["blue"]})
    Traceback (most recent call last):
    privgcn.errors.ConfigError: The 'colour' of a registry entry is unknown. Got 'blue'. Known \
are: actors, data_curators, data_product_region, data_product_sector, data_source_type, \
data_source_type_details, description, intended_use, justification, name, notes, \
preprocessing_and_hyperparameter_tuning, publication_date, registry_authors, release_type, \
release_type_details, sources.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from privgcn.errors import ConfigError, shown
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.wording import SHORT_UNIT, explained, in_words, round_up
from privgcn.report.text import rendered

#: What only a person knows, with what it means; the first ones every entry must have.
REQUIRED = {
    "name": "name of the model",
    "data_curators": "who publishes it",
    "description": "what it is",
    "intended_use": "what it is for",
    "data_product_region": "the region that the documents, or the laws on them, are of",
    "publication_date": "the day of publication, as YYYY-MM-DD",
    "registry_authors": "who wrote this entry",
}
_OPTIONAL = (
    *("data_product_sector", "release_type", "release_type_details", "data_source_type"),
    *("data_source_type_details", "actors", "preprocessing_and_hyperparameter_tuning"),
    *("justification", "sources", "notes"),
)
_LISTS = ("data_curators", "registry_authors")
_ONE_OF = {
    "data_product_sector": (
        *("Technology", "Healthcare", "Education", "Government", "Energy", "Finance"),
    ),
    "release_type": ("One release", "Many releases"),
    "data_source_type": ("Static", "Dynamic"),
}
_TIER_2 = ("release_type", "data_source_type")
_TIER_3 = ("actors", "preprocessing_and_hyperparameter_tuning", "justification")


def fill(answers: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Answers as the registry takes them.

    Raises:
        ConfigError: A field that is unknown, missing, given twice, or not what it may be.
    """
    known = sorted((*REQUIRED, *_OPTIONAL))
    for name, values in answers.items():
        if name not in known:
            rule = f"is unknown. Got {shown(values[0])}. Known are: {', '.join(known)}."
        elif len(values) > 1 and name not in _LISTS:
            rule = f"must be given once. Got {len(values)} times."
        elif not all(value.strip() for value in values):
            rule = "must say something. Got nothing."
        elif values[0] not in _ONE_OF.get(name, values):
            rule = f"must be one of {', '.join(_ONE_OF[name])}. Got {shown(values[0])}."
        elif name == "publication_date" and not _is_date(values[0]):
            rule = f"must be a day as YYYY-MM-DD. Got {shown(values[0])}."
        else:
            continue
        raise ConfigError(f"The {shown(name)} of a registry entry {rule}")
    missing = [f"{name} ({REQUIRED[name]})" for name in REQUIRED if name not in answers]
    if missing:
        raise ConfigError(
            f"A registry entry must say what only you know. Missing: {', '.join(missing)}. Add "
            f'--entry "{missing[0].partition(" ")[0]}=...", and so on.'
        )
    return {
        name: list(values) if name in _LISTS else values[0] for name, values in answers.items()
    }


def registry_entry(statement: PrivacyStatement, answers: Mapping[str, Sequence[str]]) -> str:
    """The entry, ready for the registry's folder of deployments.

    Args:
        statement: Of a model that may be released.
        answers: By field of the registry's schema; several values for lists.

    Raises:
        ConfigError: See :func:`fill`.
    """
    said, words = fill(answers), explained(statement)
    facts = dict(words["facts"])
    public = in_words(statement, (*statement.assumed_public, *statement.not_covered))
    page = {
        "said": said,
        "slug": _slug(said),
        "tier": 1 + _has(said, _TIER_2) + _has(said, (*_TIER_2, *_TIER_3)),
        "data": facts["Training data"],
        "unprotected": "\n".join(f"- {line}" for line in public),
        "unit": SHORT_UNIT[statement.unit],
        "promise": words["promise"],
        "epsilon": float(round_up(statement.epsilon)),
        "delta": statement.delta,
        "meaning": " ".join(
            [
                *words["meaning"],
                f"Gaussian DP: {facts['Gaussian differential privacy']}.",
                *words["warnings"],
            ]
        ),
        "composition": f"{facts['Steps']}. Sampling: {facts['Sampling']}. Noise: "
        f"{facts['Noise multiplier']}. Accountant: {facts['Accountant']}. "
        + facts.get("Search", ""),
        "software": f"{words['package']}, accounting by {statement.accountant_version}",
        "notes": " ".join([said.get("notes", ""), f"Statement digest: {words['digest']}."]),
    }
    lines = rendered("registry.yaml", **page).splitlines()
    return "\n".join(line for line in lines if line.strip()) + "\n"


def _has(said: Mapping[str, Any], names: Sequence[str]) -> bool:
    return all(name in said for name in names)


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _slug(said: Mapping[str, Any]) -> str:
    """The name of an entry, as the registry makes it."""
    words = (said["name"], "-".join(said["data_curators"]), said["publication_date"][:4])
    cleaned = (re.sub(r"\W+", "_", word.lower()) for word in words)
    return "_".join(cleaned).replace("_", "-")
