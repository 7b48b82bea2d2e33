"""Tables that are in memory already, whichever library made them.

A frame is anything with named columns: of pandas, polars, pyarrow or Hugging Face ``datasets``,
or a mapping from names to columns. None of these libraries is imported here.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from privgcn.errors import DataError, shown

NO_LABEL = -1
"""The label of a document that has none."""

RESERVED = ("id", "text", "label", "split", "owner")
"""Columns of documents that have a meaning."""

NO_VALUE = ("nan", "null", "<na>", "n/a", "nat")
"""Labels that stand for a missing value in exports."""


def is_frame(value: Any) -> bool:
    """Whether a value has named columns."""
    if hasattr(value, "tocoo"):  # some sparse matrices are mappings
        return False
    named = hasattr(value, "columns") or hasattr(value, "column_names")
    return isinstance(value, Mapping) or (named and hasattr(value, "__getitem__"))


def column_names(frame: Any) -> list[str]:
    """The names of the columns."""
    return [str(name) for name in _names(frame)]


def column(frame: Any, name: str) -> list[Any]:
    """The values of a column, None where one is missing."""
    return plain_list(raw_column(frame, name))


def raw_column(frame: Any, name: str) -> Any:
    """A column as its library has it."""
    return frame[next(key for key in _names(frame) if str(key) == name)]


def _names(frame: Any) -> list[Any]:
    if isinstance(frame, Mapping):
        return list(frame)
    # A pyarrow table has columns without names, beside their names.
    return list(frame.column_names if hasattr(frame, "column_names") else frame.columns)


def plain_list(values: Any) -> list[Any]:
    """The values of a series, array or list, None where one is missing.

    Raises:
        DataError: It is a single text.
    """
    if isinstance(values, str):
        raise DataError("A column must have one value for each document. Got a single text.")
    for way in ("to_list", "to_pylist", "tolist"):
        if hasattr(values, way):
            values = getattr(values, way)()
            break
    return [None if is_missing(value) else value for value in values]


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or what pandas writes for a missing one."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def check_names(names: Sequence[str]) -> None:
    """Refuses columns that are nearly those of documents: they would be ignored.

    Raises:
        DataError: A name is written otherwise, or there is no ``text``.
    """
    for name in names:
        meant = name.strip().casefold()
        if meant in RESERVED and meant not in names:
            raise DataError(
                "The columns of documents must be written in lower case and without spaces. "
                f"Got {shown(name)}. Rename it to '{meant}'."
            )
    if "text" not in names:
        near = difflib.get_close_matches("text", names, n=1)
        which = shown(near[0]) if near else "the column with the texts"
        raise DataError(
            f"A frame of documents must have a column 'text'. Got "
            f"{', '.join(shown(name) for name in names[:20])}. Rename {which} to 'text'."
        )


def checked_texts(values: Any) -> tuple[str, ...]:
    """The texts, once each is known to be one.

    Raises:
        DataError: There is none, or one of them is missing or no text.
    """
    texts = plain_list(values)
    if not texts:
        raise DataError("There must be at least one document. Got none.")
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            got = "none" if text is None else f"{shown(text)}, of type {type(text).__name__}"
            raise DataError(
                f"The text of a document must be a string. Got {got} in row {row}. Give it a "
                "text or remove the document."
            )
    return tuple(texts)


def checked_ids(values: Any) -> list[str]:
    """Ids as strings, each its own.

    Raises:
        DataError: One is missing, or there twice.
    """
    ids = plain_list(values)
    seen: dict[str, int] = {}
    for row, value in enumerate(ids):
        if value is None:
            raise DataError(f"The 'id' of a document must not be empty. It is in row {row}.")
        first = seen.setdefault(str(value), row)
        if first != row:
            raise DataError(
                f"The 'id' of a document must be its own. Got {shown(value)} in row {first} "
                f"and again in row {row}. Rename or remove one of them."
            )
    return list(seen)


def checked_owners(values: Any) -> tuple[npt.NDArray[np.int64] | None, tuple[str, ...] | None]:
    """Owners as codes in the order of their names, and the names; None for none.

    Guarantees:
        How many documents an owner has, and where they stand, numbers nobody else. Splits and
        parts are drawn by these numbers.

    Raises:
        DataError: Some documents have one, and others have not.
    """
    owners = plain_list(values)
    if all(owner is None for owner in owners):
        return None, None
    if None in owners:
        raise DataError(
            "The 'owner' must be given for all documents or for none. That in row "
            f"{owners.index(None)} has none. A document of nobody else can be its own owner."
        )
    named = [str(owner) for owner in owners]
    names = tuple(sorted(set(named)))
    return codes(named, names), names


def label_set(values: Any, classes: Sequence[Any] | None = None) -> npt.NDArray[Any]:
    """The class labels with their own type: as declared, else sorted.

    Raises:
        DataError: Labels of different types, or a missing value written as a word.
    """
    if classes is not None:
        return np.asarray(list(classes))
    known = [value for value in plain_list(values) if value is not None]
    if not known:
        return np.asarray([], dtype=str)
    for value in known:
        if isinstance(value, list | tuple | dict | set | np.ndarray):
            raise DataError(
                f"The label of a document must be a single value. Got {shown(value)}. Give one "
                "class for each document."
            )
    texts = [isinstance(value, str) for value in known]
    if any(texts) != all(texts):
        odd = known[texts.index(not texts[0])]
        raise DataError(
            f"Labels must be of one type. Got {shown(known[0])} and {shown(odd)}. Write all "
            "of them as texts, or all as numbers."
        )
    for value in dict.fromkeys(known):
        if isinstance(value, str) and value.strip().casefold() in NO_VALUE:
            raise DataError(
                f"The label {shown(value)} reads like a missing value: use None. If it is a "
                "class of its own, declare the classes."
            )
    return np.unique(np.asarray(known))


def label_codes(values: Any, names: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The place of every label in ``names``; ``NO_LABEL`` where it is missing.

    Raises:
        DataError: A label is not among them.
    """
    place = {name: code for code, name in enumerate(names.tolist())}
    labels = plain_list(values)
    found = np.full(len(labels), NO_LABEL, dtype=np.int64)
    for row, value in enumerate(labels):
        if value is None:
            continue
        if value not in place:
            raise DataError(
                f"The 'label' of a document must be one of the classes {names.tolist()}. Got "
                f"{shown(value)} in row {row}. Correct the label or declare the class."
            )
        found[row] = place[value]
    return found


def codes(values: Iterable[str | None], names: Sequence[str]) -> npt.NDArray[np.int64]:
    """The place of every value in ``names``; ``NO_LABEL`` for None."""
    index: dict[str | None, int] = {name: code for code, name in enumerate(names)}
    index[None] = NO_LABEL
    return np.fromiter((index[value] for value in values), dtype=np.int64)
