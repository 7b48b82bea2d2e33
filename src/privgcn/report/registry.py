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

import json
import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from privgcn.errors import ConfigError, shown
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.wording import SHORT_UNIT, explained, in_words, round_up
from privgcn.report.text import clean

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
_POST_PROCESSING = (
    "Everything after the noisy sums: optimisation, averaging, the choice of step sizes and "
    "predictions read these sums and public facts, and no training document. Predictions with "
    "inference 'full-graph' do read them, and are not covered."
)
_MECHANISM = (
    "Gaussian mechanism on sums of vectors, one from each group of documents, each clipped to "
    "one norm. Sums are exact whole numbers, and noise is drawn exactly on the same grid from "
    "a cryptographic generator keyed by the operating system, so that floating point reveals "
    "nothing. Timing is not protected. Software: {package}, accounting by {accountant}."
)


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
    rows = dict(words["facts"])

    def given(*names: str) -> dict[str, Any]:
        return {name: said[name] for name in names if name in said}

    steps = f"{rows['Steps']}. Sampling: {rows['Sampling']}. Noise: {rows['Noise multiplier']}."
    listed = in_words(statement, (*statement.assumed_public, *statement.not_covered))
    tier = 1 + all(name in said for name in _TIER_2)
    tier += tier == 2 and all(name in said for name in _TIER_3)
    record = {
        "url_slug": _slug(said),
        "status": "Draft",
        "tier": tier,
        "deployment": {
            "basic": {
                **given("name", "data_curators", "intended_use"),
                "data_product_type": "Machine learning model",
                **given("data_product_region", "description", "publication_date"),
                **given("data_product_sector"),
            },
            "dp_variant": {
                "variant_name": "Approximate DP",
                "data_domain": "Collections of documents with text, label and edges, with the "
                f"list of documents as it is. Training data: {rows['Training data']}.",
                "unprotected_quantities": "\n".join(f"- {line}" for line in listed),
            },
            "privacy_loss": {
                "privacy_unit": SHORT_UNIT[statement.unit],
                "privacy_unit_details": words["promise"],
                "privacy_parameters": {
                    "epsilon": float(round_up(statement.epsilon)),
                    "delta": statement.delta,
                },
                "privacy_parameters_details": " ".join(
                    [*words["meaning"], f"Gaussian DP: {rows[_MU]}.", *words["warnings"]]
                ),
            },
            "deployment_model": {
                "model_name": "Central",
                "model_name_details": "The curator holds the documents and trains the model; "
                "only the model and its statement are published.",
                **given("actors", "release_type", "release_type_details"),
                **given("data_source_type", "data_source_type_details"),
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": _POST_PROCESSING,
                "composition": f"{steps} Accountant: {rows['Accountant']}. {rows['Search']}"
                if "Search" in rows
                else f"{steps} Accountant: {rows['Accountant']}.",
            },
            "implementation": {
                **given("preprocessing_and_hyperparameter_tuning"),
                "mechanisms": _MECHANISM.format(
                    package=words["package"], accountant=statement.accountant_version
                ),
                **given("justification"),
            },
            "administrative": {
                **given("sources"),
                "notes": " ".join(
                    [*given("notes").values(), f"Statement digest: {words['digest']}."]
                ),
                **given("registry_authors"),
            },
        },
    }
    return "\n".join(yaml_lines(record)) + "\n"


_MU = "Gaussian differential privacy"


def yaml_lines(record: Mapping[str, Any], indent: str = "") -> list[str]:
    """A tree of texts, numbers and lists of texts in YAML; every text is quoted."""
    lines: list[str] = []
    for name, value in record.items():
        if isinstance(value, Mapping):
            lines += [f"{indent}{name}:", *yaml_lines(value, indent + "  ")]
        elif isinstance(value, list):
            lines += [f"{indent}{name}:", *(f"{indent}  - {_scalar(one)}" for one in value)]
        else:
            lines.append(f"{indent}{name}: {_scalar(value)}")
    return lines


def _scalar(value: str | float) -> str:
    if isinstance(value, str):
        # JSON's escapes are YAML's; what cannot be printed is in neither.
        valid = value.encode("utf-8", "replace").decode("utf-8")
        text = "\n".join(clean(line) for line in valid.splitlines())
        return json.dumps(text, ensure_ascii=False)
    mantissa, separator, exponent = repr(value).partition("e")
    # YAML takes 1e-05 for a text, and 1.0e-05 for a number.
    return f"{mantissa}{'' if '.' in mantissa else '.0'}e{exponent}" if separator else mantissa


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
