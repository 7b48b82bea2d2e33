"""Whatever documents and edges were read from, as one table, and what its columns mean."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privgcn.data.corpus import Strings
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
    """Columns of strings, whatever they were read from, and the name of each row's place.

    An empty string counts as missing, as it cannot be told apart in a CSV file. A large file
    is a sequence of such tables.

    Attributes:
        frame: A column of strings for each name, null where a value is missing.
        name: What it is, to begin a sentence about it: "The file letters.csv".
        unit: What its rows are called there: "row" or "line".
        numbers: The number of each row, or that of the first one.
        labels: The different labels with their own type, where they were no strings.
        texts: The texts, once they have left the frame; its column ``text`` then says
            whether there is one.
    """

    frame: pl.DataFrame
    name: str
    unit: str = "row"
    numbers: int | NDArray[np.int64] = 0
    labels: tuple[Any, ...] | None = None
    texts: Strings | None = None

    def __len__(self) -> int:
        return self.frame.height

    @property
    def from_file(self) -> bool:
        """Whether options can name its columns."""
        return self.name.startswith("The file")

    def place(self, row: int) -> str:
        """Where a row stands: "line 7 of letters.csv", "row 7"."""
        numbers = self.numbers
        number = numbers + row if isinstance(numbers, int) else numbers[row]
        where = self.name.replace("The file", " of") if self.from_file else ""
        return f"{self.unit} {number}{where}"

    def who(self, row: int) -> str:
        """The document of a row, in words."""
        if "id" in self.frame.columns and self.frame["id"][row] is not None:
            return self.value("id", row)
        return f"the one in {self.place(row)}"

    def value(self, column: str, row: int) -> str:
        """A value and where it stands, in words."""
        return f"{shown(self.frame[column][row])} in {self.place(row)}"

    def got(self) -> str:
        """Its columns, in words, with what is odd about them."""
        columns = self.frame.columns
        odd = any(mark in column for column in columns for mark in ",;|\t")
        hint = " (fields are separated by commas, or by tabs in a .tsv file)"
        return ", ".join(map(shown, columns[:_MOST_NAMED])) + hint * odd

    def columns_of_meanings(
        self, named: Mapping[str, str | None], required: Sequence[str], problems: Problems
    ) -> dict[str, str]:
        """The column of each meaning.

        A column has a meaning because somebody named it, or by its own name, whatever its
        case. Where none has, ``problems`` is told which is likely, and goes on with that.
        """
        columns, its_name = self.frame.columns, f"t{self.name[1:]}"
        chosen: dict[str, str] = {}
        for meaning in RESERVED:
            name = named.get(meaning)
            alike = [column for column in columns if column.strip().casefold() == meaning]
            if meaning == "split" and name == RANDOM and RANDOM not in columns:
                continue
            if name is not None and name not in columns:
                rest = [column for column in columns if column not in chosen.values()]
                near = difflib.get_close_matches(name, rest, n=1)
                problems.tell(
                    f"The column of --{meaning} must be one of {its_name}",
                    f"{shown(name)}; the columns are {self.got()}",
                    remedy=f"Perhaps {shown(near[0])} is meant" if near else "",
                    option=(meaning, near[0]) if near else None,
                )
                alike = near
            elif name is not None or meaning in columns:
                alike = [name or meaning]
            if len(alike) > 1:
                problems.tell(
                    f"{self.name} must have one column '{meaning}'",
                    " and ".join(map(shown, alike)),
                    remedy=self._remedy(meaning, alike[0]),
                )
            if alike:
                chosen[meaning] = alike[0]
        guesses = self._likely_columns(chosen)
        wanted = [meaning for meaning in required if meaning not in chosen]
        for meaning in wanted:
            guess = guesses.get(meaning)
            problems.tell(
                f"{self.name} must have the column '{meaning}'",
                self.got(),
                remedy=self._remedy(meaning, guess),
                option=guess and (meaning, guess),
            )
        for meaning in ("label", "owner") if problems.collect else ():
            guess = guesses.get(meaning)
            if guess and meaning not in chosen:
                problems.tell(
                    f"No column is the {meaning} of the documents",
                    remedy=self._remedy(meaning, guess),
                    option=(meaning, guess),
                    stops=False,
                )
                # What else is wrong shall come to light at once. Owners are no must.
                if meaning == "label" or wanted:
                    wanted.append(meaning)
        chosen |= {meaning: guesses[meaning] for meaning in wanted if meaning in guesses}
        unused = [own for own in columns if own in chosen and own not in chosen.values()]
        if unused:
            some = ", ".join(map(shown, unused))
            problems.tell(f"Nothing uses the column {some} of {its_name}", stops=False)
        return chosen

    def renamed(self, chosen: Mapping[str, str]) -> Table:
        """The table whose columns with a meaning are called by it."""
        import polars as pl

        columns = self.frame.columns
        others = [name for name in columns if name not in {*chosen, *chosen.values()}]
        picked = [
            pl.col(own).alias(meaning) for meaning, own in chosen.items() if own in columns
        ]
        return replace(self, frame=self.frame.select(*picked, *others))

    def _remedy(self, meaning: str, guess: str | None) -> str:
        if guess is None or len(guess) > _LONG_NAME:
            return f"Name it with --{meaning}" if self.from_file else "Rename the column"
        if not self.from_file:
            return f"Rename {shown(guess)} to '{meaning}'"
        return (
            f"{shown(guess)} looks like it: --{meaning} {shlex.quote(guess)}, in Python "
            f"{meaning}={guess!r}"
        )

    def _likely_columns(self, chosen: Mapping[str, str]) -> dict[str, str]:
        """The column that each other meaning is likely to have, by name and first values."""
        head, guesses = self.frame.head(_HEAD), dict[str, str]()
        for meaning, words in _LIKELY.items():
            taken = {*chosen.values(), *guesses.values()}
            rest = [column for column in head.columns if column not in taken]
            if meaning in chosen or not rest:
                continue
            named = [own for own in rest if re.search(words, own.casefold())]
            named += difflib.get_close_matches(meaning, rest, n=1)
            different = {column: head[column].n_unique() for column in rest}
            if meaning == "text":
                lengths = {column: sum(map(len, head[column].drop_nulls())) for column in rest}
                fits = [own for own in rest if lengths[own] >= max(lengths.values()) / 2]
                fits.sort(key=lambda column: (column not in named, -lengths[column]))
            elif meaning == "id":
                fits = [column for column in rest if different[column] > 0.9 * len(head)]
                fits.sort(key=lambda column: column not in named)
            elif meaning == "label":
                most = max(2, len(head) / 5)
                fits = [column for column in rest if 1 < different[column] <= most]
                fits.sort(key=lambda column: (column not in named, different[column]))
            else:
                fits = named
            if fits:
                guesses[meaning] = fits[0]
        return guesses


def without_empty(values: pl.Series) -> pl.Series:
    """Strings with null where one is empty: a CSV file cannot tell them apart."""
    import polars as pl

    empty = values == ""
    return values.set(empty, None) if empty.any() else values.cast(pl.String)


def joined(blocks: Iterable[Table], *, texts: bool) -> Table:
    """Tables, one below the other; their texts, if they have some, leave the frame."""
    import polars as pl

    tables: list[Table] = []

    def columns() -> Iterator[pl.Series]:
        for block in blocks:
            frame = block.frame
            if texts:
                if "text" not in frame.columns:
                    frame = frame.with_columns(text=pl.lit(None, pl.String))
                yield frame["text"]
                frame = frame.with_columns(pl.col("text").str.strip_chars().fill_null("") != "")
            tables.append(replace(block, frame=frame))

    packed = Strings.of(columns())
    first, numbers = (
        tables[0],
        [own.numbers for own in tables if not isinstance(own.numbers, int)],
    )
    return replace(
        first,
        frame=pl.concat([own.frame for own in tables], how="diagonal"),
        numbers=np.concatenate(numbers) if numbers else tables[0].numbers,
        texts=packed if texts else None,
    )
