"""Small runs to make pages of; nothing is trained here."""

from __future__ import annotations

from types import SimpleNamespace

from privgcn.config import Settings


def make_settings(statement, **changes):
    if statement is None:
        return Settings().changed(changes)
    privacy = {
        "privacy.noise_multiplier": statement.plan.noise_multiplier,
        "privacy.reproducible": not statement.releasable,
        "training.epochs": statement.plan.steps,
    }
    return Settings(recipe="auto").changed({**privacy, **changes})


def record(name, statement, scores):
    """What a page of several needs of a run."""
    settings = make_settings(statement)
    return SimpleNamespace(folder=name, settings=settings, statement=statement, scores=scores)


def make_scores(classes=("letters", "bills"), *, synthetic=False):
    size = range(len(classes))
    shared = {
        "documents": 20,
        # Every level of the heat table occurs where there are many classes.
        "confusion": [
            [9 if i == j else (i * 7 + j * 3) % 11 * (j == 0) for j in size] for i in size
        ],
        "per_class": [
            {"class": name, "precision": 0.5, "recall": 0.25, "f1": 0.333, "support": 10}
            for name in classes
        ],
        "log_loss": 1.0,
        "calibration_error": 0.2,
        "confidence": 0.75,
        "reliability": [{"confidence": c, "accuracy": c - 0.2} for c in (0.6, 0.9)],
    }
    modes = {}
    for mode, value in (("alone", 0.6), ("own-graph", 0.7), ("full-graph", 0.8)):
        measured = {"micro_f1": value, "macro_f1": value - 0.1, "accuracy": value}
        intervals = {name: [value - 0.15, value + 0.1] for name in measured}
        modes[mode] = {**shared, **measured, "intervals": intervals}
    return {
        "dataset": "archive",
        "synthetic": synthetic,
        "classes": list(classes),
        "modes": modes,
        "baselines": {"majority": {"micro_f1": 0.5, "macro_f1": 0.33, "accuracy": 0.5}},
    }
