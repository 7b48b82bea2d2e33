"""``as-released``: the released code's behaviour, and why it gives the published scores."""

from __future__ import annotations

from itertools import product
from typing import Any

from privgcn.config import recipe_settings
from privgcn.experiments.grid import Experiment, Grid
from privgcn.experiments.paper import emulation
from privgcn.experiments.paper.comparison import EPSILONS, NEAR, agree
from privgcn.experiments.paper.emulation import LEARNING_RATES, SPLIT_LEARNING_RATES
from privgcn.experiments.paper.mapping import Claim, emulated, ours, released, table1_claims
from privgcn.experiments.paper.published import OPTIMIZERS, read_table
from privgcn.experiments.paper.tables import SHOWN_OPTIMIZERS, table
from privgcn.experiments.results import (
    Options,
    Presentation,
    Results,
    difference,
    figure,
    mean_of,
    split_by_origin,
)
from privgcn.report import Figure, Table

LEAST_SEEDS = 10
"""A random walk differs by 0.05 from seed to seed; ten seeds pin its mean to 0.015."""

RATES = (0.01, 0.1, 1.0, 10.0, 100.0)


def _claims(dataset: str, options: Options) -> list[Claim]:
    """The private scores of table 1; the quick size has the full graph alone."""
    private = [claim for claim in table1_claims(dataset) if claim.epsilon is not None]
    return [
        c for c in private if not (options.quick and c.rule.run == {"recipe": "paper-split"})
    ]


def experiment(options: Options) -> Experiment:
    """The full graph at every epsilon, the learning rates, and ten "subgraphs"."""
    base: dict[str, Any] = {"dataset": options.datasets, "optimizer": OPTIMIZERS}
    tuned: dict[str, Any] = {**base, "epsilon": [2]}
    grids = [Grid({**base, "recipe": ["paper-full"], "epsilon": [2]})]
    for dataset in options.datasets:
        points = [claim.emulated() for claim in _claims(dataset, options)]
        grids += Grid.of(*points, kind=emulation.KIND)
    if not options.quick:
        changes = [{"training.learning_rate": rate} for rate in RATES]
        grids += [
            Grid({**base, "epsilon": EPSILONS}, kind=emulation.KIND),
            Grid({**tuned, "learning_rate": RATES, "parts": [1, 10]}, kind=emulation.KIND),
            Grid({**tuned, "recipe": ["paper-full"], "changes": changes}),
        ]
    return Experiment("as-released", grids, options.seeds)


def present(results: Results, options: Options) -> Presentation:
    """Published, emulated and sound scores side by side."""
    tables: list[Table] = []
    figures: list[Figure] = []
    sound, rate = (
        recipe_settings("paper-split", "adam").training.learning_rate,
        SPLIT_LEARNING_RATES["adam"],
    )
    for suffix, datasets in split_by_origin(options.datasets):
        rows = (_row(results, claim) for n in datasets for claim in _claims(n, options))
        tables.append(
            table("as-released", rows, suffix, near=NEAR, sound_rate=sound, rate=rate)
        )
        if options.quick:
            continue
        tables.append(_rates(results, datasets, suffix))
        for name in datasets:
            lines = {
                f"{SHOWN_OPTIMIZERS[o]}, as released": {
                    str(e): released(results, dataset=name, optimizer=o, epsilon=e)
                    for e in EPSILONS
                }
                for o in OPTIMIZERS
            }
            title = f"As released: the noise hardly matters, {name}{suffix}"
            base = results.majority(name)
            figures += figure(title, "claimed epsilon", lines, majority=base)
    notes = [
        "This emulation is not private and cannot make a statement. Its learning rates are "
        f"{LEARNING_RATES['sgd']:g} for SGD, and for Adam {LEARNING_RATES['adam']:g} on the "
        f"full graph and {SPLIT_LEARNING_RATES['adam']:g} on ten parts."
    ]
    tables.append(differences())
    return Presentation(tables, figures, [*notes, *results.short_notes()])


def differences() -> Table:
    """Where the paper's text, its released code and this reproduction differ."""
    every = read_table("differences.toml")["difference"]
    names = ("what", "paper", "released", "here", "shown")
    return table("differences", (tuple(one[name] for name in names) for one in every))


def _row(results: Results, claim: Claim) -> tuple[Any, ...]:
    like, told = emulated(results, claim), claim.told
    mean = mean_of(like)
    near = None if mean is None or told is None else agree(mean, told, NEAR)
    setting = claim.setting.removeprefix("private, ")
    head = (claim.dataset, setting, claim.optimizer, claim.epsilon, told)
    return (*head, like, difference(like, told), near, ours(results, claim))


def _rates(results: Results, datasets: list[str], suffix: str) -> Table:
    rows = []
    for name, optimizer, rate in product(datasets, OPTIMIZERS, RATES):
        point: dict[str, Any] = {"dataset": name, "optimizer": optimizer, "epsilon": 2}
        changes = {"training.learning_rate": rate}
        scores = (
            released(results, **point, learning_rate=rate),
            released(results, **point, learning_rate=rate, parts=10),
            results.train(**point, recipe="paper-full", changes=changes),
        )
        rows.append((name, optimizer, rate, *scores))
    return table("rates", rows, suffix)
