"""Runs experiments: each run and seed is a task that leaves one record.

What has a record is not run again. Tasks are spread over processes by joblib, or over a Ray
cluster by joblib's Ray backend. On a GPU one process trains the paper's method
(:mod:`privgcn_paper.batched`) and the released code (:mod:`privgcn_paper.released`), where runs
that differ in seed, noise and learning rate alone share a pass; meanwhile the other processes
make all other runs. On a processor runs of very many groups share passes as well: a session
would take one group after the other. Runs of experiments have seeded noise and samples: none
of them may be released.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privgcn import __version__
from privgcn.config import MODES, RECIPES, Settings, make_settings
from privgcn.data import TEST, TRAIN, Corpus, load_corpus
from privgcn.data.catalogue import usual_encodings
from privgcn.errors import ConfigError, DataError, shown
from privgcn.evaluation import classification_scores
from privgcn.files import check_room, writing
from privgcn.report.text import number
from privgcn_paper.claims import MNIST_IMAGES, published
from privgcn_paper.experiments import Point
from privgcn_paper.results import PAPER_MODE, key_of, read_records, write_record

if TYPE_CHECKING:
    from privgcn.graph import DocumentGraph

Device = Literal["cpu", "cuda"]
_WITHIN_A_BATCH = ("epsilon", "noise", "learning_rate")
_MANY_PARTS = (100, "each")
# Of the paper: the learning rate, but for Adam-DP, and epochs of private and other runs alike.
_PACE = RECIPES["plain"]["pace"]
PAPER_RATE: float = _PACE["sgd"]["learning_rate"]
PAPER_EPOCHS: dict[str, int] = {name: own["epochs"] for name, own in _PACE.items()}
_MNIST_HIDDEN = 512
# Of private runs of the released code: SGD's rate is the paper's, Adam's gives the published
# score on Cora. With several parts so many more steps of Adam at 10 would wander off.
_RELEASED_RATES = {"sgd": 0.01, "adam": 10.0}
_RELEASED_SPLIT_RATES = {"sgd": 0.01, "adam": 1.0}
# Of its runs without privacy.
_DECAY, _PATIENCE = 0.01, 20
_SETTINGS = {
    "learning_rate": "training.learning_rate",
    "epochs": "training.epochs",
    "noise": "privacy.noise_multiplier",
}
# What is protected, and which groups a step takes. In the finest partition every document is a
# group, and the unit that is protected.
_UNITS = {1: ("graph", "all"), "each": ("document", "all")}


class Task(NamedTuple):
    """A run, its seed, and where the encoder of transformer features lies on this machine."""

    point: Point
    seed: int
    encoder: str | None = None

    @property
    def label(self) -> str:
        """The run in words."""
        return ", ".join(f"{name} {number(value)}" for name, value in self.point.items())


class Summary(NamedTuple):
    """How many runs a call made, how many were there, and which failed and why."""

    done: int
    stored: int
    failures: list[tuple[Task, str]]
    seconds: float


def run_all(
    tasks: Sequence[Task],
    folder: Path,
    *,
    workers: int | None = None,
    engine: str = "local",
    address: str | None = None,
    device: Device = "cpu",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Summary:
    """Makes every run that has no record in the folder yet.

    ``progress`` is called with tasks done and tasks in all.
    """
    import joblib  # type: ignore[import-untyped]

    begun = time.perf_counter()
    backend = _ray(address) if engine == "ray" else contextlib.nullcontext()
    named = {key_of(task.point, task.seed): task for task in tasks}
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        check_room(folder.resolve() / "records")
    known = read_records(folder).keys()
    missing = [task for key, task in named.items() if key not in known]
    together, others = _batches(missing, device)
    failures: list[tuple[Task, str]] = []
    with backend:
        parallel = joblib.Parallel(
            n_jobs=workers or (-1 if device == "cpu" else -2),
            return_as="generator_unordered",
            batch_size=1,
        )
        # Other processes begin here; this one has the GPU meanwhile.
        made = parallel(joblib.delayed(_recorded)(batch, folder, "cpu") for batch in others)
        own = (_recorded(batch, folder, device) for batch in together)
        ended = chain.from_iterable(chain(own, made))
        for finished, (task, why) in enumerate(ended, start=1):
            if why is not None:
                failures.append((task, why))
            progress(finished, len(missing))
    done = len(missing) - len(failures)
    return Summary(done, len(named) - len(missing), failures, time.perf_counter() - begun)


def _ray(address: str | None) -> contextlib.AbstractContextManager[Any]:
    import joblib

    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError:
        raise ConfigError(
            "The engine 'ray' needs Ray. Install it with: pip install 'privgcn[cluster]'"
        ) from None
    register_ray()  # type: ignore[no-untyped-call]
    ray.init(address=address, ignore_reinit_error=True, log_to_driver=False)
    backend: contextlib.AbstractContextManager[Any] = joblib.parallel_config("ray")
    return backend


def _recorded(
    batch: Sequence[Task], folder: Path, device: Device
) -> list[tuple[Task, str | None]]:
    begun = time.perf_counter()
    try:
        records = run(batch, device)
    except Exception as error:  # whatever it is: the other runs go on, and this one is named
        return [(task, f"{type(error).__name__}: {error}") for task in batch]
    seconds = round((time.perf_counter() - begun) / len(batch), 3)
    for task, record in zip(batch, records, strict=True):
        facts = {"point": task.point, "seed": task.seed, "code": code_version()}
        write_record(folder, {**facts, **record, "device": device, "seconds": seconds})
    return [(task, None) for task in batch]


def _batches(
    tasks: Sequence[Task], device: Device
) -> tuple[list[list[Task]], list[list[Task]]]:
    """Batches for the GPU and for processors; the short ones are made first."""
    batches: dict[str, list[Task]] = {}
    for task in tasks:
        alike: Point = {"point": task.point, "seed": task.seed}
        if _shares_a_pass(task.point, device):
            alike = {n: v for n, v in task.point.items() if n not in _WITHIN_A_BATCH}
            alike["private"] = "epsilon" in task.point or "noise" in task.point
        batches.setdefault(json.dumps(alike, sort_keys=True), []).append(task)
    together: list[list[Task]] = []
    others: list[list[Task]] = []
    for batch in sorted(batches.values(), key=lambda batch: _steps(batch[0].point)):
        on_gpu = device == "cuda" and _shares_a_pass(batch[0].point, device)
        (together if on_gpu else others).append(batch)
    return together, others


def _shares_a_pass(point: Point, device: Device) -> bool:
    """Whether runs that differ in seed, noise and learning rate alone are made together."""
    if point["recipe"] in ("plain", "auto") or "changes" in point:
        return False
    many = point["recipe"] == "paper-split" and point.get("parts") in _MANY_PARTS
    return device == "cuda" or many


def _steps(point: Point) -> int:
    """About how many steps a run takes; one of all documents apart counts as a few."""
    if "lot" in point:
        return int(point["epochs"]) * MNIST_IMAGES // int(point["lot"])
    parts = point.get("parts", 1)
    return PAPER_EPOCHS.get(point.get("optimizer", ""), 1) * (10 if parts == "each" else parts)


Made = Iterator[tuple[Mapping[Any, NDArray[np.int64]], float | None, int | None]]
"""Of each run of a batch: predicted classes by mode, noise multiplier and steps."""


def run(batch: Sequence[Task], device: Device = "cpu") -> list[dict[str, Any]]:
    """Makes runs that share a pass: each one's scores on the test documents."""
    point = batch[0].point
    corpus = corpus_of(point)
    if point["recipe"] == "as-released":
        make = _released_mnist if "lot" in point else _released
    elif "lot" in point:
        make = _mnist
    else:
        make = _soundly if _shares_a_pass(point, device) else _by_privgcn
    return [_record(corpus, *made) for made in make(batch, corpus, device)]


