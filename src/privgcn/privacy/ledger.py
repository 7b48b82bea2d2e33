"""The ledger: what all released models of one corpus cost together.

A file of JSON lines, one for each release. ``ledger_file`` keeps it whole and notices when a
line is changed, cut off or deleted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from privgcn.errors import DataError, PrivacyContractError
from privgcn.privacy.accounting.epsilon import Delta, epsilon_of_releases
from privgcn.privacy.accounting.selection import Release
from privgcn.privacy.checks import (
    Real,
    Sha256,
    in_plain_values,
    read_json,
    read_strictly,
    strict,
)
from privgcn.privacy.ledger_file import LedgerFile
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.statement_text import parts_in_words

#: Of what is wrong with a line, so that it stays one line.
_SHOWN = 300


@strict("a budget")
class Budget:
    """What all releases together may cost at most."""

    epsilon: Annotated[Real, Field(gt=0.0)]
    delta: Delta


@strict("a ledger line")
class LedgerEntry:
    """One released model."""

    digest: Sha256
    model_sha256: Sha256 | None
    plan: PrivacyPlan


class Ledger:
    """The releases of one corpus, in one file.

    Guarantees:
        A release is on disk before :meth:`record` returns, or not recorded at all; one that
        was stopped in between counts once. The composed epsilon counts every recorded
        release and holds for every unit: units that depend on how the graph was cut add up
        over one and the same cut alone.
    Assumes:
        All models trained on the corpus go through the same ledger. For units ``part`` and
        ``graph``, the training documents and their order are the same for all: a plan knows
        only how many there are. Nobody writes the ledger and its head by hand: whoever can
        write both can make them say anything.
    """

    def __init__(self, path: str | Path) -> None:
        self._file = LedgerFile(path)
        self.path = self._file.path

    def entries(self) -> tuple[LedgerEntry, ...]:
        """All releases so far.

        Raises:
            DataError: the file is not readable, or was changed by somebody else.
        """
        return self._read(self._file.lines())

    def spent(self, delta: float) -> float:
        """The epsilon of all recorded releases together, at ``delta``."""
        return self._composed([entry.plan for entry in self.entries()], delta)

    def record(self, statement: PrivacyStatement, *, budget: Budget | None = None) -> float:
        """Records one release and returns the epsilon spent at the budget's delta.

        The same model counts once, however often it is released; without a hash of its
        weights every release counts as another model.

        Args:
            statement: a verified, releasable statement.
            budget: the most that all releases may cost; ``None`` for no limit.

        Raises:
            DataError: the file cannot be read or written, or was changed by somebody else.
            PrivacyContractError: the statement is not releasable or not true, it does not
                add up with those in the ledger, or the budget does not cover it. No release
                is recorded then.
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
        entry = LedgerEntry(statement.digest(), statement.model_sha256, statement.plan)
        with self._file.adding() as ledger:
            entries = self._read(ledger.lines)
            known = entry.model_sha256 is not None and entry.digest in {
                other.digest for other in entries
            }
            plans = [other.plan for other in (entries if known else (*entries, entry))]
            total = self._composed(plans, delta)
            if budget is not None and total > budget.epsilon:
                raise PrivacyContractError(
                    f"The budget of {self.path} must cover all releases: epsilon "
                    f"{budget.epsilon:g} at delta {budget.delta:g}. With this one they cost "
                    f"{total:.4g}. Train with a smaller epsilon, or do not release it."
                )
            if not known:
                ledger.add(json.dumps(in_plain_values(entry), sort_keys=True).encode("ascii"))
        return total

    def _read(self, lines: list[bytes]) -> tuple[LedgerEntry, ...]:
        entries = []
        for number, line in enumerate(lines, start=1):
            try:
                record = read_json(line.decode("utf-8"))
                entries.append(read_strictly(LedgerEntry, record, "a ledger line"))
            except (ValueError, PrivacyContractError) as error:
                raise DataError(
                    f"Line {number} of the ledger {self.path} cannot be read. "
                    f"{str(error)[:_SHOWN]} Restore the file from a copy."
                ) from None
        return tuple(entries)

    def _composed(self, plans: Sequence[PrivacyPlan], delta: float) -> float:
        releases: list[Release] = []
        for plan in plans:
            self._check_same_units(plans[0], plan)
            releases.extend(plan.releases)
        # What a search costs is known in Renyi divergences, so all must be added up in these.
        searched = any(plan.selection is not None for plan in plans)
        return epsilon_of_releases(
            releases, delta=delta, accountant="rdp" if searched else "pld"
        )

    def _check_same_units(self, first: PrivacyPlan, plan: PrivacyPlan) -> None:
        if plan is first:
            return
        if (first.unit, first.relation) != (plan.unit, plan.relation):
            raise PrivacyContractError(
                f"The releases in {self.path} must protect the same unit and relation. Got "
                f"'{plan.unit}' and '{plan.relation}' after '{first.unit}' and "
                f"'{first.relation}'. Guarantees for different units do not add up."
            )
        if plan.unit in ("document", "person"):
            return  # A document or a person is the same one in every cut.
        # Equal facts mean equal parts, but columns and owners are not among the facts.
        listed = plan.partition.kind != "column" and plan.partition.by == "document"
        if not listed or (plan.partition, plan.units) != (first.partition, first.units):
            raise PrivacyContractError(
                f"The releases for unit '{plan.unit}' in {self.path} must come from one and "
                f"the same cut, known from its seed. Got {plan.units} documents in parts: "
                f"{parts_in_words(plan)} after {first.units} in parts: "
                f"{parts_in_words(first)}. A part of one cut overlaps several of another, so "
                "their guarantees do not add up. Train with the documents, parts and seed of "
                "the first release, or protect unit 'document' or 'person', which add up over "
                "all cuts."
            )
