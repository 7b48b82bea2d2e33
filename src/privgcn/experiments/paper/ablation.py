"""``ablation``: from the released behaviour to the sound method, one thing at a time.

Each row does one more thing as the paper describes it, alone and together with those before
it. The difference to the row above isolates what makes the published score. No run here has a
guarantee: the noise is what the paper's own accountant asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from privgcn.experiments.grid import Experiment, Grid
from privgcn.experiments.paper import emulation
from privgcn.experiments.paper.mapping import released
from privgcn.experiments.paper.published import OPTIMIZERS, leaves
from privgcn.experiments.paper.released_code import RATES
from privgcn.experiments.paper.tables import table
from privgcn.experiments.results import (
    Options,
    Presentation,
    Results,
    difference,
    split_by_origin,
)
from privgcn.experiments.tasks import Point

EPSILON = 2

# One part cannot be cut further, and all of it is taken in every step.
_STEPS = {1: ("clip", "apart", "dropout"), 10: tuple(emulation.SOUND)}
_LEAVES = {1: "dp_full", 10: "dp_split"}


def experiment(options: Options) -> Experiment:
    """Every switch alone and in a row, and the learning rates with and without clipping.

    SGD takes four times as many epochs as Adam. The quick size leaves it out, and ten parts are
    trained with it on Cora only.
    """
    return Experiment(
        "ablation",
        Grid.of(
            *(
                point
                for name, parts, optimizer in _settings(options, options.datasets)
                for _, point in _all(name, optimizer, parts)
            ),
            kind=emulation.KIND,
        ),
        options.seeds,
    )


def _settings(options: Options, datasets: Sequence[str]) -> Iterator[tuple[str, int, str]]:
    """Dataset, parts and optimiser of each series of rows."""
    for name in datasets:
        for parts in (1,) if options.quick else _STEPS:
            without_sgd = options.quick or (parts > 1 and name != "cora")
            for optimizer in ("adam",) if without_sgd else OPTIMIZERS:
                yield name, parts, optimizer


def _all(dataset: str, optimizer: str, parts: int) -> Iterator[tuple[str, Point]]:
    """What is sound in each row, in words, and its run."""
    base = {"dataset": dataset, "optimizer": optimizer, "epsilon": EPSILON, "parts": parts}
    steps = _STEPS[parts]
    yield "nothing: as released", base
    for name in steps:
        yield f"{name} alone", {**base, "sound": [name]}
    for count in range(2, len(steps) + 1):
        yield " + ".join(steps[:count]), {**base, "sound": list(steps[:count])}
    for rate in RATES if optimizer == "adam" else ():
        for sound in ([], list(steps)):
            words = f"{' + '.join(sound) or 'nothing'}, rate {rate:g}"
            yield words, {**base, "sound": sound, "learning_rate": rate}


def present(results: Results, options: Options) -> Presentation:
    """One table for each kind of dataset: published, and the score of every row."""
    tables = []
    for suffix, datasets in split_by_origin(options.datasets):
        rows = [
            row
            for name, parts, optimizer in _settings(options, datasets)
            for row in _rows(results, name, optimizer, parts)
        ]
        tables.append(table("ablation", rows, suffix))
    meanings = [f"{name}: {words}." for name, words in emulation.SOUND.items()]
    return Presentation(tables, [], [" ".join(meanings), *results.short_notes()])


def _rows(results: Results, name: str, optimizer: str, parts: int) -> Iterator[tuple[Any, ...]]:
    told = leaves().get(f"table1.{name}.{_LEAVES[parts]}_eps{EPSILON}.{optimizer}")
    base = results.majority(name)
    first = None
    for words, point in _all(name, optimizer, parts):
        score = released(results, **point)
        first = first or score
        change = difference(score, None if first is None else first.mean)
        yield (name, parts, optimizer, words, told, score, change, base)
