"""The scores of a run: ``scores.json``, checked, and the tables and figures made of it."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from privgcn.config import MODES, Mode, Settings, facts_of
from privgcn.evaluation.baselines import sees_no_links
from privgcn.privacy.statement_text import round_up
from privgcn.report.figures import Figure, Point, Series
from privgcn.report.formats import score
from privgcn.report.records import read_record
from privgcn.report.tables import MeanStd, Number, Table

MEASURES = {"micro_f1": "micro-F1", "macro_f1": "macro-F1", "accuracy": "accuracy"}
_SHOWN = ("micro_f1", "macro_f1")
_SHOWN_COLUMNS = ("micro-F1", "micro-F1, 95\u00a0%", "macro-F1", "macro-F1, 95\u00a0%")
SCORE_AXIS = "micro-F1 on the test documents"
COVERED, NOT_COVERED = "covered", "not covered"
_GRAPH_BLIND = "graph-blind linear"
_BASELINES = {
    "majority": "nothing: always predicts the most frequent class",
    "random": "nothing: draws a class at random",
    _GRAPH_BLIND: "the new document only; trained the same way without links",
    # Of runs of earlier versions; now networks are among the references.
    "graph-blind mlp": "the new document only; a network trained the same way without links",
}
# Above this many classes, columns of a confusion matrix are headed by numbers.
_MOST_NAMED_COLUMNS = 12
_LEVELS = 10


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)


Ends = tuple[Number, Number]


class Intervals(_Record):
    """95 % intervals of the scores; ``None`` in runs of earlier versions."""

    micro_f1: Ends | None = None
    macro_f1: Ends | None = None
    accuracy: Ends | None = None


class Measures(_Record):
    """The scores of one mode or baseline; ``None`` where there was nothing to score."""

    micro_f1: Number | None
    macro_f1: Number | None = None
    accuracy: Number | None = None
    documents: int | None = None
    intervals: Intervals = Intervals()

    def cells(self, measure: str) -> tuple[float | None, str | None]:
        """A score, and its interval in words."""
        ends = getattr(self.intervals, measure)
        return getattr(self, measure), None if ends is None else _between(ends)


class ModeReferences(_Record):
    """The scores of non-private models in one mode, and the best on validation documents."""

    best: str
    scores: dict[str, Measures] = Field(min_length=1)

    @model_validator(mode="after")
    def _knows_the_best(self) -> Self:
        if self.best not in self.scores:
            raise ValueError(f"the 'best' reference {self.best!r} must have scores")
        return self


class Expected(_Record):
    """Where the score was expected before the run, and where it is."""

    mode: Mode
    interval: Ends
    score: Number


class Repeated(_Record):
    """One score over several seeds."""

    values: tuple[Number, ...]
    mean: Number
    std: Number | None
    interval: Ends


class Repeats(_Record):
    """Scores over several seeds; the model is that of one of them."""

    seeds: tuple[int, ...]
    model: int
    modes: dict[Mode, dict[str, Repeated]]
    composed_epsilon: Number | None = None


class ClassScores(_Record):
    """The scores of one class."""

    name: str = Field(alias="class")
    precision: Number | None = None
    recall: Number | None = None
    f1: Number | None = None
    support: int | None = None


class ModeScores(Measures):
    """The scores of one inference mode, class by class."""

    per_class: tuple[ClassScores, ...] = ()
    confusion: tuple[tuple[Annotated[int, Field(strict=True, ge=0)], ...], ...] = ()


class Scores(_Record):
    """The content of ``scores.json``, as far as a page shows it."""

    dataset: str | None = None
    synthetic: bool = False
    features: int | None = None
    classes: tuple[str, ...] = ()
    modes: dict[Mode, ModeScores] = Field(min_length=1)
    baselines: dict[str, Measures] = {}
    references: dict[Mode, ModeReferences] = {}
    expected: Expected | None = None
    repeats: Repeats | None = None

    @model_validator(mode="after")
    def _matrices_are_square(self) -> Self:
        for mode, entry in self.modes.items():
            size = len(entry.confusion)
            if size and {size} != {len(self.classes), *map(len, entry.confusion)}:
                raise ValueError(
                    f"the 'confusion' of mode '{mode}' must be square, with one row for each "
                    "of the classes"
                )
        return self

    @classmethod
    def read(cls, record: Any, owner: str) -> Scores:
        """Checks the content of ``scores.json``; an error names the field and its rule."""
        return read_record(cls, record, f"the scores of {owner}")

    def without_itself(self, settings: Settings) -> Scores:
        """Without the graph-blind baseline, where that is the model itself in mode alone."""
        if not sees_no_links(settings):
            return self
        kept = {name: row for name, row in self.baselines.items() if name != _GRAPH_BLIND}
        return self.model_copy(update={"baselines": kept})

    def ordered(self) -> dict[Mode, ModeScores]:
        """The modes, from the one that sees least."""
        return {mode: self.modes[mode] for mode in MODES if mode in self.modes}

    def leading(self, *, private: bool) -> Mode:
        """The mode that leads: with privacy the best-informed one that is still covered."""
        known = [mode for mode in MODES if mode in self.modes]
        fit = [mode for mode in known if not private or facts_of(mode).covered]
        return (fit or known)[-1]

    def documents(self) -> str:
        """What was scored, with the number where it is known."""
        counts = {entry.documents for entry in self.modes.values()} - {None}
        if len(counts) != 1:
            return "test documents"
        return "1 test document" if counts == {1} else f"{counts.pop():,} test documents"


def mode_label(mode: str, *, private: bool) -> str:
    """The name of a mode in a chart; what the guarantee does not cover says so."""
    return mode if facts_of(mode).covered or not private else f"{mode} ({NOT_COVERED})"


def mode_table(scores: Scores, *, private: bool) -> Table:
    """Modes and baselines, one row each, with what they see and whether that is covered."""
    entries: list[tuple[str, str | None, Measures, str]] = [
        (mode, COVERED if facts_of(mode).covered else NOT_COVERED, entry, facts_of(mode).sees)
        for mode, entry in scores.ordered().items()
    ]
    entries += [
        (f"baseline: {name}", None, entry, _BASELINES.get(name, ""))
        for name, entry in scores.baselines.items()
    ]
    columns: list[str] = ["mode", "guarantee", *_SHOWN_COLUMNS, "what is seen"]
    rows: list[list[str | float | None]] = [
        [name, guarantee, *(cell for name in _SHOWN for cell in entry.cells(name)), sees]
        for name, guarantee, entry, sees in entries
    ]
    if not private:
        del columns[1]
        for row in rows:
            del row[1]
    return Table(
        title=f"Scores on the {scores.documents()}, by inference mode, and of the baselines",
        columns=tuple(columns),
        rows=tuple(map(tuple, rows)),
        notes=(
            "The 95 % intervals answer for the test documents, not for the luck of a seed. "
            "Accuracy is micro-F1 here, because each document has one class.",
            *_expected_notes(scores.expected),
        ),
    )


def _between(ends: tuple[float, float]) -> str:
    return " to ".join(map(score, ends))


def _micro(references: ModeReferences, name: str) -> tuple[float | None, str | None]:
    return references.scores[name].cells("micro_f1")


def _expected_notes(expected: Expected | None) -> list[str]:
    if expected is None:
        return []
    low, high = expected.interval
    where = "below" if expected.score < low else "above" if expected.score > high else "within"
    return [
        f"Before training, privgcn plan expected a micro-F1 of {low:.2f} to {high:.2f} in mode "
        f"{expected.mode}. The score lies {where} that."
    ]


def reference_table(scores: Scores) -> Table | None:
    """Non-private models by inference mode; ``None`` for a run that has none."""
    modes = [mode for mode in MODES if mode in scores.references]
    if not modes:
        return None
    names = list(scores.references[modes[0]].scores)
    best = [f"{mode}: {scores.references[mode].best}" for mode in modes]
    return Table(
        title="Micro-F1 without privacy, by inference mode",
        columns=("model", *(column for m in modes for column in (m, f"{m}, 95\u00a0%"))),
        rows=tuple(
            (name, *(cell for m in modes for cell in _micro(scores.references[m], name)))
            for name in names
        ),
        notes=(f"The reference is the best on the validation documents: {'; '.join(best)}.",),
    )


def repeat_table(scores: Scores) -> Table | None:
    """Scores over several seeds; ``None`` for a run with one seed."""
    repeats = scores.repeats
    if repeats is None:
        return None
    rows = []
    for mode in (mode for mode in MODES if mode in repeats.modes):
        for measure in _SHOWN:
            row = repeats.modes[mode].get(measure)
            if row is not None:
                over = MeanStd(row.mean, row.std)
                rows.append(
                    (mode, MEASURES[measure], over, _between(row.interval), row.values[0])
                )
    notes = [
        f"Seeds {repeats.seeds[0]} to {repeats.seeds[-1]}. The model is that of seed "
        f"{repeats.model}, named beforehand; the others were scored and forgotten."
    ]
    if repeats.composed_epsilon is not None:
        notes.append(
            f"To publish anything of all {len(repeats.seeds)} seeds, their scores included, "
            f"would cost epsilon {round_up(repeats.composed_epsilon)} together."
        )
    return Table(
        title=f"Scores over {len(repeats.seeds)} seeds",
        columns=("mode", "score", "mean ± deviation", "95\u00a0% interval", "of the model"),
        rows=tuple(rows),
        notes=tuple(notes),
    )


def score_figure(scores: Scores, *, private: bool) -> Figure | None:
    """Micro-F1 as bars, because it is what the paper reports; ``None`` without any score."""
    labels = {mode: mode_label(mode, private=private) for mode in scores.ordered()}
    series = [
        Series(name=labels[mode], points=(Point(labels[mode], entry.micro_f1),))
        for mode, entry in scores.ordered().items()
        if entry.micro_f1 is not None
    ]
    levels = tuple(
        Point(name, entry.micro_f1)
        for name, entry in scores.baselines.items()
        if entry.micro_f1 is not None
    )
    if levels:
        series.append(Series(name="baseline", points=levels, role="reference"))
    if not series:
        return None
    return Figure(
        title="Micro-F1 by inference mode, and of the baselines",
        kind="bar",
        x_label="mode or baseline",
        y_label=SCORE_AXIS,
        series=tuple(series),
    )


def class_table(entry: ModeScores, mode: str) -> Table | None:
    """Precision, recall and F1 of each class; ``None`` where they were not kept."""
    if not entry.per_class:
        return None
    return Table(
        title=f"Scores by class, inference {mode}",
        columns=("class", "precision", "recall", "F1", "test documents"),
        rows=tuple(
            (row.name, row.precision, row.recall, row.f1, row.support)
            for row in entry.per_class
        ),
    )


def confusion(entry: ModeScores, classes: tuple[str, ...]) -> dict[str, Any] | None:
    """A heat table: each row is a true class, shaded by the share of its documents."""
    if not entry.confusion:
        return None
    rows = [
        {
            "name": name,
            "cells": [
                {"count": n, "level": _level(n, sum(counts)), "right": column == row}
                for column, n in enumerate(counts)
            ],
        }
        for row, (name, counts) in enumerate(zip(classes, entry.confusion, strict=True))
    ]
    numbered = len(classes) > _MOST_NAMED_COLUMNS
    return {"classes": classes, "rows": rows, "numbered": numbered, "levels": _LEVELS}


def _level(count: int, total: int) -> int:
    """Zero stays white; whatever is there at all is seen."""
    return 0 if not count else max(1, round(_LEVELS * count / total))