def _by_privgcn(batch: Sequence[Task], corpus: Corpus, device: Device) -> Made:
    import torch

    from privgcn.runs.prepare import prepare
    from privgcn.runs.train import train

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for task in batch:
            trained = train(prepare(corpus, settings_of(*task)))
            predicted = {mode: trained.predictions(mode) for mode in MODES}
            plan = trained.model.released.plan
            noise, steps = (plan.noise_multiplier, plan.steps) if plan else (None, None)
            yield predicted, noise, steps
    finally:
        torch.set_num_threads(threads)


def _soundly(batch: Sequence[Task], corpus: Corpus, device: Device) -> Made:
    from privgcn.inference import scores_in_mode
    from privgcn.privacy.plan import plan_for
    from privgcn.released import Released
    from privgcn_paper.batched import Method, Trial, train_batched

    graph = _rows(batch[0])
    train, test = (np.flatnonzero(corpus.split == code) for code in (TRAIN, TEST))
    settings = [settings_of(*task) for task in batch]
    plans = [
        plan_for(own.privacy, len(train), epochs=own.training.epochs, seed=own.seed, columns={})
        for own in settings
        if own.privacy is not None
    ]
    plan, model = plans[0], settings[0].model
    method = Method(
        groups=plan.partition.groups,
        steps=plan.steps,
        optimizer=settings[0].training.optimizer,
        schedule=plan.schedule.name,
        sampling_probability=plan.schedule.rate,
        clip_norm=plan.clip_norm,
        hidden=model.hidden,
        dropout=model.dropout,
    )
    trials = [
        Trial(own.seed, plan.noise_multiplier, float(own.training.learning_rate or PAPER_RATE))
        for own, plan in zip(settings, plans, strict=True)
    ]
    trained = train_batched(graph.induced(train), method, trials, device)
    for tensors, own, plan in zip(trained, settings, plans, strict=True):
        released = Released("gcn", tensors, own, plan)
        predicted = {
            mode: scores_in_mode(released, graph, test, mode).argmax(-1) for mode in MODES
        }
        yield predicted, plan.noise_multiplier, plan.steps


