"""Statements of schema 1, which repeated the plan field by field and held facts as sentences.

They read as statements of schema 2. Sentences that every statement had become codes; what a
run said beyond them stays in its own words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.privacy.checks import in_plain_values
from privgcn.privacy.claim import needed_public
from privgcn.privacy.plan import PrivacyPlan

_PLAN = (
    *("unit", "relation", "partition", "clip_norm", "noise_multiplier", "steps", "delta"),
    *("units", "accountant", "side_queries", "selection"),
)
_KEPT = (
    *("epsilon", "epsilon_without_amplification", "accountant_version", "package_version"),
    *("model_sha256", "digest"),
)
_CODES = {
    "Which documents (or owners) exist, by their order; not what they say.": "index_set",
    "How they are cut into parts, and which of them train.": "cut",
    "The number of features.": "feature_count",
    "The validation documents and their links, declared public.": "public_validation",
    "New documents that are classified: they have no guarantee.": "new_documents",
    "Predictions and scores with inference 'full-graph': training documents flow into them "
    "without noise.": "full_graph_predictions",
    "Predictions made in sight of documents that trained the model, their own included: they "
    "flow in without noise, whatever the inference mode is called.": (
        "training_documents_in_sight"
    ),
    "Counts, timings, error messages and logs of the run: no part of a release.": "logs",
    "What other documents say about a document, or repeat of it.": "told_by_other_documents",
    "A person's words in documents of other people.": "told_by_other_people",
    "A document is protected only as far as its whole part is.": "documents_of_a_part",
    "The split: it was stratified by label.": "split_by_label",
}
_NOTES = {
    "Every released model adds up: two models trained on the same documents cost more than "
    "either of them. Record each release in one ledger.": "releases_add_up",
    "A step releases a noisy sum of clipped vectors, one from each part: gradients, or in the "
    "first step on dense features the mean direction of a part's feature rows.": "noisy_sums",
    "Sums and noise are multiples of one step, so the bits of a release tell no more than its "
    "value does. The noise itself is drawn in 64-bit floating point.": "one_grid",
}


def as_schema2(record: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of schema 2 for a statement of schema 1.

    Raises:
        ConfigError: A field is missing, unknown or of another type.
        PrivacyContractError: A field contradicts the plan.
    """
    left = dict(record)
    try:
        plan = _plan(left)
        public = [_fact(line, plan) for line in left.pop("assumed_public")]
        # Schema 1 left it to a run to repeat what follows from its plan.
        from_plan = [in_plain_values(fact) for fact in needed_public(plan)]
        asked = [fact for fact in from_plan if fact["code"] not in _CODES.values()]
        made = {
            **{name: left.pop(name) for name in _KEPT},
            "schema_version": 1 + left.pop("schema_version"),
            "plan": plan.to_dict(),
            "inference_modes": [
                {"mode": claim["mode"], "covered": claim["covered"]}
                for claim in left.pop("inference_modes")
            ],
            "assumed_public": [*public, *(fact for fact in asked if fact not in public)],
            "not_covered": [_fact(line, plan) for line in left.pop("not_covered")],
            "notes": [_NOTES[line] for line in left.pop("notes")],
            "noise": {True: "secret", False: "seeded"}[left.pop("releasable")],
        }
    except (AttributeError, KeyError, TypeError) as error:
        raise ConfigError(f"The fields of a statement are wrong: {error!r}.") from None
    if left:
        raise ConfigError(f"The fields of a statement are wrong: {', '.join(left)}.")
    return made


def _plan(record: dict[str, Any]) -> PrivacyPlan:
    """Takes the plan out, if everything that the statement says beside it follows from it."""
    schedule = {"name": record["sampling"], "parts": record["partition"]["parts"]}
    if record.pop("sampling") == "poisson":
        schedule["sampling_probability"] = record["sampling_probability"]
    fields = {name: record.pop(name) for name in _PLAN}
    plan = PrivacyPlan.from_dict({**fields, "schedule": schedule})
    expected = {
        "delta_times_units": plan.delta_times_units,
        "weak_delta": plan.weak_delta,
        "sampling_probability": plan.composition.sampling_probability,
        "accounted_steps": plan.composition.count,
        "noise_std": plan.noise_std,
        "sensitivity": plan.sensitivity,
    }
    for name, value in expected.items():
        claimed = record.pop(name)
        if type(claimed) is not type(value) or not math.isclose(claimed, value, rel_tol=1e-6):
            raise PrivacyContractError(
                f"The '{name}' of the statement must be {value!r}, computed from its other "
                f"fields. Got {claimed!r}. The statement was edited: do not rely on it."
            )
    return plan


def _fact(line: Any, plan: PrivacyPlan) -> dict[str, Any]:
    index = "owners" if plan.unit == "person" else "documents"
    codes = {
        **_CODES,
        f"The number of training {index}: {plan.units}.": "unit_count",
        f"The column '{plan.partition.column}', declared public by the user.": (
            "partition_column"
        ),
    }
    return {"code": codes[line]} if line in codes else {"code": "other", "detail": line}
