"""A statement in words that a review board understands, as plain values for any page.

Nothing here is computed anew: the statement says what may be claimed, and ``words.toml`` says
it so that it can be understood. Numbers are rounded against the claim, never for it.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from privgcn.config import facts_of
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.statement_text import (
    SHORT_UNIT,
    UNIT_WORDS,
    in_words,
    parts_in_words,
    round_up,
    sampling_in_words,
    search_rows,
)
from privgcn.report.formats import number, one_in, share

# Above this, the bound lets a determined guesser be right nearly always.
_LARGE_EPSILON = 8.0
_LARGEST_FACTOR = 1e6


@cache
def words() -> Mapping[str, Any]:
    """The texts, as a tree."""
    return tomllib.loads(resources.files(__package__).joinpath("words.toml").read_text("utf-8"))


def explained(statement: PrivacyStatement) -> dict[str, Any]:
    """Everything a page says about a guarantee."""
    values = _values(statement)
    rows = [(name, text.format(**values)) for name, text in words()["facts"]]
    rows += [
        (
            "Also released",
            f"{query.name}, with noise multiplier {number(query.noise_multiplier)}; "
            "included in epsilon",
        )
        for query in statement.side_queries
    ]
    rows += [(name.capitalize(), text) for name, text in search_rows(statement)]
    listed = {
        name: [sentence(line) for line in in_words(statement, getattr(statement, name))]
        for name in ("assumed_public", "not_covered", "notes")
    }
    return {
        "claim": words()["claim"].format(**values),
        "promise": words()["promise"].format(**values),
        "meaning": [text.format(**values) for text in words()["meaning"]],
        "warnings": [words()["warnings"][name].format(**values) for name in _warned(statement)],
        "facts": rows,
        "modes": [
            {
                "mode": m.mode,
                "covered": m.covered,
                "verdict": "covered, for the training documents"
                if m.covered
                else "NOT covered",
                "sees": f"What the model sees: {facts_of(m.mode).sees}.",
            }
            for m in statement.inference_modes
        ],
        **listed,
        "trained_on": words()["training_data"].format(**values),
        "releasable": statement.releasable,
        "digest": statement.stored_digest,
        "package": statement.package_version,
    }


def sentence(line: str) -> str:
    """A line of the statement with a capital and a full stop; its words stay as they are."""
    text = line.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def _values(statement: PrivacyStatement) -> dict[str, Any]:
    """What the braces of ``words.toml`` stand for."""
    factor = math.exp(min(statement.epsilon, 700.0))
    # For two equally likely neighbours no test beats 1/2 + TV/2, and an (epsilon, delta)
    # guarantee bounds the total variation by (e^epsilon - 1 + 2 delta) / (e^epsilon + 1).
    inverse = math.exp(-statement.epsilon)
    guess = min(1.0, (1.0 + statement.delta * inverse) / (1.0 + inverse))
    return {
        "unit": UNIT_WORDS[statement.unit],
        "short_unit": SHORT_UNIT[statement.unit],
        "counted": words()["counted"][statement.unit],
        "units": f"{statement.units:,}",
        # Those that train, and those that score a search.
        "protected_counted": words()[
            "counted" if statement.plan.protected_units == statement.units else "searched"
        ][statement.unit],
        "protected": f"{statement.plan.protected_units:,}",
        "relation_name": statement.relation,
        "relation": words()["relation"][statement.relation],
        "epsilon": round_up(statement.epsilon),
        "unamplified": round_up(statement.epsilon_without_amplification),
        "factor": f"at most {round_up(factor, 3)} times"
        if factor < _LARGEST_FACTOR
        else "possibly more than a million times",
        "guess": share(guess),
        "delta": number(statement.delta),
        "one_in": one_in(statement.delta),
        "slack": number(statement.delta_times_units),
        "parts": parts_in_words(statement),
        "sampling": sampling_in_words(statement),
        "clip_norm": number(statement.clip_norm),
        "sensitivity": statement.sensitivity,
        "noise_multiplier": number(statement.noise_multiplier),
        "steps": f"{statement.steps:,}",
        "accounted_steps": f"{statement.accounted_steps:,}",
        "accountant": statement.accountant,
        "accountant_version": statement.accountant_version,
    }


def _warned(statement: PrivacyStatement) -> list[str]:
    """Names of the warnings that apply."""
    whole = statement.unit == "part" and statement.partition.parts == 1
    applies = {
        "weak_delta": statement.weak_delta,
        "large_epsilon": statement.epsilon > _LARGE_EPSILON,
        "whole_graph": statement.unit == "graph" or whole,
        "moments": statement.accountant == "moments",
    }
    return [name for name, here in applies.items() if here]
