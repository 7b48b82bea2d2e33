"""Reads ``scores.json`` as a page needs it, and refuses what it could only misread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from privgcn.errors import DataError
from privgcn.modes import MODES, facts_of
from privgcn.report.formats import BASELINE_WORDS, is_number
from privgcn.report.tables import Table

MEASURES = {"micro_f1": "micro-F1", "macro_f1": "macro-F1", "accuracy": "accuracy"}
# Above this many classes, columns of a confusion matrix are headed by numbers.
_MOST_NAMED_COLUMNS = 12
_LEVELS = 10


def check_scores(scores: Any, owner: str = "a run") -> dict[str, Any]:
    """The scores, if a page can show them.

    Raises:
        DataError: Naming what is missing or wrong.
    """
    if not isinstance(scores, Mapping):
        raise DataError(f"The scores of {owner} must be an object. Got {str(scores)[:60]!r}.")
    modes = scores.get("modes")
    if not isinstance(modes, Mapping) or not modes:
        raise DataError(
            f"The 'modes' of the scores of {owner} must hold the scores of at least one "
            f"inference mode. Got {modes!r}. Run 'privgcn evaluate' first."
        )
    unknown = [mode for mode in modes if mode not in MODES]
    if unknown:
        raise DataError(
            f"The 'modes' of the scores of {owner} must be among {', '.join(MODES)}. "
            f"Got {unknown[0]!r}."
        )
    baselines = scores.get("baselines") or {}
    for kind, group in (("mode", modes), ("baseline", baselines)):
        if not isinstance(group, Mapping):
            raise DataError(f"The '{kind}s' of the scores of {owner} must be an object.")
        for name, entry in group.items():
            if not isinstance(entry, Mapping) or "micro_f1" not in entry:
                raise DataError(
                    f"The scores of {kind} '{name}' of {owner} must have a 'micro_f1'. "
                    f"Got {str(entry)[:60]!r}."
                )
    for name, entry in modes.items():
        _check_matrix(entry, scores.get("classes"), f"{name!r} of {owner}")
    ordered = {mode: modes[mode] for mode in MODES if mode in modes}
    return {**scores, "modes": ordered, "baselines": dict(baselines)}


def headline_mode(scores: Mapping[str, Any], *, private: bool) -> str:
    """The mode that leads: with privacy the best-informed one that is still covered."""
    order = ("own-graph", "alone", "full-graph") if private else reversed(MODES)
    return next(mode for mode in order if mode in scores["modes"])


def score_rows(scores: Mapping[str, Any], *, private: bool) -> Table:
    """Modes and baselines, one row each, with what they see and whether that is covered."""
    rows: list[tuple[Any, ...]] = []
    for mode, entry in scores["modes"].items():
        inside = ("yes" if covered(mode) else "no",) if private else ()
        rows.append((mode, *_measures(entry), *inside, facts_of(mode).sees))
    for name, entry in scores["baselines"].items():
        nothing = (None,) if private else ()
        words = BASELINE_WORDS.get(name, "")
        rows.append((f"baseline: {name}", *_measures(entry), *nothing, words))
    title = ("covered",) if private else ()
    return Table(
        title="Scores on the test documents, by inference mode, beside the baselines",
        columns=("mode", *MEASURES.values(), *title, "what is seen"),
        rows=tuple(rows),
    )


def covered(mode: str) -> bool:
    """Whether the training guarantee extends to predictions of a mode."""
    return facts_of(mode).covered


def score_figure(scores: Mapping[str, Any], *, private: bool) -> dict[str, Any]:
    """The same as bars: micro-F1, because it is what the paper reports."""
    inside = "covered by the guarantee" if private else "inference mode"
    outside = "not covered" if private else "inference mode with training documents in sight"
    groups: dict[str, list[list[Any]]] = {inside: [], outside: [], "baseline": []}
    for mode, entry in scores["modes"].items():
        if is_number(entry["micro_f1"]):
            groups[inside if covered(mode) else outside].append([mode, entry["micro_f1"]])
    for name, entry in scores["baselines"].items():
        if is_number(entry["micro_f1"]):
            groups["baseline"].append([name, entry["micro_f1"]])
    return {
        "title": "Micro-F1 by inference mode, beside the baselines",
        "kind": "bar",
        "x_label": "mode or baseline",
        "y_label": "micro-F1 on the test documents",
        "series": [
            {
                "name": name,
                "points": points,
                "role": "reference" if name == "baseline" else "data",
            }
            for name, points in groups.items()
            if points
        ],
    }


def class_table(entry: Mapping[str, Any], mode: str) -> Table | None:
    """Precision, recall and F1 of each class; ``None`` where they were not kept."""
    rows = entry.get("per_class") or []
    if not rows:
        return None
    return Table(
        title=f"Scores by class, inference {mode}",
        columns=("class", "precision", "recall", "F1", "test documents"),
        rows=tuple(
            (
                str(row.get("class", "")),
                row.get("precision"),
                row.get("recall"),
                row.get("f1"),
                row.get("support"),
            )
            for row in rows
        ),
    )


def confusion(entry: Mapping[str, Any], classes: Sequence[str]) -> dict[str, Any] | None:
    """A heat table: each row is a true class, shaded by the share of its documents."""
    matrix = entry.get("confusion") or []
    if not matrix:
        return None
    rows: list[dict[str, Any]] = []
    for name, counts in zip(classes, matrix, strict=True):
        total = sum(counts)
        cells = [
            {"count": n, "level": _level(n, total), "right": i == len(rows)}
            for i, n in enumerate(counts)
        ]
        rows.append({"name": name, "total": total, "cells": cells})
    return {
        "classes": list(classes),
        "rows": rows,
        "numbered": len(classes) > _MOST_NAMED_COLUMNS,
        "levels": _LEVELS,
    }


def _level(count: int, total: int) -> int:
    """Zero stays white; whatever is there at all is seen."""
    return 0 if not count else max(1, round(_LEVELS * count / total))


def _measures(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(entry.get(name) for name in MEASURES)


def _check_matrix(entry: Mapping[str, Any], classes: Any, owner: str) -> None:
    matrix = entry.get("confusion") or []
    rows = entry.get("per_class") or []
    size = len(matrix)
    counts = isinstance(matrix, list) and all(
        isinstance(row, list)
        and len(row) == size
        and all(isinstance(n, int) and n >= 0 for n in row)
        for row in matrix
    )
    named = not size or (isinstance(classes, list | tuple) and len(classes) == size)
    listed = isinstance(rows, list) and all(isinstance(row, Mapping) for row in rows)
    if not (counts and named and listed):
        raise DataError(
            f"The 'confusion' and 'per_class' of the scores of mode {owner} must be a square "
            "matrix of counts with one row for each of the 'classes', and a list of objects. "
            "Train or evaluate again."
        )
