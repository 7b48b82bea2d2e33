"""What every statement says about what is public, what is covered and what is not."""

from __future__ import annotations

#: Public in every row of the sensitivity table.
ALWAYS_PUBLIC: tuple[str, ...] = (
    "Which documents (or owners) exist, by their order; not what they say.",
    "How they are cut into parts, and which of them train.",
    "The number of features.",
)

#: Outside the guarantee whatever the plan.
NEVER_COVERED: tuple[str, ...] = (
    "New documents that are classified: they have no guarantee.",
    "Predictions and scores with inference 'full-graph': training documents flow into them "
    "without noise.",
    "Predictions made in sight of documents that trained the model, their own included: they "
    "flow in without noise, whatever the inference mode is called.",
    "Counts, timings, error messages and logs of the run: no part of a release.",
)

#: Outside the guarantee for a given unit.
NOT_COVERED_FOR: dict[str, tuple[str, ...]] = {
    "document": ("What other documents say about a document, or repeat of it.",),
    "person": ("A person's words in documents of other people.",),
    "part": ("A document is protected only as far as its whole part is.",),
    "graph": (),
}

#: True of every statement.
NOTES: tuple[str, ...] = (
    "Every released model adds up: two models trained on the same documents cost more than "
    "either of them. Record each release in one ledger.",
    "A step releases a noisy sum of clipped vectors, one from each part: gradients, or in the "
    "first step on dense features the mean direction of a part's feature rows.",
    "Sums and noise are multiples of one step, so the bits of a release tell no more than its "
    "value does. The noise itself is drawn in 64-bit floating point.",
)
