"""What a statement claims: a plan, two epsilons, and facts as codes with typed parameters.

``statement_text`` turns all of it into words. Nothing that is checked depends on a sentence.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_serializer

from privgcn.config import Mode
from privgcn.errors import ConfigError
from privgcn.privacy.checks import STRICT, Count, Real, Sha256, strict
from privgcn.privacy.plan import PrivacyPlan

Public = Literal[
    "index_set",
    "cut",
    "unit_count",
    "feature_count",
    "partition_column",
    "public_validation",
    "features",
    "classes_declared",
    "vectors_made",
    "search_candidates",
    "other",
]
Gap = Literal[
    "new_documents",
    "full_graph_predictions",
    "training_documents_in_sight",
    "logs",
    "told_by_other_documents",
    "told_by_other_people",
    "documents_of_a_part",
    "classes_from_labels",
    "split_by_label",
    "learned_features",
    "other",
]
Note = Literal["releases_add_up", "noisy_sums", "one_grid"]

#: The parameters of a code; every other code has none.
_PARAMETERS: dict[str, frozenset[str]] = {
    "features": frozenset({"count", "kind"}),
    "classes_declared": frozenset({"count"}),
    "classes_from_labels": frozenset({"count"}),
    "vectors_made": frozenset({"detail"}),
    "learned_features": frozenset({"detail"}),
    "search_candidates": frozenset({"detail"}),
    "other": frozenset({"detail"}),
}
NOTES: tuple[Note, ...] = get_args(Note)
_NEVER_COVERED: tuple[Gap, ...] = (
    "new_documents",
    "full_graph_predictions",
    "training_documents_in_sight",
    "logs",
)
_NOT_COVERED_FOR: dict[str, tuple[Gap, ...]] = {
    "document": ("told_by_other_documents",),
    "person": ("told_by_other_people",),
    "part": ("documents_of_a_part",),
    "graph": (),
}


@strict("a fact")
class Fact:
    """One fact: a code, and the parameters that belong to it.

    Attributes:
        code: which fact, of ``Public`` or ``Gap``.
        count: of features or classes.
        kind: of features.
        detail: what no code says, in the words of whoever declared it.
    """

    code: Public | Gap
    count: Count | None = None
    kind: str | None = None
    detail: str | None = None

    def __post_init__(self) -> None:
        given = {
            name for name in ("count", "kind", "detail") if getattr(self, name) is not None
        }
        needed = _PARAMETERS.get(self.code, frozenset())
        if given != needed:
            raise ConfigError(
                f"The parameters of the fact '{self.code}' must be {sorted(needed)}. "
                f"Got {sorted(given)}."
            )

    @model_serializer(mode="wrap")
    def _without_gaps(self, handler: Any) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value is not None}


@strict("an inference mode")
class InferenceClaim:
    """Whether predictions of one mode are covered by the guarantee."""

    mode: Mode
    covered: bool


class _PlanFields:
    """What a claim says by its plan, under the same names."""

    delta = property(attrgetter("plan.delta"))
    delta_times_units = property(attrgetter("plan.delta_times_units"))
    weak_delta = property(attrgetter("plan.weak_delta"))
    unit = property(attrgetter("plan.unit"))
    relation = property(attrgetter("plan.relation"))
    units = property(attrgetter("plan.units"))
    partition = property(attrgetter("plan.partition"))
    sampling = property(attrgetter("plan.schedule.name"))
    sampling_probability = property(attrgetter("plan.composition.sampling_probability"))
    steps = property(attrgetter("plan.steps"))
    accounted_steps = property(attrgetter("plan.composition.count"))
    clip_norm = property(attrgetter("plan.clip_norm"))
    noise_multiplier = property(attrgetter("plan.noise_multiplier"))
    noise_std = property(attrgetter("plan.noise_std"))
    sensitivity = property(attrgetter("plan.sensitivity"))
    side_queries = property(attrgetter("plan.side_queries"))
    selection = property(attrgetter("plan.selection"))
    accountant = property(attrgetter("plan.accountant"))


class Claim(_PlanFields, BaseModel):
    """The fields of a statement.

    Attributes:
        plan: everything that epsilon follows from.
        noise: ``secret``, or ``seeded``: such a run must not be released.
        stored_digest: over all other fields.
    """

    model_config = ConfigDict(**STRICT, frozen=True)

    schema_version: Literal[2]
    plan: PrivacyPlan
    epsilon: Real
    epsilon_without_amplification: Real
    accountant_version: str
    package_version: str
    inference_modes: tuple[InferenceClaim, ...]
    assumed_public: tuple[Fact, ...]
    not_covered: tuple[Fact, ...]
    notes: tuple[Note, ...]
    noise: Literal["secret", "seeded"]
    model_sha256: Sha256 | None
    stored_digest: Annotated[str, Field(alias="digest")]

    @property
    def releasable(self) -> bool:
        """Whether noise and samples came from a secret source."""
        return self.noise == "secret"


def needed_public(plan: PrivacyPlan) -> tuple[Fact, ...]:
    """What any run of the plan takes as public."""
    codes: list[Public] = ["index_set", "cut", "unit_count", "feature_count"]
    if plan.partition.kind == "column":
        codes.append("partition_column")
    if plan.selection is not None and plan.selection.score is None:
        codes.append("public_validation")
    return tuple(Fact(code) for code in codes)


def needed_gaps(plan: PrivacyPlan) -> tuple[Fact, ...]:
    """What no run of the plan covers."""
    return tuple(Fact(code) for code in (*_NEVER_COVERED, *_NOT_COVERED_FOR[plan.unit]))
