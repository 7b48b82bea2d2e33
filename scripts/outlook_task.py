"""Tasks of ``measure_outlook.py``: recipe ``auto`` on one corpus at several sizes and budgets.

Features are made once. Each seed measures five sizes with a budget each; another seed draws
other documents and turns the budgets, so that seeds together cover sizes times budgets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import privgcn
from privgcn.config import Mode, make_settings
from privgcn.data import Corpus, load_corpus
from privgcn.data.corpus import TRAIN
from privgcn.evaluation.metrics import classification_scores
from privgcn.evaluation.references import references
from privgcn.experiments.predictions import train_majority
from privgcn.runs.train import Prepared
from privgcn.training.planning import one_shot_noise

KIND = "outlook_task"
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
LEAST, MOST = 150, 10_000
MODES: tuple[Mode, ...] = ("alone", "own-graph")
# The networks among the references take far longer, and rarely do better.
AMONG = ("logistic regression", "propagated regression")
_RECIPE = ("graph", "models", "prediction", "privacy", "training")


def resolve(point: dict[str, Any]) -> dict[str, Any]:
    """A point has ``dataset``, ``features`` and ``unit``; code that changed is another run."""
    return {**point, "apart": True, "code": code()}


def run(settings: dict[str, Any], seeds: tuple[int, ...]) -> list[dict[str, Any]]:
    corpus = load_corpus(settings["dataset"])
    ready = Prepared.of(corpus, _settings(settings, 1.0, 0))
    return [{"rows": list(_rows(ready, settings, seed))} for seed in seeds]


def weight(settings: dict[str, Any]) -> float:
    return 1.0


def label(settings: dict[str, Any]) -> str:
    return f"{Path(settings['dataset']).name}, {settings['features']}, {settings['unit']}"


def code() -> str:
    """A digest of the code that decides what a recipe scores."""
    digest = hashlib.sha256()
    package = Path(privgcn.__file__).parent
    for path in sorted(path for room in _RECIPE for path in (package / room).rglob("*.py")):
        if path.name != "outlook.py":  # the planner itself decides no score
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _settings(task: dict[str, Any], epsilon: float, seed: int) -> Any:
    changes = {
        "features.kind": task["features"],
        "privacy.unit": task["unit"],
        "privacy.reproducible": True,
    }
    return make_settings("auto", epsilon=epsilon, seed=seed, changes=changes)


def _rows(ready: Prepared, task: dict[str, Any], seed: int) -> Iterator[dict[str, Any]]:
    # The turn depends on the corpus too: a size must not always have the same budget.
    turn = seed + sum(f"{Path(task['dataset']).name}{task['features']}".encode())
    most = min(MOST, int((ready.corpus.split == TRAIN).sum()))
    sizes = np.geomspace(min(LEAST, most), most, len(EPSILONS)).astype(int)
    for number, size in enumerate(sizes.tolist()):
        epsilon = EPSILONS[(2 * number + turn) % len(EPSILONS)]
        smaller = _smaller(ready, size, seed)
        fitted = smaller.fit(_settings(task, epsilon, seed))
        trial, plan = smaller.trial(fitted, None), fitted.plan
        corpus = trial.corpus
        plain = references(
            smaller.graph,
            make_settings("plain"),
            among=AMONG,
            modes=("own-graph",),
            strengths=(10.0,),
        )["own-graph"]
        scores = {
            mode.replace("-", "_"): _micro(trial.truth, trial.predictions(mode)[0], corpus)
            for mode in MODES
        }
        yield {
            "corpus": Path(task["dataset"]).name,
            "unit": task["unit"],
            "kind": ready.featurizer.kind,
            "features": ready.featurizer.dimension,
            "classes": corpus.num_classes,
            "units": plan.units,
            "epsilon": epsilon,
            "noise": round(one_shot_noise(plan), 4),
            "majority": round(
                train_majority(corpus.train.labels, trial.truth, corpus.num_classes), 4
            ),
            **scores,
            "plain": _micro(trial.truth, plain.predicted[plain.best], corpus),
        }


def _smaller(ready: Prepared, size: int, seed: int) -> Prepared:
    """Some of the training documents, drawn at random; all others stay."""
    train = np.flatnonzero(ready.corpus.split == TRAIN)
    drawn = np.random.default_rng(seed).permutation(train)[:size]
    kept = np.sort(np.concatenate([drawn, np.flatnonzero(ready.corpus.split != TRAIN)]))
    graph = ready.graph.induced(torch.from_numpy(kept))
    return Prepared(ready.corpus.select(kept), ready.featurizer, graph)


def _micro(truth: Any, predicted: Any, corpus: Corpus) -> float:
    return round(classification_scores(truth, predicted, corpus.classes)["micro_f1"], 4)
