"""The one wording of a claim: statement text, report page, card and terminal all take it.

In the sentences of ``words.toml``, for a review board. Numbers are rounded against the claim,
never for it.
"""

from __future__ import annotations

import math
import textwrap
import tomllib
from collections.abc import Sequence
from decimal import ROUND_CEILING, Context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privgcn.config import MODES

if TYPE_CHECKING:
    from privgcn.privacy.plan import PrivacyPlan
    from privgcn.privacy.statement import Fact, PrivacyStatement

_WORDS: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("words.toml").read_text(encoding="utf-8")
)
SHORT_UNIT: dict[str, str] = _WORDS["short_unit"]
#: What a statement assumes to be public, and what it does not cover: sentences by code.
SENTENCES: dict[str, str] = {**_WORDS["public"], **_WORDS["gaps"]}
#: Above this, the bound lets a determined guesser be right nearly always.
_LARGE_EPSILON = 8.0


def round_up(value: float, digits: int = 4) -> str:
    """``value`` in ``digits`` significant digits, never smaller than it is.

    >>> round_up(2.40201), round_up(1.0), round_up(1e-5), round_up(1.23451e-5)
    ('2.403', '1', '1e-5', '1.235e-5')
    """
    # What was typed as 1e-5 stays so, though the nearest binary number is a little larger.
    decimal = repr(float(value)).removesuffix(".0")
    rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(decimal)
    if -5 < rounded.adjusted() < 12:
        return f"{rounded:f}"
    mantissa, exponent = f"{float(rounded):g}".split("e")
    return f"{mantissa}e{int(exponent)}"


def guarantee_line(statement: PrivacyStatement | None) -> str:
    """The guarantee in one line."""
    if statement is None:
        return "No privacy guarantee: trained without --epsilon."
    claim = (
        f"epsilon at most {round_up(statement.epsilon)} at delta {round_up(statement.delta)} "
        f"for {SHORT_UNIT[statement.unit]}, relation {statement.relation}"
    )
    if statement.void:
        return f"No valid guarantee ({claim}): the claim is void."
    return f"Guarantee: {claim}."


def explained(statement: PrivacyStatement) -> dict[str, Any]:
    """Everything that a page says about a guarantee, as plain values."""
    values, plan, search = _values(statement), statement.plan, statement.plan.selection
    facts = dict(_WORDS["facts"])
    if search is not None:
        facts |= _WORDS["search"]
        facts |= _WORDS["search_on_private_documents"] if search.score else {}
    whole = plan.unit == "part" and plan.partition.groups == 1
    applies = {
        "void": bool(statement.void),
        "one_of_several": statement.one_of_several,
        "seeded": not statement.releasable,
        "weak_delta": plan.weak_delta,
        "large_epsilon": statement.epsilon > _LARGE_EPSILON,
        "whole_graph": statement.unit == "graph" or whole,
        "moments": statement.accountant == "moments",
    }
    verdicts = {True: "covered, for the training data", False: "NOT covered"}
    page: dict[str, Any] = {
        "claim": guarantee_line(statement),
        "promise": _WORDS["promise"].format(**values),
        "meaning": [line.format(**values) for line in _WORDS["meaning"]],
        "warnings": [
            line.format(**values) for name, line in _WORDS["warnings"].items() if applies[name]
        ],
        "facts": [(name, line.format(**values)) for name, line in facts.items()],
        "modes": [
            {
                "mode": each.mode,
                "covered": each.covered,
                "verdict": verdicts[each.covered],
                "sees": f"What the model sees: {MODES[each.mode].sees}.",
            }
            for each in statement.inference_modes
        ],
        "assumed_public": in_words(statement, statement.assumed_public),
        "not_covered": in_words(statement, statement.not_covered),
        "notes": _WORDS["remember"],
        "digest": statement.digest,
        "package": statement.package_version,
    }
    return {name: _printable(value) for name, value in page.items()}


