"""Experiments A, B and C: scores over training data, privacy budget and number of parts."""

from __future__ import annotations

from typing import Any

from privgcn.experiments.grid import Experiment, Grid
from privgcn.experiments.paper import emulation
from privgcn.experiments.paper.comparison import EPSILONS, compared, compared_table
from privgcn.experiments.paper.epsilons import noise_table
from privgcn.experiments.paper.mapping import Claim, claims, emulated, ours
from privgcn.experiments.paper.published import OPTIMIZERS, published
from privgcn.experiments.results import (
    Matrix,
    Options,
    Presentation,
    Results,
    difference,
    figure,
    split_by_origin,
)
from privgcn.report import Figure, Table

PARTS: tuple[int | str, ...] = (1, 2, 4, 6, 8, 10, 100, "each")
EPSILON = 2
"""Of experiment C."""


def fractions(options: Options, letter: str = "a") -> tuple[float, ...]:
    """Shares of the training data."""
    if options.quick:
        return (0.1, 0.5, 1.0) if letter == "a" else (0.25, 1.0)
    return tuple(published()["text_claims"][f"data_fractions_experiment_{letter}"])


def epsilons(options: Options) -> tuple[int, ...]:
    """Privacy budgets, in the paper's round numbers."""
    return (EPSILONS[0], EPSILONS[-1]) if options.quick else EPSILONS


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
    tables: list[Table] = []
    figures: list[Figure] = []
    shares = {100 * share: {"fraction": share} for share in fractions(options)}
    for suffix, datasets in split_by_origin(options.datasets):
        matrix = Matrix.of(
            lambda point: results.train(recipe="plain", **point),
            [
                ((name, optimizer), {"dataset": name, "optimizer": optimizer})
                for optimizer in OPTIMIZERS
                for name in datasets
            ],
            shares,
        )
        for optimizer in OPTIMIZERS:
            figures += figure(
                f"Experiment A: learning curves without privacy, {optimizer.upper()}{suffix}",
                "training data (%)",
                matrix.lines(lambda n, _: n, lambda _, o, wanted=optimizer: o == wanted),
            )
        tables.append(
            Table(
                title=f"Experiment A: micro F1 by share of training data{suffix}",
                columns=("dataset", "optimiser", *(f"{share:.0f}%" for share in shares)),
                rows=matrix.cells(),
                notes=(
                    "The same share is drawn from every class, as in the paper; the drawn "
                    "documents are the same for all seeds.",
                ),
            )
        )
    if told := _text_claims(options):
        tables.append(_named_in_the_text(results, told))
    return Presentation(tables, figures, results.short_notes())


def _named_in_the_text(results: Results, told: list[Claim]) -> Table:
    rows = []
    for claim in told:
        found = ours(results, claim)
        head = (claim.dataset, f"{claim.point['fraction']:.0%}", claim.told)
        rows.append((*head, emulated(results, claim), found, difference(found, claim.told)))
    return Table(
        title="Experiment A: figures named in the running text, SGD",
        columns=(
            "dataset",
            "training data",
            "published",
            "as released",
            "ours",
            "ours less published",
        ),
        rows=tuple(rows),
        notes=(
            "As released: weight decay 0.01, the iterate at which training stopped, dropout in "
            "the first epoch only, test documents in the training graph.",
        ),
    )


def experiment_b(options: Options) -> Experiment:
    """The paper's method done soundly, and ``auto``, over epsilons and shares."""
    axes: dict[str, Any] = {
        "dataset": options.datasets,
        "epsilon": epsilons(options),
        "fraction": fractions(options, "b"),
    }
    grids = [
        Grid({**axes, "recipe": ["paper-full"], "optimizer": OPTIMIZERS}),
        Grid({**axes, "recipe": ["auto"]}),
    ]
    return Experiment("experiment-b", grids, options.seeds)


def methods() -> dict[str, dict[str, Any]]:
    """Name and point of each method of experiment B."""
    sound = {
        f"paper, sound, {optimizer.upper()}": {"recipe": "paper-full", "optimizer": optimizer}
        for optimizer in OPTIMIZERS
    }
    return {**sound, "auto": {"recipe": "auto"}}