def _mnist(batch: Sequence[Task], corpus: Corpus, device: Device) -> Made:
    """Runs on MNIST: every image is a group, sampled with probability lot over images."""
    from privgcn.graph import DocumentGraph
    from privgcn_paper.batched import Method, Trial, train_batched

    point = batch[0].point
    (images, labels), (test, _) = _images(corpus)
    graph = DocumentGraph(
        images,
        np.zeros((2, 0), np.int64),
        labels,
        corpus.num_classes,
        np.zeros(len(labels), np.int8),
    )
    lot = int(point["lot"])
    method = Method(
        groups=len(images),
        steps=int(point["epochs"]) * MNIST_IMAGES // lot,
        optimizer="sgd",
        schedule="all" if lot == MNIST_IMAGES else "poisson",
        sampling_probability=lot / MNIST_IMAGES,
        hidden=_MNIST_HIDDEN,
    )
    trials = [Trial(own.seed, float(own.point["noise"]), PAPER_RATE) for own in batch]
    for own, trial in zip(train_batched(graph, method, trials, device), trials, strict=True):
        hidden = np.maximum(test @ own["layers.0.weight"] + own["layers.0.bias"], 0)
        scores = hidden @ own["layers.1.weight"] + own["layers.1.bias"]
        yield {"alone": scores.argmax(-1)}, trial.noise_multiplier, method.steps


