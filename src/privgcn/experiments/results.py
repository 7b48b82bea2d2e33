"""From records to numbers: means and deviations over seeds, by point of a grid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from privgcn.data.catalogue import DATASETS
from privgcn.experiments.store import RecordStore
from privgcn.experiments.tasks import Result, make_task
from privgcn.report import Difference, Figure, MeanStd, Point, Series, Table

PAPER_MODE = "full-graph"
"""The paper predicts with links to, and texts of, training documents: not covered."""

COVERED_MODE = "own-graph"

Score = MeanStd | float | None
"""A score over seeds, a plain number, or ``None`` where nothing has run."""

Measure = Callable[[Mapping[str, Any]], Score]
_Known = TypeVar("_Known", MeanStd, float)


@dataclass(frozen=True)
class Presentation:
    """What an experiment shows."""

    tables: list[Table]
    figures: list[Figure]
    notes: list[str]


@dataclass(frozen=True)
class Options:
    """What the user asked for: datasets, seeds of every configuration, and the small size."""

    datasets: tuple[str, ...]
    seeds: tuple[int, ...]
    quick: bool = False


class Results:
    """Looks up the records of points in an open store, for the seeds that count."""

    def __init__(self, store: RecordStore, seeds: Sequence[int]) -> None:
        self._store = store
        self._short: set[str] = set()
        self.seeds = tuple(seeds)

    def by_seed(self, kind: str, point: Mapping[str, Any]) -> dict[int, Result]:
        """The results of a point, by seed; seeds without a record are left out."""
        task = make_task(kind, point, self.seeds)
        found = {seed: self._store.get(task.run_key(seed)) for seed in self.seeds}
        known = {seed: record["result"] for seed, record in found.items() if record is not None}
        if 0 < len(known) < len(self.seeds):
            self._short.add(task.configuration)
        return known

    def of(self, kind: str, point: Mapping[str, Any]) -> list[Result]:
        """One result for each seed that has a record."""
        return list(self.by_seed(kind, point).values())

    def score(
        self, kind: str, point: Mapping[str, Any], mode: str = PAPER_MODE
    ) -> MeanStd | None:
        """The micro F1 over seeds, or ``None`` where nothing has run."""
        values = [float(r["scores"][mode]["micro_f1"]) for r in self.of(kind, point)]
        return MeanStd.of(values) if values else None

    def train(self, mode: str = PAPER_MODE, **point: Any) -> MeanStd | None:
        """The score of a training run."""
        return self.score("train", point, mode)

    def fact(self, dataset: str, name: str) -> Any:
        """What every run on all data of a dataset says alike, such as its majority score.

        Any record will do, of whatever recipe or kind; ``None`` where there is none.
        """
        for record in self._store:
            settings = record["settings"]
            source = settings.get("dataset")
            if "settings" in settings:
                source = settings["settings"]["data"]["source"]
            whole = settings.get("fraction", 1.0) == 1.0 and not settings.get("split")
            if source == dataset and whole and record["result"].get(name) is not None:
                return record["result"][name]
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


def mean_of(score: Score) -> float | None:
    """The mean of a score, or a plain number itself."""
    return score.mean if isinstance(score, MeanStd) else score


def best_of(scores: Iterable[_Known | None]) -> _Known | None:
    """The largest of those that are known, by their means."""
    known = [score for score in scores if score is not None]
    return max(known, key=lambda one: mean_of(one) or 0.0, default=None)


def difference(ours: Score, theirs: float | None) -> Difference | None:
    """Ours less published, or ``None`` where one of them is missing."""
    mean = mean_of(ours)
    return None if mean is None or theirs is None else Difference(mean - theirs)


Row = tuple[tuple[Any, ...], Mapping[str, Any]]
"""The labels at the head of a row, and the part of the point that it fixes."""


def cells(
    measure: Measure, rows: Iterable[Row], columns: Iterable[Mapping[str, Any]]
) -> tuple[tuple[Any, ...], ...]:
    """Rows of a table: the labels, and for each column the score of the joint point."""
    points = list(columns)
    return tuple(
        (*labels, *(measure({**point, **more}) for more in points)) for labels, point in rows
    )


@dataclass(frozen=True)
class View:
    """A table of scores by rows and columns, and its rows drawn as lines over the columns.

    Attributes:
        form: The table without rows; its columns name the labels of a row.
        rows: Datasets to rows.
        columns: The point of each column, by its place on the horizontal axis.
        measure: What is shown of a point.
        drawn: Labels of a row to the title of its figure and the name of its line there;
            ``None`` for a row that is not drawn.
        column: How a column is called, from its place.
        majority: The score of the majority class of a dataset: a level in every figure that
            is about one dataset.
    """

    form: Table
    rows: Callable[[Sequence[str]], Iterable[Row]]
    columns: Mapping[Any, Mapping[str, Any]]
    measure: Measure
    x_label: str
    drawn: Callable[..., tuple[str, str] | None]
    column: str = "{}"
    y_label: str = "micro F1 (test)"
    majority: Callable[[str], float | None] | None = None

    def show(self, datasets: Sequence[str], suffix: str) -> tuple[Table, list[Figure]]:
        """The table and the figures of some datasets; the suffix goes with every title."""
        rows = cells(self.measure, self.rows(datasets), self.columns.values())
        heads, lines = self.form.columns, dict[str, dict[str, Any]]()
        about: dict[str, set[str]] = {}
        for row in rows:
            labels, scores = row[: len(heads)], row[len(heads) :]
            if (place := self.drawn(*labels)) is not None:
                line = dict(zip(self.columns, scores, strict=True))
                lines.setdefault(place[0], {})[place[1]] = line
                about.setdefault(place[0], set()).add(str(labels[0]))
        table = Table(
            title=f"{self.form.title}{suffix}",
            columns=(*heads, *(self.column.format(place) for place in self.columns)),
            rows=rows,
            notes=self.form.notes,
        )
        figures = []
        for title, drawn in lines.items():
            alone = next(iter(about[title])) if len(about[title]) == 1 else None
            level = None if self.majority is None or alone is None else self.majority(alone)
            figures += figure(
                f"{title}{suffix}", self.x_label, drawn, y_label=self.y_label, majority=level
            )
        return table, figures


def figure(
    title: str,
    x_label: str,
    lines: Mapping[str, Mapping[Any, MeanStd | None]],
    *,
    y_label: str = "micro F1 (test)",
    kind: Literal["line", "bar"] = "line",
    references: Sequence[str] = (),
    majority: float | None = None,
    notes: tuple[str, ...] = (),
) -> list[Figure]:
    """A figure of scores by series and x, as far as they are known; none where none is.

    The score of the majority class is a level across all of it.
    """
    drawn = [
        Series(name=name, points=points, role="reference" if name in references else "data")
        for name, scores in lines.items()
        if (
            points := tuple(Point(x, s.mean, s.std) for x, s in scores.items() if s is not None)
        )
    ]
    if drawn and majority is not None:
        level = (Point(None, majority),)
        drawn.append(Series(name="majority class", points=level, role="reference"))
    made = {"x_label": x_label, "y_label": y_label, "kind": kind, "notes": notes}
    return [Figure(title=title, series=tuple(drawn), **made)] if drawn else []


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
