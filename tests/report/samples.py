"""Small runs to make pages of; nothing is trained here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from privgcn.config import Settings
from privgcn.privacy.statement import PrivacyStatement


def make_settings(statement: PrivacyStatement | None, **changes: Any) -> Settings:
    if statement is None:
        return Settings().changed(changes)
    privacy = {
        "privacy.noise_multiplier": statement.plan.noise_multiplier,
        "privacy.reproducible": not statement.releasable,
        "training.epochs": statement.plan.steps,
    }
    return Settings(recipe="auto").changed({**privacy, **changes})


def record(name: str, statement: PrivacyStatement | None, scores: dict[str, Any]) -> Any:
    """What a page of several needs of a run."""
    return SimpleNamespace(
        folder=name, settings=make_settings(statement), statement=statement, scores=scores
    )


def make_scores(
    classes: tuple[str, ...] = ("letters", "bills"),
    *,
    synthetic: bool = False,
    best: float = 0.8,
) -> dict[str, Any]:
    size = len(classes)
    # Every level of the heat table occurs where there are many classes.
    confusion = [
        [9 if i == j else (i * 7 + j * 3) % 11 * (j == 0) for j in range(size)]
        for i in range(size)
    ]
    per_class = [
        {"class": name, "precision": 0.5, "recall": 0.25, "f1": 0.333, "support": 10}
        for name in classes
    ]
    modes = {
        mode: {
            "micro_f1": value,
            "macro_f1": value - 0.1,
            "accuracy": value,
            "documents": 20,
            "intervals": {
                name: [value - 0.15, value + 0.1]
                for name in ("micro_f1", "macro_f1", "accuracy")
            },
            "per_class": per_class,
            "confusion": confusion,
            "log_loss": 1.0,
            "calibration_error": 0.2,
            "confidence": 0.75,
            "reliability": [
                {"confidence": sure, "accuracy": sure - 0.2, "documents": 10}
                for sure in (0.6, 0.9)
            ],
        }
        for mode, value in (
            ("full-graph", best),
            ("own-graph", best - 0.1),
            ("alone", best - 0.2),
        )
    }
    return {
        "dataset": "archive",
        "synthetic": synthetic,
        "classes": list(classes),
        "modes": modes,
        "baselines": {
            "majority": {"micro_f1": 0.5, "macro_f1": 0.33, "accuracy": 0.5},
        },
    }
