"""The tables of the paper's experiments: words from ``tables.toml``, rows from records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from privgcn.experiments.paper.published import read_table
from privgcn.report import Table


def table(
    name: str,
    rows: Iterable[tuple[Any, ...]] = (),
    suffix: str = "",
    more_notes: Iterable[str] = (),
    **words: Any,
) -> Table:
    """A table by its name in ``tables.toml``; ``words`` fill the braces of its texts."""
    entry = read_table("tables.toml")[name]
    return Table(
        title=entry["title"].format(**words) + suffix,
        columns=tuple(column.format(**words) for column in entry["columns"]),
        rows=tuple(rows),
        notes=(*(note.format(**words) for note in entry.get("notes", ())), *more_notes),
        decimals=entry.get("decimals", 3),
    )
