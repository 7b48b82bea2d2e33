"""Tasks of kind ``references``: the best score without privacy, in every inference mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privgcn.config import parse_settings
from privgcn.experiments import train_task
from privgcn.experiments.tasks import Result, check_axes

# Three networks and regressions take about as long as so many runs of recipe plain.
_MODELS = 3.0


def resolve(point: dict[str, Any]) -> dict[str, Any]:
    """The full settings: those of recipe ``plain`` on the documents that the point names."""
    check_axes("kind 'references'", point, {"dataset"}, {"fraction", "split", "features"})
    return train_task.resolve({**point, "recipe": "plain", "apart": True})


def run(settings: dict[str, Any], seeds: tuple[int, ...]) -> list[Result]:
    """Trains the references with each seed and scores the best on the test documents."""
    from privgcn.evaluation.references import references
    from privgcn.experiments.predictions import results_of
    from privgcn.runs.train import Prepared

    chosen = parse_settings(settings["settings"])
    corpus = train_task.documents_of(settings)
    ready = Prepared.of(corpus, chosen)
    results = []
    for seed in seeds:
        found = references(ready.graph, chosen.changed({"seed": seed}))
        best = {str(mode): one.predicted[one.best][None] for mode, one in found.items()}
        (result,) = results_of(corpus, best)
        results.append({**result, "best": {mode: one.best for mode, one in found.items()}})
    return results


def weight(settings: Mapping[str, Any]) -> float:
    """As of a run of recipe ``plain``, for each of the models."""
    return _MODELS * train_task.weight(settings)


def label(settings: Mapping[str, Any]) -> str:
    """The run of recipe ``plain``, and that it stands for all references."""
    return f"references, {train_task.label(settings)}"