def _released(batch: Sequence[Task], corpus: Corpus, device: Device) -> Made:
    """Runs of the released code; without epsilon, as it trains without privacy."""
    from privgcn_paper.batched import Trial
    from privgcn_paper.released import Behaviour, released_scores

    point = batch[0].point
    optimizer, parts = str(point["optimizer"]), int(point.get("parts", 1))
    private, epochs = "epsilon" in point, PAPER_EPOCHS[point["optimizer"]]
    rates = _RELEASED_RATES if parts == 1 else _RELEASED_SPLIT_RATES
    behaviour = Behaviour(
        optimizer,
        epochs,
        parts,
        patience=0 if private else _PATIENCE,
        weight_decay=0.0 if private else _DECAY,
        clip=bool(point.get("clip", False)),
    )
    trials = [
        Trial(
            seed,
            claimed_noise(optimizer, float(own["epsilon"]), parts, epochs) if private else 0.0,
            float(own.get("learning_rate", rates[optimizer] if private else PAPER_RATE)),
        )
        for own, seed, _ in batch
    ]
    made = released_scores(_rows(batch[0]), behaviour, trials, device)
    for trial, scores in zip(trials, made, strict=True):
        predicted = {PAPER_MODE: scores[corpus.split == TEST].argmax(-1)}
        yield predicted, trial.noise_multiplier, epochs * parts


def _released_mnist(batch: Sequence[Task], corpus: Corpus, device: Device) -> Made:
    from privgcn_paper.released import released_mnist

    for point, seed, _ in batch:
        noise, lot, epochs = float(point["noise"]), int(point["lot"]), int(point["epochs"])
        train, test = _images(corpus)
        scores, trained = released_mnist(
            train, test, lot, noise, epochs, seed=seed, device=device
        )
        yield {"alone": scores.argmax(-1)}, noise, trained * MNIST_IMAGES // lot


def _images(corpus: Corpus) -> list[tuple[NDArray[np.float32], NDArray[np.int64]]]:
    images = np.asarray(corpus.vectors, np.float32)
    chosen = (corpus.split == TRAIN, corpus.split == TEST)
    return [(images[rows], corpus.labels[rows]) for rows in chosen]


def settings_of(point: Point, seed: int, encoder: str | None = None) -> Settings:
    """The settings of a run by a recipe of privgcn."""
    dataset, recipe, parts = str(point["dataset"]), str(point["recipe"]), point.get("parts", 1)
    epsilon, private = point.get("epsilon"), not {"epsilon", "noise"}.isdisjoint(point)
    changes: dict[str, Any] = {"data.source": dataset}
    kind = point.get("features", next(iter(usual_encodings(dataset)), None))
    if kind is not None:
        changes["features.kind"] = kind
    if kind == "transformer" and encoder is not None:
        changes["features.options"] = {"model": encoder}
    changes |= {setting: point[axis] for axis, setting in _SETTINGS.items() if axis in point}
    if private:
        changes["privacy.reproducible"] = True
    if recipe in ("plain", "paper-full", "paper-split"):
        changes["training.device"] = "cpu"
        if private:
            unit, sampling = _UNITS.get(parts, ("part", "poisson"))
            changes |= {"privacy.parts": parts, "privacy.unit": unit}
            changes["privacy.sampling"] = sampling
        else:
            changes["training.parts"] = parts
    if recipe == "paper-split" and parts == 1:
        recipe = "paper-full"  # a graph in one piece
    changes |= point.get("changes", {})
    return make_settings(
        recipe, epsilon=epsilon, optimizer=point.get("optimizer"), seed=seed, changes=changes
    )


def corpus_of(point: Point) -> Corpus:
    """The documents of a run; a process loads each dataset once."""
    split = tuple(point.get("split", ()))
    return _corpus(str(point["dataset"]), float(point.get("fraction", 1.0)), split)


@lru_cache(maxsize=4)
def _corpus(dataset: str, fraction: float, split: tuple[float, ...]) -> Corpus:
    corpus = load_corpus(dataset)
    if split:
        ends = np.cumsum(split) * len(corpus)
        codes = np.empty(len(corpus), dtype=np.int8)
        order = np.random.default_rng(0).permutation(len(corpus))
        codes[order] = (np.arange(len(corpus))[:, None] >= ends).sum(axis=1)
        corpus = corpus.with_split(codes)
    if not (corpus.split == TEST).any():
        raise DataError(
            f"The dataset {shown(dataset)} must have test documents to be scored on. Got none. "
            "Add a column 'split' to its documents."
        )
    return corpus if fraction == 1.0 else _with_fraction(corpus, fraction)


