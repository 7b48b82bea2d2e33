"""From records to numbers: means and deviations over seeds, by point of a grid."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from privgcn.corpus.catalogue import DATASETS
from privgcn.experiments.grid import Task
from privgcn.experiments.packing import unpack
from privgcn.experiments.store import RecordStore
from privgcn.experiments.tasks import Result, resolve_point

PAPER_MODE = "full-graph"
"""The paper predicts with links to, and texts of, training documents: not covered."""

COVERED_MODE = "own-graph"

Cell = dict[str, float | None]
Table = dict[str, Any]
Figure = dict[str, Any]


@dataclass(frozen=True)
class Presentation:
    """What an experiment shows: plain values that the report room renders."""

    tables: list[Table]
    figures: list[Figure]
    notes: list[str]


@dataclass(frozen=True)
class Options:
    """What the user asked for.

    Attributes:
        datasets: Names of the catalogue.
        seeds: Seeds of every configuration.
        quick: Whether the small size is run.
    """

    datasets: tuple[str, ...]
    seeds: tuple[int, ...]
    quick: bool = False


class Results:
    """Looks up the records of points.

    Args:
        store: Open, or read before.
        seeds: The seeds that count.
    """

    def __init__(self, store: RecordStore, seeds: Sequence[int]) -> None:
        self._store = store
        self._short: set[str] = set()
        self.seeds = tuple(seeds)

    def by_seed(self, kind: str, point: Mapping[str, Any]) -> dict[int, Result]:
        """The results of a point, by seed; seeds without a record are left out."""
        task = Task(kind, resolve_point(kind, point), self.seeds)
        found = {seed: self._store.get(task.run_key(seed)) for seed in self.seeds}
        known = {seed: record["result"] for seed, record in found.items() if record is not None}
        if 0 < len(known) < len(self.seeds):
            self._short.add(task.configuration)
        return known

    def of(self, kind: str, point: Mapping[str, Any]) -> list[Result]:
        """One result for each seed that has a record."""
        return list(self.by_seed(kind, point).values())

    def fact(self, dataset: str, name: str) -> Any:
        """What every run on all data of a dataset says alike, such as its majority score.

        Any record will do, of whatever recipe or kind; ``None`` where there is none.
        """
        for record in self._store:
            settings = record["settings"]
            source = settings.get("dataset")
            if "settings" in settings:
                source = settings["settings"]["data"]["source"]
            if source == dataset and settings.get("fraction", 1.0) == 1.0:
                value = record["result"].get(name)
                if value is not None:
                    return value
        return None

    def majority(self, dataset: str) -> float | None:
        """The score of the majority class, or ``None`` where nothing has run."""
        found = self.fact(dataset, "majority")
        return None if found is None else float(found)

    def short_notes(self) -> list[str]:
        """Says how many of the settings looked up so far lack seeds, where any does."""
        if not self._short:
            return []
        count, asked = len(self._short), len(self.seeds)
        several = "settings have" if count > 1 else "setting has"
        return [
            f"{count} {several} fewer than {asked} seeds here: each such mean is over the "
            "seeds that are there."
        ]

    def values(
        self, kind: str, point: Mapping[str, Any], mode: str = PAPER_MODE
    ) -> list[float]:
        """The micro F1 of each seed."""
        return [float(r["scores"][mode]["micro_f1"]) for r in self.of(kind, point)]

    def cell(self, kind: str, point: Mapping[str, Any], mode: str = PAPER_MODE) -> Cell | None:
        """Mean and deviation of the micro F1, or ``None`` where nothing has run."""
        return cell(self.values(kind, point, mode))

    def train(self, mode: str = PAPER_MODE, **point: Any) -> Cell | None:
        """The cell of a training run."""
        return self.cell("train", point, mode)

    def released(self, **point: Any) -> Cell | None:
        """The cell of a run of the released code's behaviour."""
        return self.cell("as-released", point)


def cell(values: Sequence[float]) -> Cell | None:
    """Mean and sample standard deviation; one value alone has no deviation."""
    if not values:
        return None
    std = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": statistics.fmean(values), "std": std}


def mean_of(value: Cell | float | None) -> float | None:
    """The mean of a cell, or a plain number itself."""
    return value["mean"] if isinstance(value, dict) else value


def difference(ours: Cell | float | None, theirs: float | None) -> dict[str, float] | None:
    """Ours less published, or ``None`` where one of them is missing."""
    mean = mean_of(ours)
    return None if mean is None or theirs is None else {"difference": mean - theirs}


def series(name: str, cells: Mapping[Any, Cell | None], role: str = "data") -> dict[str, Any]:
    """A series of a figure from cells by x; missing ones are left out."""
    points = [[x, c["mean"], c["std"]] for x, c in cells.items() if c is not None]
    return {"name": name, "points": points, "role": role}


def figure(
    title: str, x_label: str, all_series: Sequence[dict[str, Any]], notes: Sequence[str] = ()
) -> list[Figure]:
    """A figure of micro F1, or nothing where no series has a point."""
    drawn = [one for one in all_series if one["points"]]
    if not drawn:
        return []
    return [
        {
            "title": title,
            "x_label": x_label,
            "y_label": "micro F1 (test)",
            "series": drawn,
            "notes": list(notes),
        }
    ]


def errors(result: Result, mode: str = PAPER_MODE) -> npt.NDArray[np.bool_]:
    """Which test documents a run got wrong."""
    truth = unpack(result["truth"])
    wrong: npt.NDArray[np.bool_] = unpack(result["predicted"][mode]) != truth
    return wrong & (truth >= 0)


def is_synthetic(dataset: str) -> bool:
    """Whether a dataset is one of this package's own making."""
    card = DATASETS.get(dataset)
    return card is not None and card.synthetic


def split_by_origin(datasets: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Real datasets and synthetic stand-ins apart, each with a suffix for titles."""
    real = [name for name in datasets if not is_synthetic(name)]
    made = [name for name in datasets if is_synthetic(name)]
    groups = [("", real), (" (synthetic stand-ins: not results on real data)", made)]
    return [(suffix, names) for suffix, names in groups if names]
