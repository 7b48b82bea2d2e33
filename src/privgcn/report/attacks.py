"""Attacks on a model as a table and a figure: what ``privgcn attack --out`` wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privgcn.report.charts import Figure, Point, Series
from privgcn.report.scores import COVERAGE, COVERED, NOT_COVERED
from privgcn.report.tables import Cell, Table

Attacks = Mapping[str, Any]


def table(attacks: Attacks) -> Table:
    """One row for each attack, model and inference mode."""
    from privgcn.audit.bounds import FALSE_POSITIVES

    rates = tuple(f"TPR at {rate:g} FPR" for rate in FALSE_POSITIVES)
    columns = ("attack", "model", "inference", COVERAGE, "AUC", *rates, "AUC of others")
    rows = [_cells(row, attacks["column"]) for row in attacks["rows"]]
    return Table(f"Attacks on models of {attacks['source']}", columns, rows, notes(attacks))


def figure(attacks: Attacks) -> Figure:
    """The AUC of each attack as bars, one series for each kind of model."""
    from privgcn.audit.attacks import NO_MODEL

    rows = attacks["rows"]
    return Figure(
        f"Attacks on models of {attacks['source']}",
        [
            Series(
                model,
                [_point(row) for row in rows if row["model"] == model],
                "reference" if model == NO_MODEL else "data",
            )
            for model in dict.fromkeys(row["model"] for row in rows)
        ],
        x_label="attack",
        y_label="AUC (0.5 is chance)",
        kind="bar",
    )


def attack_name(attack: str, column: str | None) -> str:
    """What is attacked, in words."""
    return f"column {column}" if attack == "column" else attack


def notes(attacks: Attacks) -> list[str]:
    """How to read the numbers."""
    lines = [
        "AUC 0.5 is chance; ranges are 95 % intervals. Attacks show what these adversaries "
        "learned, not what others could.",
        f"Membership: {attacks['shadows']} models of each kind on random halves, each attacked "
        "by the others.",
        "Edges: connected documents are alike, so compare with what their texts alone tell.",
    ]
    if attacks["column"] is not None:
        lines.append("AUC of others: the same guess about documents that trained no model.")
    return lines


def _cells(row: Mapping[str, Any], column: str | None) -> tuple[Cell, ...]:
    covered = None
    if row["inference"] is not None and row["model"].startswith("epsilon"):
        covered = COVERED if row["covered"] else NOT_COVERED
    others = None if row["others"] is None else _text(row["others"])
    numbers = (_text(row["auc"]), *map(_text, row["tpr"]), others)
    name = attack_name(row["attack"], column)
    return name, row["model"], row["inference"], covered, *numbers


def _text(measured: Any) -> str:
    value, low, high = measured
    return f"{value:.3f} ({low:.3f} to {high:.3f})"


def _point(row: Mapping[str, Any]) -> Point:
    position = (
        row["attack"] if row["inference"] is None else f"{row['attack']}, {row['inference']}"
    )
    value, low, high = row["auc"]
    return Point(position, value, ends=(low, high))
