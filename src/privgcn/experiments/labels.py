"""Short names of runs, for people: dataset, recipe, optimiser, budget, parts, seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from privgcn.experiments.grid import Task


def label(kind: str, settings: Mapping[str, Any], seeds: Sequence[int]) -> str:
    """What a run is, in a few words.

    Args:
        kind: A name of the task registry, or any other kind of task.
        settings: Of the task.
        seeds: The seeds that are meant; none to leave them out.

    Examples:
        >>> label("mine:", {"dataset": "cora", "noise": 0.5}, [3])
        'cora, noise 0.5, seed 3'
    """
    tree = settings.get("settings")
    if kind == "train" and isinstance(tree, Mapping):
        words = _train(settings, tree)
    elif kind == "as-released":
        words = _as_released(settings)
    else:
        words = _any(settings)
    if seeds:
        numbers = ", ".join(str(seed) for seed in seeds)
        words.append(f"seed {numbers}" if len(seeds) == 1 else f"seeds {numbers}")
    return ", ".join(words)


def torn_labels(names: Iterable[str], tasks: Iterable[Task]) -> list[str]:
    """Damaged records by their hashes, each with its run where it is among some tasks."""
    wanted = list(names)
    if not wanted:
        return []
    known = {
        task.run_key(seed): label(task.kind, task.settings, [seed])
        for task in tasks
        for seed in task.seeds
    }
    return [f"{known[name]} ({name})" if name in known else name for name in wanted]


def _train(settings: Mapping[str, Any], tree: Mapping[str, Any]) -> list[str]:
    features, training = tree["features"], tree["training"]
    words = [str(tree["data"]["source"]), str(tree["recipe"]), str(training["optimizer"])]
    if features["kind"] is not None:
        words.append(f"features {features['kind']}")
    privacy = tree["privacy"]
    if privacy is None:
        words += _parts(training["parts"])
    else:
        if privacy["epsilon"] is not None:
            words.append(f"epsilon {privacy['epsilon']:g}")
        else:
            words.append(f"noise {privacy['noise_multiplier']:g}")
        words += _parts(privacy["parts"])
    return words + _share(settings["fraction"])


def _as_released(settings: Mapping[str, Any]) -> list[str]:
    claimed = settings["claimed_epsilon"]
    words = [str(settings["dataset"]), "as released", str(settings["optimizer"])]
    words.append("without noise" if claimed is None else f"claimed epsilon {claimed:g}")
    return words + _parts(settings["parts"]) + _share(settings["fraction"])


def _any(settings: Mapping[str, Any]) -> list[str]:
    words = [str(settings["dataset"])] if "dataset" in settings else []
    return words + [
        f"{name} {value}"
        for name, value in settings.items()
        if name != "dataset" and isinstance(value, str | int | float)
    ]


def _parts(parts: int | str) -> list[str]:
    if parts == "each":
        return ["every document a part"]
    return [] if str(parts) == "1" else [f"{parts} parts"]


def _share(fraction: float) -> list[str]:
    return [] if fraction == 1 else [f"{fraction:g} of the training data"]
