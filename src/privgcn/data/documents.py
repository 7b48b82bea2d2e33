"""The rules for documents: ids, texts, labels, owners, splits.

Files and frames alike become one ``Table``; here is what its columns must hold, each rule
once. What breaks a rule goes to ``Problems``.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privgcn.data.corpus import (
    NO_LABEL,
    OUTSIDE,
    SPLIT_NAMES,
    Strings,
    owners_on_several_sides,
    random_split,
)
from privgcn.data.problems import Problems
from privgcn.data.table import RESERVED, Table
from privgcn.errors import DataError, shown

if TYPE_CHECKING:
    import polars as pl

_NO_VALUE = ("nan", "null", "<na>", "n/a", "nat")
_USER_SPLITS = SPLIT_NAMES[:3]
_AT_ONCE = 1 << 20


def document_fields(
    table: Table, problems: Problems, *, classes: Sequence[Any] | None, seed: int
) -> dict[str, Any]:
    """The fields of a ``Corpus`` that a table of documents has; rows can stand in for ids."""
    import polars as pl

    frame = table.frame
    ids = pl.int_range(len(table), eager=True).cast(pl.String)
    if "id" in frame.columns:
        ids = frame["id"]
        problems.rows(
            ids.is_null(),
            "The 'id' of a document must not be empty",
            partial(table.value, "id"),
            "Give every document an id",
        )
        problems.rows(
            ~ids.is_first_distinct() & ids.is_not_null(),
            "The 'id' of a document must be its own",
            lambda row: (
                f"{shown(ids[row])} in {table.place((ids == ids[row]).arg_max() or 0)} "
                f"and again in {table.place(row)}"
            ),
            "Rename or remove one of them",
        )
    owners, owner_names = owner_codes(table, problems)
    split = _split(table, owners, owner_names, seed, problems)
    names, labels = _labels(table, classes, problems)
    missing = int((labels == NO_LABEL).sum())
    if missing and names:
        problems.note(
            f"{missing:,} documents have no label: they count as units, and teach no class"
        )
    others = [column for column in frame.columns if column not in RESERVED]
    return {
        "ids": Strings.of([ids]),
        "labels": labels,
        "classes": names,
        "split": split,
        "owners": owners,
        "owner_names": owner_names,
        "columns": {name: Strings.of([frame[name]]) for name in others},
    }


def _split(
    table: Table, owners: Any, owner_names: Any, seed: int, problems: Problems
) -> NDArray[np.int8]:
    import polars as pl

    if "split" not in table.frame.columns:
        return random_split(len(table), seed, owners)
    values = table.frame["split"]
    split = Names(pl.Series(_USER_SPLITS)).codes(values).astype(np.int8)
    problems.rows(
        split < 0,
        f"The 'split' of a document must be one of {', '.join(_USER_SPLITS)}, in lower "
        "case and without spaces",
        lambda row: f"{shown(values[row] or '')} for {table.value('id', row)}",
        "Correct it, or have a random split with --split random",
    )
    split[split < 0] = OUTSIDE
    if owners is not None and len(across := owners_on_several_sides(owners, split)):
        problems.note(
            f"{len(across):,} owners have documents on more than one side of the split",
            *(shown(owner_names[int(at)]) for at in across[:3]),
            remedy="Unit person needs a split by owner: --split random draws one",
            option=("split", "random"),
        )
    return split


class Names:
    """Finds names by their hashes; of one that is there twice, the first."""

    def __init__(self, names: pl.Series) -> None:
        self.names = names
        # Until no two names share a hash.
        for self._seed in itertools.count():
            hashes = names.hash(self._seed).to_numpy()
            self._order = np.argsort(hashes, kind="stable")
            self._hashes = hashes[self._order]
            again = np.flatnonzero(self._hashes[1:] == self._hashes[:-1])
            if names[self._order[again]].eq_missing(names[self._order[again + 1]]).all():
                break

    def codes(self, values: pl.Series) -> NDArray[np.int64]:
        """The place of every value among the names; -1 for one not there."""
        codes = np.full(len(values), NO_LABEL, dtype=np.int64)
        for begin in range(0, len(values) if len(self.names) else 0, _AT_ONCE):
            some = values[begin : begin + _AT_ONCE]
            hashes = some.hash(self._seed).to_numpy()
            # In their order the search goes through memory once.
            order = np.argsort(hashes)
            near = np.empty(len(some), dtype=np.int64)
            near[order] = np.searchsorted(self._hashes, hashes[order])
            place = self._order[np.minimum(near, len(self._order) - 1)]
            same = (self.names[place] == some).fill_null(value=False).to_numpy()
            codes[begin : begin + len(some)][same] = place[same]
        return codes


def label_set(labels: Sequence[Any], classes: Sequence[Any] | None = None) -> NDArray[Any]:
    """The class labels with their type: as declared, else numbers by size, others by name."""
    if classes is not None:
        names = [str(name) for name in classes]
        if isinstance(classes, str) or len(names) < 2 or len(set(names)) != len(names):
            raise DataError(f"The 'classes' must be at least two different names. Got {names}.")
        return np.asarray(list(classes))
    different = list(dict.fromkeys(labels))
    if len({isinstance(value, str) for value in different}) > 1:
        some = ", ".join(f"{value!r:.40}" for value in different[:5])
        raise DataError(f"Labels must be of one type, all texts or all numbers. Got {some}.")
    try:
        different.sort(key=lambda value: (float(value), str(value)))
    except ValueError:
        different.sort()
    return np.asarray(different) if different else np.asarray([], dtype=str)


def owner_codes(
    table: Table, problems: Problems
) -> tuple[NDArray[np.int64] | None, Strings | None]:
    """Owners as codes in the order of their names, and the names; None for none.

    Names are compared without outer and repeated spaces and in Unicode form NFC. Two that
    read alike are refused: one person protected as two would be protected half.

    Guarantees:
        How many documents an owner has, and where they stand, numbers nobody else. Splits and
        groups are drawn by these numbers.
    """
    import polars as pl

    if "owner" not in table.frame.columns:
        return None, None
    values = table.frame["owner"]
    spellings = values.drop_nulls().unique().sort()
    if not len(spellings):
        return None, None
    spelled = pl.DataFrame({"spelling": spellings, "name": [_plain(s) for s in spellings]})
    spelled = spelled.with_columns(key=pl.Series([_as_read(n) for n in spelled["name"]]))
    problems.rows(
        values.is_null() | (values.str.strip_chars() == ""),
        "The 'owner' must be given for all documents or for none",
        lambda row: f"none for {table.value('id', row)}",
        "Name the owner; a document of nobody else can be its own owner",
    )
    values = values.fill_null(spellings[0])
    persons = spelled.unique("name", maintain_order=True)
    alike = persons.filter(persons["key"].is_duplicated()).group_by("key", maintain_order=True)
    pairs = [group["spelling"].sort()[:2].to_list() for _, group in alike]
    problems.rows(
        [True] * len(pairs),
        "The names of two owners must differ by more than upper and lower case "
        "or invisible characters",
        lambda row: " and ".join(
            f"{shown(name)} in {table.place((values == name).arg_max() or 0)}"
            for name in pairs[row]
        ),
        "Write the name of one person in one way, and those of two in different ways",
    )
    if spelled.height > persons.height:
        problems.note(
            f"{spelled.height - persons.height:,} names of owners differ from others by spaces "
            "or Unicode form alone: each counts as one person"
        )
    sorted_names = persons["name"].sort()
    # By name: an order of appearance would follow how many documents owners have.
    of_spelling = Names(sorted_names).codes(spelled["name"])
    return of_spelling[Names(spellings).codes(values)], Strings.of([sorted_names])


def _plain(name: str) -> str:
    """A name without outer and repeated spaces, in one Unicode form."""
    return unicodedata.normalize("NFC", " ".join(name.split()))


def _as_read(name: str) -> str:
    """A name without case, width and invisible characters, and 1 for 1.0."""
    compatible = unicodedata.normalize("NFKC", name)
    if not compatible.isprintable():
        compatible = "".join(letter for letter in compatible if letter.isprintable())
    return re.sub(r"^(\d+)\.0+$", r"\1", compatible.casefold())


def _labels(
    table: Table, classes: Sequence[Any] | None, problems: Problems
) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The class names, and the place of every document's label among them."""
    import polars as pl

    none = pl.repeat(None, len(table), dtype=pl.String, eager=True)
    values = table.frame.get_column("label", default=none)
    known = values.drop_nulls().unique().sort().to_list()
    names = [str(name) for name in label_set(known, classes).tolist()]
    if classes is None:
        problems.rows(
            [value.strip().casefold() in _NO_VALUE for value in names],
            "A label must not read like a missing value",
            lambda row: shown(names[row]),
            "Leave it empty, or use None. If it is a class of its own, declare the classes",
        )
        spellings = defaultdict(list)
        for value in known:
            spellings[_plain(value).casefold()].append(value)
        alike = [" and ".join(map(shown, same)) for same in spellings.values() if same[1:]]
        problems.rows(
            [True] * len(alike),
            "Labels must not differ only by spaces or upper and lower case",
            alike.__getitem__,
            "Write each in one way. If they are classes of their own, declare the classes",
        )
    labels = Names(pl.Series(names, dtype=pl.String)).codes(values)
    problems.rows(
        (labels == NO_LABEL) & values.is_not_null().to_numpy(),
        f"The 'label' of a document must be one of the declared classes {names}",
        lambda row: f"{shown(values[row])} for {table.value('id', row)}",
        "Correct the label or declare the class",
    )
    return tuple(names), labels
