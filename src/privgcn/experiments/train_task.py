"""Tasks of kind ``train``: a recipe on a dataset, scored in every inference mode.

Runs of experiments are reproducible, noise and samples included, so none of them may be
released: their settings say so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from privgcn.config import MODES, Settings, check_mode, make_settings, parse_settings
from privgcn.data.catalogue import DATASETS
from privgcn.errors import ConfigError
from privgcn.experiments.tasks import Result, check_axes
from privgcn.training.devices import Work, faster_device, work_of

if TYPE_CHECKING:
    from privgcn.data import Corpus

DEVICE = "PRIVGCN_DEVICE"
"""Environment variable that says where runs train if no option does."""

IMPORTS = (
    "privgcn.experiments.predictions",
    "privgcn.experiments.subsampling",
    "privgcn.runs.train",
)
"""What every run of this kind imports."""

_MUST = {"dataset", "recipe"}
_MAY = {"optimizer", "epsilon", "parts", "fraction", "split", "features"}
_MAY |= {"changes", "apart", "modes"}
# What a record says about the plan of its run.
_RECORDED = ("epsilon", "delta", "noise_multiplier", "steps", "sensitivity", "unit", "units")


def check_device(asked: str | None = None, *, here: bool = True) -> str:
    """Where runs train: ``auto``, ``cpu`` or ``cuda``, as an option or the environment says.

    If ``here``, this machine must have what is named, and ``auto`` is ``cpu`` without CUDA.
    """
    name = "option --device" if asked is not None else f"variable {DEVICE}"
    device = asked if asked is not None else os.environ.get(DEVICE, "cpu")
    if device not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"The {name} must be auto, cpu or cuda. Got {device!r}.")
    if device != "cpu" and here:
        import torch

        if not torch.cuda.is_available():
            if device == "auto":
                return "cpu"
            raise ConfigError(
                f"The {name} must be cpu or auto where PyTorch finds no CUDA device. "
                f"Got {device!r}. Install a PyTorch with CUDA beside a GPU."
            )
    return device


def resolve(point: dict[str, Any]) -> dict[str, Any]:
    """The full settings of a run.

    A point has ``dataset`` and ``recipe``, and may have ``optimizer``, ``epsilon``,
    ``parts``, ``fraction`` of the training data, ``split`` (shares of a random split into
    training and validation documents), ``features`` (a kind; by default that with which the
    literature encodes the dataset's texts, and with its options), ``changes`` (dotted),
    ``apart`` where seeds share no work, and ``modes`` where not every inference mode makes
    sense. Seeds that sample different parts share no work either.
    """
    check_axes("kind 'train'", point, _MUST, _MAY)
    epsilon, parts = point.get("epsilon"), point.get("parts")
    changes: dict[str, Any] = {
        "data.source": point["dataset"],
        **encoding(str(point["dataset"]), point.get("features")),
        **(point.get("changes") or {}),
    }
    private = epsilon is not None or "privacy.noise_multiplier" in changes
    if private:
        changes["privacy.reproducible"] = True
    if parts is not None:
        changes |= _parts(parts, private=private)
    recipe = point["recipe"]
    if recipe == "paper-split" and parts == 1:
        # A graph in one piece is the paper's full graph, and the same runs.
        recipe = "paper-full"
    settings = make_settings(
        recipe, epsilon=epsilon, optimizer=point.get("optimizer"), changes=changes
    )
    sampled = settings.privacy is not None and settings.privacy.sampling == "poisson"
    split = [float(share) for share in point.get("split") or ()]
    return {
        "apart": bool(point.get("apart")) or sampled,
        "fraction": float(point.get("fraction") or 1.0),
        "modes": list(point.get("modes") or MODES),
        "settings": settings.model_dump(mode="json"),
        **({"split": split} if split else {}),
    }


def encoding(dataset: str, kind: str | None) -> dict[str, Any]:
    """The settings of a dataset's features: of a kind, or of the usual one of its texts."""
    card = DATASETS.get(dataset)
    known = {} if card is None else card.encodings
    kind = kind or next(iter(known), None)
    if kind is None:
        return {}
    options = {"features.options": dict(known[kind])} if kind in known else {}
    return {"features.kind": kind, **options}


def run(
    settings: dict[str, Any], seeds: tuple[int, ...], device: str | None = None
) -> list[Result]:
    """Trains all seeds in one pass and scores them on the test documents."""
    (results,) = run_together([(settings, seeds)], device)
    return results


def run_together(
    runs: Sequence[tuple[Mapping[str, Any], tuple[int, ...]]], device: str | None = None
) -> list[list[Result]]:
    """The same of several configurations, whose ``company`` is the same."""
    from privgcn.experiments.predictions import results_of
    from privgcn.runs.train import train, train_together

    everyone = [(_placed(settings, len(seeds), device), seeds) for settings, seeds in runs]
    shared, _ = runs[0]
    corpus = documents_of(shared)
    modes = [check_mode(mode) for mode in shared["modes"]]
    alone = len(everyone) == 1
    trials = [train(corpus, *everyone[0])] if alone else train_together(corpus, everyone)
    results = []
    for trial, (chosen, _) in zip(trials, everyone, strict=True):
        plan, featurizer = trial.plan, trial.model.featurizer
        facts = {
            "device": chosen.training.device,
            "features": {"kind": featurizer.kind, "dimension": featurizer.dimension},
            "privacy": None if plan is None else {k: getattr(plan, k) for k in _RECORDED},
        }
        found = results_of(corpus, {mode: trial.predictions(mode) for mode in modes})
        results.append([{**result, **facts} for result in found])
    return results


def documents_of(settings: Mapping[str, Any]) -> Corpus:
    """The documents that a run has."""
    from privgcn.experiments.subsampling import corpus_for_runs

    source, split = settings["settings"]["data"]["source"], tuple(settings.get("split", ()))
    return corpus_for_runs(str(source), settings["fraction"], split)


def _placed(settings: Mapping[str, Any], replicas: int, asked: str | None) -> Settings:
    """The settings of a run with the device that it trains on, never ``auto``."""
    chosen = parse_settings(settings["settings"])
    named = asked is not None or DEVICE in os.environ
    place = check_device(asked if named else chosen.training.device)
    if place == "auto":
        place = device(settings, replicas)
    return chosen.changed({"training.device": place})


def company(settings: Mapping[str, Any]) -> Any:
    """What configurations have in common that differ in their noise alone."""
    tree = settings["settings"]
    if tree["privacy"] is None or tree["privacy"]["sampling"] == "all":
        return None
    levels = {"epsilon": None, "noise_multiplier": None}
    return {**settings, "settings": {**tree, "privacy": {**tree["privacy"], **levels}}}


def device(settings: Mapping[str, Any], replicas: int) -> str:
    """``cpu`` or ``cuda``: what is faster."""
    return faster_device(_work(settings, replicas), started=True)


def steps(settings: Mapping[str, Any]) -> int:
    """Of a run that does not stop early."""
    return _work(settings, 1).steps


def _work(settings: Mapping[str, Any], replicas: int) -> Work:
    return work_of(parse_settings(settings["settings"]), _documents(settings), replicas)


def apart(settings: Mapping[str, Any]) -> bool:
    """Whether seeds share no work: on a CPU, neither samples nor matches can be shared."""
    matched = settings["settings"]["prediction"]["method"] == "matched"
    return bool(settings["apart"]) or matched


def _documents(settings: Mapping[str, Any]) -> int:
    """How many documents a run has, about."""
    card = DATASETS.get(str(settings["settings"]["data"]["source"]))
    return int((card.documents if card is not None else 1000) * settings["fraction"])


def weight(settings: Mapping[str, Any]) -> float:
    """Document passes, roughly: for the order of tasks and the time left."""
    tree = settings["settings"]
    documents = float(_documents(settings))
    documents *= 0.3 if tree["model"]["kind"] == "linear" else tree["model"]["hidden"] / 32
    epochs, privacy = tree["training"]["epochs"], tree["privacy"]
    if privacy is None:
        # Early stopping looks at the validation documents after every step.
        return float(documents * epochs * (1.4 if tree["training"]["patience"] else 1.0))
    passes = 1.0
    if privacy["sampling"] != "all" and str(privacy["parts"]).isdigit():
        # A step of few documents still draws the noise of all weights: about 2 ms.
        passes += 2000.0 * int(privacy["parts"]) / documents
    return float(documents * epochs * passes + 200.0 * documents)


def label(settings: Mapping[str, Any]) -> str:
    """Dataset, recipe, optimiser, features, budget, parts and share of the data."""
    tree = settings["settings"]
    kind, privacy, training = tree["features"]["kind"], tree["privacy"], tree["training"]
    words = [str(tree["data"]["source"]), str(tree["recipe"]), str(training["optimizer"])]
    words += [] if kind is None else [f"features {kind}"]
    if privacy is not None and privacy["epsilon"] is not None:
        words.append(f"epsilon {privacy['epsilon']:g}")
    elif privacy is not None:
        words.append(f"noise {privacy['noise_multiplier']:g}")
    words += parts_and_share((privacy or training)["parts"], settings["fraction"])
    return ", ".join(words)


def parts_and_share(parts: int | str, fraction: float) -> list[str]:
    """How the training data were cut and how many of them were used, where that is special."""
    words = [] if fraction == 1 else [f"{fraction:g} of the training data"]
    if str(parts) == "1":
        return words
    return ["every document a part" if parts == "each" else f"{parts} parts", *words]


def _parts(parts: int | str, *, private: bool) -> dict[str, Any]:
    if not private:
        return {"training.parts": parts}
    if parts == "each":
        # The finest partition: every document is a part, and the unit that is protected.
        return {"privacy.parts": "each", "privacy.unit": "document", "privacy.sampling": "all"}
    if int(parts) == 1:
        return {"privacy.parts": 1, "privacy.unit": "graph", "privacy.sampling": "all"}
    return {"privacy.parts": int(parts), "privacy.unit": "part"}
