"""The statement in words: the one place where codes become sentences."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal

from privgcn.config import facts_of
from privgcn.privacy.claim import Claim, Fact
from privgcn.privacy.plan import PrivacyPlan

UNIT_WORDS: dict[str, str] = {
    "document": "one document: its text, its label and all its links",
    "person": "one person: all documents of one owner, with their labels and links",
    "part": "one part: all documents of one part of the training graph, with their links",
    "graph": "the whole training graph: all documents and links, as one part",
}
SHORT_UNIT: dict[str, str] = {
    "document": "one document",
    "person": "one person",
    "part": "one part of the graph",
    "graph": "the whole graph",
}
_FACTS: dict[str, str] = {
    # Assumed to be public.
    "index_set": "Which documents (or owners) exist, in which order; not what they say.",
    "cut": "How they are divided into parts, and which of them are used for training.",
    "unit_count": "The number of training {members}: {units}.",
    "feature_count": "The number of features.",
    "partition_column": "The column '{column}', declared public by the user.",
    "public_validation": "The validation documents and their links, declared public.",
    "features": "Features: {count} of kind '{kind}'.",
    "classes_declared": "The set of classes: {count}, declared.",
    "vectors_made": "How the vectors were made: {detail}.",
    "search_candidates": "The candidates of the search, all equally likely: {detail}.",
    # Not covered.
    "new_documents": "New documents that are classified: they have no guarantee.",
    "full_graph_predictions": "Predictions and scores with inference 'full-graph': training "
    "documents enter them without noise.",
    "training_documents_in_sight": "Predictions made with training documents in sight: these "
    "documents enter without noise, whatever the inference mode is called.",
    "logs": "Counts, timings, error messages and logs of the run: they are not part of a "
    "release.",
    "told_by_other_documents": "What other documents say about a document or repeat from it.",
    "told_by_other_people": "A person's words in documents of other people.",
    "documents_of_a_part": "Single documents: each is protected only as far as its whole part "
    "is.",
    "classes_from_labels": "The set of classes: {count}, read off the labels. Declare it with "
    "--classes to make it a public fact.",
    "split_by_label": "The split: it was stratified by label.",
    "learned_features": "Features: {detail}.",
    "other": "{detail}",
}
_NOTES: dict[str, str] = {
    "releases_add_up": "Releases add up: two models trained on the same documents cost more "
    "than either of them. Record every release in one ledger.",
    "noisy_sums": "A step releases a noisy sum of clipped vectors, one from each part: "
    "gradients, or in the first step of recipe 'auto' the mean direction of a part's dense "
    "feature rows beside the shares of the classes among its labels.",
    "one_grid": "Sums and noise are multiples of one step size, so the bits of a release "
    "reveal no more than its value does. The noise itself is drawn in 64-bit floating point.",
}
_WIDTH = 80


def round_up(value: float, digits: int = 4) -> str:
    """``value`` in ``digits`` significant digits, never smaller than it is."""
    context = Context(prec=digits, rounding=ROUND_CEILING)
    shown = context.create_decimal(Decimal(value))
    return f"{shown:f}" if -5 < shown.adjusted() < 12 else f"{float(shown):g}"


def in_words(statement: Claim, facts: Sequence[Fact | str]) -> list[str]:
    """Facts or notes of a statement, a sentence each."""
    known = {
        "members": "owners" if statement.unit == "person" else "documents",
        "units": statement.units,
        "column": statement.partition.column,
    }
    return [
        _NOTES[fact]
        if isinstance(fact, str)
        else _FACTS[fact.code].format(**known, **vars(fact))
        for fact in facts
    ]


def page(statement: Claim) -> str:
    """The whole page, the two-line summary first."""
    notes = [*_warnings(statement), *in_words(statement, statement.notes)]
    blocks = [
        _summary(statement),
        textwrap.fill(_meaning(statement), _WIDTH),
        _rows(statement),
        _section("Predictions", _modes(statement)),
        _section("Assumed to be public", in_words(statement, statement.assumed_public)),
        _section("Not covered", in_words(statement, statement.not_covered)),
        _section("Remember", notes),
        _fingerprints(statement),
    ]
    return "\n\n".join(blocks) + "\n"


def _summary(statement: Claim) -> str:
    """The claim, with and without amplification, and whether the model may be released."""
    lines = [
        "PRIVACY STATEMENT",
        "",
        f"epsilon <= {round_up(statement.epsilon)} at delta = {statement.delta:g} for "
        f"{SHORT_UNIT[statement.unit]}, relation '{statement.relation}', accountant "
        f"'{statement.accountant}'.",
        f"epsilon <= {round_up(statement.epsilon_without_amplification)} without "
        "amplification, that is, even if it were known which parts each step used.",
    ]
    if not statement.releasable:
        lines += [
            "",
            "MUST NOT BE RELEASED: the noise of this run came from a seed. Anyone who knows",
            "the seed can remove the noise. This is an experiment, not a protected model.",
        ]
    return "\n".join(lines)


def _meaning(statement: Claim) -> str:
    unit, _, content = UNIT_WORDS[statement.unit].partition(": ")
    change = "absent" if statement.relation == "remove" else "replaced by any other"
    return (
        f"{unit[:1].upper()}{unit[1:]} is protected: {content}. Whatever the trained model "
        "shows, it would have shown with nearly the same probability if the content of that "
        f"unit were {change}: probabilities differ by a factor of at most exp(epsilon), up to "
        "an additional delta. Smaller values are stronger."
    )


def _rows(statement: Claim) -> str:
    rows = [
        ("training data", f"{statement.units:,} {_counted(statement)}"),
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
    rows += [
        (
            "also released",
            f"{query.name}, noise multiplier {query.noise_multiplier:.6g}, sensitivity "
            f"{query.sensitivity}, included in epsilon",
        )
        for query in statement.side_queries
    ]
    rows += search_rows(statement)
    return "\n".join(f"{name:<18}{value}" for name, value in rows)


def search_rows(statement: Claim) -> list[tuple[str, str]]:
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
            f"{search.validation_units:,} {_counted(statement)}, protected as well; each "
            f"score has noise of standard deviation {search.score.noise_multiplier:.6g}",
        ),
    ]


def parts_in_words(statement: Claim | PrivacyPlan) -> str:
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


def sampling_in_words(statement: Claim) -> str:
    """Which parts a step uses."""
    words = {
        "all": "all: every step uses every part",
        "poisson": "poisson: each part joins a step with probability "
        f"{statement.sampling_probability:.6g}",
        "epoch": "epoch: one part after the other, each once per epoch",
    }
    return words[statement.sampling]


def _warnings(statement: Claim) -> list[str]:
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


def _modes(statement: Claim) -> list[str]:
    return [
        f"{claim.mode} (the model sees {facts_of(claim.mode).sees}): "
        + ("covered, for the training data." if claim.covered else "NOT covered.")
        for claim in statement.inference_modes
    ]


def _fingerprints(statement: Claim) -> str:
    lines = [f"Computed by {statement.package_version}. Check it: privgcn verify FOLDER"]
    if statement.model_sha256 is not None:
        lines.append(f"weights  {statement.model_sha256}")
    lines.append(f"digest   {statement.stored_digest}")
    return "\n".join(lines)


def _counted(statement: Claim) -> str:
    return "people" if statement.unit == "person" else "documents"


def _section(title: str, lines: Sequence[str]) -> str:
    wrapped = (
        textwrap.fill(line, _WIDTH, initial_indent="- ", subsequent_indent="  ")
        for line in lines
    )
    return "\n".join([title, *wrapped])
