"""The scores of a run: ``scores.json``, checked, and the tables and figures made of it."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from privgcn.config import Settings
from privgcn.evaluation.baselines import sees_no_links
from privgcn.modes import MODES, Mode, facts_of
from privgcn.report.figures import Figure, Point, Series
from privgcn.report.records import read_record
from privgcn.report.tables import Number, Table

MEASURES = {"micro_f1": "micro-F1", "macro_f1": "macro-F1", "accuracy": "accuracy"}
SCORE_AXIS = "micro-F1 on the test documents"
COVERED, NOT_COVERED = "covered", "not covered"
_GRAPH_BLIND = "graph-blind linear"
_BASELINES = {
    "majority": "nothing: always predicts the most frequent class",
    "random": "nothing: draws a class at random",
    _GRAPH_BLIND: "the new document only; trained the same way without links",
    "graph-blind mlp": "the new document only; a network trained the same way without links",
    "mlp": "the new document only; a network trained without links",
}
# Above this many classes, columns of a confusion matrix are headed by numbers.
_MOST_NAMED_COLUMNS = 12
_LEVELS = 10


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)


class Measures(_Record):
    """The scores of one mode or baseline; ``None`` where there was nothing to score."""

    micro_f1: Number | None
    macro_f1: Number | None = None
    accuracy: Number | None = None


class ClassScores(_Record):
    """The scores of one class."""

    name: str = Field(alias="class")
    precision: Number | None = None
    recall: Number | None = None
    f1: Number | None = None
    support: int | None = None


class ModeScores(Measures):
    """The scores of one inference mode, class by class."""

    documents: int | None = None
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
        return f"{counts.pop():,} test documents" if len(counts) == 1 else "test documents"


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
    columns = ["mode", "guarantee", *MEASURES.values(), "what is seen"]
    rows = [
        [name, guarantee, *(getattr(entry, measure) for measure in MEASURES), sees]
        for name, guarantee, entry, sees in entries
    ]
    if not private:
        for line in (columns, *rows):
            del line[1]
    return Table(
        title=f"Scores on the {scores.documents()}, by inference mode, and of the baselines",
        columns=tuple(columns),
        rows=tuple(map(tuple, rows)),
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
