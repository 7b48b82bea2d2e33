"""The statement: what may be claimed about a model, and enough to compute the claim again.

Facts are codes with typed parameters: nothing that is checked depends on a sentence.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata
from operator import attrgetter
from typing import Annotated, Any, Literal

from pydantic import Field, model_serializer

from privgcn.config import MODES, Mode
from privgcn.errors import PrivacyContractError, PrivGCNError, shown
from privgcn.privacy import wording
from privgcn.privacy.accounting import strength_of
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.values import (
    Count,
    Real,
    Sha256,
    in_plain_values,
    read_strictly,
    strict,
)

#: What no run takes as private, and what none covers; with what the unit leaves open.
_ALWAYS_PUBLIC = ("index_set", "partition", "unit_count", "feature_count")
_NEVER_COVERED = (
    "new_documents",
    "test_scores",
    "full_graph_predictions",
    "training_documents_in_context",
    "logs",
)
_NOT_COVERED_FOR: dict[str, tuple[str, ...]] = {
    "document": ("told_by_other_documents",),
    "person": ("told_by_other_people",),
    "part": ("documents_of_a_part",),
    "graph": (),
}
#: What follows from a plan. Claimed and recomputed numbers agree to this much; Fourier
#: transforms differ by machine.
_FIGURES = ("epsilon", "epsilon_without_amplification", "gaussian_mu", "detected_at_1_percent")
_AGREEMENT = 1e-6
_OWNER = "a statement"
# No list or text of a statement is without an end.
_Text = Annotated[str, Field(max_length=20_000)]
_Version = Annotated[str, Field(max_length=200)]


@strict("a fact")
class Fact:
    """One fact: a code of ``wording``, and the parameters that its sentence takes."""

    code: Annotated[str, Field(max_length=50)]
    count: Count | None = None
    kind: _Version | None = None
    detail: _Text | None = None

    def __post_init__(self) -> None:
        if self.code not in wording.SENTENCES:
            raise ValueError("'code' must be known")
        sentence = wording.SENTENCES[self.code]
        needed = [name for name in ("count", "kind", "detail") if f"{{{name}}}" in sentence]
        given = [name for name, value in vars(self).items() if value is not None][1:]
        if given != needed:
            raise ValueError(f"the parameters of '{self.code}' must be {needed}")

    @model_serializer(mode="wrap")
    def _without_gaps(self, handler: Any) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value is not None}


_Facts = Annotated[tuple[Fact, ...], Field(max_length=100)]


@strict("an inference mode")
class InferenceClaim:
    """Whether predictions of one mode are covered by the guarantee of the training data."""

    mode: Mode
    covered: bool


_CLAIMS = tuple(InferenceClaim(mode, facts.covered) for mode, facts in MODES.items())


@strict(_OWNER, kw_only=True)
class PrivacyStatement:
    """Everything that may be said about the privacy of one trained model.

    Attributes:
        plan: Everything that epsilon follows from.
        gaussian_mu: Of Gaussian differential privacy; see ``accounting.Strength``.
        detected_at_1_percent: The best attack's rate of true alarms at 1 % false alarms.
        noise: ``secret``, or ``seeded``: such a run must not be released.
        model_sha256: What ``privacy.verify.model_sha256`` gives for the model.
        digest: Over all other fields.

    Guarantees:
        A statement from :meth:`of` claims the plan's own epsilon, and no field can change
        afterwards. ``verify`` fails when a field of a stored statement was edited.
    Assumes:
        The run followed its plan; the session sees to that.
    """

    schema_version: Literal[3]
    plan: PrivacyPlan
    epsilon: Real
    epsilon_without_amplification: Real
    gaussian_mu: Real | None
    detected_at_1_percent: Real
    accountant_version: _Version
    package_version: _Version
    inference_modes: Annotated[tuple[InferenceClaim, ...], Field(max_length=len(MODES))]
    assumed_public: _Facts
    not_covered: _Facts
    noise: Literal["secret", "seeded"]
    model_sha256: Sha256 | None
    digest: Annotated[str, Field(max_length=64)]

    @classmethod
    def of(
        cls,
        plan: PrivacyPlan,
        *,
        releasable: bool,
        assumed_public: Sequence[Fact | str] = (),
        not_covered: Sequence[Fact | str] = (),
        model_sha256: str | None = None,
    ) -> PrivacyStatement:
        """States what a run that followed ``plan`` may claim.

        What it assumes to be public or leaves uncovered, beyond what every run does, are facts,
        or sentences for what no code says.
        """
        public, strength = list(_ALWAYS_PUBLIC), strength_of(plan.event, plan.delta)
        if plan.partition.kind == "column":
            public.append("partition_column")
        if plan.selection is not None and plan.selection.score is None:
            public.append("public_validation")
        draft = cls(
            schema_version=3,
            plan=plan,
            epsilon=plan.epsilon,
            epsilon_without_amplification=plan.epsilon_without_amplification,
            gaussian_mu=strength.mu,
            detected_at_1_percent=strength.detections,
            accountant_version=f"dp-accounting {metadata.version('dp-accounting')}",
            package_version=f"privgcn {metadata.version('privgcn')}",
            inference_modes=_CLAIMS,
            assumed_public=_facts(public, assumed_public),
            not_covered=_facts((*_NEVER_COVERED, *_NOT_COVERED_FOR[plan.unit]), not_covered),
            noise="secret" if releasable is True else "seeded",
            model_sha256=model_sha256,
            digest="",
        )
        return replace(draft, digest=draft.computed_digest())

    delta = property(attrgetter("plan.delta"))
    unit = property(attrgetter("plan.unit"))
    relation = property(attrgetter("plan.relation"))
    accountant = property(attrgetter("plan.accountant"))

    @property
    def releasable(self) -> bool:
        """Whether noise and samples came from a secret source."""
        return self.noise == "secret"

    @property
    def void(self) -> tuple[Fact, ...]:
        """The facts that leave nothing of the claim: who releases or records it refuses."""
        return tuple(fact for fact in self.not_covered if fact.code == "unpaid_search")

    @property
    def one_of_several(self) -> bool:
        """Whether the claim holds only if the model was not chosen by looking: likewise."""
        return Fact("one_of_several") in self.not_covered

    def with_gap(self, *gaps: Fact) -> PrivacyStatement:
        """What :meth:`of` states about the same run, which leaves something more uncovered."""
        return PrivacyStatement.of(
            self.plan,
            releasable=self.releasable,
            assumed_public=self.assumed_public,
            not_covered=(*self.not_covered, *gaps),
            model_sha256=self.model_sha256,
        )

    def computed_digest(self) -> str:
        """SHA-256 over every field but the digest, in canonical JSON."""
        content = in_plain_values(self)
        del content["digest"]
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    def verify(self) -> None:
        """Computes the claim again; a ``PrivacyContractError`` if a field was edited."""
        try:
            again = self.with_gap()
        except PrivGCNError as error:
            raise PrivacyContractError(f"The statement contradicts itself. {error}") from error
        for name in _FIGURES:
            claimed, value = getattr(self, name), getattr(again, name)
            pair = (-1.0 if number is None else number for number in (claimed, value))
            if not math.isclose(*pair, rel_tol=_AGREEMENT, abs_tol=1e-12):
                raise _edited(name, f"{value!r}, computed from the plan", claimed)
        for name in ("assumed_public", "not_covered"):
            for fact in getattr(again, name):
                if fact not in getattr(self, name):
                    raise _edited(name, f"complete, with '{fact.code}'", "a list without it")
        if self.inference_modes != _CLAIMS:
            raise _edited("inference_modes", f"{', '.join(MODES)}, covered or not", "others")
        if self.digest != self.computed_digest():
            raise _edited("digest", "that of the other fields", self.digest)

    def to_json(self) -> str:
        """One JSON object; :meth:`from_json` reads it back."""
        record = in_plain_values(self)
        return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> PrivacyStatement:
        """Reads a statement; unknown, missing, doubled and mistyped fields raise."""
        try:
            return read_strictly(cls, text, _OWNER)
        except ValueError as error:
            raise PrivacyContractError(
                f"A statement must be one JSON object, as 'train' writes it. {error}"
            ) from None

    def text(self) -> str:
        """The statement as a page for people, the claim first."""
        return wording.text(self)

    __str__ = text


def _facts(codes: Sequence[str], more: Sequence[Fact | str]) -> tuple[Fact, ...]:
    said = (Fact("other", detail=fact) if isinstance(fact, str) else fact for fact in more)
    return tuple(dict.fromkeys((*map(Fact, codes), *said)))


def _edited(name: str, rule: str, got: Any) -> PrivacyContractError:
    return PrivacyContractError(
        f"The '{name}' of the statement must be {rule}. Got {shown(got)}. The statement was "
        "edited: do not rely on it."
    )