def present_b(results: Results, options: Options) -> Presentation:
    """The noise, a table of scores, and per dataset one figure over epsilon."""
    tables = [noise_table()]
    figures: list[Figure] = []
    shares, budgets = fractions(options, "b"), epsilons(options)
    ends = [f"{share:.0%}" for share in (min(shares), max(shares))]
    for suffix, datasets in split_by_origin(options.datasets):
        matrix = Matrix.of(
            lambda point: results.train(**point),
            [
                (
                    (name, label, f"{share:.0%}"),
                    {"dataset": name, "fraction": share, **method},
                )
                for name in datasets
                for label, method in methods().items()
                for share in shares
            ],
            {str(epsilon): {"epsilon": epsilon} for epsilon in budgets},
        )
        for name in datasets:
            figures += figure(
                f"Experiment B: privacy budget and training data, {name}{suffix}",
                "epsilon",
                matrix.lines(
                    lambda _, label, share: f"{label}, {share} of the data",
                    lambda n, _, share, wanted=name: n == wanted and share in ends,
                ),
            )
        tables.append(
            Table(
                title=f"Experiment B: micro F1 by epsilon and training data{suffix}",
                columns=("dataset", "method", "data", *(f"epsilon {e}" for e in budgets)),
                rows=matrix.cells(),
                notes=(
                    "Full graph as one part for the paper's method (unit: the graph), every "
                    "document its own part for auto (unit: the document). The share of each "
                    "class is drawn by label, which no guarantee covers.",
                ),
            )
        )
    return Presentation(tables, figures, results.short_notes())


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
        Grid({**base, "recipe": ["paper-split"], "epsilon": [EPSILON]}),
    ]
    return Experiment("experiment-c", grids, options.seeds)


def present_c(results: Results, options: Options) -> Presentation:
    """Curves over the number of parts, their values, and the named figures."""
    tables: list[Table] = []
    figures: list[Figure] = []
    kinds: dict[str, dict[str, Any]] = {
        "without privacy": {"recipe": "plain"},
        f"epsilon {EPSILON}": {"recipe": "paper-split", "epsilon": EPSILON},
    }
    numbers = {str(number): {"parts": number} for number in parts(options)}
    for suffix, datasets in split_by_origin(options.datasets):
        matrix = Matrix.of(
            lambda point: results.train(**point),
            [
                ((name, kind, optimizer), {"dataset": name, "optimizer": optimizer, **point})
                for kind, point in kinds.items()
                for optimizer in OPTIMIZERS
                for name in datasets
            ],
            numbers,
        )
        for kind in kinds:
            for optimizer in OPTIMIZERS:
                figures += figure(
                    f"Experiment C: number of parts, {kind}, {optimizer.upper()}{suffix}",
                    "parts",
                    matrix.lines(
                        lambda name, *_: name,
                        lambda _, *of, wanted=(kind, optimizer): of == wanted,
                    ),
                )
        tables.append(
            Table(
                title=f"Experiment C: micro F1 by number of parts{suffix}",
                columns=("dataset", "privacy", "optimiser", *numbers),
                rows=(*matrix.known().cells(), *_auto_rows(results, datasets, len(numbers))),
                notes=(
                    "With privacy, the unit is the graph for one part, the part for 2 to 100 "
                    "parts (each sampled with probability one over their number), and the "
                    "document for each: the guarantees differ, which the paper's figure does "
                    "not say. Auto trains every document as its own part, with another model "
                    "and schedule.",
                ),
            )
        )
    if "pubmed" in options.datasets and not options.quick:
        told = [claim for claim in claims("text_claims") if claim.rule.reason == "parts"]
        title = "Experiment C: figures named in the running text"
        tables.append(compared_table(title, compared(results, told)))
    return Presentation(tables, figures, results.short_notes())


def _auto_rows(results: Results, datasets: list[str], columns: int) -> list[tuple[Any, ...]]:
    """The recipe ``auto`` at the same epsilon, in the last column, where table 1 has run it."""
    scores = {n: results.train(dataset=n, recipe="auto", epsilon=EPSILON) for n in datasets}
    return [
        (name, f"epsilon {EPSILON}, recipe auto", "sgd", *([None] * (columns - 1)), score)
        for name, score in scores.items()
        if score is not None
    ]
