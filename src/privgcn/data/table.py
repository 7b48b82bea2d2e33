"""Whatever documents and edges were read from, as one table, and what its columns mean."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

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
        frame: A column of strings for each name, null where a value is missing.
        numbers: The number of each row.
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
        """A value and where it stands, in words; where it is missing, only that."""
        given = self.frame[column][row] if column in self.frame.columns else None
        place = self.place(row)
        return f"the one in {place}" if given is None else f"{shown(given)} in {place}"

    def got(self) -> str:
        """Its columns, in words, with what is odd about them."""
        columns = self.frame.columns
        odd = any(mark in column for column in columns for mark in ",;|\t")
        hint = " (fields are separated by commas, or by tabs in a .tsv file)"
        return ", ".join(map(shown, columns[:_MOST_NAMED])) + hint * odd


def joined(tables: Sequence[Table]) -> Table:
    """Tables of one origin, one below the other."""
    import polars as pl

    frame = pl.concat([own.frame for own in tables], how="diagonal")
    return replace(
        tables[0], frame=frame, numbers=np.concatenate([own.numbers for own in tables])
    )


def without_empty(values: pl.Series) -> pl.Series:
    """Strings with null where one is empty: a CSV file cannot tell them apart."""
    import polars as pl

    empty = values == ""
    return values.set(empty, None) if empty.any() else values.cast(pl.String)


def columns_of_meanings(
    table: Table, named: Mapping[str, str | None], required: Sequence[str], problems: Problems
) -> dict[str, str]:
    """The column of each meaning that has one: the one that was named, or that is called so.

    ``problems`` is told which others are likely, and says whether to go on with those.
    """
    columns, the_table = table.frame.columns, f"t{table.name[1:]}"
    given = {meaning: name for meaning, name in named.items() if name is not None}
    meanings = list(RESERVED)
    if given.get("split") == RANDOM and RANDOM not in columns:
        meanings.remove("split")
    chosen: dict[str, str] = {}
    for meaning in meanings:
        own = [column for column in columns if column.strip().casefold() == meaning]
        if given.get(meaning) in columns:
            own = [given[meaning]]
        elif meaning in own:
            own = [meaning]
        if len(own) > 1:
            problems.tell(
                f"{table.name} must have one column '{meaning}'",
                " and ".join(map(shown, own)),
                remedy=_remedy(table, meaning, own[0]),
            )
        if own:
            chosen[meaning] = own[0]
    likely = _likely_columns(table.frame.head(_HEAD), chosen)

    def tell(meaning: str, rule: str, *got: str, stops: bool = True) -> None:
        column = chosen.get(meaning, likely.get(meaning))
        option = None if column is None else (meaning, column)
        remedy = _remedy(table, meaning, column)
        problems.tell(rule, *got, remedy=remedy, option=option, stops=stops)

    wrong = [name for name in meanings if name in given and given[name] not in columns]
    for meaning in wrong:
        got = f"{shown(given[meaning])}; the columns are {table.got()}"
        tell(meaning, f"The column of --{meaning} must be one of {the_table}", got)
    missing = [name for name in required if name not in chosen and name not in wrong]
    for meaning in missing:
        tell(meaning, f"{table.name} must have the column '{meaning}'", table.got())
    if problems.guess:
        # What else is wrong shall come to light at once. Owners are no must.
        used = [*wrong, *missing, "label", *["owner"] * bool(wrong or missing)]
        for meaning in ("label", "owner"):
            if meaning in likely and meaning not in wrong:
                tell(meaning, f"No column is the {meaning} of the documents", stops=False)
        chosen |= {meaning: likely[meaning] for meaning in used if meaning in likely}
    unused = [own for own in columns if own in chosen and own not in chosen.values()]
    if unused:
        some = ", ".join(map(shown, unused))
        problems.tell(f"Nothing uses the column {some} of {the_table}", stops=False)
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
    """The column that each other meaning is likely to have, by name and first values."""
    different = {column: head[column].n_unique() for column in head.columns}
    length = {column: head[column].str.len_chars().sum() for column in head.columns}
    guesses: dict[str, str] = {}
    for meaning, words in _LIKELY.items():
        taken = {*chosen.values(), *guesses.values()}
        rest = [column for column in head.columns if column not in taken]
        fits = [column for column in rest if re.search(words, column.casefold())]
        by_name = set(fits)
        if meaning == "text":
            longest = max((length[column] for column in rest), default=0)
            fits = [column for column in rest if length[column] >= longest / 2]
            fits.sort(key=lambda column: -length[column])
        elif meaning == "id":
            fits = [column for column in rest if different[column] > 0.9 * len(head)]
        elif meaning == "label":
            most = max(2, len(head) / 5)
            fits = [column for column in rest if 1 < different[column] <= most]
            fits.sort(key=lambda column: different[column])
        fits.sort(key=lambda column: column not in by_name)
        if fits and meaning not in chosen:
            guesses[meaning] = fits[0]
    return guesses
