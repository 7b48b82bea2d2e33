"""Whatever documents and edges were read from, as one table, and what its columns mean."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from privgcn.data.problems import Problems
from privgcn.errors import DataError, shown

if TYPE_CHECKING:
    import polars as pl

RESERVED = ("id", "text", "label", "split", "owner")
"""Columns of documents that have a meaning."""

RANDOM = "random"
"""Instead of the name of the column ``split``: draw it, whatever columns there are."""

# What columns with a meaning are often called.
_LIKELY = {
    "text": (
        "text",
        "body",
        "content",
        "message",
        "note",
        "comment",
        "description",
        "abstract",
    ),
    "id": ("id", "key", "number", "nr", "uuid"),
    "label": ("label", "class", "category", "department", "topic", "target", "tag"),
    "owner": ("owner", "patient", "person", "customer", "client", "user", "author", "member"),
}
_MOST_NAMED, _LONG_NAME, _HEAD = 20, 80, 1_000


@dataclass(frozen=True)
class Table:
    """Columns of strings, whatever they were read from, and the name of each row's place.

    An empty string counts as missing, as it cannot be told apart in a CSV file.

    Attributes:
        frame: A column of strings for each name, null where a value is missing.
        name: What it is, to begin a sentence about it: "The file letters.csv".
        place: Where a row stands: "line 7 of letters.csv", "row 7".
        labels: The different labels with their own type, where they were no strings.
    """

    frame: pl.DataFrame
    name: str
    place: Callable[[int], str]
    labels: tuple[Any, ...] | None = None

    def __len__(self) -> int:
        return self.frame.height

    @property
    def from_file(self) -> bool:
        """Whether options can name its columns."""
        return self.name.startswith("The file")

    def who(self, row: int) -> str:
        """The document of a row, in words."""
        if "id" in self.frame.columns and self.frame["id"][row] is not None:
            return f"{shown(self.frame['id'][row])} in {self.place(row)}"
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

    def with_meanings(
        self, named: Mapping[str, str | None], required: Sequence[str], problems: Problems
    ) -> Table:
        """The table whose columns with a meaning are called as in ``RESERVED``.

        A column has a meaning because somebody named it, or by its own name, whatever its
        spaces and upper and lower case.
        """
        import polars as pl

        frame, columns = self.frame, self.frame.columns
        chosen: dict[str, str] = {}
        for meaning in RESERVED:
            name = named.get(meaning)
            alike = [column for column in columns if column.strip().casefold() == meaning]
            if meaning == "split" and name == RANDOM and RANDOM not in columns:
                continue
            if name is not None:
                if name in columns:
                    chosen[meaning] = name
                    continue
                near = difflib.get_close_matches(name, columns, n=1)
                raise DataError(
                    f"The column of --{meaning} must be one of {self.name.lower()}. Got "
                    f"{shown(name)}; the columns are {self.got()}."
                    + (f" Did you mean {shown(near[0])}?" if near else "")
                )
            if meaning in columns:
                chosen[meaning] = meaning
            elif len(alike) == 1:
                chosen[meaning] = alike[0]
            elif alike:
                problems.tell(
                    f"{self.name} must have one column '{meaning}'",
                    " and ".join(map(shown, alike)),
                    remedy=self._remedy(meaning, alike[0]),
                )
        wanted = [meaning for meaning in required if meaning not in chosen]
        guesses = likely_columns(frame, set(chosen.values()), _LIKELY.keys() - chosen.keys())
        for meaning in wanted:
            guess = guesses.get(meaning)
            problems.tell(
                f"{self.name} must have the column '{meaning}'",
                self.got(),
                remedy=self._remedy(meaning, guess),
                option=guess and (meaning, guess),
            )
            if guess:
                chosen[meaning] = guess
        for meaning in ("label", "owner"):
            guess = guesses.get(meaning)
            if guess and meaning not in chosen and problems.collect:
                problems.tell(
                    f"No column is the {meaning} of the documents",
                    remedy=self._remedy(meaning, guess),
                    option=(meaning, guess),
                    stops=False,
                )
                if meaning == "label":
                    chosen[meaning] = guess
        used = {*chosen, *chosen.values()}
        others = [column for column in columns if column not in used]
        shadowed = [name for name in columns if name in used and name not in chosen.values()]
        if shadowed:
            problems.tell(
                f"Nothing uses the column {', '.join(map(shown, shadowed))} of "
                f"{self.name.lower()}",
                stops=False,
            )
        picked = [pl.col(column).alias(meaning) for meaning, column in chosen.items()]
        return replace(self, frame=frame.select(*picked, *others))

    def _remedy(self, meaning: str, guess: str | None) -> str:
        if guess is None or len(guess) > _LONG_NAME:
            return f"Name it with --{meaning}" if self.from_file else "Rename the column"
        if not self.from_file:
            return f"Rename {shown(guess)} to '{meaning}'"
        return (
            f"{shown(guess)} looks like it: --{meaning} {shlex.quote(guess)}, in Python "
            f"{meaning}={guess!r}"
        )


def likely_columns(frame: pl.DataFrame, taken: set[str], meanings: Any) -> dict[str, str]:
    """The column that each meaning is likely to have, by its name and first values."""
    head, guesses = frame.head(_HEAD), dict[str, str]()
    for meaning, words in _LIKELY.items():
        rest = [column for column in frame.columns if column not in {*taken, *guesses.values()}]
        if meaning not in meanings or not rest:
            continue
        folded = {column: column.casefold() for column in rest}
        named = [column for column in rest if any(word in folded[column] for word in words)]
        named += difflib.get_close_matches(meaning, rest, n=1)
        different = {column: head[column].n_unique() for column in rest}
        if meaning == "text":
            lengths = {column: sum(map(len, head[column].drop_nulls())) for column in rest}
            fits = [column for column in rest if lengths[column] >= max(lengths.values()) / 2]
            fits.sort(key=lambda column: (column not in named, -lengths[column]))
        elif meaning == "id":
            fits = [column for column in rest if different[column] > 0.9 * len(head)]
            fits.sort(key=lambda column: column not in named)
        elif meaning == "label":
            fits = [column for column in rest if 1 < different[column] <= max(2, len(head) / 5)]
            fits.sort(key=lambda column: (column not in named, different[column]))
        else:
            fits = named
        if fits:
            guesses[meaning] = fits[0]
    return guesses
