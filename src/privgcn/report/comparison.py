"""Several runs side by side, and the privacy-utility curves that they make together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from privgcn.config import MODES, Mode, Settings
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.statement_text import SHORT_UNIT, round_up
from privgcn.report.curves import EPSILON_AXIS, shown_epsilon
from privgcn.report.figures import Figure, Point, Series
from privgcn.report.formats import number
from privgcn.report.pages import citations, notice
from privgcn.report.run_page import check_pair
from privgcn.report.scores import SCORE_AXIS, Scores, mode_label
from privgcn.report.tables import MeanStd, Table


@dataclass(frozen=True)
class RunRecord:
    """One run, as far as a page needs it; ``checked`` are the files the claim was held to."""

    name: str
    settings: Settings
    statement: PrivacyStatement | None
    scores: Scores
    checked: tuple[str, ...] = ()

    @property
    def dataset(self) -> str:
        """What the run was trained on."""
        return self.scores.dataset or self.settings.data.source or "unnamed"


def runs_summary(runs: Sequence[RunRecord]) -> dict[str, Any]:
    """Everything the page of several runs shows."""
    for run in runs:
        check_pair(run.settings, run.statement, f"run {run.name}")
    private = [run for run in runs if run.statement is not None]
    single = len(runs) == 1
    claims = f"{len(private) or 'none'} of them with"
    if single:
        claims = "with" if private else "without"
    notices = [notice("working_copy")] if private else []
    if single and not private:
        notices.append(notice("no_guarantee"))
    elif len(private) < len(runs):
        notices.append(notice("no_guarantees", these="Some of these" if private else "These"))
    made = [run.scores.synthetic for run in runs]
    badge = "SYNTHETIC" if all(made) else "PARTLY SYNTHETIC" if any(made) else None
    if badge is not None:
        notices.append(notice("synthetic", the="The" if all(made) else "Some of the"))
    return {
        "title": "1 run" if single else f"{len(runs)} runs side by side",
        "synthetic": badge,
        "lede": f"{len(runs)} run{'' if single else 's'} on "
        f"{_listed({run.dataset for run in runs})}, {claims} a privacy guarantee.",
        "notices": notices,
        "run_table": _run_table(runs),
        "curves": _curves(runs),
        "citations": citations(),
    }


def _run_table(runs: Sequence[RunRecord]) -> Table:
    rows: list[tuple[Any, ...]] = []
    for run in runs:
        statement = run.statement
        claim: tuple[Any, ...] = ("no guarantee", None, None, "no")
        if statement is not None:
            claim = (
                f"≤ {round_up(statement.epsilon)}",
                number(statement.delta),
                SHORT_UNIT[statement.unit],
                "yes" if statement.releasable else "no",
            )
        modes = run.scores.modes
        shown = (
            cell
            for mode in MODES
            for cell in (modes[mode].cells("micro_f1") if mode in modes else (None, None))
        )
        dataset = f"{run.dataset} (synthetic)" if run.scores.synthetic else run.dataset
        documents = max((entry.documents or 0 for entry in modes.values()), default=0)
        rows.append((run.name, dataset, run.settings.recipe, *claim, documents or None, *shown))
    outside = [mode for mode, facts in MODES.items() if not facts.covered]
    columns = ["run", "dataset", "recipe", "epsilon", "delta", "protects", "releasable"]
    columns += [
        "test documents",
        *(name for mode in MODES for name in (mode, f"{mode}, 95\u00a0%")),
    ]
    return Table(
        title="Guarantee of each run, and micro-F1 by inference mode",
        columns=tuple(columns),
        rows=tuple(rows),
        notes=(
            f"No guarantee covers the scores of {_listed(set(outside))}. The 95 % intervals "
            "answer for the test documents, not for the luck of a seed.",
        ),
    )


def _curves(runs: Sequence[RunRecord]) -> list[Figure]:
    """One figure for each dataset and kind of guarantee: other epsilons do not compare."""
    recipes = defaultdict(set)
    for run in runs:
        if run.statement is not None:
            recipes[run.dataset].add(run.settings.recipe)
    # Scores by figure, series and place.
    data: dict[Any, dict[str, dict[float, list[float]]]] = {}
    levels: dict[str, dict[str, list[float]]] = defaultdict(dict)
    for run in runs:
        for mode, entry in run.scores.ordered().items():
            if entry.micro_f1 is None:
                continue
            if run.statement is None:
                name, value = _without_privacy(run, mode, entry.micro_f1)
                levels[run.dataset].setdefault(name, []).append(value)
                continue
            name = mode_label(mode, private=True)
            if len(recipes[run.dataset]) > 1:
                name = f"{run.settings.recipe}, {name}"
            kind = (run.dataset, run.statement.unit, run.statement.relation)
            places = data.setdefault(kind, {}).setdefault(name, {})
            places.setdefault(shown_epsilon(run.statement), []).append(entry.micro_f1)
    return [
        Figure(
            title=f"{dataset}: score against epsilon (unit {unit}, relation {relation})",
            x_label=EPSILON_AXIS,
            y_label=SCORE_AXIS,
            series=(
                *(
                    Series(
                        name=name, points=tuple(_averaged(*p) for p in sorted(places.items()))
                    )
                    for name, places in found.items()
                ),
                *(
                    Series(name=name, points=(_averaged(None, values),), role="reference")
                    for name, values in levels[dataset].items()
                ),
            ),
            notes=("Runs with the same recipe and epsilon are averaged.",),
        )
        for (dataset, unit, relation), found in data.items()
    ]


def _without_privacy(run: RunRecord, mode: Mode, own: float) -> tuple[str, float]:
    """What private runs are compared with: the best reference, or the run itself."""
    reference = run.scores.references.get(mode)
    if reference is not None:
        value = reference.scores[reference.best].micro_f1
        if value is not None:
            return f"best without privacy, {mode}: {reference.best}", value
    return f"without privacy, {mode}", own


def _averaged(x: float | None, values: Sequence[float]) -> Point:
    over = MeanStd.of(values)
    return Point(x, over.mean, over.std)


def _listed(names: set[str]) -> str:
    *most, last = sorted(names)
    return f"{', '.join(most)} and {last}" if most else last
