"""``features``: does a richer representation lose less to privacy?

The paper compares bag of words, fastText and BERT on Pokec. Here: the same on real Pokec
where its dumps are, on the synthetic stand-in (words and encoder-like vectors), and on the
raw texts of Cora and CiteSeer with bag of words, GloVe averages and a frozen encoder.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from privgcn.experiments.grid import Experiment, Grid
from privgcn.experiments.paper.comparison import EPSILONS, not_run
from privgcn.experiments.paper.mapping import FEATURES
from privgcn.experiments.paper.published import OPTIMIZERS, leaves
from privgcn.experiments.paper.tables import table
from privgcn.experiments.results import (
    Options,
    Presentation,
    Results,
    best_of,
    difference,
    figure,
    mean_of,
    split_by_origin,
)
from privgcn.report import Figure, MeanStd, Table

# Feature kinds from simple to rich.
_KINDS: dict[str, tuple[str, ...]] = {"pokec": tuple(FEATURES), "pokec-like": ("bow", "given")}
_ENGLISH = ("bow", "word-vectors", "minilm")
# Kinds that no other package and no download is needed for, and that take seconds.
_QUICK = ("bow", "given", "static")


def epsilons(options: Options) -> tuple[int, ...]:
    """Privacy budgets."""
    return EPSILONS[:1] if options.quick else EPSILONS


def kinds(dataset: str, *, quick: bool = False) -> list[str]:
    """The feature kinds of a dataset, from simple to rich.

    Where the file or package of one is missing, its runs fail and say what to install. The
    quick size has kinds that need neither; static vectors stand for the encoders.
    """
    full = _KINDS.get(dataset, _ENGLISH)
    if not quick:
        return list(full)
    kinds = full if dataset in _KINDS else (*full, "static")
    return [kind for kind in kinds if kind in _QUICK]


def experiment(options: Options) -> Experiment:
    """Plain, the paper's method done soundly, and ``auto``, for every kind of features."""
    grids: list[Grid] = []
    for name in options.datasets:
        base: dict[str, Any] = {"dataset": [name], "features": kinds(name, quick=options.quick)}
        both, budgets = {**base, "optimizer": OPTIMIZERS}, epsilons(options)
        grids += [
            Grid({**both, "recipe": ["plain"]}),
            Grid({**both, "recipe": ["paper-full"], "epsilon": budgets}),
            Grid({**base, "recipe": ["auto"], "epsilon": budgets}),
        ]
    return Experiment("features", grids, options.seeds)


def present(results: Results, options: Options) -> Presentation:
    """Scores by feature kind, and what each kind keeps of its non-private score."""
    tables: list[Table] = []
    figures: list[Figure] = []
    groups = split_by_origin(options.datasets)
    if all(suffix for suffix, _ in groups):
        groups = [("", []), *groups]
    for suffix, datasets in groups:
        shown = [(n, kind) for n in datasets for kind in kinds(n, quick=options.quick)]
        for name in datasets:
            lines = {
                kind: _auto(results, options, name, kind)
                for kind in kinds(name, quick=options.quick)
            }
            title, base = f"Features under auto, {name}{suffix}", results.majority(name)
            figures += figure(title, "epsilon", lines, majority=base)
        if not suffix and "pokec" not in datasets:
            # Every published number is shown, also where the data for ours are not here.
            shown = [*(("pokec", kind) for kind in FEATURES), *shown]
        rows = (row for pair in shown for row in _rows(results, options, *pair))
        tables.append(table("features", rows, suffix))
    notes = []
    if "pokec" not in options.datasets:
        notes = [f"Pokec's rows hold the published scores alone; ours were {not_run('pokec')}."]
    return Presentation(tables, figures, [*notes, *results.short_notes()])


def _auto(
    results: Results, options: Options, name: str, kind: str
) -> dict[str, MeanStd | None]:
    return {
        str(epsilon): results.train(dataset=name, features=kind, recipe="auto", epsilon=epsilon)
        for epsilon in epsilons(options)
    }


def _rows(
    results: Results, options: Options, name: str, kind: str
) -> Iterator[tuple[Any, ...]]:
    point: dict[str, Any] = {"dataset": name, "features": kind}
    leaf = f"pokec_features.{FEATURES.get(kind)}" if name == "pokec" else ""
    best: float | None = None
    for optimizer in OPTIMIZERS:
        ours = results.train(recipe="plain", optimizer=optimizer, **point)
        best = best_of((best, mean_of(ours)))
        told = leaves().get(f"{leaf}.non_private.{optimizer}")
        gap = difference(ours, told)
        yield (name, kind, optimizer, None, told, ours, gap, None, None)
    by_budget = _auto(results, options, name, kind)
    for epsilon in epsilons(options):
        auto = by_budget[str(epsilon)]
        kept = auto.mean / best if auto is not None and best else None
        for optimizer in OPTIMIZERS:
            private = {"optimizer": optimizer, "epsilon": epsilon, **point}
            ours = results.train(recipe="paper-full", **private)
            told = leaves().get(f"{leaf}.dp.eps{epsilon}.{optimizer}")
            gap = difference(ours, told)
            yield (name, kind, optimizer, epsilon, told, ours, gap, auto, kept)
