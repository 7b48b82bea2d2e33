"""Whatever documents and edges were read from, as one table, and what its columns mean."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privgcn.data.problems import Problems
from privgcn.errors import shown

if TYPE_CHECKING:
    import polars as pl

RESERVED = ("id", "text", "label", "split", "owner")
"""Columns of documents that have a meaning."""

ENDS = ("source", "target")
"""Columns of edges."""

RANDOM = "random"
"""Instead of the name of the column ``split``: draw it, whatever columns there are."""

# What columns with a meaning are often called.
_LIKELY = {
    "text": "text|body|content|message|note|comment|description|abstract",
    "id": "id|key|number|nr",
    "label": "label|class|category|department|topic|target|tag",
    "owner": "owner|patient|person|customer|client|user|author|member",
}
_MOST_NAMED, _LONG_NAME, _HEAD = 20, 80, 1_000


@dataclass(frozen=True)
class Table:
    """Columns of strings, whatever they were read from, and where each row stood there.

    An empty string counts as missing, as it cannot be told apart in a CSV file. A large file
    is a sequence of such tables.

    Attributes:
        name: What it is, to begin a sentence about it: "The file letters.csv".
        unit: What its rows are called there: "row" or "line".
    """

    frame: pl.DataFrame
    numbers: NDArray[np.int64]
    name: str
    unit: str = "row"

    def __len__(self) -> int:
        return self.frame.height

    @property
    def from_file(self) -> bool:
        """Whether options can name its columns."""
        return self.name.startswith("The file")

    def place(self, row: int) -> str:
        """Where a row stands: "line 7 of letters.csv", "row 7"."""
        where = self.name.replace("The file", " of") if self.from_file else ""
        return f"{self.unit} {self.numbers[row]}{where}"

    def value(self, column: str, row: int) -> str:
        """A value and where it stands, in words."""
        if column not in self.frame.columns:
            return f"the one in {self.place(row)}"
        given = self.frame[column][row]
        return f"{shown(given) if given else 'nothing'} in {self.place(row)}"

    def got(self) -> str:
        """Its columns, in words."""
        return ", ".join(map(shown, self.frame.columns[:_MOST_NAMED]))


def joined(tables: Sequence[Table]) -> Table:
    """Tables of one origin, one below the other."""
    import polars as pl

    frame = pl.concat([own.frame for own in tables], how="diagonal")
    return replace(
        tables[0], frame=frame, numbers=np.concatenate([own.numbers for own in tables])
    )


def must_be(meaning: str, value: Any) -> str:
    """What a value with that meaning must be that is something else; nothing is guessed."""
    if value is None or isinstance(value, str):
        return ""
    if meaning == "text":
        return "a string"
    if meaning in ("id", "owner", *ENDS) and not isinstance(value, Integral):
        return "a string or a whole number"
    several = isinstance(value, list | tuple | dict | set | np.ndarray)
    return "a single value" * (meaning in ("label", "split") and several)


def columns_of_meanings(
    table: Table, named: Mapping[str, str | None], required: Sequence[str], problems: Problems
) -> dict[str, str]:
    """The column of each meaning that has one: the one that was named, or that is called so.

    ``problems`` gets the ones that are likely instead, and a check goes on with those.
    """
    columns = table.frame.columns
    given = {meaning: name for meaning, name in named.items() if name is not None}
    if given.get("split") == RANDOM and RANDOM not in columns:
        columns = [column for column in columns if column.strip().casefold() != "split"]
        del given["split"]
    chosen: dict[str, str] = {}
    for meaning in RESERVED:
        exact = [name for name in (given.get(meaning), meaning) if name in columns]
        alike = [column for column in columns if column.strip().casefold() == meaning]
        if exact or alike:
            chosen[meaning] = (exact or alike)[0]
        if len(alike) > 1 and not exact:
            problems.add(
                f"{table.name} must have one column '{meaning}'",
                " and ".join(map(shown, alike)),
                remedy=_remedy(table, meaning, alike[0]),
            )
    wrong = {meaning for meaning, name in given.items() if name not in columns}
    missing = {meaning for meaning in required if meaning not in chosen} - wrong
    likely = _likely_columns(table.frame.head(_HEAD), chosen)
    # Labels and owners are no must, but a check names which they may be.
    optional = {"label", "owner"} & set(likely) if problems.check else set()
    for meaning in (own for own in RESERVED if own in wrong | missing | optional):
        column = chosen.get(meaning, likely.get(meaning))
        rule, got = f"No column is the {meaning} of the documents", list[str]()
        if meaning in wrong:
            rule = f"The column of --{meaning} must be one of t{table.name[1:]}"
            got = [f"{shown(given[meaning])}; the columns are {table.got()}"]
        elif meaning in missing:
            rule, got = f"{table.name} must have the column '{meaning}'", [table.got()]
        problems.add(
            rule,
            *got,
            remedy=_remedy(table, meaning, column),
            option=None if column is None else (meaning, column),
            stops=meaning in wrong | missing,
        )
        if problems.check and meaning in likely and (meaning != "owner" or wrong | missing):
            chosen[meaning] = likely[meaning]
    return chosen


def _remedy(table: Table, meaning: str, column: str | None) -> str:
    if column is None or len(column) > _LONG_NAME:
        return f"Name it with --{meaning}" if table.from_file else "Rename the column"
    if not table.from_file:
        return f"Rename {shown(column)} to '{meaning}'"
    return (
        f"{shown(column)} looks like it: --{meaning} {shlex.quote(column)}, in Python "
        f"{meaning}={column!r}"
    )


def _likely_columns(head: pl.DataFrame, chosen: Mapping[str, str]) -> dict[str, str]:
    """The column that each other meaning is likely to have, by name or else by its values."""
    rest = [column for column in head.columns if column not in chosen.values()]
    guesses: dict[str, str] = {}
    for meaning, words in _LIKELY.items():
        if meaning in chosen:
            continue
        fits = [column for column in rest if re.search(words, column.casefold())]
        if meaning == "text":
            fits += sorted(rest, key=lambda column: -head[column].str.len_chars().sum())
        if meaning == "id":
            fits += [column for column in rest if head[column].n_unique() > 0.9 * len(head)]
        if fits:
            guesses[meaning] = fits[0]
            rest.remove(fits[0])
    return guesses
