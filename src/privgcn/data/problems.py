"""What is wrong with documents: the rule, what breaks it, and the remedy.

Reading goes on: a check lists all problems, loading raises the first that stops training.

Examples:
    >>> with Problems() as problems:
    ...     problems.rows([False, True], "An id must be given", "line {}".format, "Give one")
    Traceback (most recent call last):
    privgcn.errors.DataError: An id must be given. Got line 1. Give one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from privgcn.errors import DataError

_EXAMPLES = 3


@dataclass
class Problem:
    """A rule that is broken, or something that the owner of the documents should know.

    Attributes:
        rule: A sentence without its full stop; so is the ``remedy``.
        examples: What breaks it, and where: the first few of ``count``.
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
    """The problems of some documents by their rules; reading is a ``with`` block.

    Args:
        check: Whether to list all problems, the error that ended the block included, and to
            go on with columns that are likely to be meant. Else the block raises the first.
    """

    def __init__(self, *, check: bool = False) -> None:
        self.check = check
        self.by_rule: dict[str, Problem] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> bool:
        if isinstance(error, DataError):
            self.add(str(error).removesuffix("."))
        elif error is not None:
            return False
        stopping = [str(problem) for problem in self.by_rule.values() if problem.stops]
        if stopping and not self.check:
            # Columns that were named and are not there are one mistake.
            columns = [line for line in stopping if line.startswith("The column of --")]
            raise DataError(" ".join(columns or stopping[:1])) from None
        return True

    def add(
        self, rule: str, *examples: str, remedy: str = "", count: int = 1, **more: Any
    ) -> None:
        """One problem, or further cases of one that was met before."""
        known = self.by_rule.get(rule)
        if known is None:
            self.by_rule[rule] = Problem(rule, examples[:_EXAMPLES], remedy, count, **more)
        elif examples:
            known.examples = (*known.examples, *examples)[:_EXAMPLES]
            known.count += count

    def note(self, sentence: str, *examples: str, **more: Any) -> None:
        """Something that stops nobody."""
        self.add(sentence, *examples, stops=False, **more)

    def rows(self, broken: Any, rule: str, example: Callable[[int], str], remedy: str) -> None:
        """One problem for all rows that break a rule, if there are any."""
        at = np.flatnonzero(np.asarray(broken))
        if len(at):
            shown = [example(row) for row in at[:_EXAMPLES].tolist()]
            self.add(rule, *shown, remedy=remedy, count=len(at))

    @property
    def remarks(self) -> tuple[str, ...]:
        """What stops nobody, in a sentence each."""
        return tuple(str(problem) for problem in self.by_rule.values() if not problem.stops)
