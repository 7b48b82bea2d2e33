"""``mnist``: the appendix table on the same privacy engine, and as released.

Done soundly, every image is its own part and is clipped on its own; a step samples each image
with probability lot size over 60 000, which is what the published epsilons assume. The
network is the paper's, with one hidden layer, and nothing stops early.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privgcn.experiments.grid import Experiment, Grid
from privgcn.experiments.paper import released_mnist
from privgcn.experiments.paper.epsilons import moments_epsilon, same_digits
from privgcn.experiments.paper.published import published
from privgcn.experiments.paper.tables import table
from privgcn.experiments.results import (
    Options,
    Presentation,
    Results,
    difference,
    figure,
    mean_of,
)
from privgcn.experiments.tasks import Point
from privgcn.privacy.accounting.epsilon import epsilon_of
from privgcn.report import MeanStd, Table

DATASETS = ("mnist",)
MODE = "alone"
DOCUMENTS = released_mnist.IMAGES
EPOCHS = 100
"""The number of epochs at which four of the five published epsilons come out.

The paper says at most 2000, with patience 20.
"""

_QUICK_EPOCHS = 2
# The default of the released code, and what its published epsilons say: all epochs were run.
_PATIENCES = (released_mnist.PATIENCE, 0)
_HIDDEN = 512


def _epochs(options: Options) -> int:
    return _QUICK_EPOCHS if options.quick else EPOCHS


def point(row: Mapping[str, Any], options: Options) -> Point:
    """The run of a row of the table, done soundly."""
    probability = row["lot_size"] / DOCUMENTS
    changes: dict[str, Any] = {
        "model.kind": "mlp",
        "model.hidden": _HIDDEN,
        "training.epochs": _epochs(options),
        "privacy.unit": "document",
        "privacy.parts": "each",
        "privacy.noise_multiplier": float(row["noise_multiplier"]),
        "privacy.accountant": "moments",
    }
    if probability < 1.0:
        changes["privacy.sampling"] = "poisson"
        changes["privacy.sampling_probability"] = probability
    # Side by side, the activations of several seeds would not fit a core's cache.
    shared = {"dataset": "mnist", "recipe": "paper-full", "optimizer": "sgd"}
    return {**shared, "changes": changes, "apart": True, "modes": [MODE]}


def released_point(
    row: Mapping[str, Any], options: Options, patience: int = released_mnist.PATIENCE
) -> Point:
    """The run of a row as the released code does it, of kind ``released_mnist``."""
    axes = {name: row[name] for name in ("lot_size", "noise_multiplier")}
    return {**axes, "epochs": _epochs(options), "patience": patience}


def released(
    results: Results,
    row: Mapping[str, Any],
    options: Options,
    patience: int = released_mnist.PATIENCE,
) -> MeanStd | None:
    """Its score."""
    return results.score(released_mnist.KIND, released_point(row, options, patience), MODE)


def auto_point(row: Mapping[str, Any]) -> Point:
    """``auto`` at the published epsilon of a row."""
    shared = {"dataset": "mnist", "recipe": "auto", "apart": True, "modes": [MODE]}
    return {**shared, "epsilon": row["epsilon"]}


def experiment(options: Options) -> Experiment:
    """The five rows soundly and as released, and ``auto`` at their epsilons."""
    rows = published()["mnist"]
    grids = Grid.of(*(point(row, options) for row in rows), *map(auto_point, rows))
    patiences = _PATIENCES[:1] if options.quick else _PATIENCES
    like = [released_point(row, options, patience) for row in rows for patience in patiences]
    grids += Grid.of(*like, kind=released_mnist.KIND)
    return Experiment("mnist", grids, options.seeds)


def present(results: Results, options: Options) -> Presentation:
    """Scores beside the published ones, and every epsilon."""
    rows: list[tuple[Any, ...]] = []
    for row in published()["mnist"]:
        ours = results.train(MODE, **point(row, options))
        rows.append(
            (
                row["lot_size"],
                row["noise_multiplier"],
                row["epsilon"],
                epsilon(row, "moments"),
                MeanStd(row["f1"], row["std"]),
                released(results, row, options),
                _stopped(results, row, options),
                released(results, row, options, 0),
                ours,
                difference(ours, row["f1"]),
                results.train(MODE, **auto_point(row)),
            )
        )
    notes = []
    if options.quick:
        notes.append(
            f"Quick size: {_QUICK_EPOCHS} epochs instead of {EPOCHS}; the epsilon of these "
            "runs is smaller than the one shown."
        )
    known = what_ours_say(results, options)
    made = table("mnist", rows, more_notes=notes, known=known)
    # In the order, and so in the colours, of table 1; what that has not comes last.
    names = ("published", "as released", "done soundly", "auto", "as released, all epochs")
    bars: dict[str, dict[str, MeanStd | None]] = {name: {} for name in names}
    for lot, noise, _, _, told, like, _, whole, ours, _, auto in rows:
        for scores, score in zip(bars.values(), (told, like, ours, auto, whole), strict=True):
            scores[f"lot {lot}, noise {noise}"] = score
    drawn = figure(
        "MNIST: lot size and noise",
        "row of the table",
        bars,
        kind="bar",
        majority=results.majority("mnist"),
    )
    return Presentation([made, epsilon_table()], drawn, results.short_notes())


def _stopped(results: Results, row: Mapping[str, Any], options: Options) -> MeanStd | None:
    """How many epochs the emulated runs trained before they stopped."""
    found = results.of(released_mnist.KIND, released_point(row, options))
    return MeanStd.of([float(one["epochs"]) for one in found]) if found else None


def what_ours_say(results: Results, options: Options) -> str:
    """How our own scores go with the number of steps and with the noise."""
    by_steps: dict[int, float] = {}
    whole: dict[float, float] = {}
    for row in published()["mnist"]:
        one = point(row, options)
        mean = mean_of(results.train(MODE, **one))
        if mean is not None:
            steps = one["changes"]["training.epochs"] * DOCUMENTS // row["lot_size"]
            by_steps.setdefault(steps, mean)
            if row["lot_size"] == DOCUMENTS:
                whole[row["noise_multiplier"]] = mean
    known = ""
    if len(by_steps) > 1:
        listed = ", ".join(f"{by_steps[n]:.3f} after {n}" for n in sorted(by_steps))
        known += f"; by number of steps ours gives {listed}"
    if len(whole) > 1:
        listed = ", ".join(f"{mean:.3f} with noise {noise:g}" for noise, mean in whole.items())
        known += f"; with all images in one lot, {listed}"
    return known


def epsilon(row: Mapping[str, Any], accountant: str) -> float:
    """The epsilon of a row after the epochs of the paper's table."""
    probability = row["lot_size"] / DOCUMENTS
    return epsilon_of(
        noise_multiplier=row["noise_multiplier"],
        steps=round(EPOCHS / probability),
        sampling_probability=probability,
        accountant=accountant,
    )


