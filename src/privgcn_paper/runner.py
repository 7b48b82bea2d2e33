"""Runs experiments: each run and seed is a task that leaves one record, and what exists is not run again.

Tasks are spread over processes by joblib, or over a Ray cluster by joblib's Ray backend. On a GPU
the paper's method and the released code are trained there; runs that differ in seed and noise
alone share one pass (:mod:`privgcn_paper.batched`). Runs of experiments have seeded noise and
samples: none of them may be released.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privgcn import __version__
from privgcn.config import MODES, Mode, Settings, make_settings
from privgcn.data import TEST, TRAIN, Corpus, load_corpus
from privgcn.errors import ConfigError, DataError, PrivGCNError, shown
from privgcn.evaluation import classification_scores
from privgcn_paper.experiments import Point
from privgcn_paper.results import PAPER_MODE, key_of, packed, read_records, write_record

if TYPE_CHECKING:
    from privgcn.graph import DocumentGraph

Device = Literal["cpu", "cuda"]
MNIST_IMAGES = 60_000
_MNIST_HIDDEN = 512
_RELEASED_RATES = {1: {"sgd": 0.01, "adam": 10.0}, 10: {"sgd": 0.01, "adam": 1.0}}
# With which options the literature encodes the texts of a dataset.
_ENCODINGS: dict[str, dict[str, dict[str, Any]]] = {
    "pokec": {
        "transformer": {"model": "bert-base-multilingual-cased", "average": "lines"},
        "bow": {"min_count": 15, "max_count": 15000, "stop_words": "none"},
        "fasttext": {"source": "cc.sk.300.bin", "stop_words": "none"},
    }
}


class Task(NamedTuple):
    """A run and its seed."""

    point: Point
    seed: int

    @property
    def key(self) -> str:
        """The name of its record."""
        return key_of(self.point, self.seed)

    @property
    def label(self) -> str:
        """The run in words."""
        return ", ".join(f"{name} {value}" for name, value in self.point.items())


class Summary(NamedTuple):
    """What a call did.

    Attributes:
        done: Runs that were made.
        stored: Runs whose records were there.
        failures: Runs that ended with an error, and why.
        seconds: Wall time.
    """

    done: int
    stored: int
    failures: list[tuple[Task, str]]
    seconds: float


def run_all(
    points: Sequence[Point],
    seeds: int,
    folder: Path,
    *,
    workers: int | None = None,
    engine: str = "local",
    address: str | None = None,
    device: Device = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> Summary:
    """Makes every run that has no record yet.

    Args:
        points: The runs.
        seeds: How many of each: seeds 0, 1, ...
        folder: Of the records.
        workers: Processes on this machine; by default one for each core.
        engine: ``local`` or ``ray``.
        address: Of the Ray cluster.
        device: Where networks are trained.
        progress: Called with tasks done and tasks in all.
    """
    begun = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    tasks = [Task(point, seed) for point in points for seed in range(seeds)]
    known = read_records(folder).keys()
    missing = [task for task in tasks if task.key not in known]
    failures: list[tuple[Task, str]] = []
    for number, (task, why) in enumerate(
        _results(missing, folder, workers, engine, address, device), start=1
    ):
        if why is not None:
            failures.append((task, why))
        if progress is not None:
            progress(number, len(missing))
    return Summary(
        len(missing) - len(failures),
        len(tasks) - len(missing),
        failures,
        time.perf_counter() - begun,
    )


def _results(
    tasks: Sequence[Task],
    folder: Path,
    workers: int | None,
    engine: str,
    address: str | None,
    device: Device,
) -> Iterator[tuple[Task, str | None]]:
    import joblib

    if engine not in ("local", "ray"):
        raise ConfigError(f"The 'engine' of reproduce must be local or ray. Got {engine!r}.")
    if device == "cuda":
        # One process has the GPU, and shares passes between the runs that allow it.
        together, tasks = _split(tasks)
        for batch in together:
            yield from _recorded_batch(batch, folder, device)
        workers = 1
    with _backend(engine, address):
        parallel = joblib.Parallel(
            n_jobs=workers or -1, return_as="generator_unordered", batch_size=1
        )
        yield from parallel(joblib.delayed(_recorded)(task, folder, device) for task in tasks)


@contextlib.contextmanager
def _backend(engine: str, address: str | None) -> Iterator[None]:
    if engine == "local":
        yield
        return
    import joblib

    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError:
        raise ConfigError(
            "The engine 'ray' needs Ray. Install it with: pip install 'privgcn[cluster]'"
        ) from None
    register_ray()
    ray.init(address=address, ignore_reinit_error=True, log_to_driver=False)
    with joblib.parallel_config("ray"):
        yield


def _recorded(task: Task, folder: Path, device: Device) -> tuple[Task, str | None]:
    """Makes one run and writes its record; says why where it fails."""
    begun = time.perf_counter()
    try:
        record = run(task.point, task.seed, device=device)
    except (PrivGCNError, MemoryError, ArithmeticError, RuntimeError) as error:
        return task, f"{type(error).__name__}: {error}"
    _write(task, record, folder, time.perf_counter() - begun)
    return task, None


def _write(task: Task, record: Mapping[str, Any], folder: Path, seconds: float) -> None:
    whole = {"point": task.point, "seed": task.seed, "code": code_version(), **record}
    write_record(folder, {**whole, "seconds": round(seconds, 3)})


def run(point: Point, seed: int, *, device: Device = "cpu") -> dict[str, Any]:
    """Makes one run: its scores and predictions on the test documents, and its noise."""
    import torch

    if point["recipe"] == "as-released":
        if point["dataset"] == "mnist":
            return _released_mnist(point, seed, device)
        return _released(point, seed, device)
    if "lot" in point:
        (record,) = _mnist_soundly([Task(point, seed)], device)
        return record
    from privgcn.runs.train import train_run

    corpus = corpus_of(point)
    with _threads(torch, 1 if device == "cpu" else None):
        trained = train_run(corpus, settings_of(point, seed, device=device))
        predicted = {mode: trained.predictions(mode) for mode in MODES}
    plan = trained.plan
    facts = {} if plan is None else {"noise_multiplier": plan.noise_multiplier, "steps": plan.steps}
    return {**scored(corpus, predicted), **facts, "device": device}


@contextlib.contextmanager
def _threads(torch: Any, count: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def settings_of(point: Point, seed: int, *, device: Device = "cpu") -> Settings:
    """The settings of a run by a recipe of privgcn."""
    dataset, recipe, parts = str(point["dataset"]), str(point["recipe"]), point.get("parts", 1)
    epsilon = point.get("epsilon")
    changes: dict[str, Any] = {"data.source": dataset, **_features(dataset, point.get("features"))}
    if "learning_rate" in point:
        changes["training.learning_rate"] = float(point["learning_rate"])
    if epsilon is not None:
        changes["privacy.reproducible"] = True
    if recipe in ("plain", "paper-full", "paper-split"):
        changes["training.device"] = device
        changes |= _partition(parts, private=epsilon is not None)
    if recipe == "paper-split" and parts == 1:
        recipe = "paper-full"  # a graph in one piece
    changes |= point.get("changes", {})
    return make_settings(
        recipe, epsilon=epsilon, optimizer=point.get("optimizer"), seed=seed, changes=changes
    )


def _features(dataset: str, kind: str | None) -> dict[str, Any]:
    known = _ENCODINGS.get(dataset, {})
    kind = kind or next(iter(known), None)
    if kind is None:
        return {}
    options = {"features.options": known[kind]} if kind in known else {}
    return {"features.kind": kind, **options}


def _partition(parts: int | str, *, private: bool) -> dict[str, Any]:
    if not private:
        return {"training.parts": parts}
    if parts == "each":
        # The finest partition: every document is a group, and the unit that is protected.
        return {"privacy.parts": "each", "privacy.unit": "document", "privacy.sampling": "all"}
    if parts == 1:
        return {"privacy.parts": 1, "privacy.unit": "graph", "privacy.sampling": "all"}
    return {"privacy.parts": parts, "privacy.unit": "part", "privacy.sampling": "poisson"}


def corpus_of(point: Point) -> Corpus:
    """The documents of a run; a process loads each dataset once."""
    split = tuple(point.get("split", ()))
    return _corpus(str(point["dataset"]), float(point.get("fraction", 1.0)), split)


@lru_cache(maxsize=4)
def _corpus(dataset: str, fraction: float, split: tuple[float, ...]) -> Corpus:
    corpus = load_corpus(dataset)
    if split:
        corpus = _split_anew(corpus, split)
    if not (corpus.split == TEST).any():
        raise DataError(
            f"The dataset {shown(dataset)} must have test documents to be scored on. Got none. "
            "Give the grid a 'split', such as split = [[0.6, 0.2]]."
        )
    return _with_fraction(corpus, fraction)


def _with_fraction(corpus: Corpus, fraction: float) -> Corpus:
    """The corpus with a fraction of the training documents of every class.

    As in the released code; the paper itself speaks of random nodes. That reads the labels, so
    no guarantee covers the choice, and the facts of the corpus say so.
    """
    if not 0.0 < fraction <= 1.0:
        raise ConfigError(f"The 'fraction' of the data must be in (0, 1]. Got {fraction}.")
    if fraction == 1.0:
        return corpus
    generator = np.random.default_rng(0)
    selected = corpus.split != TRAIN
    for number in range(corpus.num_classes):
        members = np.flatnonzero((corpus.labels == number) & (corpus.split == TRAIN))
        # Rounded first: 0.3 of 10 documents must be 3, not 2.9999999999999996.
        count = int(np.floor(round(len(members) * fraction, 6)))
        selected[generator.permutation(members)[:count]] = True
    gap = "which training documents are used: the same fraction of every class was chosen"
    facts = replace(corpus.facts, not_covered=(*corpus.facts.not_covered, gap))
    return replace(corpus.select(selected), facts=facts, parent=None, rows=None)


def _split_anew(corpus: Corpus, fractions: Sequence[float]) -> Corpus:
    if len(fractions) != 2 or min(fractions) < 0.0 or sum(fractions) >= 1.0:
        raise ConfigError(
            "The 'split' of the data must be two fractions, of training and validation "
            f"documents, that leave some for tests. Got {list(fractions)}."
        )
    ends = np.cumsum(fractions) * len(corpus)
    split = np.empty(len(corpus), dtype=np.int8)
    order = np.random.default_rng(0).permutation(len(corpus))
    split[order] = (np.arange(len(corpus))[:, None] >= ends).sum(axis=1)
    return corpus.with_split(split)


def scored(corpus: Corpus, predicted: Mapping[Mode, NDArray[np.int64]]) -> dict[str, Any]:
    """What a record holds of the predictions for the test documents."""
    truth, train = corpus.labels[corpus.split == TEST], corpus.labels[corpus.split == TRAIN]
    counts = np.bincount(train[train >= 0], minlength=corpus.num_classes)
    scores = {}
    for mode, classes in predicted.items():
        table = classification_scores(truth, classes, corpus.classes)
        scores[mode] = {"micro": table["micro_f1"], "macro": table["macro_f1"]}
    return {
        "scores": scores,
        "predicted": {mode: packed(classes) for mode, classes in predicted.items()},
        "truth": packed(truth),
        "majority": float((truth == counts.argmax()).mean()),
        "classes": corpus.num_classes,
        "train": int((corpus.split == TRAIN).sum()),
        "test": len(truth),
    }


@lru_cache(maxsize=2)
def _graph(dataset: str, fraction: float, features: str | None) -> tuple[Corpus, DocumentGraph]:
    """All documents as the released code reads them: features as they are."""
    from privgcn.runs.prepare import graph_of, prepare

    point: Point = {"dataset": dataset, "recipe": "plain", "fraction": fraction}
    if features is not None:
        point["features"] = features
    corpus = corpus_of(point)
    prepared = prepare(corpus, settings_of(point, 0))
    return corpus, graph_of(corpus, prepared.featurizer.fit(corpus.train), prepared.settings)


def claimed_noise(optimizer: str, epsilon: float, parts: int, epochs: int) -> float:
    """The noise multiplier with which the released code claims an epsilon.

    One part: the paper's table, where it has the epsilon. Otherwise its accountant, which
    assumes Poisson samples though every part is visited once per epoch.
    """
    from privgcn.privacy.accounting import calibrate
    from privgcn_paper.claims import published

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
