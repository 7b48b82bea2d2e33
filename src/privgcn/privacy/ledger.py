"""The ledger: what all released models of one corpus cost together.

An append-only file of JSON lines. Each line names the hash of the line before it, so that a
line taken out or changed is noticed; a lock keeps two releases from spending the same budget.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privgcn.errors import DataError, PrivacyContractError
from privgcn.privacy.accounting import check_delta, epsilon_of_releases
from privgcn.privacy.checks import require_keys, require_real
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.selection import Release
from privgcn.privacy.statement import PrivacyStatement

_KEYS = ("digest", "model_sha256", "plan", "previous")


@dataclass(frozen=True)
class Budget:
    """What all releases together may cost at most."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        epsilon = require_real(self.epsilon, "epsilon", "a budget", above=0.0)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", check_delta(self.delta, "a budget"))


@dataclass(frozen=True)
class LedgerEntry:
    """One released model."""

    digest: str
    model_sha256: str | None
    plan: PrivacyPlan


class Ledger:
    """The releases of one corpus, in one file.

    Guarantees:
        A release is on disk before :meth:`record` returns, or not recorded at all. The
        composed epsilon counts every recorded release.
    Assumes:
        All models trained on the corpus go through the same ledger.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def entries(self) -> tuple[LedgerEntry, ...]:
        """All releases so far.

        Raises:
            DataError: a line is torn, out of place or not readable.
        """
        return tuple(entry for entry, _ in self._lines())

    def spent(self, delta: float) -> float:
        """The epsilon of all recorded releases together, at ``delta``."""
        return _composed([entry.plan for entry in self.entries()], delta)

    def record(self, statement: PrivacyStatement, *, budget: Budget | None = None) -> float:
        """Records one release and returns the epsilon spent at the budget's delta.

        The same model counts once, however often it is released; without a hash of its
        weights every release counts as another model.

        Args:
            statement: a verified, releasable statement.
            budget: the most that all releases may cost; ``None`` for no limit.

        Raises:
            PrivacyContractError: the statement is not releasable or not true, it protects
                another unit than the ledger's, or the budget does not cover it. Nothing is
                written then.
        """
        if type(statement) is not PrivacyStatement:
            raise PrivacyContractError(
                f"The 'statement' of a release must be a PrivacyStatement. Got {statement!r}."
            )
        statement.verify()
        if not statement.releasable:
            raise PrivacyContractError(
                "The statement of a release must be releasable. Got one of a reproducible "
                "experiment, whose noise can be computed again. Train without --reproducible."
            )
        delta = statement.delta if budget is None else budget.delta
        with self._locked():
            lines = list(self._lines())
            entries = [entry for entry, _ in lines]
            plan = statement.plan()
            self._check_unit(entries, plan)
            known = statement.model_sha256 is not None and any(
                entry.digest == statement.digest() for entry in entries
            )
            plans = [entry.plan for entry in entries] + ([] if known else [plan])
            total = _composed(plans, delta)
            if budget is not None and total > budget.epsilon:
                raise PrivacyContractError(
                    f"The budget of {self.path} must cover all releases: epsilon "
                    f"{budget.epsilon:g} at delta {budget.delta:g}. With this one they cost "
                    f"{total:.4g}. Train with a smaller epsilon, or do not release it."
                )
            if not known:
                self._append(statement, plan, lines[-1][1] if lines else "")
        return total

    def _append(self, statement: PrivacyStatement, plan: PrivacyPlan, last: str) -> None:
        record = {
            "digest": statement.digest(),
            "model_sha256": statement.model_sha256,
            "plan": plan.to_dict(),
            "previous": _hash(last),
        }
        line = json.dumps(record, sort_keys=True, allow_nan=False) + "\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line.encode("utf-8"))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _lines(self) -> Iterator[tuple[LedgerEntry, str]]:
        if not self.path.exists():
            return
        text = self.path.read_text(encoding="utf-8")
        if text and not text.endswith("\n"):
            raise DataError(
                f"The last line of the ledger {self.path} must be complete. It is torn: a "
                "release stopped while it was being recorded. Remove it and release again."
            )
        previous = ""
        for number, line in enumerate(text.splitlines(), start=1):
            yield self._read(line, number, previous), line
            previous = line

    def _read(self, line: str, number: int, previous: str) -> LedgerEntry:
        try:
            record: Any = require_keys(json.loads(line), _KEYS, "a ledger line")
            entry = LedgerEntry(
                record["digest"], record["model_sha256"], PrivacyPlan.from_dict(record["plan"])
            )
        except (ValueError, PrivacyContractError) as error:
            raise DataError(
                f"Line {number} of the ledger {self.path} cannot be read. {error} Restore the "
                "file from a copy."
            ) from None
        if record["previous"] != _hash(previous):
            raise DataError(
                f"Line {number} of the ledger {self.path} must follow the line before it. A "
                "line was changed or taken out. Restore the file from a copy."
            )
        return entry

    def _check_unit(self, entries: list[LedgerEntry], plan: PrivacyPlan) -> None:
        for entry in entries:
            if (entry.plan.unit, entry.plan.relation) != (plan.unit, plan.relation):
                raise PrivacyContractError(
                    f"The releases in {self.path} must protect the same unit and relation. Got "
                    f"'{plan.unit}' and '{plan.relation}' after '{entry.plan.unit}' and "
                    f"'{entry.plan.relation}'. Guarantees for different units do not add up."
                )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        import fcntl

        lock = self.path.with_name(self.path.name + ".lock")
        try:
            handle = lock.open("w")
        except OSError as error:
            raise DataError(
                f"The ledger {self.path} cannot be written: {error.strerror}. Name a file in a "
                "folder that exists."
            ) from None
        with handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


def _composed(plans: list[PrivacyPlan], delta: float) -> float:
    releases: list[Release] = []
    for plan in plans:
        releases.extend(plan.releases)
    # What a search costs is known in Renyi divergences, so all must be added up in these.
    searched = any(plan.selection is not None for plan in plans)
    return epsilon_of_releases(releases, delta=delta, accountant="rdp" if searched else "pld")


def _hash(line: str) -> str:
    return hashlib.sha256(line.encode("utf-8")).hexdigest()
