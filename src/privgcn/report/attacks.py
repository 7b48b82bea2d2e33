"""Attacks on a model as a table and a figure: what ``privgcn attack --out`` wrote."""

from __future__ import annotations

from privgcn.audit.attacks import NO_MODEL, Attacks
from privgcn.audit.bounds import FALSE_POSITIVES
from privgcn.report.charts import Figure, Point, Series
from privgcn.report.scores import COVERAGE, COVERED, NOT_COVERED
from privgcn.report.tables import Table


def table(attacks: Attacks) -> Table:
    """One row for each attack, model and inference mode, with how to read the numbers."""
    rows = []
    for row in attacks.rows:
        covered = None
        if row.inference is not None and row.model.startswith("epsilon"):
            covered = COVERED if row.covered else NOT_COVERED
        numbers = [str(Point(None, value, ends)) for value, *ends in (row.auc, *row.tpr)]
        rows.append((row.attack, row.model, row.inference, covered, *numbers))
    notes = [
        "AUC 0.5 is chance; ranges are 95 % intervals. Attacks show what these adversaries "
        "learned, not what others could.",
        f"Membership: {attacks.shadows} models of each kind on random halves, each attacked "
        "by the others.",
        "Edges: connected documents are alike, so compare with what their texts alone tell.",
    ]
    rates = (f"TPR at {rate:.1%} FPR" for rate in FALSE_POSITIVES)
    columns = ("attack", "model", "inference", COVERAGE, "AUC", *rates)
    return Table(f"Attacks on models of {attacks.source}", columns, rows, notes)


def figure(attacks: Attacks) -> Figure:
    """AUCs as bars, one colour for each kind of model."""
    points: dict[str, list[Point]] = {}
    for row in attacks.rows:
        at = ", ".join(filter(None, (row.attack, row.inference)))
        value, *ends = row.auc
        points.setdefault(row.model, []).append(Point(at, value, ends))
    series = [Series(model, bars, model == NO_MODEL) for model, bars in points.items()]
    title = f"Attacks on models of {attacks.source}"
    return Figure(title, series, "attack", "AUC (0.5 is chance)", bars=True)
