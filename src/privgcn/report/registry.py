"""The entry of a release in the deployments registry of OpenDP, as YAML.

Half of an entry (https://registry.opendp.org) follows from the statement, the other half only a
person knows. Of three tiers of detail it is in the highest one whose fields are all there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from privgcn.errors import ConfigError, refusal
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.wording import SHORT_UNIT, explained, in_words, round_up
from privgcn.report.text import rendered

_Text: TypeAlias = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_LISTS = ("data_curators", "registry_authors")
_TIER_2 = {"release_type", "data_source_type"}
_TIER_3 = {"actors", "preprocessing_and_hyperparameter_tuning", "justification"}


class Answers(BaseModel):
    """What only a person knows, by the names of the registry's schema."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: _Text = Field(description="name of the model")
    data_curators: list[_Text] = Field(description="who publishes it")
    description: _Text = Field(description="what it is")
    intended_use: _Text = Field(description="what it is for")
    data_product_region: _Text = Field(
        description="the region that the documents, or the laws on them, are of"
    )
    publication_date: date = Field(description="the day of publication, as YYYY-MM-DD")
    registry_authors: list[_Text] = Field(description="who wrote this entry")
    data_product_sector: (
        Literal["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"]
        | None
    ) = None
    release_type: Literal["One release", "Many releases"] | None = None
    release_type_details: _Text | None = None
    data_source_type: Literal["Static", "Dynamic"] | None = None
    data_source_type_details: _Text | None = None
    actors: _Text | None = None
    preprocessing_and_hyperparameter_tuning: _Text | None = None
    justification: _Text | None = None
    sources: _Text | None = None
    notes: _Text | None = None


def registry_entry(statement: PrivacyStatement, answers: Mapping[str, Sequence[str]]) -> str:
    """The entry, from answers by field of the registry's schema, several of them for lists."""
    said = {key: list(v) if key in _LISTS or len(v) > 1 else v[0] for key, v in answers.items()}
    try:
        known = Answers.model_validate(said).model_dump(mode="json", exclude_none=True)
    except ValidationError as error:
        fields = Answers.model_fields
        missing = [fault["loc"][0] for fault in error.errors() if fault["type"] == "missing"]
        if not missing:
            raise refusal(error, "a registry entry") from None
        named = ", ".join(f"{name} ({fields[str(name)].description})" for name in missing)
        raise ConfigError(
            f"A registry entry must say what only you know. Missing: {named}. Add "
            f'--entry "{missing[0]}=...", and so on.'
        ) from None
    words = explained(statement)
    facts = dict(words["facts"])
    public = in_words(statement, (*statement.assumed_public, *statement.not_covered))
    tier_2 = known.keys() >= _TIER_2
    gaussian = f"Gaussian DP: {facts['Gaussian differential privacy']}."
    # As the registry makes it.
    slug = (known["name"], *known["data_curators"], known["publication_date"][:4])
    page = {
        "said": known,
        "slug": re.sub(r"[\W_]+", "-", "-".join(slug).lower()),
        "tier": 1 + tier_2 + (tier_2 and known.keys() >= _TIER_3),
        "data": facts["Training data"],
        "unprotected": "\n".join(f"- {line}" for line in public),
        "unit": SHORT_UNIT[statement.unit],
        "promise": words["promise"],
        # YAML takes 1e-05 for a text.
        "epsilon": f"{Decimal(round_up(statement.epsilon)):f}",
        "delta": f"{Decimal(str(statement.delta)):f}",
        "meaning": " ".join((*words["meaning"], gaussian, *words["warnings"])),
        "composition": f"{facts['Steps']}. Sampling: {facts['Sampling']}. Noise: "
        f"{facts['Noise multiplier']}. Accountant: {facts['Accountant']}. "
        + facts.get("Search", ""),
        "software": f"{words['package']}, accounting by {statement.accountant_version}",
        "notes": f"{known.get('notes', '')} Statement digest: {words['digest']}.",
    }
    lines = rendered("registry.yaml", **page).splitlines()
    return "\n".join(line for line in lines if line.strip()) + "\n"
