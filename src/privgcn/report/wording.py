"""A statement in words that a review board understands, as plain values for any page.

Nothing here is computed anew: the statement says what may be claimed, and this module only
says it so that it can be understood. Numbers are rounded against the claim, never for it.
"""

from __future__ import annotations

import math
from typing import Any

from privgcn.modes import facts_of
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

_RELATION = {
    "remove": "the data as they are, and the same data with that content removed",
    "replace": "the data as they are, and the same data with any other content in its place",
}
_COUNTED = {
    "document": "training documents",
    "person": "people with training documents",
    "part": "training documents",
    "graph": "training documents",
}
# Above this, the bound lets a determined guesser be right nearly always.
_LARGE_EPSILON = 8.0
_LARGEST_FACTOR = 1e6


def explained(statement: PrivacyStatement) -> dict[str, Any]:
    """Everything a page says about a guarantee."""
    return {
        "claim": claim(statement),
        "promise": _promise(statement),
        "meaning": [_factor(statement), _guess(statement), _delta(statement)],
        "warnings": _warnings(statement),
        "facts": facts(statement),
        "modes": [
            {
                "mode": m.mode,
                "covered": m.covered,
                "verdict": "covered, for the training data" if m.covered else "NOT covered",
                "sees": f"What the model sees: {facts_of(m.mode).sees}.",
            }
            for m in statement.inference_modes
        ],
        "assumed_public": [
            sentence(line) for line in in_words(statement, statement.assumed_public)
        ],
        "not_covered": [sentence(line) for line in in_words(statement, statement.not_covered)],
        "notes": [sentence(line) for line in in_words(statement, statement.notes)],
        "verdict": verdict(statement),
        "digest": statement.stored_digest,
        "package": statement.package_version,
    }


def claim(statement: PrivacyStatement) -> str:
    """The claim in one line."""
    return (
        f"ε ≤ {round_up(statement.epsilon)} at δ = {number(statement.delta)} "
        f"for {SHORT_UNIT[statement.unit]}"
    )


def sentence(line: str) -> str:
    """A line of the statement with a capital and a full stop; its words stay as they are."""
    text = line.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def verdict(statement: PrivacyStatement) -> dict[str, str]:
    """Whether the model may be released, and why."""
    if statement.releasable:
        return {
            "tone": "good",
            "title": "May be released, within what is covered",
            "text": "Noise and samples came from a secret source. What is listed below as not "
            "covered stays unprotected in a release. `privgcn release` checks the run and "
            "collects what may be published: the model, its statement and a privacy card.",
        }
    return {
        "tone": "bad",
        "title": "The model must not be released",
        "text": "The noise of this run came from a seed, so that the run can be repeated. "
        "Anyone who knows the seed can subtract the noise, and then nothing is protected. "
        "Treat it as an experiment. Train again without `--reproducible` for a model that may "
        "be released.",
    }


def facts(statement: PrivacyStatement) -> list[tuple[str, str]]:
    """What the guarantee was computed from, name by name."""
    rows = [
        ("Protected unit", UNIT_WORDS[statement.unit]),
        ("Relation", f"{statement.relation}: it compares {_RELATION[statement.relation]}"),
        ("Epsilon (ε)", f"at most {round_up(statement.epsilon)}"),
        (
            "Epsilon without amplification",
            f"at most {round_up(statement.epsilon_without_amplification)}, even for someone "
            "who knows which parts each step used",
        ),
        ("Delta (δ)", f"{number(statement.delta)}, that is {one_in(statement.delta)}"),
        (
            "Delta times units (δ·n)",
            f"{number(statement.delta_times_units)} for n = {_protected(statement):,} "
            f"{_COUNTED[statement.unit]}",
        ),
        ("Parts", parts_in_words(statement)),
        ("Sampling", sampling_in_words(statement)),
        ("Clip norm", f"{number(statement.clip_norm)} for what each part adds to a step"),
        ("Sensitivity", f"{statement.sensitivity} times the clip norm"),
        ("Noise multiplier", number(statement.noise_multiplier)),
        (
            "Steps",
            f"{statement.steps:,} noisy sums, accounted as {statement.accounted_steps:,}",
        ),
        ("Accountant", f"{statement.accountant} ({statement.accountant_version})"),
    ]
    rows += [
        (
            "Also released",
            f"{query.name}, with noise multiplier {number(query.noise_multiplier)}; "
            "included in epsilon",
        )
        for query in statement.side_queries
    ]
    rows += [(name.capitalize(), text) for name, text in search_rows(statement)]
    return rows


def training_data(statement: PrivacyStatement) -> str:
    """How many units trained the model, in a sentence."""
    return f"The model was trained on {statement.units:,} {_COUNTED[statement.unit]}."


def _protected(statement: PrivacyStatement) -> int:
    """How many units delta is counted over: those that train, and those that score."""
    return statement.plan.protected_units


def _promise(statement: PrivacyStatement) -> str:
    return (
        f"The guarantee protects {UNIT_WORDS[statement.unit]}. It compares two cases: "
        f"{_RELATION[statement.relation]}. Whatever anyone can learn from the trained model, "
        "by any method and with any other knowledge, differs between the two cases only as far "
        "as ε (epsilon) and δ (delta) allow."
    )


def _factor(statement: PrivacyStatement) -> str:
    factor = math.exp(statement.epsilon) if statement.epsilon < 700 else math.inf
    words = (
        f"{round_up(factor, 3)} times"
        if factor < _LARGEST_FACTOR
        else "more than a million times"
    )
    return (
        f"ε = {round_up(statement.epsilon)} bounds how much: up to δ, any outcome of the "
        f"training is at most {words} as likely in one case as in the other. Smaller is "
        "stronger; 0 would be perfect."
    )


def _guess(statement: PrivacyStatement) -> str:
    # For two equally likely neighbours no test beats 1/2 + TV/2, and an (epsilon, delta)
    # guarantee bounds the total variation by (e^epsilon - 1 + 2 delta) / (e^epsilon + 1).
    inverse = math.exp(-statement.epsilon)
    best = min(1.0, (1.0 + statement.delta * inverse) / (1.0 + inverse))
    return (
        "In other words, suppose someone knows all the other data and has to tell from the "
        "model which of the two cases is true, when both are equally likely. They are right "
        f"with a probability of at most {share(best)}. A coin toss is right half the time."
    )


def _delta(statement: PrivacyStatement) -> str:
    return (
        f"δ = {number(statement.delta)} is the slack of that bound. Over all "
        f"{_protected(statement):,} {_COUNTED[statement.unit]} it adds up to δ·n = "
        f"{number(statement.delta_times_units)}, which must stay far below 1."
    )


def _warnings(statement: PrivacyStatement) -> list[str]:
    lines = []
    if statement.weak_delta:
        lines.append(
            f"Delta is weak: δ·n is {number(statement.delta_times_units)}. It should be "
            "well below 0.1."
        )
    if statement.epsilon > _LARGE_EPSILON:
        lines.append(
            f"Epsilon is large: by itself, a bound of {round_up(statement.epsilon)} rules out "
            "little of what a determined attacker could learn."
        )
    if statement.unit == "graph" or (
        statement.unit == "part" and statement.partition.parts == 1
    ):
        lines.append(
            "The protected unit is the whole training graph at once: the guarantee says no "
            "more about one document than about all of them together."
        )
    if statement.accountant == "moments":
        lines.append(
            "The moments accountant is meant for comparison with published figures; 'pld' is "
            "tighter and equally valid."
        )
    return lines
