"""Attacks on a model as a table and a figure: what ``privgcn attack --out`` wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privgcn.report.charts import Figure, Point, Series
from privgcn.report.scores import COVERAGE, COVERED, NOT_COVERED
from privgcn.report.tables import Cell, Table

Attacks = Mapping[str, Any]


def table(attacks: Attacks) -> Table:
    """One row for each attack, model and inference mode, with how to read the numbers."""
    from privgcn.audit.bounds import FALSE_POSITIVES

    rates = tuple(f"TPR at {rate:.1%} FPR" for rate in FALSE_POSITIVES)
    columns = ("attack", "model", "inference", COVERAGE, "AUC", *rates, "AUC of others")
    rows: list[tuple[Cell, ...]] = []
    for row in attacks["rows"]:
        covered = None
        if row["inference"] is not None and row["model"].startswith("epsilon"):
            covered = COVERED if row["covered"] else NOT_COVERED
        name = row["attack"]
        if name == "column":
            name = f"column {attacks['column']}"
        measured = [_text(one) for one in (row["auc"], *row["tpr"], row["others"])]
        rows.append((name, row["model"], row["inference"], covered, *measured))
    notes = [
        "AUC 0.5 is chance; ranges are 95 % intervals. Attacks show what these adversaries "
        "learned, not what others could.",
        f"Membership: {attacks['shadows']} models of each kind on random halves, each attacked "
        "by the others.",
        "Edges: connected documents are alike, so compare with what their texts alone tell.",
    ]
    if attacks["column"] is not None:
        notes.append("AUC of others: the same guess about documents that trained no model.")
    return Table(f"Attacks on models of {attacks['source']}", columns, rows, notes)


def _text(measured: Any) -> str | None:
    if measured is None:
        return None
    value, low, high = measured
    return f"{value:.3f} ({low:.3f} to {high:.3f})"


def figure(attacks: Attacks) -> Figure:
    """The AUC of each attack as bars, one series for each kind of model."""
    from privgcn.audit.attacks import NO_MODEL

    points: dict[str, list[Point]] = {}
    for row in attacks["rows"]:
        at = ", ".join(filter(None, (row["attack"], row["inference"])))
        value, low, high = row["auc"]
        points.setdefault(row["model"], []).append(Point(at, value, ends=(low, high)))
    return Figure(
        f"Attacks on models of {attacks['source']}",
        [
            Series(model, bars, "reference" if model == NO_MODEL else "data")
            for model, bars in points.items()
        ],
        x_label="attack",
        y_label="AUC (0.5 is chance)",
        kind="bar",
    )
