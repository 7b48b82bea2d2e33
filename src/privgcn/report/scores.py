"""The scores of a run as tables and charts: the dict of ``scores.json``, read as it is.

>>> entry = {"micro_f1": 0.5, "macro_f1": 0.4, "documents": 8}
>>> table = mode_table({"modes": {"alone": entry}}, private=True)
>>> table.rows[0][:3]
('alone', 'covered', 0.5)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privgcn.config import MODES, Mode, facts_of
from privgcn.privacy.wording import round_up
from privgcn.report.charts import Figure, Point, Role, Series
from privgcn.report.tables import Cell, MeanStd, Table
from privgcn.report.text import between

Scores = Mapping[str, Any]

SCORE_AXIS = "micro-F1 on the test documents"
COVERED, NOT_COVERED = "covered", "not covered"
COVERAGE = "training documents"
"""What the guarantee covers or does not: the head of the column that says so."""

_MEASURES = {"micro_f1": "micro-F1", "macro_f1": "macro-F1"}
_OWN_BASELINE = "graph-blind linear"
_BASELINES = {
    "majority": "nothing: always predicts the most frequent class",
    "random": "nothing: predicts a random class",
}
# Above this many classes, columns of a confusion matrix are headed by numbers.
_MOST_NAMED_COLUMNS = 12
_LEVELS = 10


def modes_of(table: Mapping[str, Any]) -> list[Mode]:
    """The modes that a table of scores has, from the one that sees least."""
    return [mode for mode in MODES if mode in table]


def baselines_of(scores: Scores) -> dict[str, Any]:
    """What a result must beat; not the model itself, predicting each document alone."""
    rows = scores.get("baselines", {})
    return {name: row for name, row in rows.items() if name != _OWN_BASELINE}


def leading(scores: Scores, *, private: bool) -> Mode:
    """The mode that leads: with privacy the best-informed one that is still covered."""
    known = modes_of(scores["modes"])
    covered = [mode for mode in known if not private or facts_of(mode).covered]
    return (covered or known)[-1]


def documents(scores: Scores) -> str:
    """What was scored, with the number where it is known."""
    counts = {entry.get("documents") for entry in scores["modes"].values()}
    count = counts.pop() if len(counts) == 1 else None
    if count is None:
        return "test documents"
    return "1 test document" if count == 1 else f"{count:,} test documents"


def mode_label(mode: str, *, private: bool) -> str:
    """The name of a mode in a chart; what the guarantee does not cover says so."""
    return mode if facts_of(mode).covered or not private else f"{mode} ({NOT_COVERED})"


def cells(entry: Mapping[str, Any], measure: str) -> tuple[float | None, str | None]:
    """A score, and its interval in words."""
    return entry.get(measure), between(entry.get("intervals", {}).get(measure))


def mode_table(scores: Scores, *, private: bool) -> Table:
    """Modes and baselines, one row each, with what they see and whether that is covered."""
    rows: list[tuple[Cell, ...]] = []
    for mode in modes_of(scores["modes"]):
        facts, entry = facts_of(mode), scores["modes"][mode]
        covered = COVERED if facts.covered else NOT_COVERED
        rows.append((mode, *([covered] * private), *_measured(entry), facts.sees))
    for name, entry in baselines_of(scores).items():
        sees = _BASELINES.get(name, "")
        rows.append((f"baseline: {name}", *([None] * private), *_measured(entry), sees))
    columns = ["mode", *([COVERAGE] * private)]
    columns += [head for name in _MEASURES.values() for head in (name, f"{name}, 95\u00a0%")]
    notes = [
        "The 95 % intervals answer for the test documents, not for the luck of a seed. "
        "Accuracy is micro-F1 here, because each document has one class."
    ]
    if private:
        notes.append(
            "The guarantee is for the training documents. Test documents and new documents "
            "have none: scores and predictions may tell something about them."
        )
    dataset = f" of {scores['dataset']}" if scores.get("dataset") else ""
    dataset += " (synthetic)" if scores.get("synthetic") else ""
    return Table(
        f"Scores on the {documents(scores)}{dataset}, by inference mode, and of the baselines",
        (*columns, "what is seen"),
        rows,
        (*notes, *forecast_notes(scores)),
    )


def _measured(entry: Mapping[str, Any]) -> list[Cell]:
    return [cell for measure in _MEASURES for cell in cells(entry, measure)]


def forecast_notes(scores: Scores) -> list[str]:
    """Whether the score is what was forecast; nothing where nobody knew."""
    forecast = scores.get("forecast")
    if forecast is None:
        return []
    (low, high), value = forecast["interval"], forecast["score"]
    where = "below" if value < low else "above" if value > high else "within"
    return [
        f"Before training, the forecast was a micro-F1 of {low:.3f} to {high:.3f} in mode "
        f"{forecast['mode']}, from runs on other corpora of this size. The score of "
        f"{value:.3f} lies {where} that."
    ]


def reference_table(scores: Scores) -> Table | None:
    """Non-private models by inference mode; ``None`` for a run that has none."""
    references = scores.get("references", {})
    modes = modes_of(references)
    if not modes:
        return None
    rows: list[tuple[Cell, ...]] = []
    for name in references[modes[0]]["scores"]:
        scored = [cells(references[mode]["scores"][name], "micro_f1") for mode in modes]
        rows.append((name, *(cell for pair in scored for cell in pair)))
    columns = [head for mode in modes for head in (mode, f"{mode}, 95\u00a0%")]
    best = "; ".join(f"{mode}: {references[mode]['best']}" for mode in modes)
    notes = [f"The reference is the best on the validation documents: {best}."]
    return Table(
        "Micro-F1 without privacy, by inference mode", ("model", *columns), rows, notes
    )


def repeat_table(scores: Scores) -> Table | None:
    """Scores over several seeds; ``None`` for a run with one seed."""
    repeats = scores.get("repeats")
    if repeats is None:
        return None
    seeds = repeats["seeds"]
    rows: list[tuple[Cell, ...]] = []
    for mode in modes_of(repeats["modes"]):
        for measure, name in _MEASURES.items():
            row = repeats["modes"][mode].get(measure)
            if row is not None:
                mean = MeanStd(row["mean"], row["std"])
                rows.append((mode, name, mean, between(row["interval"]), row["values"][0]))
    notes = [
        f"Seeds {seeds[0]} to {seeds[-1]}. The model is that of seed {repeats['model']}, named "
        "beforehand; the others were scored and forgotten."
    ]
    if repeats.get("composed_epsilon") is not None:
        notes.append(
            f"To publish anything of all {len(seeds)} seeds, their scores included, would cost "
            f"epsilon {round_up(repeats['composed_epsilon'])} together. Keep them to yourself."
        )
    columns = ("mode", "score", "mean ± deviation", "95\u00a0% interval", "of the model")
    return Table(f"Scores over {len(seeds)} seeds", columns, rows, notes)


def score_figure(scores: Scores, *, private: bool) -> Figure | None:
    """Micro-F1 as bars, because it is what the paper reports; ``None`` without any score."""
    bars: list[tuple[str, str, Any, Role]] = []
    for mode in modes_of(scores["modes"]):
        label = mode_label(mode, private=private)
        bars.append((label, label, scores["modes"][mode], "data"))
    forecast = scores.get("forecast")
    if forecast is not None:
        ends = forecast["interval"]
        entry = {"micro_f1": sum(ends) / 2, "intervals": {"micro_f1": ends}}
        position = f"forecast for {forecast['mode']}"
        bars.append((position, position, entry, "range"))
    for name, entry in baselines_of(scores).items():
        bars.append(("baseline", name, entry, "reference"))
    series = []
    for name, position, entry, role in bars:
        value, ends = entry.get("micro_f1"), entry.get("intervals", {}).get("micro_f1")
        if value is not None:
            point = Point(position, value, ends=None if ends is None else tuple(ends))
            series.append(Series(name, [point], role))
    if not any(one.role == "data" for one in series):
        return None
    known = any("intervals" in row for row in scores["modes"].values())
    return Figure(
        "Micro-F1 by inference mode, and of the baselines",
        series,
        x_label="mode or baseline",
        y_label=SCORE_AXIS,
        kind="bar",
        notes=["Whiskers are 95 % intervals."] if known else [],
    )


def class_table(entry: Mapping[str, Any], mode: str) -> Table | None:
    """Precision, recall and F1 of each class; ``None`` where they were not stored."""
    if not entry.get("per_class"):
        return None
    keys = ("class", "precision", "recall", "f1", "support")
    return Table(
        f"Scores by class, inference {mode}",
        ("class", "precision", "recall", "F1", "test documents"),
        [tuple(row.get(key) for key in keys) for row in entry["per_class"]],
    )


def confusion(entry: Mapping[str, Any], classes: list[str]) -> dict[str, Any] | None:
    """A heat table: each row is a true class, shaded by the fraction of its documents."""
    if not entry.get("confusion"):
        return None
    rows = []
    for row, (name, counts) in enumerate(zip(classes, entry["confusion"], strict=True)):
        # Zero stays white; whatever is there at all is visible.
        cells = [
            {
                "count": count,
                "level": max(1, round(_LEVELS * count / sum(counts))) if count else 0,
                "right": column == row,
            }
            for column, count in enumerate(counts)
        ]
        rows.append({"name": name, "cells": cells})
    numbered = len(classes) > _MOST_NAMED_COLUMNS
    return {"classes": classes, "rows": rows, "numbered": numbered, "levels": _LEVELS}