def text(statement: PrivacyStatement) -> str:
    """The same as a page of plain text, the claim first."""

    def filled(line: str, first: str = "", further: str = "") -> str:
        return textwrap.fill(line, 80, initial_indent=first, subsequent_indent=further)

    def section(title: str, lines: Sequence[str]) -> str:
        return "\n".join([title, *(filled(line, "- ", "  ") for line in lines)])

    words, model = explained(statement), statement.model_sha256
    modes = [f"{m['mode']}: {m['verdict']}. {m['sees']}" for m in words["modes"]]
    facts = (filled(f"{name:<31}{value}", "", " " * 31) for name, value in words["facts"])
    named = "" if model is None else f"model    {model}\n"
    blocks = [
        "PRIVACY STATEMENT",
        words["claim"],
        *map(filled, (*words["warnings"], words["promise"])),
        section("What it means", words["meaning"]),
        "\n".join(facts),
        section("Predictions", modes),
        section("Assumed to be public", words["assumed_public"]),
        section("Not covered", words["not_covered"]),
        section("Remember", words["notes"]),
        f"Computed by {words['package']}. Check it: privgcn verify FOLDER\n"
        f"{named}digest   {words['digest']}\n",
    ]
    return "\n\n".join(blocks)


def in_words(statement: PrivacyStatement, facts: Sequence[Fact]) -> list[str]:
    """Facts of a statement, a sentence each."""
    known = {
        "members": "owners" if statement.unit == "person" else "documents",
        "units": statement.plan.units,
        "column": statement.plan.partition.column,
    }
    return [sentence(SENTENCES[fact.code].format(**known, **vars(fact))) for fact in facts]


def sentence(line: str) -> str:
    """A line with a capital and a full stop."""
    words = line.strip()
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "!", "?")) else ".")


def groups_in_words(plan: PrivacyPlan) -> str:
    """How many groups there are, and how they were made."""
    words: str = _WORDS["groups"][plan.partition.kind]
    return words.format(partition=plan.partition)


def _values(statement: PrivacyStatement) -> dict[str, Any]:
    plan, factor = statement.plan, math.exp(min(statement.epsilon, 700.0))
    # For two equally likely neighbours no test beats 1/2 + TV/2, and an (epsilon, delta)
    # guarantee bounds the total variation by (e^epsilon - 1 + 2 delta) / (e^epsilon + 1).
    inverse = math.exp(-statement.epsilon)
    guess = min(1.0, (1.0 + plan.delta * inverse) / (1.0 + inverse))
    people, times = plan.unit == "person", f"at most {round_up(factor, 3)} times"
    return {
        "plan": plan,
        "unit": _WORDS["unit"][plan.unit],
        "relation": _WORDS["relation"][plan.relation],
        "groups": groups_in_words(plan),
        "sampling": _WORDS["sampling"][plan.schedule.name].format(plan=plan),
        "counted": "people with training documents" if people else "training documents",
        "members": "people" if people else "documents",
        # Those that train, and those that score.
        "protected": f"{plan.protected_units:,}",
        "epsilon": round_up(statement.epsilon),
        "unamplified": round_up(statement.epsilon_without_amplification),
        "factor": times if factor < 1e6 else "possibly more than a million times",
        "guess": _percent(guess),
        "detected": _percent(statement.detected_at_1_percent),
        "mu": _mu_in_words(statement),
        "delta": round_up(plan.delta),
        "one_in": round(1.0 / plan.delta),
        # A product such as 0.0011000000000000001 is 0.0011.
        "slack": round_up(float(f"{plan.delta * plan.protected_units:.14g}")),
        "clip_norm": round_up(plan.clip_norm),
        "version": statement.accountant_version,
        "void": " ".join(in_words(statement, statement.void)),
    }


def _percent(chance: float) -> str:
    return f"{min(1000, math.ceil(1000 * chance - 1e-6)) / 10:g}%"


def _mu_in_words(statement: PrivacyStatement) -> str:
    if statement.gaussian_mu is None:
        return "no mu below 10,000 is known"
    mu, plan = f"mu at most {round_up(statement.gaussian_mu)}", statement.plan
    if plan.selection is None and plan.schedule.rate == 1.0:
        return mu
    return f"{mu}, for every delta from {round_up(statement.delta)} up"


def _printable(value: Any) -> Any:
    # Without what could steer a terminal: others may have written it.
    if isinstance(value, str):
        return "".join(c if c.isprintable() else " " for c in value)
    if isinstance(value, dict):
        return {key: _printable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_printable, value))
    return value
