"""Frames of pandas, polars, pyarrow or ``datasets``, and mappings of columns, as one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from privgcn.data.table import ENDS, Table, must_be
from privgcn.errors import DataError, reason, shown


def is_frame(value: Any) -> bool:
    """Whether a value has named columns."""
    if hasattr(value, "tocoo"):  # some sparse matrices are mappings
        return False
    named = hasattr(value, "columns") or hasattr(value, "column_names")
    return isinstance(value, Mapping) or (named and hasattr(value, "__getitem__"))


def columns_of(frame: Any) -> dict[str, Any]:
    """The columns of a frame by name, each as its library has it."""
    named = getattr(frame, "column_names", None) or getattr(frame, "columns", frame)
    return {str(name): frame[name] for name in named}


def plain_list(values: Any) -> list[Any]:
    """The values of a series, array or list, None where one is missing."""
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


def table_of_columns(columns: Mapping[str, Any], name: str) -> Table:
    """Columns in memory, of any library, as a table."""
    import polars as pl

    lists = {column: plain_list(values) for column, values in columns.items()}
    count = len(next((lists[own] for own in ("text", *lists) if own in lists), ()))
    kind = "edges" if set(ENDS) & set(lists) else "documents"
    for column, values in lists.items():
        if len(values) != count:
            raise DataError(
                f"The '{column}' must be given for each of the {count} {kind}, one entry "
                f"for each. Got {len(values)}."
            )
        meaning = column.strip().casefold()
        for row, value in enumerate(values):
            if must := must_be(meaning, value):
                raise DataError(
                    f"The '{meaning}' must be {must}. Got {shown(value)}, of type "
                    f"{type(value).__name__}, in row {row}. Convert the column."
                )
    texts = {n: [None if v is None else str(v) for v in own] for n, own in lists.items()}
    try:
        frame = pl.DataFrame(texts, schema=dict.fromkeys(texts, pl.String))
    except UnicodeEncodeError as error:
        raise DataError(
            f"{name} must hold texts that can be written as UTF-8. Got half a character "
            f"({reason(error)}). Remove it."
        ) from None
    return Table(frame, np.arange(count), name)
