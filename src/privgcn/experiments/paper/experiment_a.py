"""``experiment-a``: non-private learning curves over 10 % to 100 % of the training data."""

from __future__ import annotations

from typing import Any

from privgcn.experiments.grid import Experiment, Grid
from privgcn.experiments.paper.compared import PLAIN, Compared, emulated_reason
from privgcn.experiments.paper.published import OPTIMIZERS, published
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
QUICK_DATASETS = ("cora", "citeseer")
QUICK_FRACTIONS = (0.1, 0.5, 1.0)
_CLAIMED = ("citeseer", "pubmed")
_POINTS = ((0.1, "at_10_percent"), (1.0, "at_100_percent"))


def fractions(options: Options) -> tuple[float, ...]:
    """Shares of the training data."""
    every = tuple(published().claims["data_fractions_experiment_a"])
    return QUICK_FRACTIONS if options.quick else every


def experiment(options: Options) -> Experiment:
    """Plain training for every share and optimiser."""
    axes: dict[str, Any] = {
        "dataset": list(options.datasets),
        "recipe": ["plain"],
        "optimizer": list(OPTIMIZERS),
        "fraction": list(fractions(options)),
    }
    grids = [Grid(axes)]
    claimed = [name for name in _CLAIMED if name in options.datasets]
    if claimed:
        # What the running text says about these curves, in the released code's behaviour.
        like: dict[str, list[Any]] = {
            "dataset": claimed,
            "optimizer": ["sgd"],
            "epsilon": [None],
        }
        grids.append(Grid({**like, "fraction": [0.1, 1.0]}, kind="as-released"))
    return Experiment("experiment-a", grids, options.seeds)


def curve(
    results: Results, dataset: str, optimizer: str, options: Options
) -> dict[float, Cell | None]:
    """Scores by share of the training data."""
    return {
        share: results.train(
            dataset=dataset, recipe="plain", optimizer=optimizer, fraction=share
        )
        for share in fractions(options)
    }


def present(results: Results, options: Options) -> Presentation:
    """Curves, their values, and the figures that the running text names."""
    tables: list[Table] = []
    figures: list[Figure] = []
    shares = fractions(options)
    for suffix, datasets in split_by_origin(options.datasets):
        rows: list[list[Any]] = []
        for optimizer in OPTIMIZERS:
            lines = []
            for name in datasets:
                cells = curve(results, name, optimizer, options)
                rows.append([name, optimizer, *cells.values()])
                percent = {100 * share: value for share, value in cells.items()}
                lines.append(series(name, percent))
            title = (
                f"Experiment A: learning curves without privacy, {optimizer.upper()}{suffix}"
            )
            figures += figure(title, "training data (%)", lines)
        tables.append(
            {
                "title": f"Experiment A: micro F1 by share of training data{suffix}",
                "columns": ["dataset", "optimiser", *(f"{share:.0%}" for share in shares)],
                "rows": rows,
                "notes": [
                    "The same share is drawn from every class, as in the paper; the drawn "
                    "documents are the same for all seeds."
                ],
            }
        )
    claims = _claims(results, options)
    tables += [claims] if claims["rows"] else []
    return Presentation(tables, figures, results.short_notes())


def compared(results: Results) -> list[Compared]:
    """The figures of the running text beside ours, whatever was run."""
    rows = []
    for dataset in _CLAIMED:
        claim = f"non_private_{dataset}_sgd"
        for share, key in _POINTS:
            point: dict[str, Any] = {"dataset": dataset, "optimizer": "sgd"}
            point["fraction"] = share
            told = float(published().claims[claim][key])
            ours = results.train(recipe="plain", **point)
            like = results.released(epsilon=None, **point)
            base = results.majority(dataset)
            reason = emulated_reason(dataset, ours, told, like, PLAIN, base=base)
            setting = f"running text: non-private, {share:.0%} of the training data"
            leaves = (f"text_claims.{claim}.{key}",)
            rows.append(Compared(leaves, dataset, setting, told, ours, reason, "sgd"))
    return rows


def _claims(results: Results, options: Options) -> Table:
    """The figures of the running text beside ours."""
    rows: list[list[Any]] = []
    for dataset in _CLAIMED:
        told = published().claims[f"non_private_{dataset}_sgd"]
        if dataset not in options.datasets:
            continue
        for share, key in _POINTS:
            ours = results.train(
                dataset=dataset, recipe="plain", optimizer="sgd", fraction=share
            )
            like = results.released(
                dataset=dataset, optimizer="sgd", epsilon=None, fraction=share
            )
            row = [dataset, f"{share:.0%}", told[key], like, ours]
            rows.append([*row, difference(ours, told[key])])
    return {
        "title": "Experiment A: figures named in the running text, SGD",
        "columns": [
            "dataset",
            "training data",
            "published",
            "as released",
            "ours",
            "ours less published",
        ],
        "rows": rows,
        "notes": [
            "As released: weight decay 0.01, the iterate at which training stopped, dropout in "
            "the first epoch only, test documents in the training graph."
        ],
    }
