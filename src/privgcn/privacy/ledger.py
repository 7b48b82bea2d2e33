"""The ledger: what all released models of one corpus cost together.

A file of JSON lines, one for each release. ``ledger.jsonl.head`` has the SHA-256 of all lines
and is written after they are. So the lines are those that the head remembers, or one more,
whose writer was stopped in between; anything else was done by somebody else.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from filelock import FileLock
from pydantic import Field

from privgcn.errors import DataError, PrivacyContractError, PrivGCNError
from privgcn.files import read_bounded, write_atomically
from privgcn.privacy.accounting import Delta, epsilon_of_events
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.values import Real, Sha256, in_plain_values, read_strictly, strict
from privgcn.privacy.wording import groups_in_words, round_up

#: Tens of thousands of releases, and what is shown of a line that cannot be read.
MOST_BYTES, _SHOWN = 1 << 24, 300


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
        was stopped in between counts once. Two processes never record at once. The composed
        epsilon counts every release and holds for every unit: units that depend on how the
        graph was divided add up over one and the same partition alone.
    Assumes:
        All models trained on the corpus go through the same ledger. For units ``part`` and
        ``graph``, the training documents and their order are the same for all: a plan knows
        only how many there are. Nobody writes the ledger and its head by hand.
    """

    def __init__(self, path: str | Path) -> None:
        # One lock for one file, whatever link leads to it.
        self.path = Path(os.path.realpath(path))
        self._head = Path(f"{self.path}.head")

    def entries(self) -> tuple[LedgerEntry, ...]:
        """All releases so far."""
        if not os.path.lexists(self.path) and not self._head.exists():
            return ()
        with self._locked():
            return self._read()[1]

    def spent(self, delta: float) -> float:
        """The epsilon of all recorded releases together, at ``delta``."""
        return self._composed([entry.plan for entry in self.entries()], delta)

    def record(
        self,
        statement: PrivacyStatement,
        *,
        budget: Budget | None = None,
        not_chosen: bool = False,
    ) -> float:
        """Records one release and returns the epsilon spent, at the budget's delta if any.

        The same model counts once, however often it is released; without a hash of it every
        release counts as another model. ``not_chosen`` is the owner's word that a model that is
        one of several was not chosen among them by looking at scores or documents.

        Raises:
            DataError: The file cannot be read or written, or was changed by somebody else.
            PrivacyContractError: The statement may not be released, or does not add up with
                those in the ledger, or the budget does not cover it.
        """
        check_releasable(statement, not_chosen=not_chosen)
        delta = statement.delta if budget is None else budget.delta
        entry = LedgerEntry(statement.digest, statement.model_sha256, statement.plan)
        with self._locked():
            before, entries = self._read()
            content = before
            if entry.model_sha256 is None or entry not in entries:
                entries = (*entries, entry)
                content += json.dumps(in_plain_values(entry), sort_keys=True).encode() + b"\n"
            total = self._composed([each.plan for each in entries], delta)
            if budget is not None and total > budget.epsilon:
                raise PrivacyContractError(
                    f"The budget of {self.path} must cover all releases: epsilon "
                    f"{budget.epsilon:g} at delta {budget.delta:g}. With this one they cost "
                    f"{round_up(total)}. Train with a smaller epsilon, or do not release it."
                )
            if len(content) > MOST_BYTES:
                raise DataError(
                    f"The ledger {self.path} must have at most {MOST_BYTES} bytes. It would "
                    "have more. Name another file."
                )
            # The head may be one line behind, never two.
            begin, end = (self._head, _hash(before)), (self._head, _hash(content))
            for path, lines in (begin, (self.path, content), end):
                write_atomically(path, lines, mode=0o666)
        return total

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            # The lock would make folders that nobody asked for.
            os.stat(self.path.parent)
            with FileLock(f"{self.path}.lock"):
                yield
        except OSError as error:
            raise DataError(
                f"The ledger {self.path} cannot be read or written: {error.strerror}. Name a "
                "file in a folder that exists, can be written and has room."
            ) from None

    def _read(self) -> tuple[bytes, tuple[LedgerEntry, ...]]:
        begun = os.path.lexists(self.path)
        content = read_bounded(self.path, most=MOST_BYTES) if begun else b""
        remembered = b"" if begun else _hash(b"")
        if self._head.exists():
            remembered = read_bounded(self._head, most=100)
        before_last = content[: content[:-1].rfind(b"\n") + 1]
        cut = content and not content.endswith(b"\n")
        if cut or remembered not in (_hash(content), _hash(before_last)):
            raise DataError(
                f"The ledger {self.path} must hold what {self._head.name} beside it remembers, "
                "and does not: lines were changed, cut off or deleted, or the head was. "
                "Restore both files from one copy that holds every release."
            )
        entries = []
        for number, line in enumerate(content.splitlines(), start=1):
            try:
                entries.append(read_strictly(LedgerEntry, line.decode(), "a ledger line"))
            except (ValueError, PrivGCNError) as error:
                raise DataError(
                    f"Line {number} of the ledger {self.path} cannot be read. "
                    f"{str(error)[:_SHOWN]} Restore the file from a copy."
                ) from None
        return content, tuple(entries)

    def _composed(self, plans: Sequence[PrivacyPlan], delta: float) -> float:
        for plan in plans[1:]:
            first = plans[0]
            if (first.unit, first.relation) != (plan.unit, plan.relation):
                raise PrivacyContractError(
                    f"The releases in {self.path} must protect the same unit and relation. Got "
                    f"{plan.unit}, {plan.relation} after {first.unit}, {first.relation}."
                )
            if plan.unit in ("document", "person"):
                continue  # A document or a person is the same one in every partition.
            # Equal facts mean equal groups, but columns and owners are not among the facts.
            listed = plan.partition.kind != "column" and plan.partition.by == "document"
            if not listed or (plan.partition, plan.units) != (first.partition, first.units):
                raise PrivacyContractError(
                    f"The releases for unit '{plan.unit}' in {self.path} must come from one "
                    "and the same partition, known from its seed. Got groups "
                    f"{groups_in_words(plan)} after {groups_in_words(first)}, of {plan.units} "
                    f"and {first.units} documents. A group of one overlaps several of another, "
                    "so guarantees do not add up. Train with the documents, parts and seed of "
                    "the first release, or protect unit 'document' or 'person'."
                )
        # What a search costs is known in Renyi divergences, so all must be added up in these.
        searched = any(plan.selection is not None for plan in plans)
        return epsilon_of_events(
            [plan.event for plan in plans], delta=delta, accountant="rdp" if searched else "pld"
        )


def check_releasable(statement: PrivacyStatement, *, not_chosen: bool = False) -> None:
    """Refuses a statement that is not true, is void, or holds on an unconfirmed condition."""
    statement.verify()
    if statement.void:
        raise PrivacyContractError(
            "The statement of a release must hold. Got one whose claim is void by the fact "
            f"'{statement.void[0].code}'. Train again, once; to choose among models, use "
            "'privgcn tune', whose epsilon covers the search."
        )
    if not statement.releasable:
        raise PrivacyContractError(
            "The statement of a release must be of secret noise. Got one whose noise was "
            "seeded: whoever knows the seed can subtract it. Train again without "
            "--reproducible."
        )
    if statement.one_of_several and not not_chosen:
        raise PrivacyContractError(
            "The model of a release must not be chosen among several by looking at scores or "
            "documents. Got one of several that were trained on the same documents. To choose, "
            "use 'privgcn tune', whose epsilon covers the search; if this one was not chosen, "
            "say so: --not-chosen."
        )


def _hash(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode("ascii") + b"\n"
