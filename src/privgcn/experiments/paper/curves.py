"""Experiments A, B and C: scores over training data, privacy budget and number of parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from privgcn.config import PAPER_EPOCHS
from privgcn.experiments.grid import Experiment, Grid
from privgcn.experiments.paper import emulation
from privgcn.experiments.paper.comparison import EPSILONS, compared, compared_table
from privgcn.experiments.paper.epsilons import moments_epsilon, noise_table
from privgcn.experiments.paper.mapping import Claim, claims, emulated, ours, released
from privgcn.experiments.paper.published import OPTIMIZERS, published
from privgcn.experiments.paper.tables import SHOWN_OPTIMIZERS, table
from privgcn.experiments.results import (
    Options,
    Presentation,
    Results,
    View,
    cells,
    difference,
    split_by_origin,
)
from privgcn.report import MeanStd, Table

PARTS: tuple[int | str, ...] = (1, 2, 4, 6, 8, 10, 100, "each")
EPSILON = 2
"""Of experiment C where it has one alone."""

SPLIT_EPSILONS = (1, 2, 5)
"""Of experiment C; the paper draws three and names the first two."""

IMPOSSIBLE = 1
"""The epsilon that the paper calls impossible without splitting the graph."""


def fractions(options: Options, letter: str = "a") -> tuple[float, ...]:
    """Shares of the training data."""
    if options.quick:
        return (0.1, 0.5, 1.0) if letter == "a" else (0.25, 1.0)
    return tuple(published()["text_claims"][f"data_fractions_experiment_{letter}"])


def epsilons(options: Options) -> tuple[int, ...]:
    """Privacy budgets, in the paper's round numbers."""
    return (EPSILONS[0], EPSILONS[-1]) if options.quick else EPSILONS


def split_epsilons(options: Options) -> tuple[int, ...]:
    """Privacy budgets of experiment C."""
    return (EPSILON,) if options.quick else SPLIT_EPSILONS


def parts(options: Options) -> tuple[int | str, ...]:
    """Numbers of parts."""
    return (1, 10, "each") if options.quick else PARTS


def experiment_a(options: Options) -> Experiment:
    """Plain training for every share and optimiser, and what the text says of the curves."""
    axes: dict[str, Any] = {
        "dataset": options.datasets,
        "recipe": ["plain"],
        "optimizer": OPTIMIZERS,
        "fraction": fractions(options),
    }
    told = [claim.emulated() for claim in _text_claims(options)]
    return Experiment(
        "experiment-a", [Grid(axes), *Grid.of(*told, kind=emulation.KIND)], options.seeds
    )


def _text_claims(options: Options) -> list[Claim]:
    """The points of the learning curves that the running text names."""
    told = claims("text_claims.non_private_")
    return [
        claim
        for claim in told
        if claim.rule.released is not None and claim.dataset in options.datasets
    ]


def present_a(results: Results, options: Options) -> Presentation:
    """Curves, their values, and the figures that the running text names."""
    view = View(
        form=table("experiment-a"),
        rows=lambda names: [
            ((name, optimizer), {"dataset": name, "optimizer": optimizer, "recipe": "plain"})
            for optimizer in OPTIMIZERS
            for name in names
        ],
        columns={100 * share: {"fraction": share} for share in fractions(options)},
        column="{:.0f}%",
        measure=lambda point: results.train(**point),
        x_label="training data (%)",
        drawn=lambda name, optimizer: (
            f"Experiment A: learning curves without privacy, {SHOWN_OPTIMIZERS[optimizer]}",
            name,
        ),
    )
    made = _presented(view, options)
    made.tables.append(_degrees(results, options))
    if told := _text_claims(options):
        made.tables.append(_named_in_the_text(results, told))
    return replace(made, notes=results.short_notes())


def _degree(results: Results, point: Mapping[str, Any]) -> float | None:
    """The mean degree of the graph that a run trained on."""
    found = results.of("train", point)
    if not found:
        return None
    documents = found[0]["documents"]
    return round(2 * float(documents["train_links"]) / float(documents["train"]), 2)


def _degrees(results: Results, options: Options) -> Table:
    form, shares = table("degrees"), fractions(options)
    base = {"recipe": "plain", "optimizer": "adam"}
    rows = cells(
        lambda point: _degree(results, point),
        [((name,), {"dataset": name, **base}) for name in options.datasets],
        [{"fraction": share} for share in shares],
    )
    columns = (*form.columns, *(f"{share:.0%}" for share in shares))
    return form.model_copy(update={"columns": columns, "rows": rows})


def _presented(view: View, options: Options) -> Presentation:
    made = Presentation([], [], [])
    for suffix, datasets in split_by_origin(options.datasets):
        table, figures = view.show(datasets, suffix)
        made.tables.append(table)
        made.figures.extend(figures)
    return made


def _named_in_the_text(results: Results, told: list[Claim]) -> Table:
    rows = []
    for claim in told:
        found = ours(results, claim)
        head = (claim.dataset, f"{claim.point['fraction']:.0%}", claim.told)
        rows.append((*head, emulated(results, claim), found, difference(found, claim.told)))
    return table("experiment-a-text", rows)


def experiment_b(options: Options) -> Experiment:
    """The paper's method done soundly, and ``auto``, over epsilons and shares."""
    axes: dict[str, Any] = {
        "dataset": options.datasets,
        "epsilon": epsilons(options),
        "fraction": fractions(options, "b"),
    }
    whole = {**axes, "epsilon": [IMPOSSIBLE], "fraction": [1.0]}
    grids = [
        Grid({**axes, "recipe": ["paper-full"], "optimizer": OPTIMIZERS}),
        Grid({**axes, "recipe": ["auto"]}),
        Grid({**whole, "recipe": ["paper-full"], "optimizer": OPTIMIZERS}),
        Grid({**whole, "recipe": ["auto"]}),
    ]
    if not options.quick:
        released = {"dataset": options.datasets, "optimizer": OPTIMIZERS}
        grids.append(Grid({**released, "epsilon": [IMPOSSIBLE]}, emulation.KIND))
    return Experiment("experiment-b", grids, options.seeds)


