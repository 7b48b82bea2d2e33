"""The statement: what may be claimed about a run, and enough to compute the claim again."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from pydantic import PrivateAttr, ValidationError

from privgcn.config import MODES, facts_of
from privgcn.errors import ConfigError, PrivacyContractError, PrivGCNError, refusal, shown
from privgcn.privacy import schema1
from privgcn.privacy.checks import in_plain_values, read_json, read_strictly
from privgcn.privacy.claim import NOTES, Claim, Fact, InferenceClaim, needed_gaps, needed_public
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.statement_text import page

#: Claimed and recomputed epsilon agree to this much; Fourier transforms differ by machine.
_AGREEMENT = 1e-6
_OWNER = "a statement"


class PrivacyStatement(Claim):
    """Everything that may be said about the privacy of one trained model.

    Build it with :meth:`of`; check one that came from elsewhere with :meth:`verify`.

    Guarantees:
        A statement from :meth:`of` claims the plan's own epsilon, and no field can change
        afterwards. ``verify`` fails when a field of a stored statement was edited.
    Assumes:
        The run followed its plan; the training room sees to that.
    """

    #: What a statement of schema 1 was read from; it keeps its own digest.
    _schema1: Mapping[str, Any] | None = PrivateAttr(default=None)

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

        Args:
            plan: the plan that the trainer ran.
            releasable: whether noise and samples came from a secret source.
            assumed_public: what this run takes as public, beyond what every run does: facts,
                or a sentence for what no code says.
            not_covered: what this run leaves uncovered, beyond what every run does; likewise.
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
        values: dict[str, Any] = {
            "schema_version": 2,
            "plan": plan,
            "epsilon": plan.epsilon,
            "epsilon_without_amplification": plan.epsilon_without_amplification,
            "accountant_version": f"dp-accounting {metadata.version('dp-accounting')}",
            "package_version": _package_version(),
            "inference_modes": tuple(
                InferenceClaim(mode, facts.covered) for mode, facts in MODES.items()
            ),
            "assumed_public": _merged(needed_public(plan), assumed_public),
            "not_covered": _merged(needed_gaps(plan), not_covered),
            "notes": NOTES,
            "noise": "secret" if releasable else "seeded",
            "model_sha256": model_sha256,
        }
        try:
            draft = cls(**values, digest="")
            return cls(**values, digest=draft.digest())
        except ValidationError as error:
            raise refusal(error, _OWNER) from None

    def digest(self) -> str:
        """SHA-256 over every field but the stored digest, in canonical JSON."""
        content = dict(self._schema1 or in_plain_values(self))
        content.pop("digest", None)
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    def verify(self) -> None:
        """Computes the claim again from the statement's own fields.

        Raises:
            PrivacyContractError: a field was edited, or the fields contradict each other.
        """
        try:
            # Copies of a model are not checked by pydantic: all rules of a plan again.
            plan = PrivacyPlan.from_dict(self.plan.to_dict())
            for name in ("epsilon", "epsilon_without_amplification"):
                self._check_epsilon(name, getattr(plan, name))
            original = self._schema1
            unchanged = original is None or self == _from_schema1(original)
        except PrivGCNError as error:
            raise PrivacyContractError(f"The statement contradicts itself. {error}") from error
        self._check_facts(plan)
        if not unchanged or self.digest() != self.stored_digest:
            raise PrivacyContractError(
                "The 'digest' of the statement must be that of its other fields. "
                f"Got {shown(self.stored_digest)}. The statement was edited: do not rely on it."
            )

    def to_json(self) -> str:
        """One JSON object; :meth:`from_json` reads it back."""
        record = self._schema1 or in_plain_values(self)
        return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> PrivacyStatement:
        """Reads a statement; unknown, missing, doubled and mistyped fields raise.

        Statements of schema 1 are read as well, and keep their digest.
        """
        try:
            record = read_json(text)
            if isinstance(record, dict) and record.get("schema_version") == 1:
                return _from_schema1(record)
            return read_strictly(cls, record, _OWNER)
        except ConfigError as error:
            raise PrivacyContractError(
                f"{error} A statement holds exactly the fields that 'train' writes."
            ) from None
        except ValueError as error:
            raise PrivacyContractError(
                f"The statement must be one JSON object. {error}. Statements are written by "
                "'train' and 'release', never by hand."
            ) from None

    def text(self) -> str:
        """The statement as a page for people, the claim first."""
        return page(self)

    def __str__(self) -> str:
        return self.text()

    def _check_epsilon(self, name: str, computed: float) -> None:
        claimed = getattr(self, name)
        if not math.isclose(claimed, computed, rel_tol=_AGREEMENT, abs_tol=1e-12):
            raise PrivacyContractError(
                f"The '{name}' must be {computed!r}, computed from the plan. Got "
                f"{shown(claimed)}. "
                "The statement was edited: do not rely on it."
            )

    def _check_facts(self, plan: PrivacyPlan) -> None:
        needed: dict[str, Sequence[Any]] = {
            "assumed_public": needed_public(plan),
            "not_covered": needed_gaps(plan),
            "notes": NOTES,
        }
        for name, facts in needed.items():
            missing = [fact for fact in facts if fact not in getattr(self, name)]
            if missing:
                code = getattr(missing[0], "code", missing[0])
                raise PrivacyContractError(
                    f"The '{name}' of the statement must contain '{code}'. It does not: the "
                    "statement was edited, do not rely on it."
                )
        if [claim.mode for claim in self.inference_modes] != list(MODES):
            raise PrivacyContractError(
                f"The 'inference_modes' of the statement must be {', '.join(MODES)}. They are "
                "not: the statement was edited, do not rely on it."
            )
        for claim in self.inference_modes:
            if claim.covered != facts_of(claim.mode).covered:
                raise PrivacyContractError(
                    "The 'inference_modes' of the statement must say what each mode covers. "
                    f"Got '{claim.mode}' as {'covered' if claim.covered else 'not covered'}."
                )


def _from_schema1(record: Mapping[str, Any]) -> PrivacyStatement:
    statement = read_strictly(PrivacyStatement, schema1.as_schema2(record), _OWNER)
    statement._schema1 = record
    return statement


def _merged(needed: Sequence[Fact], more: Sequence[Fact | str]) -> tuple[Fact, ...]:
    facts = (Fact("other", detail=fact) if isinstance(fact, str) else fact for fact in more)
    return tuple(dict.fromkeys((*needed, *facts)))


def _package_version() -> str:
    try:
        return f"privgcn {metadata.version('privgcn')}"
    except metadata.PackageNotFoundError:
        return "privgcn (not installed)"
