"""``table1``: majority, non-private, private on the full graph, private on splits."""

from __future__ import annotations

from typing import Any

from privgcn.config import MODES
from privgcn.experiments.grid import Experiment, Grid
from privgcn.experiments.paper import emulation, headlines, layouts
from privgcn.experiments.paper.mapping import (
    Claim,
    emulated,
    ours,
    released,
    size_of,
    table1_claims,
)
from privgcn.experiments.paper.published import OPTIMIZERS, leaves, published
from privgcn.experiments.paper.tables import shown_name, table
from privgcn.experiments.results import (
    Options,
    Presentation,
    Results,
    best_of,
    cells,
    difference,
    figure,
    split_by_origin,
)
from privgcn.report import Figure, MeanStd, Table

FULL_EPSILON = 2
SPLIT_EPSILONS = (1, 2)


def experiment(options: Options) -> Experiment:
    """All runs of the table; the quick size leaves out the slow SGD splits."""
    grids: list[Grid] = []
    for dataset in options.datasets:
        for claim in _scores(dataset):
            split = claim.rule.run == {"recipe": "paper-split"}
            if not (options.quick and split and claim.optimizer == "sgd"):
                grids += Grid.of(claim.sound())
            if not split:
                grids += Grid.of(claim.emulated(), kind=emulation.KIND)
        grids += [_auto([dataset])]
    return Experiment("table1", grids, options.seeds)


def _scores(dataset: str) -> list[Claim]:
    return [claim for claim in table1_claims(dataset) if claim.rule.measure == "score"]


def _auto(datasets: list[str]) -> Grid:
    return Grid({"dataset": datasets, "recipe": ["auto"], "epsilon": list(SPLIT_EPSILONS)})


def present(results: Results, options: Options) -> Presentation:
    """The comparison, the paper's layout, and the inference modes of ``auto``."""
    tables: list[Table] = []
    figures: list[Figure] = []
    for suffix, datasets in split_by_origin(options.datasets):
        # Every published size is shown, also where the data for ours are not here.
        sizes = published()["dataset_sizes"]
        absent = [] if suffix else [name for name in sizes if name not in datasets]
        figures += _four_columns(results, datasets, suffix)
        tables += [
            table(
                "table1", (_row(results, c) for n in datasets for c in table1_claims(n)), suffix
            ),
            layouts.table_1(results, datasets, suffix),
            _modes(results, datasets, suffix),
            _sizes(results, [*datasets, *absent], suffix),
        ]
    tables += headlines.present(results, options)
    notes = [
        "Scores are micro F1 on the test documents, mean and sample standard deviation over "
        f"{len(options.seeds)} seeds. Where no inference mode is named, they follow the "
        "paper's protocol (full-graph), which no training guarantee covers.",
        "As released: the behaviour of the released code, which clips nothing and cuts no "
        "edge; it has no privacy guarantee. Done soundly: the paper's own method with joint "
        "clipping to norm 1, induced parts and exact accounting at the same epsilon. Auto: "
        "this package's recipe, every document protected.",
    ]
    return Presentation(tables, figures, [*notes, *results.short_notes()])


def _four_columns(results: Results, datasets: list[str], suffix: str) -> list[Figure]:
    """The comparison as bars, at the one setting that all four columns have."""
    names = ("majority class", "published", "as released", "done soundly", "auto")
    bars: dict[str, dict[str, MeanStd | None]] = {name: {} for name in names}
    for name in datasets:
        told = [
            leaves().get(f"table1.{name}.dp_full_eps{FULL_EPSILON}.{optimizer}")
            for optimizer in OPTIMIZERS
        ]
        both: list[dict[str, Any]] = [
            {"dataset": name, "optimizer": optimizer, "epsilon": FULL_EPSILON}
            for optimizer in OPTIMIZERS
        ]
        majority = results.majority(name)
        values = (
            None if majority is None else MeanStd(majority),
            best_of(MeanStd(one) for one in told if one is not None),
            best_of(released(results, **one) for one in both),
            best_of(results.train(recipe="paper-full", **one) for one in both),
            results.train(dataset=name, recipe="auto", epsilon=FULL_EPSILON),
        )
        for bar, value in zip(bars.values(), values, strict=True):
            bar[shown_name(name)] = value
    return figure(
        f"Private scores at epsilon {FULL_EPSILON}, the whole graph{suffix}",
        "dataset",
        bars,
        kind="bar",
        references=["majority class"],
        notes=(
            "The better of SGD and Adam. Published and as released have no guarantee; done "
            "soundly protects one whole graph, auto every document.",
        ),
    )


def _row(results: Results, claim: Claim) -> tuple[Any, ...]:
    found, told = ours(results, claim), claim.told
    auto = None
    if claim.epsilon is not None:
        auto = results.train(dataset=claim.dataset, recipe="auto", epsilon=claim.epsilon)
    head = (claim.dataset, claim.setting, claim.optimizer, claim.epsilon, told)
    scores = (emulated(results, claim), found, difference(found, told))
    return (*head, *scores, auto, difference(auto, told))


def _modes(results: Results, datasets: list[str], suffix: str) -> Table:
    recipes: list[tuple[str, int | None, dict[str, Any]]] = [
        ("plain", None, {"optimizer": "adam"}),
        *(("auto", epsilon, {"epsilon": epsilon}) for epsilon in SPLIT_EPSILONS),
    ]
    rows = [
        ((name, recipe, epsilon), {"dataset": name, "recipe": recipe, **point})
        for name in datasets
        for recipe, epsilon, point in recipes
    ]
    shown = cells(lambda p: results.train(**p), rows, [{"mode": mode} for mode in MODES])
    return table("modes", shown, suffix)


def _sizes(results: Results, datasets: list[str], suffix: str) -> Table:
    keys, rows = ("classes", "train", "test"), []
    for name in datasets:
        told = published()["dataset_sizes"].get(name, {})
        found = (size_of(results, name, key) for key in keys)
        rows.append((name, *(told.get(key) for key in keys), *found))
    return table("sizes", rows, suffix)
