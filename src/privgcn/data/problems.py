"""What is wrong with documents: the rule, what breaks it, and the remedy.

Each rule about documents and edges says here what breaks it. Loading stops at the first
problem; a check goes on and has all of them.

Examples:
    >>> problems = Problems(collect=True)
    >>> problems.rows([False, True], "An id must be given", "line {}".format, "Give one")
    True
    >>> str(problems.found[0])
    'An id must be given. Got line 1. Give one.'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privgcn.errors import DataError

_EXAMPLES = 3


@dataclass(frozen=True)
class Problem:
    """A rule that is broken, or something that the owner of the documents should know.

    Attributes:
        rule: As a sentence without its full stop.
        examples: What breaks it, and where: the first few.
        remedy: What to do, as a sentence without its full stop.
        count: How often it is broken.
        stops: Whether nobody can train on the documents because of it.
        option: An option of ``load_corpus`` that mends it, and its value.
    """

    rule: str
    examples: tuple[str, ...] = ()
    remedy: str = ""
    count: int = 1
    stops: bool = True
    option: tuple[str, str] | None = None

    def __str__(self) -> str:
        several = f" ({self.count:,} in all)" if self.count > 1 and self.examples else ""
        got = f"Got {self.examples[0]}{several}" if self.examples else ""
        return " ".join(f"{said}." for said in (self.rule, got, self.remedy) if said)


class Problems:
    """All problems that the rules have met, in their order.

    Args:
        collect: Whether to go on after one that stops; else it is raised.
    """

    def __init__(self, *, collect: bool = False) -> None:
        self.collect = collect
        self.found: list[Problem] = []

    def tell(
        self, rule: str, *examples: str, remedy: str = "", count: int = 1, **more: Any
    ) -> None:
        """One problem, or further cases of one that was met before.

        Raises:
            DataError: It stops, and nobody collects.
        """
        problem = Problem(rule, examples[:_EXAMPLES], remedy, count, **more)
        if problem.stops and not self.collect:
            raise DataError(str(problem))
        at = next((at for at, known in enumerate(self.found) if known.rule == rule), None)
        if at is None:
            self.found.append(problem)
        elif examples:
            known = self.found[at]
            shown = (*known.examples, *examples)[:_EXAMPLES]
            self.found[at] = replace(known, examples=shown, count=known.count + count)

    def repeat(self, others: Problems) -> None:
        """The problems that another one has collected.

        Raises:
            DataError: One stops, and nobody collects.
        """
        for problem in others.found:
            if problem.stops and not self.collect:
                raise DataError(str(problem))
            self.found.append(problem)

    def rows(
        self, broken: Any, rule: str, example: Callable[[int], str], remedy: str, **more: Any
    ) -> bool:
        """One problem for all rows that break a rule, if there are any; whether there are."""
        at = np.flatnonzero(np.asarray(broken))
        if len(at):
            shown = [example(row) for row in at[:_EXAMPLES].tolist()]
            self.tell(rule, *shown, remedy=remedy, count=len(at), **more)
        return len(at) > 0

    @property
    def remarks(self) -> tuple[str, ...]:
        """What stops nobody, in a sentence each."""
        return tuple(str(problem) for problem in self.found if not problem.stops)