def methods() -> dict[str, dict[str, Any]]:
    """Name and point of each method of experiment B."""
    sound = {
        f"paper, sound, {SHOWN_OPTIMIZERS[optimizer]}": {
            "recipe": "paper-full",
            "optimizer": optimizer,
        }
        for optimizer in OPTIMIZERS
    }
    return {**sound, "auto": {"recipe": "auto"}}


def present_b(results: Results, options: Options) -> Presentation:
    """The noise, a table of scores, and per dataset one figure over epsilon."""
    shares = {f"{share:.0%}": share for share in fractions(options, "b")}
    ends = (next(iter(shares)), list(shares)[-1])
    view = View(
        form=table("experiment-b"),
        rows=lambda names: [
            ((name, label, percent), {"dataset": name, "fraction": share, **method})
            for name in names
            for label, method in methods().items()
            for percent, share in shares.items()
        ],
        columns={
            str(epsilon): {"epsilon": epsilon} for epsilon in (IMPOSSIBLE, *epsilons(options))
        },
        column="epsilon {}",
        measure=lambda point: results.train(**point),
        x_label="epsilon",
        drawn=lambda name, label, share: (
            (
                f"Experiment B: privacy budget and training data, {name}",
                f"{label}, {share} of the data",
            )
            if share in ends
            else None
        ),
        majority=results.majority,
    )
    made = _presented(view, options)
    rows = [
        (name, optimizer, *_at_epsilon_1(results, name, optimizer))
        for name in options.datasets
        for optimizer in OPTIMIZERS
    ]
    tables = [noise_table(), *made.tables, table("epsilon-1", rows)]
    return Presentation(tables, made.figures, results.short_notes())


def _at_epsilon_1(results: Results, name: str, optimizer: str) -> tuple[Any, ...]:
    """The full graph at epsilon 1: the noise, the paper's own epsilon of it, and scores."""
    steps = PAPER_EPOCHS[optimizer]  # type: ignore[index]
    noise = emulation.claimed_noise(optimizer, float(IMPOSSIBLE), 1, steps)
    point: dict[str, Any] = {"dataset": name, "optimizer": optimizer, "epsilon": IMPOSSIBLE}
    return (
        noise,
        round(moments_epsilon(noise, steps), 4),
        released(results, **point),
        results.train(recipe="paper-full", **point),
        results.train(dataset=name, recipe="auto", epsilon=IMPOSSIBLE),
        results.majority(name),
    )


def experiment_c(options: Options) -> Experiment:
    """Plain and private training for every number of parts.

    The quick size trains with Adam only: SGD takes four times as many epochs.
    """
    base: dict[str, Any] = {
        "dataset": options.datasets,
        "optimizer": ["adam"] if options.quick else OPTIMIZERS,
        "parts": parts(options),
    }
    grids = [
        Grid({**base, "recipe": ["plain"]}),
        Grid({**base, "recipe": ["paper-split"], "epsilon": split_epsilons(options)}),
    ]
    return Experiment("experiment-c", grids, options.seeds)


def present_c(results: Results, options: Options) -> Presentation:
    """Curves over the number of parts, their values, and the named figures."""
    kinds: dict[str, dict[str, Any]] = {
        "without privacy": {"recipe": "plain"},
        **{
            f"epsilon {epsilon}": {"recipe": "paper-split", "epsilon": epsilon}
            for epsilon in split_epsilons(options)
        },
    }
    auto = {"recipe": "auto", "epsilon": EPSILON}

    def score(point: Mapping[str, Any]) -> MeanStd | None:
        # Where table 1 has run the recipe auto, it stands in the last column.
        if point["recipe"] == "auto":
            whole = {k: v for k, v in point.items() if k != "parts"}
            return results.train(**whole) if point["parts"] == "each" else None
        return results.train(**point)

    view = View(
        form=table("experiment-c"),
        rows=lambda names: [
            *(
                ((name, kind, optimizer), {"dataset": name, "optimizer": optimizer, **point})
                for kind, point in kinds.items()
                for optimizer in OPTIMIZERS
                for name in names
            ),
            *(
                ((n, f"epsilon {EPSILON}, recipe auto", "sgd"), {"dataset": n, **auto})
                for n in names
            ),
        ],
        columns={str(number): {"parts": number} for number in parts(options)},
        measure=score,
        x_label="parts",
        drawn=lambda name, kind, optimizer: (
            (f"Experiment C: number of parts, {name}, {SHOWN_OPTIMIZERS[optimizer]}", kind)
            if kind in kinds
            else None
        ),
        majority=results.majority,
    )
    made = _presented(view, options)
    tables = [_known(table, len(view.form.columns)) for table in made.tables]
    named = (claim for claim in claims("text_claims") if "_splits." in claim.leaf)
    told = [claim for claim in named if claim.dataset in options.datasets]
    if told and not options.quick:
        title = "Experiment C: figures named in the running text"
        tables.append(compared_table(title, compared(results, told)))
    return Presentation(tables, made.figures, results.short_notes())


def _known(table: Table, heads: int) -> Table:
    """Without the rows of which nothing has run."""
    rows = tuple(row for row in table.rows if any(cell is not None for cell in row[heads:]))
    return table.model_copy(update={"rows": rows})
