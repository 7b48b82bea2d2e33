"""``experiment-c``: into how many parts the graph is cut, without and with privacy."""

from __future__ import annotations

from typing import Any

from privgcn.experiments.grid import Experiment, Grid
from privgcn.experiments.published import OPTIMIZERS, published
from privgcn.experiments.results import (
    Cell,
    Figure,
    Options,
    Presentation,
    Results,
    Table,
    difference,
    figure,
    series,
    split_by_origin,
)

DATASETS = ("citeseer", "cora", "pubmed", "pokec", "reddit", "pokec-like", "reddit-like")
QUICK_DATASETS = ("cora",)
EPSILON = 2
PARTS: tuple[int | str, ...] = (1, 2, 4, 6, 8, 10, 100, "each")
QUICK_PARTS: tuple[int | str, ...] = (1, 10, "each")


def parts(options: Options) -> tuple[int | str, ...]:
    """Numbers of parts."""
    return QUICK_PARTS if options.quick else PARTS


def experiment(options: Options) -> Experiment:
    """Plain and private training for every number of parts.

    The quick size trains with Adam only: SGD takes four times as many epochs.
    """
    base: dict[str, Any] = {
        "dataset": list(options.datasets),
        "optimizer": ["adam"] if options.quick else list(OPTIMIZERS),
        "parts": list(parts(options)),
    }
    grids = [
        Grid({**base, "recipe": ["plain"]}),
        Grid({**base, "recipe": ["paper-split"], "epsilon": [EPSILON]}),
    ]
    return Experiment("experiment-c", grids, options.seeds)


def present(results: Results, options: Options) -> Presentation:
    """Curves over the number of parts, their values, and the named figures."""
    tables: list[Table] = []
    figures: list[Figure] = []
    numbers = parts(options)
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("without privacy", {"recipe": "plain"}),
        (f"epsilon {EPSILON}", {"recipe": "paper-split", "epsilon": EPSILON}),
    ]
    for suffix, datasets in split_by_origin(options.datasets):
        rows: list[list[Any]] = []
        for label, point in kinds:
            for optimizer in OPTIMIZERS:
                lines = []
                for name in datasets:
                    cells: dict[int | str, Cell | None] = {
                        number: results.train(
                            dataset=name, optimizer=optimizer, parts=number, **point
                        )
                        for number in numbers
                    }
                    if any(value is not None for value in cells.values()):
                        rows.append([name, label, optimizer, *cells.values()])
                    lines.append(series(name, {str(n): value for n, value in cells.items()}))
                title = f"Experiment C: number of parts, {label}, {optimizer.upper()}{suffix}"
                figures += figure(title, "parts", lines)
        tables.append(
            {
                "title": f"Experiment C: micro F1 by number of parts{suffix}",
                "columns": ["dataset", "privacy", "optimiser", *map(str, numbers)],
                "rows": rows,
                "notes": [
                    "With privacy, the unit is the graph for one part, the part for 2 to 100 "
                    "parts (each sampled with probability one over their number), and the "
                    "document for each: the guarantees differ, which the paper's figure does "
                    "not say."
                ],
            }
        )
    named = _claims(results, options)
    return Presentation([*tables, *([named] if named["rows"] else [])], figures, [])


def _claims(results: Results, options: Options) -> Table:
    told = published().claims["non_private_pubmed_sgd_splits"]
    rows: list[list[Any]] = []
    if "pubmed" in options.datasets and not options.quick:
        for number, key in ((1, "splits_1"), (100, "splits_100")):
            ours = results.train(
                dataset="pubmed", recipe="plain", optimizer="sgd", parts=number
            )
            rows.append(["pubmed", number, told[key], ours, difference(ours, told[key])])
    return {
        "title": "Experiment C: figures named in the running text, SGD without privacy",
        "columns": ["dataset", "parts", "published", "ours", "ours less published"],
        "rows": rows,
        "notes": [],
    }
