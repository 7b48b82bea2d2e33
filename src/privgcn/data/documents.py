"""The rules for documents: ids, texts, labels, owners, splits.

Files and frames alike become one :class:`Table`; here is what its columns must hold, each rule
once. A rule that is broken is one error with the rule, the value, its row and the remedy.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privgcn.data.corpus import NO_LABEL, SPLIT_NAMES, Strings, random_split
from privgcn.errors import DataError, shown

if TYPE_CHECKING:
    import polars as pl

RESERVED = ("id", "text", "label", "split", "owner")
"""Columns of documents that have a meaning."""

_NO_VALUE = ("nan", "null", "<na>", "n/a", "nat")
_USER_SPLITS = SPLIT_NAMES[:3]
_TOLD_COLUMNS = 20


@dataclass(frozen=True)
class Table:
    """Columns of strings, whatever they were read from, and the name of each row's place.

    An empty string counts as missing, as it cannot be told apart in a CSV file.

    Attributes:
        frame: A column of strings for each name, null where a value is missing.
        name: What it is, to begin a sentence about it: "The file letters.csv".
        place: Where a row stands: "line 7 of letters.csv", "row 7".
        labels: The different labels with their own type, where they were no strings.
        semicolons: Whether semicolons separate the fields, not commas.
    """

    frame: pl.DataFrame
    name: str
    place: Callable[[int], str]
    labels: tuple[Any, ...] | None = None
    semicolons: bool = False

    def __len__(self) -> int:
        return self.frame.height

    def who(self, row: int) -> str:
        """The document of a row, in words."""
        if "id" in self.frame.columns and self.frame["id"][row] is not None:
            return f"{shown(self.frame['id'][row])} in {self.place(row)}"
        return f"The one in {self.place(row)}"

    def check_columns(self, known: Sequence[str], required: Sequence[str]) -> None:
        """Refuses a table that lacks a column, or that would have one ignored.

        Args:
            known: Columns that have a meaning. One that is nearly so named is refused.
            required: Columns that must be there.
        """
        columns = self.frame.columns
        wrong = {
            column: name
            for column in columns
            if (name := column.strip().casefold()) in known and name not in columns
        }
        if wrong:
            renamed = ", ".join(
                f"{shown(column)} to '{name}'" for column, name in wrong.items()
            )
            raise DataError(
                f"{self.name} must write its column names in lower case and without spaces. "
                f"Rename {renamed}."
            )
        missing = [name for name in required if name not in columns]
        if not missing:
            return
        near = difflib.get_close_matches(missing[0], columns, n=1)
        rename = f"Rename {shown(near[0])} to '{missing[0]}'" if near else "Rename the column"
        wanted = " and ".join(f"'{name}'" for name in required)
        got = ", ".join(shown(column) for column in columns[:_TOLD_COLUMNS])
        odd = any(mark in column for column in columns for mark in ",;|\t")
        raise DataError(
            f"{self.name} must have the column{'s' * (len(required) > 1)} {wanted}. Got {got}. "
            f"{rename}, or add it."
            + odd
            * " Fields are separated by commas, or by tabs in a .tsv file."
        )


def document_fields(
    table: Table,
    *,
    classes: Sequence[Any] | None,
    seed: int,
    needs_ids: bool = False,
    needs_texts: bool = True,
) -> dict[str, Any]:
    """The fields of a ``Corpus`` that a table of documents has.

    Where no ids are needed, rows can stand in for them.
    """
    import polars as pl

    frame = table.frame
    table.check_columns(RESERVED, ["id"] * needs_ids + ["text"] * needs_texts)
    if not len(table):
        raise DataError(f"{table.name} must hold at least one document. Got none.")
    if "id" in frame.columns:
        _check_ids(table)
        ids = frame["id"]
    else:
        ids = pl.int_range(len(table), eager=True).cast(pl.String)
    texts = frame["text"] if needs_texts or "text" in frame.columns else None
    if texts is not None:
        empty = texts.is_null() | (texts.str.strip_chars() == "")
        if empty.any():
            row = int(empty.arg_max() or 0)
            raise DataError(
                f"The 'text' of a document must not be empty. {table.who(row)} has none "
                f"({empty.sum()} in all). Give it a text or remove the document."
            )
    owners, owner_names = None, None
    if "owner" in frame.columns:
        owners, owner_names = owner_codes(table)
    if "split" in frame.columns:
        split = codes(frame["split"], pl.Series(_USER_SPLITS)).astype(np.int8)
        if (split < 0).any():
            row = int((split < 0).argmax())
            raise DataError(
                f"The 'split' of a document must be one of {', '.join(_USER_SPLITS)}, in lower "
                f"case and without spaces. Got {shown(frame['split'][row] or '')} for "
                f"{table.who(row)}. Correct it, or remove the whole column for a random split."
            )
    else:
        split = random_split(len(table), seed, owners)
    names, labels = _labels(table, classes)
    return {
        "ids": Strings(ids),
        "texts": None if texts is None else Strings(texts),
        "labels": labels,
        "classes": names,
        "split": split,
        "owners": owners,
        "owner_names": owner_names,
        "columns": {
            name: Strings(frame[name].fill_null(""))
            for name in frame.columns
            if name not in RESERVED
        },
    }


def without_empty(values: pl.Series) -> pl.Series:
    """Strings with null where one is empty: a CSV file cannot tell them apart."""
    import polars as pl

    empty = values == ""
    return values.set(empty, None) if empty.any() else values.cast(pl.String)


def codes(values: pl.Series, names: pl.Series) -> NDArray[np.int64]:
    """The place of every value in ``names``, which are all different; -1 for one not there."""
    import polars as pl

    index = pl.DataFrame({"name": names, "code": np.arange(len(names), dtype=np.int64)})
    joined = (
        values.alias("name")
        .to_frame()
        .join(index, on="name", how="left", maintain_order="left")
    )
    # Arrays of polars are read-only, and torch warns of those.
    return np.array(joined["code"].fill_null(NO_LABEL).to_numpy(), dtype=np.int64)


def check_classes(classes: Sequence[Any]) -> tuple[str, ...]:
    """The declared class set, once it is known to be one."""
    declared = tuple(str(name) for name in classes)
    if isinstance(classes, str) or len(declared) < 2 or len(set(declared)) != len(declared):
        raise DataError(
            f"The 'classes' must be at least two different names. Got {list(declared)}."
        )
    return declared


def label_set(labels: Sequence[Any], classes: Sequence[Any] | None = None) -> NDArray[Any]:
    """The class labels with their own type: as declared, else sorted.

    Args:
        labels: The labels, without missing ones; each may occur several times.
        classes: The declared class set.
    """
    if classes is not None:
        check_classes(classes)
        return np.asarray(list(classes))
    if not len(labels):
        return np.asarray([], dtype=str)
    texts = [isinstance(value, str) for value in labels]
    if any(texts) != all(texts):
        odd = labels[texts.index(not texts[0])]
        raise DataError(
            f"Labels must be of one type. Got {shown(labels[0])} and {shown(odd)}. Write all "
            "of them as texts, or all as numbers."
        )
    known = dict.fromkeys(labels)
    for value in known:
        bare = value.strip() if isinstance(value, str) else value
        if isinstance(value, str) and bare.casefold() in _NO_VALUE:
            raise DataError(
                f"The label {shown(value)} reads like a missing value: leave it empty, or use "
                "None. If it is a class of its own, declare the classes."
            )
        if bare != value and bare in known:
            raise DataError(
                f"The label {shown(value)} differs from {shown(bare)} only by spaces: remove "
                "them. If it is a class of its own, declare the classes."
            )
    return np.unique(np.asarray(list(known)))


def owner_codes(table: Table) -> tuple[NDArray[np.int64] | None, Strings | None]:
    """Owners as codes in the order of their names, and the names; None for none.

    Names are compared without outer and repeated spaces and in Unicode form NFC. Two that
    then differ by upper and lower case alone are refused: one person protected as two would
    be protected half.

    Guarantees:
        How many documents an owner has, and where they stand, numbers nobody else. Splits and
        groups are drawn by these numbers.
    """
    import polars as pl

    values = table.frame["owner"]
    spellings = values.drop_nulls().unique().sort()
    if not len(spellings):
        return None, None
    names = [unicodedata.normalize("NFC", " ".join(name.split())) for name in spellings]
    keys = [name.casefold() for name in names]
    spelled = pl.DataFrame({"spelling": spellings, "name": names, "key": keys})
    missing = values.is_null() | (values.str.strip_chars() == "")
    if missing.any():
        row = int(missing.arg_max() or 0)
        raise DataError(
            "The 'owner' must be given for all documents or for none. "
            f"{table.who(row)} has none ({missing.sum()} in all). Name its owner; a document "
            "of nobody else can be its own owner."
        )
    persons = spelled.unique("name", maintain_order=True)
    alike = persons.filter(persons["key"].is_duplicated())
    if alike.height:
        pair = alike.filter(alike["key"] == alike["key"][0])["spelling"].sort()[:2]
        first, second = (
            f"{shown(name)} in {table.place(int((values == name).arg_max() or 0))}"
            for name in pair
        )
        raise DataError(
            "The names of two owners must differ by more than upper and lower case. Got "
            f"{first} and {second}. Write the name of one person in one way, and those of two "
            "persons in different ways."
        )
    sorted_names = persons["name"].sort()
    # By name: an order of appearance would follow how many documents owners have.
    of_spelling = codes(spelled["name"], sorted_names)
    return of_spelling[codes(values, spellings)], Strings(sorted_names)


def _check_ids(table: Table) -> None:
    ids = table.frame["id"]
    if ids.null_count():
        row = int(ids.is_null().arg_max() or 0)
        raise DataError(
            f"The 'id' of a document must not be empty. It is in {table.place(row)}. Give "
            "every document an id."
        )
    again = ~ids.is_first_distinct()
    if again.any():
        row = int(again.arg_max() or 0)
        first = int((ids == ids[row]).arg_max() or 0)
        raise DataError(
            f"The 'id' of a document must be its own. Got {shown(ids[row])} in "
            f"{table.place(first)} and again in {table.place(row)}. Rename or remove one of "
            "them."
        )


def _labels(
    table: Table, classes: Sequence[Any] | None
) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The class names, and the place of every document's label among them."""
    import polars as pl

    if "label" not in table.frame.columns:
        names = tuple(str(name) for name in label_set((), classes).tolist())
        return names, np.full(len(table), NO_LABEL, dtype=np.int64)
    values = table.frame["label"]
    different = table.labels
    if different is None:
        different = tuple(values.drop_nulls().unique().sort().to_list())
    names = tuple(str(name) for name in label_set(different, classes).tolist())
    labels = codes(values, pl.Series(names, dtype=pl.String))
    unknown = (labels == NO_LABEL) & values.is_not_null().to_numpy()
    if unknown.any():
        row = int(unknown.argmax())
        raise DataError(
            f"The 'label' of a document must be one of the declared classes {list(names)}. Got "
            f"{shown(values[row])} for {table.who(row)}. Correct the label or declare the "
            "class."
        )
    return names, labels
