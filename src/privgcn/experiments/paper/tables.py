"""The tables of the paper's experiments: words from ``tables.toml``, rows from records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from privgcn.experiments.paper.published import published, read_table
from privgcn.report import Table

SHOWN_OPTIMIZERS = {"sgd": "SGD", "adam": "Adam"}
"""Optimisers as the paper writes them."""

_NAMES = {"citeseer": "CiteSeer", "pubmed": "PubMed", "mnist": "MNIST"}


def in_order(datasets: Iterable[str]) -> list[str]:
    """Datasets in the paper's order; then those that stand in for them, then others."""
    paper = list(published()["dataset_sizes"])

    def place(name: str) -> tuple[bool, int, str]:
        base = name.partition("-")[0]
        return name not in paper, paper.index(base) if base in paper else len(paper), name

    return sorted(datasets, key=place)


def shown_name(dataset: str) -> str:
    """A dataset as the paper writes it."""
    base, dash, kind = dataset.partition("-")
    return f"{_NAMES.get(base, base.capitalize())}{dash}{kind}"


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
