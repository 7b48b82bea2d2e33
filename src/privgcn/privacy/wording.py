"""The one wording of a claim: statement text, report page, card and terminal all take it.

Nothing here is computed anew: the statement says what may be claimed, and this module says it
so that a review board understands it. Numbers are rounded against the claim, never for it.

    >>> guarantee_line(None)
    'No privacy guarantee: trained without --epsilon.'
    >>> round_up(2.40201)
    '2.403'
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal
from typing import TYPE_CHECKING, Any

from privgcn.config import MODES

if TYPE_CHECKING:
    from privgcn.privacy.plan import PrivacyPlan
    from privgcn.privacy.statement import Fact, PrivacyStatement

UNIT_WORDS: dict[str, str] = {
    "document": "one document: its text, its label and all its edges",
    "person": "one person: all documents of one owner, with their labels and edges",
    "part": "one part: all documents of one group of the training graph, with their edges",
    "graph": "the whole training graph: all documents and edges, as one group",
}
SHORT_UNIT: dict[str, str] = {
    "document": "one document",
    "person": "one person",
    "part": "one part of the graph",
    "graph": "the whole graph",
}
_RELATION: dict[str, str] = {
    "remove": "the data as they are, and the same data with that content removed",
    "replace": "the data as they are, and the same data with any other content in its place",
}
#: What a statement assumes to be public, and what it does not cover: sentences by code. The
#: braces that a fact fills in itself (``count``, ``kind``, ``detail``) are its parameters.
PUBLIC: dict[str, str] = {
    "index_set": "Which documents (or owners) are in the collection, and in which order, as if "
    "a list of them were published; not what they say.",
    "partition": "How they are divided into groups, and which of them are used for training.",
    "unit_count": "The number of training {members}: {units:,}.",
    "feature_count": "The number of features.",
    "partition_column": "The column '{column}', declared public by the user.",
    "public_validation": "The validation documents and their edges, declared public.",
    "features": "Features: {count} of kind '{kind}'.",
    "classes_declared": "The set of classes: {count}, declared.",
    "vectors_made": "How the vectors were made: {detail}.",
    "search_candidates": "The candidates of the search, all equally likely: {detail}.",
    "own_module": "The user's own module {detail}: its code, its first weights and its "
    "buffers. That its scores for a group, and their gradients, depend on that group alone is "
    "the promise of whoever wrote it.",
    "other": "{detail}",
}
GAPS: dict[str, str] = {
    "new_documents": "New documents that are classified: they have no guarantee.",
    "test_scores": "Test scores of private documents: they are computed from the texts and "
    "labels of test documents without noise, and protect none of these.",
    "full_graph_predictions": "Predictions and scores with inference 'full-graph': training "
    "documents enter them without noise.",
    "training_documents_in_context": "Predictions made with training documents as context: "
    "these documents enter without noise, whatever the inference mode is called.",
    "logs": "Counts, timings, error messages and logs of the run: they are not part of a "
    "release.",
    "told_by_other_documents": "What other documents say about a document or repeat from it.",
    "told_by_other_people": "A person's words in documents of other people.",
    "documents_of_a_part": "Single documents: each is protected only as far as its whole part "
    "is.",
    "classes_from_labels": "The set of classes: {count}, taken from the labels. Declare it "
    "with --classes to make it a public fact.",
    "split_by_label": "The split: it was stratified by label.",
    "learned_features": "Features: {detail}.",
    "unpaid_search": "The choice of this model among several that were trained on the same "
    "private documents: no epsilon counts it, and the claim is VOID. Use 'privgcn tune', whose "
    "epsilon covers the whole search.",
    "one_of_several": "The choice of this model, if it was one: other private models were "
    "trained on the same documents. Whoever keeps the best of several by looking at scores or "
    "documents reveals more than the epsilon of one.",
    "other": "{detail}",
}
SENTENCES = {**PUBLIC, **GAPS}
_PROMISE = (
    "The guarantee protects {unit}. It compares two cases: {relation}. Whatever anyone can "
    "learn from the trained model, by any method and with any other knowledge, differs between "
    "the two cases only as far as epsilon and delta allow."
)
_MEANING = (
    "Epsilon {epsilon} bounds how much: up to delta, any outcome of the training is {factor} "
    "as likely in one case as in the other. Smaller is stronger; 0 would be perfect.",
    "In other words, suppose someone knows all the other data and has to tell from the model "
    "which of the two cases is true, when both are equally likely. They are right with a "
    "probability of at most {guess}. A coin toss is right half the time.",
    "The best attack that raises a false alarm in 1% of cases raises a true one in at most "
    "{detected} of them; without a look at the model that would be 1%.",
    "Delta {delta} is the slack of that bound. Over all {protected} {counted} it adds up to "
    "{slack}, which must stay far below 1.",
)
_REMEMBER = (
    "Releases add up: two models trained on the same documents cost more "
    "than either of them. Record every release in one ledger.",
    "A step releases a noisy sum of clipped vectors, one from each group: "
    "gradients, or in the first step of recipe 'auto' statistics: a group's mean feature row "
    "(where rows are dense) and its class priors.",
    "Sums and noise are multiples of one step size, so the bits of a release "
    "reveal no more than its value does.",
    "Noise is drawn exactly from the law that the accounting is about, a real Gaussian "
    "rounded down to a step, as far as the random words of the source are independent and "
    "uniform.",
)
_WARNINGS: dict[str, str] = {
    "void": "The claim is VOID: {void}",
    "one_of_several": "The claim holds only if this model was NOT chosen among several trained "
    "on the same documents by looking at scores or documents. To choose, use 'privgcn tune', "
    "whose epsilon covers the whole search.",
    "weak_delta": "Delta is weak: delta times the number of units is {slack}, the expected "
    "number of units that delta alone would allow to be exposed. It should be well below 0.1.",
    "large_epsilon": "Epsilon is large: by itself, a bound of {epsilon} rules out little of "
    "what a determined attacker could learn.",
    "whole_graph": "The protected unit is everything at once: the guarantee says no more about "
    "one document than about all of them together.",
    "moments": "The moments accountant is meant for comparison with published figures; 'pld' "
    "is tighter and equally valid.",
    "seeded": "MUST NOT BE RELEASED: the noise of this run came from a seed. Anyone who knows "
    "the seed can remove the noise. This is an experiment, not a protected model.",
}
#: Above this, the bound lets a determined guesser be right nearly always.
_LARGE_EPSILON = 8.0


def round_up(value: float, digits: int = 4) -> str:
    """``value`` in ``digits`` significant digits, never smaller than it is."""
    context = Context(prec=digits, rounding=ROUND_CEILING)
    rounded = context.create_decimal(Decimal(value))
    return f"{rounded:f}" if -5 < rounded.adjusted() < 12 else f"{float(rounded):g}"


def guarantee_line(statement: PrivacyStatement | None) -> str:
    """The guarantee in one line."""
    if statement is None:
        return "No privacy guarantee: trained without --epsilon."
    claim = (
        f"epsilon at most {round_up(statement.epsilon)} at delta {_short(statement.delta)} for "
        f"{SHORT_UNIT[statement.unit]}, relation {statement.relation}"
    )
    if statement.void:
        return f"No valid guarantee ({claim}): the claim is void."
    return f"Guarantee: {claim}."


def explained(statement: PrivacyStatement) -> dict[str, Any]:
    """Everything that a page says about a guarantee, as plain values."""
    values, plan = _values(statement), statement.plan
    whole = statement.unit == "part" and statement.partition.groups == 1
    applies = {
        "void": bool(statement.void),
        "one_of_several": statement.one_of_several,
        "seeded": not statement.releasable,
        "weak_delta": plan.weak_delta,
        "large_epsilon": statement.epsilon > _LARGE_EPSILON,
        "whole_graph": statement.unit == "graph" or whole,
        "moments": statement.accountant == "moments",
    }
    page = {
        "claim": guarantee_line(statement),
        "promise": _PROMISE.format(**values),
        "meaning": [line.format(**values) for line in _MEANING],
        "warnings": [_WARNINGS[name].format(**values) for name in applies if applies[name]],
        "facts": _rows(statement, values),
        "modes": [
            {
                "mode": each.mode,
                "covered": each.covered,
                "verdict": "covered, for the training data" if each.covered else "NOT covered",
                "sees": f"What the model sees: {MODES[each.mode].sees}.",
            }
            for each in statement.inference_modes
        ],
        "assumed_public": in_words(statement, statement.assumed_public),
        "not_covered": in_words(statement, statement.not_covered),
        "notes": list(_REMEMBER),
        "digest": statement.digest,
        "package": statement.package_version,
    }
    printable: dict[str, Any] = _printable(page)
    return printable


def text(statement: PrivacyStatement) -> str:
    """The same as a page of plain text, the claim first."""
    words = explained(statement)
    listed = {
        "What it means": words["meaning"],
        "Predictions": [f"{m['mode']}: {m['verdict']}. {m['sees']}" for m in words["modes"]],
        "Assumed to be public": words["assumed_public"],
        "Not covered": words["not_covered"],
        "Remember": words["notes"],
    }
    sections = {
        title: "\n".join([title, *(_filled(line, "- ", "  ") for line in lines)])
        for title, lines in listed.items()
    }
    facts = (_filled(f"{name:<31}{value}", "", " " * 31) for name, value in words["facts"])
    model = statement.model_sha256
    blocks = [
        "PRIVACY STATEMENT",
        words["claim"],
        *(_filled(line) for line in (*words["warnings"], words["promise"])),
        sections.pop("What it means"),
        "\n".join(facts),
        *sections.values(),
        f"Computed by {words['package']}. Check it: privgcn verify FOLDER"
        + ("" if model is None else f"\nmodel    {model}")
        + f"\ndigest   {words['digest']}",
    ]
    return "\n\n".join(blocks) + "\n"


def _filled(line: str, first: str = "", further: str = "") -> str:
    return textwrap.fill(line, 80, initial_indent=first, subsequent_indent=further)


def in_words(statement: PrivacyStatement, facts: Sequence[Fact]) -> list[str]:
    """Facts of a statement, a sentence each."""
    known = {
        "members": "owners" if statement.unit == "person" else "documents",
        "units": statement.units,
        "column": statement.partition.column,
    }
    return [sentence(SENTENCES[fact.code].format(**known, **vars(fact))) for fact in facts]


def sentence(line: str) -> str:
    """A line with a capital and a full stop; its words stay as they are."""
    words = line.strip()
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "!", "?")) else ".")


def groups_in_words(plan: PrivacyPlan) -> str:
    """How many groups there are, and how they were made."""
    partition = plan.partition
    whose = "owner" if partition.by == "owner" else "document"
    words = {
        "each": f"{partition.groups:,}, each {whose} its own group",
        "random": f"{partition.groups:,}, drawn at random by {whose} (seed {partition.seed})",
        "column": f"{partition.groups:,}, by the column '{partition.column}', declared public",
        "single": "1, the whole training graph",
    }
    return words[partition.kind]


def _rows(statement: PrivacyStatement, values: dict[str, Any]) -> list[tuple[str, str]]:
    plan, search = statement.plan, statement.selection
    sampling = {
        "all": "all: every step uses every group",
        "poisson": "poisson: each group joins a step with probability "
        f"{plan.schedule.rate:.6g}",
        "epoch": "epoch: one group after the other, each once per epoch",
    }
    wide = round_up(statement.epsilon_without_amplification)
    rows = {
        "Protected unit": values["unit"],
        "Relation": f"{plan.relation}: it compares {values['relation']}",
        "Epsilon": f"at most {values['epsilon']}",
        "Epsilon without amplification": f"at most {wide}, even for someone who knows which "
        "groups each step used",
        "Gaussian differential privacy": _mu_in_words(statement),
        "Delta": f"{values['delta']}, that is 1 in {round(1 / plan.delta):,}",
        "Delta times units": "{slack} for {protected} {counted}".format(**values),
        "Training data": f"{plan.units:,} {values['counted']}",
        "Groups": groups_in_words(plan),
        "Sampling": sampling[plan.schedule.name],
        "Clip norm": f"{_short(plan.clip_norm)} for what each group adds to a step",
        "Sensitivity": f"{plan.sensitivity} times the clip norm",
        "Noise multiplier": f"{plan.noise_multiplier:.6g} (standard deviation "
        f"{plan.noise_std:.6g})",
        "Steps": f"{plan.steps:,} noisy sums, accounted as {plan.training.count:,}",
        "Accountant": f"{plan.accountant} ({statement.accountant_version})",
    }
    if search is not None:
        rows["Search"] = (
            f"the best of a secret number of runs, {search.expected_runs:g} on average "
            "(Poisson); all of them are included in epsilon"
        )
        rows["Validation data"] = "declared public, not protected"
        if search.score is not None:
            rows["Validation data"] = (
                f"{search.validation_units:,} more {values['members']}, protected as well; "
                "each score has noise of standard deviation "
                f"{search.score.noise_multiplier:.6g}"
            )
    return list(rows.items())


def _values(statement: PrivacyStatement) -> dict[str, Any]:
    """What the braces stand for."""
    factor = math.exp(min(statement.epsilon, 700.0))
    # For two equally likely neighbours no test beats 1/2 + TV/2, and an (epsilon, delta)
    # guarantee bounds the total variation by (e^epsilon - 1 + 2 delta) / (e^epsilon + 1).
    inverse = math.exp(-statement.epsilon)
    guess = min(1.0, (1.0 + statement.delta * inverse) / (1.0 + inverse))
    people = statement.unit == "person"
    times = f"at most {round_up(factor, 3)} times"
    return {
        "unit": UNIT_WORDS[statement.unit],
        "relation": _RELATION[statement.relation],
        "counted": "people with training documents" if people else "training documents",
        "members": "people" if people else "documents",
        # Those that train, and those that score.
        "protected": f"{statement.plan.protected_units:,}",
        "epsilon": round_up(statement.epsilon),
        "factor": times if factor < 1e6 else "possibly more than a million times",
        "guess": _percent(guess),
        "detected": _percent(statement.detected_at_1_percent),
        "delta": _short(statement.delta),
        "slack": _short(statement.plan.delta_times_units),
        "void": " ".join(in_words(statement, statement.void)),
    }


def _percent(chance: float) -> str:
    return f"{min(1000, math.ceil(1000 * chance - 1e-6)) / 10:g}%"


def _mu_in_words(statement: PrivacyStatement) -> str:
    if statement.gaussian_mu is None:
        return "no mu below 10,000 is known"
    exact = statement.selection is None and statement.plan.schedule.rate == 1.0
    range_ = "" if exact else f", for every delta from {_short(statement.delta)} up"
    return f"mu at most {round_up(statement.gaussian_mu)}{range_}"


def _printable(value: Any) -> Any:
    """The same texts without what could steer a terminal: others may have written them."""
    if isinstance(value, str):
        return "".join(c if c.isprintable() else " " for c in value)
    if isinstance(value, dict):
        return {key: _printable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_printable(inner) for inner in value)
    return value


def _short(value: float) -> str:
    """A number with up to four significant digits, without a needless exponent."""
    mantissa, _, exponent = f"{value:.4g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa
