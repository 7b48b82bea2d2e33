"""The statement as a page that a review board understands."""

from __future__ import annotations

import textwrap
from decimal import ROUND_CEILING, Context, Decimal
from typing import TYPE_CHECKING

from privgcn.privacy.units import RELATION_WORDS, UNIT_WORDS

if TYPE_CHECKING:
    from privgcn.privacy.statement import PrivacyStatement

_WIDTH = 80
_COUNTED = {
    "document": "documents",
    "person": "people",
    "part": "documents",
    "graph": "documents",
}


def round_up(value: float, digits: int = 4) -> str:
    """``value`` in ``digits`` significant digits, never smaller than it is."""
    context = Context(prec=digits, rounding=ROUND_CEILING)
    shown = context.create_decimal(Decimal(value))
    return f"{shown:f}" if -5 < shown.adjusted() < 12 else f"{float(shown):g}"


def page(statement: PrivacyStatement) -> str:
    """The whole page, the two-line summary first."""
    blocks = [
        _summary(statement),
        _paragraph(_meaning(statement)),
        _facts(statement),
        _section("Predictions", [_mode_line(statement, i) for i in _modes(statement)]),
        _section("Assumed to be public", statement.assumed_public),
        _section("Not covered", statement.not_covered),
        _section("Remember", (*_warnings(statement), *statement.notes)),
        _fingerprints(statement),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _summary(statement: PrivacyStatement) -> str:
    """The claim, with and without amplification, and whether it may leave the house."""
    amplified = (
        f"epsilon <= {round_up(statement.epsilon)} at delta = {statement.delta:g} for "
        f"{_short_unit(statement)}, relation '{statement.relation}', accountant "
        f"'{statement.accountant}'."
    )
    plain = (
        f"epsilon <= {round_up(statement.epsilon_without_amplification)} without "
        "amplification, that is, even if it were known which parts each step used."
    )
    lines = ["PRIVACY STATEMENT", "", amplified, plain]
    if not statement.releasable:
        lines += [
            "",
            "MUST NOT BE RELEASED: the noise of this run came from a seed. Whoever knows the "
            "seed",
            "can take the noise away. This is an experiment, not a protected model.",
        ]
    return "\n".join(lines)


def _meaning(statement: PrivacyStatement) -> str:
    return (
        f"Protected is {UNIT_WORDS[statement.unit]}. Whatever the trained model shows, it "
        "would have shown with nearly the same probability "
        f"{RELATION_WORDS[statement.relation]}: probabilities differ by a factor of at most "
        "exp(epsilon), but for a chance of delta. Smaller is stronger."
    )


def _facts(statement: PrivacyStatement) -> str:
    rows = [
        ("training data", f"{statement.units:,} {_COUNTED[statement.unit]}"),
        ("parts", parts_in_words(statement)),
        ("sampling", sampling_in_words(statement)),
        ("clip norm", f"{statement.clip_norm:g} for what each part adds to a step"),
        ("sensitivity", f"{statement.sensitivity} x clip norm"),
        (
            "noise multiplier",
            f"{statement.noise_multiplier:.6g} (standard deviation {statement.noise_std:.6g})",
        ),
        (
            "steps",
            f"{statement.steps:,} noisy sums, accounted as {statement.accounted_steps:,}",
        ),
        ("accountant", f"{statement.accountant} ({statement.accountant_version})"),
    ]
    for query in statement.side_queries:
        rows.append(
            (
                "also released",
                f"{query.name}, noise multiplier {query.noise_multiplier:.6g}, sensitivity "
                f"{query.sensitivity}, included in epsilon",
            )
        )
    rows += search_rows(statement)
    return "\n".join(f"{name:<18}{value}" for name, value in rows)


def search_rows(statement: PrivacyStatement) -> list[tuple[str, str]]:
    """What the statement says about the search that the model won; nothing without one."""
    search = statement.selection
    if search is None:
        return []
    rows = [
        (
            "search",
            f"the best of a secret number of runs, {search.expected_runs:g} on average "
            f"({search.law}); all of them are included in epsilon",
        )
    ]
    if search.score is None:
        return [*rows, ("validation data", "declared public, not protected")]
    return [
        *rows,
        (
            "validation data",
            f"{search.validation_units:,} {_COUNTED[statement.unit]}, protected as well; each "
            f"score has noise of standard deviation {search.score.noise_multiplier:.6g}",
        ),
    ]


def parts_in_words(statement: PrivacyStatement) -> str:
    """How many parts there are, and how they were made."""
    partition = statement.partition
    whose = "owner" if partition.by == "owner" else "document"
    words = {
        "each": f"{partition.parts:,}, each {whose} its own part",
        "random": f"{partition.parts:,}, drawn at random by {whose} (seed {partition.seed})",
        "column": f"{partition.parts:,}, by the column '{partition.column}', declared public",
        "single": "1, the whole training graph",
    }
    return words[partition.kind]


def sampling_in_words(statement: PrivacyStatement) -> str:
    """Which parts a step uses."""
    words = {
        "all": "all: every step uses every part",
        "poisson": "poisson: each part joins a step with probability "
        f"{statement.sampling_probability:.6g}",
        "epoch": "epoch: one part after the other, each once per epoch",
    }
    return words[statement.sampling]


def _warnings(statement: PrivacyStatement) -> list[str]:
    lines = []
    if statement.weak_delta:
        lines.append(
            "delta is weak: delta times the number of units is "
            f"{statement.delta_times_units:.2g}, the expected number of units that delta alone "
            "would allow to be exposed. It should be well below 0.1."
        )
    if statement.unit == "graph" or (
        statement.unit == "part" and statement.partition.parts == 1
    ):
        lines.append(
            "The unit is everything at once: the claim says little about single documents "
            "beyond what it says about all of them."
        )
    if statement.accountant == "moments":
        lines.append(
            "The moments accountant is here for comparison with published figures; 'pld' is "
            "tighter and equally valid."
        )
    if statement.releasable:
        lines.append(
            "Noise and samples came from a secret cryptographic source: the model and this "
            "statement may be released, with the 'release' command."
        )
    return lines


def _modes(statement: PrivacyStatement) -> range:
    return range(len(statement.inference_modes))


def _mode_line(statement: PrivacyStatement, place: int) -> str:
    claim = statement.inference_modes[place]
    verdict = "covered, for the training data" if claim.covered else "NOT covered"
    return f"{claim.mode} (the model sees {claim.sees}): {verdict}."


def _fingerprints(statement: PrivacyStatement) -> str:
    lines = [f"Computed by {statement.package_version}. Check it: privgcn verify FOLDER"]
    if statement.model_sha256 is not None:
        lines.append(f"weights  {statement.model_sha256}")
    lines.append(f"digest   {statement.stored_digest}")
    return "\n".join(lines)


def _short_unit(statement: PrivacyStatement) -> str:
    return {
        "document": "one document",
        "person": "one person",
        "part": "one part of the graph",
        "graph": "the whole graph",
    }[statement.unit]


def _section(title: str, lines: tuple[str, ...] | list[str]) -> str:
    if not lines:
        return ""
    return "\n".join(
        [
            title,
            *(
                textwrap.fill(line, _WIDTH, initial_indent="- ", subsequent_indent="  ")
                for line in lines
            ),
        ]
    )


def _paragraph(text: str) -> str:
    return textwrap.fill(text, _WIDTH)