def _with_fraction(corpus: Corpus, fraction: float) -> Corpus:
    """The corpus with a fraction of the training documents of every class.

    As in the released code; the paper itself speaks of random nodes. That reads the labels, so
    no guarantee covers the choice, and the facts of the corpus say so.
    """
    generator = np.random.default_rng(0)
    selected = corpus.split != TRAIN
    for label in range(corpus.num_classes):
        members = np.flatnonzero((corpus.labels == label) & (corpus.split == TRAIN))
        # Rounded first: 0.3 of 10 documents must be 3, not 2.9999999999999996.
        count = int(np.floor(round(len(members) * fraction, 6)))
        selected[generator.permutation(members)[:count]] = True
    gap = "which training documents are used: the same fraction of every class was chosen"
    facts = replace(corpus.facts, not_covered=(*corpus.facts.not_covered, gap))
    return replace(corpus.select(selected), facts=facts, parent=None, rows=None)


def _record(
    corpus: Corpus,
    predicted: Mapping[Any, NDArray[np.int64]],
    noise: float | None,
    steps: int | None,
) -> dict[str, Any]:
    """Scores on the test documents, the errors of the paper's mode, and the facts of a run."""
    truth, train = corpus.labels[corpus.split == TEST], corpus.labels[corpus.split == TRAIN]
    counts = np.bincount(train[train >= 0], minlength=corpus.num_classes)
    scores = {}
    for mode, classes in predicted.items():
        table = classification_scores(truth, classes, corpus.classes)
        scores[mode] = {"micro": table["micro_f1"], "macro": table["macro_f1"]}
    wrong = (predicted.get(PAPER_MODE, truth) != truth) & (truth >= 0)
    return {
        "scores": scores,
        "errors": np.flatnonzero(wrong).tolist(),
        "majority": float((truth == counts.argmax()).mean()),
        "classes": corpus.num_classes,
        "train": len(train),
        "test": len(truth),
        "noise_multiplier": noise,
        "steps": steps,
    }


def _rows(task: Task) -> DocumentGraph:
    """All documents with the features of the paper's networks: as they are."""
    axes = ("dataset", "features", "fraction", "split")
    own = {name: task.point[name] for name in axes if name in task.point}
    return _graph(json.dumps(own), task.encoder)


@lru_cache(maxsize=2)
def _graph(text: str, encoder: str | None) -> DocumentGraph:
    from privgcn.runs.prepare import graph_of, make_features

    point = {**json.loads(text), "recipe": "plain"}
    corpus, settings = corpus_of(point), settings_of(point, 0, encoder)
    return graph_of(corpus, make_features(corpus, settings), settings)


def claimed_noise(optimizer: str, epsilon: float, parts: int, epochs: int) -> float:
    """The noise multiplier with which the released code claims an epsilon.

    One part: the paper's table, where it has the epsilon. Otherwise its accountant, which
    assumes Poisson samples though every part is visited once per epoch.
    """
    from privgcn.privacy.accounting import calibrate

    if parts == 1:
        for row in published()["noise_to_epsilon"]:
            if abs(row["epsilon"] - epsilon) < 0.5:
                return float(row[optimizer]["noise_multiplier"])
    calibrated = calibrate(
        epsilon=epsilon,
        steps=epochs * parts,
        sampling_probability=1.0 / parts,
        accountant="moments",
    )
    return round(calibrated.noise_multiplier, 2)


@cache
def code_version() -> str:
    """The version, and a hash of all files of both packages."""
    digest = hashlib.sha256()
    root = Path(__file__).parent.parent
    for path in sorted((*root.glob("privgcn/**/*.py"), *root.glob("privgcn_paper/**/*.py"))):
        digest.update(path.read_bytes())
    return f"{__version__}+{digest.hexdigest()[:12]}"
