"""``experiment-b``: epsilon by share of the training data, SGD and Adam, with the noise."""

from __future__ import annotations

from typing import Any

from privgcn.experiments.grid import Experiment, Grid
from privgcn.experiments.paper.epsilons import noise_table
from privgcn.experiments.paper.published import OPTIMIZERS, published
from privgcn.experiments.results import (
    Cell,
    Figure,
    Options,
    Presentation,
    Results,
    Table,
    figure,
    series,
    split_by_origin,
)

DATASETS = ("citeseer", "cora", "pubmed", "pokec", "reddit", "pokec-like", "reddit-like")
QUICK_DATASETS = ("cora",)
EPSILONS = (2, 5, 10, 137)
QUICK_EPSILONS = (2, 137)
QUICK_FRACTIONS = (0.25, 1.0)


def epsilons(options: Options) -> tuple[int, ...]:
    """Privacy budgets, in the paper's round numbers."""
    return QUICK_EPSILONS if options.quick else EPSILONS


def fractions(options: Options) -> tuple[float, ...]:
    """Shares of the training data."""
    every = tuple(published().claims["data_fractions_experiment_b"])
    return QUICK_FRACTIONS if options.quick else every


def experiment(options: Options) -> Experiment:
    """The paper's method done soundly, and ``auto``, over epsilons and shares."""
    axes: dict[str, Any] = {
        "dataset": list(options.datasets),
        "epsilon": list(epsilons(options)),
        "fraction": list(fractions(options)),
    }
    grids = [
        Grid({**axes, "recipe": ["paper-full"], "optimizer": list(OPTIMIZERS)}),
        Grid({**axes, "recipe": ["auto"]}),
    ]
    return Experiment("experiment-b", grids, options.seeds)


def methods() -> list[tuple[str, dict[str, Any]]]:
    """Name and point of each method that is shown."""
    sound = [
        (f"paper, sound, {optimizer.upper()}", {"recipe": "paper-full", "optimizer": optimizer})
        for optimizer in OPTIMIZERS
    ]
    return [*sound, ("auto", {"recipe": "auto"})]


def present(results: Results, options: Options) -> Presentation:
    """A table for each share, and per dataset one figure over epsilon."""
    tables: list[Table] = []
    figures: list[Figure] = []
    shares, budgets = fractions(options), epsilons(options)
    for suffix, datasets in split_by_origin(options.datasets):
        rows: list[list[Any]] = []
        for name in datasets:
            lines = []
            for label, method in methods():
                for share in shares:
                    cells: dict[int, Cell | None] = {
                        epsilon: results.train(
                            dataset=name, epsilon=epsilon, fraction=share, **method
                        )
                        for epsilon in budgets
                    }
                    rows.append([name, label, f"{share:.0%}", *cells.values()])
                    if share in (min(shares), max(shares)):
                        by_name = {str(epsilon): value for epsilon, value in cells.items()}
                        lines.append(series(f"{label}, {share:.0%} of the data", by_name))
            title = f"Experiment B: privacy budget and training data, {name}{suffix}"
            figures += figure(title, "epsilon", lines)
        tables.append(
            {
                "title": f"Experiment B: micro F1 by epsilon and training data{suffix}",
                "columns": ["dataset", "method", "data", *(f"epsilon {e}" for e in budgets)],
                "rows": rows,
                "notes": [
                    "Full graph as one part for the paper's method (unit: the graph), every "
                    "document its own part for auto (unit: the document). The share of each "
                    "class is drawn by label, which no guarantee covers."
                ],
            }
        )
    return Presentation([noise_table(), *tables], figures, results.short_notes())
