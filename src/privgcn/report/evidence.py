"""Attacks on a model as a table and a figure."""

from __future__ import annotations

from privgcn.evidence.attack_record import NO_MODEL, AttackRow, Attacks
from privgcn.evidence.roc import FALSE_POSITIVES, Measured
from privgcn.report.figures import Figure, Point, Series
from privgcn.report.scores import COVERED, NOT_COVERED
from privgcn.report.tables import Cell, Table

_CHANCE = 0.5
# Half the width of a 95 % interval, in standard deviations.
_WIDE = 1.959964


def attack_table(found: Attacks) -> Table:
    """One row for each attack, model and inference mode."""
    rates = tuple(f"TPR at {rate:g} FPR" for rate in FALSE_POSITIVES)
    return Table(
        title=f"Attacks on models of {found.source}",
        columns=("attack", "model", "inference", "guarantee", "AUC", *rates, "AUC of others"),
        rows=tuple(_cells(row, found.column) for row in found.rows),
        notes=attack_notes(found),
    )


def attack_figure(found: Attacks) -> Figure:
    """The AUC of each attack as bars, one series for each kind of model."""
    models = dict.fromkeys(row.model for row in found.rows)
    return Figure(
        title=f"Attacks on models of {found.source}",
        kind="bar",
        x_label="attack",
        y_label="AUC (0.5 is chance)",
        series=tuple(
            Series(
                name=model,
                points=tuple(_point(row) for row in found.rows if row.model == model),
                role="reference" if model == NO_MODEL else "data",
            )
            for model in models
        ),
        notes=(*attack_notes(found), "In the figure, ± is one standard error."),
    )


def attack_name(attack: str, column: str | None) -> str:
    """What is attacked, in words."""
    return f"column {column}" if attack == "column" else attack


def _cells(row: AttackRow, column: str | None) -> tuple[Cell, ...]:
    guarantee = None
    if row.inference is not None and row.model.startswith("epsilon"):
        guarantee = COVERED if row.covered else NOT_COVERED
    others = None if row.others is None else _text(row.others)
    numbers = (_text(row.auc), *map(_text, row.tpr), others)
    return attack_name(row.attack, column), row.model, row.inference, guarantee, *numbers


def _text(value: Measured) -> str:
    return f"{value.value:.3f} ({value.low:.3f} to {value.high:.3f})"


def _point(row: AttackRow) -> Point:
    place = row.attack if row.inference is None else f"{row.attack}, {row.inference}"
    return Point(place, row.auc.value, (row.auc.high - row.auc.low) / 2 / _WIDE)


def attack_notes(found: Attacks) -> tuple[str, ...]:
    """How to read the numbers."""
    notes = [
        f"AUC {_CHANCE:g} is chance; ranges are 95 % intervals. Attacks show what these "
        "adversaries found, not what others could.",
        f"Membership: {found.shadows} models of each kind on random halves, each attacked by "
        "the others.",
        "Links: linked documents are alike, so compare with what their texts alone tell.",
    ]
    if found.column is not None:
        notes.append("AUC of others: the same guess about documents that trained no model.")
    return tuple(notes)