def fitting_epochs(row: Mapping[str, Any]) -> str | None:
    """Which numbers of epochs give the published epsilon; one lot has one step per epoch."""
    noise = row["noise_multiplier"]
    found = [
        n for n in range(1, EPOCHS) if same_digits(moments_epsilon(noise, n), row["epsilon"])
    ]
    return f"{found[0]} to {found[-1]} epochs" if found else None


def epsilon_table() -> Table:
    """The epsilons of the table, with the exact ones beside them."""
    rows: list[tuple[Any, ...]] = []
    notes = []
    for row in published()["mnist"]:
        again, told = epsilon(row, "moments"), row["epsilon"]
        exact = round(epsilon(row, "pld"), 4)
        head = (row["lot_size"], row["noise_multiplier"], told, round(again, 4))
        rows.append((*head, same_digits(again, told), exact))
        if not same_digits(again, told):
            notes.append(
                f"Noise {row['noise_multiplier']}: {again:.4f} after {EPOCHS} epochs where "
                f"{told:.2f} is published. {told:.2f} is what {fitting_epochs(row)} give (one "
                f"step per epoch): it fits a run that early stopping ended before epoch "
                f"{EPOCHS}. With this much noise epsilon is limited by the highest order (32) "
                "of the moments accountant, ln(1/delta)/32 = 0.36, more than by the noise."
            )
    return table("mnist-epsilons", rows, more_notes=notes, epochs=EPOCHS)
