"""``hard-cases``: do the baseline's errors stay errors, with less data and with noise?

A hard case is a test document that the non-private model with all data gets wrong. Shown is
the share of hard cases that another setting gets wrong too. The runs are those of
experiments A and B; the emulation of the released code stands beside them because the
paper's figure is about its behaviour.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privgcn.experiments.grid import Experiment, Grid
from privgcn.experiments.paper import emulation
from privgcn.experiments.paper.comparison import compared, compared_table
from privgcn.experiments.paper.curves import epsilons, fractions
from privgcn.experiments.paper.mapping import baseline, claims, kept_errors
from privgcn.experiments.paper.tables import table
from privgcn.experiments.predictions import confusion, errors_spread
from privgcn.experiments.results import (
    PAPER_MODE,
    Options,
    Presentation,
    Results,
    View,
    split_by_origin,
)
from privgcn.experiments.tasks import Point
from privgcn.report import MeanStd, Table

_MOST_CLASSES = 12
_MOST_MISTAKES = 15
_SHARE = "share of hard cases that stay errors"

_PLAIN: dict[str, Point] = {
    "ours": {"optimizer": "sgd", "recipe": "plain"},
    "as released": {"optimizer": "sgd", "epsilon": None},
}
_METHODS: dict[str, tuple[str, Point]] = {
    "SGD, as released": (emulation.KIND, {"optimizer": "sgd"}),
    "SGD, done soundly": ("train", {"optimizer": "sgd", "recipe": "paper-full"}),
    "auto": ("train", {"recipe": "auto"}),
}


def experiment(options: Options) -> Experiment:
    """Plain SGD over data shares; SGD-DP (sound, as released) and auto over epsilons."""
    shares: dict[str, Any] = {
        "dataset": options.datasets,
        "optimizer": ["sgd"],
        "fraction": fractions(options),
    }
    grids = [
        Grid({**shares, "recipe": ["plain"]}),
        Grid({**shares, "epsilon": [None]}, emulation.KIND),
    ]
    for kind, point in _METHODS.values():
        axes: dict[str, Any] = {"dataset": options.datasets, "epsilon": epsilons(options)}
        grids.append(Grid({**axes, **{name: [v] for name, v in point.items()}}, kind))
    return Experiment("hard-cases", grids, options.seeds)


def present(results: Results, options: Options) -> Presentation:
    """Shares over data and over noise, and the confusion matrices of the appendix."""
    made = Presentation([], [], [])
    for suffix, datasets in split_by_origin(options.datasets):
        for view in (_over_data(results, options), _over_noise(results, options)):
            table, figures = view.show(datasets, suffix)
            made.tables.append(table)
            made.figures.extend(figures)
        for name in datasets:
            made.tables.extend(_confusions(results, options, name, suffix))
    if "cora" in options.datasets:
        title = "Hard cases of Cora: figures named in the running text"
        told = claims("text_claims.hard_cases_cora")
        made.tables.append(compared_table(title, compared(results, told)))
    made.notes.extend(results.short_notes())
    return made


def _over_data(results: Results, options: Options) -> View:
    shares = [share for share in fractions(options) if share < 1.0]
    return View(
        form=table("hard-cases-data"),
        rows=lambda names: [
            ((name, label), {**point, "dataset": name})
            for name in names
            for label, point in _PLAIN.items()
        ],
        columns={100 * share: {"fraction": share} for share in shares},
        column="{:.0f}%",
        measure=lambda point: kept_errors(
            results, "train" if "recipe" in point else emulation.KIND, point
        ),
        x_label="training data (%)",
        y_label=_SHARE,
        drawn=lambda name, label: (f"Hard cases without privacy, {label}", name),
    )


def _over_noise(results: Results, options: Options) -> View:
    def share(point: Mapping[str, Any]) -> MeanStd | None:
        kind, method = _METHODS[point["method"]]
        setting = {k: v for k, v in point.items() if k != "method"}
        return kept_errors(results, kind, {**setting, **method})

    return View(
        form=table("hard-cases-noise"),
        rows=lambda names: [
            ((name, label), {"dataset": name, "method": label})
            for name in names
            for label in _METHODS
        ],
        columns={str(epsilon): {"epsilon": epsilon} for epsilon in epsilons(options)},
        column="epsilon {}",
        measure=share,
        x_label="epsilon",
        y_label=_SHARE,
        drawn=lambda name, label: (f"Hard cases with noise, {name}", label),
    )


def _confusions(results: Results, options: Options, name: str, suffix: str) -> list[Table]:
    """Row-normalised confusion matrices, summed over seeds, and how far errors spread."""
    epsilon = epsilons(options)[0]
    released: Point = {"dataset": name, "optimizer": "sgd"}
    shown: dict[str, tuple[str, Point]] = {
        "without privacy": ("train", baseline(name)),
        "as released, without noise": (emulation.KIND, {**released, "epsilon": None}),
        **{
            f"{label}, epsilon {epsilon}": (
                kind,
                {"dataset": name, "epsilon": epsilon, **method},
            )
            for label, (kind, method) in _METHODS.items()
        },
    }
    tables, spread = [], []
    for label, (kind, point) in shown.items():
        if found := results.of(kind, point):
            title = f"Confusion of {name}, {label}{suffix}"
            share = confusion(found, PAPER_MODE)
            spread.append((name, label, errors_spread(share)))
            tables.append(_confusion_table(title, found[0]["classes"], share.tolist()))
    return [*tables, table("spread", spread, f" of {name}{suffix}")] if spread else []


def _confusion_table(title: str, classes: list[str], share: list[list[float]]) -> Table:
    """All of it; with many classes the most frequent wrong answer of each, the worst first."""
    if len(classes) <= _MOST_CLASSES:
        columns = ("true class", *(f"predicted {c}" for c in classes))
        rows = tuple((c, *row) for c, row in zip(classes, share, strict=True))
        return Table(title=title, columns=columns, rows=rows, decimals=2)
    mistakes = []
    for number, row in enumerate(share):
        wrong = [-1.0 if column == number else one for column, one in enumerate(row)]
        most = max(wrong)
        mistakes.append((classes[number], row[number], classes[wrong.index(most)], most))
    mistakes.sort(key=lambda row: -row[3])
    return table("mistakes", mistakes[:_MOST_MISTAKES], title=title)
