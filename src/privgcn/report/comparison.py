"""Several runs side by side, and the privacy-utility curves that they make together."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from privgcn.config import Settings
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.statement_text import SHORT_UNIT, round_up
from privgcn.report.citation import citations
from privgcn.report.curve import curve_figure
from privgcn.report.figures import Figure
from privgcn.report.formats import is_number, number
from privgcn.report.score_tables import MODE_ORDER, check_scores
from privgcn.report.summarise import NO_GUARANTEE, SYNTHETIC, WORKING_COPY, check_pair
from privgcn.report.tables import Table


@dataclass(frozen=True)
class RunRecord:
    """One run, as far as a page needs it.

    Attributes:
        name: What the page calls it.
        settings: What was asked for.
        statement: What may be claimed; ``None`` without privacy.
        scores: The content of ``scores.json``.
        checked: Which files the claim was checked against.
    """

    name: str
    settings: Settings
    statement: PrivacyStatement | None
    scores: dict[str, Any]
    checked: tuple[str, ...] = ()

    @property
    def dataset(self) -> str:
        """What the run was trained on."""
        return str(self.scores.get("dataset") or self.settings.data.source or "unnamed")


def runs_summary(runs: Sequence[RunRecord]) -> dict[str, Any]:
    """Everything the page of several runs shows."""
    for run in runs:
        check_pair(run.settings, run.statement, f"run {run.name}")
    records = [check_scores(run.scores, f"run {run.name}") for run in runs]
    private = [run for run in runs if run.statement is not None]
    single = len(runs) == 1
    claims = f"{len(private) or 'none'} of them with"
    if single:
        claims = "with" if private else "without"
    notices = [WORKING_COPY] if private else []
    if single and not private:
        notices.append(NO_GUARANTEE)
    elif len(private) < len(runs):
        some = "Some of these models were" if private else "These models were"
        text = (
            NO_GUARANTEE["text"].replace("This model was", some).replace("It may", "They may")
        )
        notices.append({**NO_GUARANTEE, "text": text.replace("so may its", "so may their")})
    made = [record.get("synthetic") is True for record in records]
    badge = "SYNTHETIC" if all(made) else "PARTLY SYNTHETIC" if any(made) else None
    if badge is not None:
        some = "The" if all(made) else "Some of the"
        text = SYNTHETIC["text"].replace("The", some, 1)
        notices.append({**SYNTHETIC, "text": text})
    return {
        "title": "1 run" if single else f"{len(runs)} runs side by side",
        "synthetic": badge,
        "lede": f"{len(runs)} run{'' if single else 's'} on "
        f"{_listed({run.dataset for run in runs})}; {claims} a privacy guarantee.",
        "notices": notices,
        "run_table": _run_table(runs, records),
        "curves": _curves(runs, records),
        "citations": citations(),
    }


def _run_table(runs: Sequence[RunRecord], records: Sequence[dict[str, Any]]) -> Table:
    rows: list[tuple[Any, ...]] = []
    for run, record in zip(runs, records, strict=True):
        statement = run.statement
        claim: tuple[Any, ...] = ("no guarantee", None, None, "no guarantee")
        if statement is not None:
            claim = (
                f"≤ {round_up(statement.epsilon)}",
                number(statement.delta),
                SHORT_UNIT[statement.unit],
                "yes" if statement.releasable else "no",
            )
        scores = (record["modes"].get(mode, {}).get("micro_f1") for mode in MODE_ORDER)
        dataset = f"{run.dataset} (synthetic)" if record.get("synthetic") else run.dataset
        rows.append((run.name, dataset, run.settings.recipe, *claim, *scores))
    return Table(
        title="The runs: guarantee, and micro-F1 by inference mode",
        columns=(
            "run", "dataset", "recipe", "epsilon", "delta", "protects", "releasable",
            *MODE_ORDER,
        ),
        rows=tuple(rows),
        notes=("Scores of full-graph are not covered by any guarantee.",),
    )  # fmt: skip


def _curves(runs: Sequence[RunRecord], records: Sequence[dict[str, Any]]) -> list[Figure]:
    """One figure for each dataset and kind of guarantee: other epsilons do not compare."""
    groups: dict[tuple[str, str, str], dict[tuple[str, str, float], list[float]]] = {}
    levels: dict[str, dict[str, list[float]]] = {}
    recipes: dict[str, set[str]] = {}
    for run, record in zip(runs, records, strict=True):
        for mode, entry in record["modes"].items():
            value = entry["micro_f1"]
            if not is_number(value):
                continue
            if run.statement is None:
                levels.setdefault(run.dataset, {}).setdefault(mode, []).append(value)
                continue
            kind = (run.dataset, run.statement.unit, run.statement.relation)
            recipes.setdefault(run.dataset, set()).add(run.settings.recipe)
            epsilon = float(round_up(run.statement.epsilon, 3))
            place = (run.settings.recipe, mode, epsilon)
            groups.setdefault(kind, {}).setdefault(place, []).append(value)
    figures = []
    for (dataset, unit, relation), points in groups.items():
        several = len(recipes[dataset]) > 1
        curve: list[dict[str, Any]] = []
        for (recipe, mode, epsilon), values in points.items():
            name = f"{recipe}, {mode}" if several else mode
            curve.append({"series": name, "epsilon": epsilon, **_mean(values)})
        for mode, values in levels.get(dataset, {}).items():
            curve.append(
                {"series": f"without privacy, {mode}", "epsilon": None, **_mean(values)}
            )
        figures.append(
            Figure.from_dict(
                {
                    **curve_figure(curve),
                    "title": f"{dataset}: score against epsilon (unit {unit}, {relation})",
                    "y_label": "micro-F1 on the test documents",
                    "notes": "Runs with the same settings and epsilon are averaged.",
                }
            )
        )
    return figures


def _mean(values: Sequence[float]) -> dict[str, float | None]:
    spread = statistics.stdev(values) if len(values) > 1 else None
    return {"score": statistics.fmean(values), "std": spread}


def _listed(names: set[str]) -> str:
    *most, last = sorted(names)
    return f"{', '.join(most)} and {last}" if most else last
