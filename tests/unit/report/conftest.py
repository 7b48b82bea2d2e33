"""Small runs to make pages of; nothing is trained here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from privgcn.config import Settings, to_toml
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import make_schedule
from privgcn.privacy.statement import PrivacyStatement
from privgcn.runs.folder import SCORES, SETTINGS, STATEMENT, read_folder, write_folder

PLAN: dict[str, Any] = {
    "unit": "document",
    "relation": "remove",
    "partition": PartitionFacts(kind="each", parts=200),
    "schedule": make_schedule("all", 200, None),
    "clip_norm": 1.0,
    "noise_multiplier": 8.0,
    "steps": 3,
    "delta": 1e-5,
    "units": 200,
}


def make_statement(*, releasable: bool = True, **changes: Any) -> PrivacyStatement:
    return PrivacyStatement.of(PrivacyPlan(**{**PLAN, **changes}), releasable=releasable)


def make_settings(statement: PrivacyStatement | None, **changes: Any) -> Settings:
    if statement is None:
        return Settings().changed(changes)
    privacy = {
        "privacy.noise_multiplier": statement.noise_multiplier,
        "privacy.reproducible": not statement.releasable,
        "training.epochs": statement.steps,
    }
    return Settings(recipe="auto").changed({**privacy, **changes})


def make_scores(
    classes: tuple[str, ...] = ("letters", "bills"),
    *,
    synthetic: bool = False,
    best: float = 0.8,
) -> dict[str, Any]:
    size = len(classes)
    confusion = [[9 if i == j else int(j == 0) for j in range(size)] for i in range(size)]
    per_class = [
        {"class": name, "precision": 0.5, "recall": 0.25, "f1": 0.333, "support": 10}
        for name in classes
    ]
    modes = {
        mode: {
            "micro_f1": value,
            "macro_f1": value - 0.1,
            "accuracy": value,
            "per_class": per_class,
            "confusion": confusion,
        }
        for mode, value in (
            ("full-graph", best),
            ("own-graph", best - 0.1),
            ("alone", best - 0.2),
        )
    }
    baselines = {
        "majority": {"micro_f1": 0.5, "macro_f1": 0.33, "accuracy": 0.5},
        "random": {"micro_f1": 0.4, "macro_f1": 0.4, "accuracy": 0.4},
    }
    return {
        "dataset": "archive",
        "synthetic": synthetic,
        "classes": list(classes),
        "modes": modes,
        "baselines": baselines,
    }


@pytest.fixture(scope="session")
def statement() -> PrivacyStatement:
    return make_statement()


@pytest.fixture
def scores() -> dict[str, Any]:
    return make_scores()


@pytest.fixture
def build():
    """The builders, for tests that change one thing."""

    class Build:
        statement = staticmethod(make_statement)
        settings = staticmethod(make_settings)
        scores = staticmethod(make_scores)

        @staticmethod
        def folder(path, statement, scores=None, **changes):
            settings = make_settings(statement, **changes)
            files = {
                SETTINGS: to_toml(settings.model_dump()),
                SCORES: json.dumps(scores or make_scores()),
            }
            if statement is not None:
                files[STATEMENT] = statement.to_json()
            write_folder(path, "run", files)
            return path

        @staticmethod
        def sealed(path, **contents):
            """The same run with other files, under a manifest that fits them."""
            files = {**read_folder(path).files}
            for name, content in contents.items():
                files.pop(name) if content is None else files.update({name: content})
            write_folder(path, "run", files, overwrite=True)
            return path

    return Build
