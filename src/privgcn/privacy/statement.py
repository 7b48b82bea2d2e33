"""The statement: what may be claimed about a run, and enough to compute the claim again."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from importlib import metadata
from typing import Any, Literal

from pydantic import Field, ValidationError

from privgcn.errors import ConfigError, PrivacyContractError, PrivGCNError
from privgcn.modes import MODES, facts_of
from privgcn.privacy.checks import read_json, require_choice
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.statement_parts import (
    Frozen,
    InferenceClaim,
    PartitionClaim,
    QueryClaim,
    SelectionClaim,
)
from privgcn.privacy.statement_words import (
    ALWAYS_PUBLIC,
    NEVER_COVERED,
    NOT_COVERED_FOR,
    NOTES,
)

#: Claimed and recomputed epsilon agree to this much; Fourier transforms differ by machine.
_AGREEMENT = 1e-6


class PrivacyStatement(Frozen):
    """Everything that may be said about the privacy of one trained model.

    Build it with :meth:`of`; check one that came from elsewhere with :meth:`verify`.

    Guarantees:
        A statement from :meth:`of` claims the plan's own epsilon, and no field can change
        afterwards. ``verify`` fails when a field of a stored statement was edited.
    Assumes:
        The run followed its plan; the training room sees to that.
    """

    schema_version: Literal[1] = 1
    epsilon: float
    epsilon_without_amplification: float
    delta: float
    delta_times_units: float
    weak_delta: bool
    unit: Literal["document", "person", "part", "graph"]
    relation: Literal["remove", "replace"]
    units: int
    partition: PartitionClaim
    sampling: Literal["all", "poisson", "epoch"]
    sampling_probability: float
    steps: int
    accounted_steps: int
    clip_norm: float
    noise_multiplier: float
    noise_std: float
    sensitivity: int
    side_queries: tuple[QueryClaim, ...]
    selection: SelectionClaim | None
    accountant: Literal["pld", "rdp", "moments"]
    accountant_version: str
    package_version: str
    inference_modes: tuple[InferenceClaim, ...]
    assumed_public: tuple[str, ...]
    not_covered: tuple[str, ...]
    notes: tuple[str, ...]
    releasable: bool
    model_sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    stored_digest: str = Field(default="", alias="digest")

    @classmethod
    def of(
        cls,
        plan: PrivacyPlan,
        *,
        releasable: bool,
        assumed_public: Sequence[str] = (),
        not_covered: Sequence[str] = (),
        inference_modes: Sequence[str] = tuple(MODES),
        model_sha256: str | None = None,
    ) -> PrivacyStatement:
        """States what a run that followed ``plan`` may claim.

        Args:
            plan: the plan that the trainer ran.
            releasable: whether noise and samples came from a secret source.
            assumed_public: what this run takes as public, beyond what every run does.
            not_covered: what this run leaves uncovered, beyond what every run does.
            inference_modes: the modes the model can predict with.
            model_sha256: what ``verification.weights_sha256`` gives for the model's weights.
        """
        if type(plan) is not PrivacyPlan:
            raise PrivacyContractError(
                f"The 'plan' of a statement must be a PrivacyPlan. Got {plan!r}."
            )
        if not isinstance(releasable, bool):
            raise ConfigError(
                f"The 'releasable' of a statement must be true or false. Got {releasable!r}."
            )
        for mode in inference_modes:
            require_choice(mode, "inference_modes", "a statement", tuple(MODES))
        values: dict[str, Any] = {
            **_claims(plan),
            "partition": PartitionClaim(**plan.partition.to_dict()),
            "side_queries": tuple(QueryClaim(**vars(query)) for query in plan.side_queries),
            "selection": _selection_claim(plan),
            "accountant_version": f"dp-accounting {metadata.version('dp-accounting')}",
            "package_version": _package_version(),
            "inference_modes": tuple(_inference_claim(mode) for mode in inference_modes),
            "assumed_public": _merged(ALWAYS_PUBLIC, assumed_public),
            "not_covered": _merged(
                NEVER_COVERED + NOT_COVERED_FOR[plan.unit], tuple(not_covered)
            ),
            "notes": NOTES,
            "releasable": releasable,
            "model_sha256": model_sha256,
        }
        try:
            draft = cls(**values)
            return cls(**values, digest=draft.digest())
        except ValidationError as error:
            raise ConfigError(_first_problem(error)) from None

    def plan(self) -> PrivacyPlan:
        """The plan behind the statement; every rule of a plan is checked again."""
        schedule: dict[str, Any] = {"name": self.sampling, "parts": self.partition.parts}
        if self.sampling == "poisson":
            schedule["sampling_probability"] = self.sampling_probability
        return PrivacyPlan.from_dict(
            {
                "unit": self.unit,
                "relation": self.relation,
                "partition": self.partition.model_dump(),
                "schedule": schedule,
                "clip_norm": self.clip_norm,
                "noise_multiplier": self.noise_multiplier,
                "steps": self.steps,
                "delta": self.delta,
                "units": self.units,
                "accountant": self.accountant,
                "side_queries": [query.model_dump() for query in self.side_queries],
                "selection": None if self.selection is None else self.selection.model_dump(),
            }
        )

    def digest(self) -> str:
        """SHA-256 over every field but the stored digest, in canonical JSON."""
        content = self.model_dump(mode="json", exclude={"stored_digest"})
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    def verify(self) -> None:
        """Computes the claim again from the statement's own fields.

        Raises:
            PrivacyContractError: a field was edited, or the fields contradict each other.
        """
        try:
            plan = self.plan()
            expected = _claims(plan)
        except PrivGCNError as error:
            raise PrivacyContractError(f"The statement contradicts itself. {error}") from error
        claimed = self.model_dump()
        for name, value in expected.items():
            if not _agree(claimed[name], value):
                raise PrivacyContractError(
                    f"The '{name}' of the statement must be {value!r}, computed from its other "
                    f"fields. Got {claimed[name]!r}. The statement was edited: do not rely on "
                    "it."
                )
        self._verify_words()
        if self.digest() != self.stored_digest:
            raise PrivacyContractError(
                "The 'digest' of the statement must be that of its other fields. "
                f"Got {self.stored_digest!r}. The statement was edited: do not rely on it."
            )

    def to_json(self) -> str:
        """One JSON object; :meth:`from_json` reads it back."""
        record = self.model_dump(mode="json", by_alias=True)
        return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> PrivacyStatement:
        """Reads a statement; unknown, missing, doubled and mistyped fields raise."""
        try:
            record = read_json(text)
            # The JSON mode of pydantic reads lists as tuples, and is as strict otherwise.
            return cls.model_validate_json(json.dumps(record))
        except ValidationError as error:
            raise PrivacyContractError(_first_problem(error)) from None
        except ValueError as error:
            raise PrivacyContractError(
                f"The statement must be one JSON object. {error}. Write it with 'train' or "
                "'release', and never by hand."
            ) from None

    def text(self) -> str:
        """The statement as a page for people, the claim first."""
        from privgcn.privacy.statement_text import page

        return page(self)

    def __str__(self) -> str:
        return self.text()

    def _verify_words(self) -> None:
        needed = {
            "assumed_public": ALWAYS_PUBLIC,
            "not_covered": NEVER_COVERED + NOT_COVERED_FOR[self.unit],
            "notes": NOTES,
        }
        for name, lines in needed.items():
            missing = [line for line in lines if line not in getattr(self, name)]
            if missing:
                raise PrivacyContractError(
                    f"The '{name}' of the statement must contain: {missing[0]} It does not: "
                    "the statement was edited, do not rely on it."
                )
        for claim in self.inference_modes:
            if claim.mode not in MODES or claim != _inference_claim(claim.mode):
                raise PrivacyContractError(
                    "The 'inference_modes' of the statement must say what each mode covers. "
                    f"Got {claim.mode!r} as {'covered' if claim.covered else 'not covered'}."
                )


def _claims(plan: PrivacyPlan) -> dict[str, Any]:
    """The plan's own fields and everything that follows from them."""
    composition = plan.schedule.composition(plan.steps)
    return {
        "epsilon": plan.epsilon,
        "epsilon_without_amplification": plan.epsilon_without_amplification,
        "delta": plan.delta,
        "delta_times_units": plan.delta * plan.protected_units,
        "weak_delta": plan.weak_delta,
        "unit": plan.unit,
        "relation": plan.relation,
        "units": plan.units,
        "sampling": plan.schedule.name,
        "sampling_probability": composition.sampling_probability,
        "steps": plan.steps,
        "accounted_steps": composition.count,
        "clip_norm": plan.clip_norm,
        "noise_multiplier": plan.noise_multiplier,
        "noise_std": plan.noise_std,
        "sensitivity": plan.sensitivity,
        "accountant": plan.accountant,
    }


def _selection_claim(plan: PrivacyPlan) -> SelectionClaim | None:
    if plan.selection is None:
        return None
    # Through JSON, so that lists become the tuples of a strict model.
    return SelectionClaim.model_validate_json(json.dumps(plan.selection.to_dict()))


def _agree(claimed: Any, expected: Any) -> bool:
    if isinstance(claimed, float) and isinstance(expected, float):
        return math.isclose(claimed, expected, rel_tol=_AGREEMENT, abs_tol=1e-12)
    return bool(claimed == expected)


def _inference_claim(mode: str) -> InferenceClaim:
    sees, covered = facts_of(mode)
    return InferenceClaim(mode=mode, covered=covered, sees=sees)


def _merged(first: tuple[str, ...], then: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *then)))


def _first_problem(error: ValidationError) -> str:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    rule = first["msg"][:1].lower() + first["msg"][1:]
    return (
        f"The '{name}' of the statement is wrong: {rule}. Got {first['input']!r}. A statement "
        "holds exactly the fields that 'train' writes."
    )


def _package_version() -> str:
    try:
        return f"privgcn {metadata.version('privgcn')}"
    except metadata.PackageNotFoundError:
        return "privgcn (not installed)"
