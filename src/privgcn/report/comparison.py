"""Several runs side by side, and the privacy-utility curves that they make together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from privgcn.config import MODES
from privgcn.errors import ConfigError, DataError, PrivGCNError, reason
from privgcn.privacy.wording import SHORT_UNIT, round_up
from privgcn.report.charts import Figure, Point, Series
from privgcn.report.page import dataset_of, run_page
from privgcn.report.scores import COVERAGE, SCORE_AXIS, cells, covered_modes
from privgcn.report.tables import Cell, Table
from privgcn.report.text import rendered
from privgcn.runs.folder import SCORES
from privgcn.runs.run import CHECKED, Run

EPSILON_AXIS = "epsilon (smaller is more private)"


def folders_page(folders: Sequence[Path], *, evidence: Path | None = None) -> str:
    """The page of one run, or of several side by side.

    Every claim is computed again from its files before the page repeats it. ``evidence`` is
    what ``privgcn attack --out`` wrote about the documents of a single run.
    """
    runs = [Run(folder) for folder in folders]
    for run in runs:
        if run.kind != "run":
            raise DataError(
                f"The {run.kind} {run.folder} has no scores to report. Name the run itself; of "
                "a release, card.html is the page."
            )
    if len(runs) > 1:
        if evidence is not None:
            raise ConfigError(f"A report with evidence must be of one run. Got {len(runs)}.")
        with _readable(runs):
            return runs_page(runs)
    attacks, run = None, runs[0]
    if evidence is not None:
        from privgcn.audit.attacks import read_attacks

        attacks = read_attacks(evidence)
    with _readable(runs):
        return run_page(
            run.settings,
            run.statement,
            run.scores,
            name=run.folder.resolve().name,
            checked=CHECKED,
            attacks=attacks,
        )


@contextmanager
def _readable(runs: Sequence[Run]) -> Iterator[None]:
    """Whoever can write a folder can write scores that are none: nothing else binds them."""
    from jinja2 import TemplateError

    wrong = (ArithmeticError, AttributeError, LookupError, TemplateError, TypeError, ValueError)
    try:
        yield
    except PrivGCNError:
        raise
    except wrong as error:
        names = " or ".join(str(run.folder / SCORES) for run in runs)
        raise DataError(
            f"The file {names} holds no scores as 'privgcn train' writes them "
            f"({reason(error)}). Train again."
        ) from error


def runs_page(runs: Sequence[Run]) -> str:
    """The page of several runs."""
    private = [run for run in runs if run.statement is not None]
    synthetic = all(run.scores.get("synthetic") for run in runs)
    notices = {
        "working_copy": bool(private),
        "no_guarantees": len(private) < len(runs),
        "synthetic": synthetic,
    }
    page = {
        "title": f"{len(runs)} runs side by side",
        "synthetic": synthetic,
        "lede": f"{len(runs)} runs, {len(private) or 'none'} of them with a privacy guarantee.",
        "notices": [name for name, due in notices.items() if due],
        "run_table": _run_table(runs),
        "curves": _curves(runs),
    }
    return rendered("runs.html", page=page)


def _run_table(runs: Sequence[Run]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        statement, scores = run.statement, run.scores
        claim: tuple[Cell, ...] = ("no guarantee", None, None)
        if statement is not None:
            unit = SHORT_UNIT[statement.unit]
            unit += "" if statement.releasable else "; must not be released"
            claim = (f"≤ {round_up(statement.epsilon)}", round_up(statement.delta), unit)
        dataset = dataset_of(run.settings, scores)
        dataset += " (synthetic)" if scores.get("synthetic") else ""
        shown = [c for mode in MODES for c in cells(scores["modes"].get(mode, {}), "micro_f1")]
        rows.append((str(run.folder), dataset, run.settings.recipe, *claim, *shown))
    columns = ["run", "dataset", "recipe", "epsilon", "delta", "protects"]
    columns += [name for mode in MODES for name in (mode, f"{mode}, 95\u00a0%")]
    note = (
        f"No guarantee of the {COVERAGE} covers the scores of full-graph. The 95 % intervals "
        "answer for the test documents, not for the luck of a seed."
    )
    return Table("Guarantee of each run, and micro-F1 by inference mode", columns, rows, [note])


def _curves(runs: Sequence[Run]) -> list[Figure]:
    """One figure for each dataset and kind of guarantee: other epsilons do not compare."""
    figures: dict[tuple[str, ...], dict[str, list[Point]]] = {}
    levels: dict[str, list[Series]] = {}
    for run in runs:
        dataset, claim = dataset_of(run.settings, run.scores), run.statement
        for mode in covered_modes(run.scores):
            value = run.scores["modes"][mode].get("micro_f1")
            if value is not None and claim is None:
                level = Series(f"without privacy, {mode}", [Point(None, value)], reference=True)
                levels.setdefault(dataset, []).append(level)
            elif value is not None and claim is not None:
                lines = figures.setdefault((dataset, claim.unit, claim.relation), {})
                point = Point(float(round_up(claim.epsilon, 3)), value)
                lines.setdefault(f"{run.settings.recipe}, {mode}", []).append(point)
    return [
        Figure(
            f"{dataset}: score against epsilon (unit {unit}, relation {relation})",
            [*(Series(*line) for line in lines.items()), *levels.get(dataset, [])],
            EPSILON_AXIS,
            SCORE_AXIS,
        )
        for (dataset, unit, relation), lines in figures.items()
    ]
