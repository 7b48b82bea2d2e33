"""Several runs side by side, and the privacy-utility curves that they make together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from privgcn.config import MODES
from privgcn.errors import ConfigError, DataError
from privgcn.privacy.wording import SHORT_UNIT, round_up
from privgcn.report.charts import Figure, Point, Series
from privgcn.report.page import RunRecord, notice, render, run_page
from privgcn.report.scores import COVERAGE, SCORE_AXIS, cells, covered_modes
from privgcn.report.tables import Cell, Table
from privgcn.report.text import number
from privgcn.runs.folder import SCORES, is_stored
from privgcn.runs.run import Run

EPSILON_AXIS = "epsilon (smaller is more private)"


def folders_page(paths: Sequence[Path], *, evidence: Path | None = None) -> str:
    """The page of one run, or of several side by side.

    Every claim is computed again from its files before the page repeats it.

    Args:
        paths: Run folders.
        evidence: What ``privgcn attack --out`` wrote about the documents of a single run.

    Raises:
        ConfigError: There is no folder, or one is there twice.
        DataError: A folder is no run, or a file in it cannot be read.
        PrivacyContractError: A statement was edited.
    """
    if not paths:
        raise ConfigError("A report needs at least one folder. Got none.")
    resolved = [path.resolve() for path in paths]
    for path in resolved:
        if resolved.count(path) > 1:
            raise ConfigError(
                f"Each folder of a report must be named once. Got {path} twice. Name it once."
            )
    names = [path.name for path in resolved]
    runs = [
        _read_run(path, "/".join(full.parts[-2:]) if names.count(full.name) > 1 else full.name)
        for path, full in zip(paths, resolved, strict=True)
    ]
    if len(runs) == 1:
        attacks = None
        if evidence is not None:
            from privgcn.audit.attacks import read_attacks

            attacks = read_attacks(evidence).model_dump()
        return run_page(**vars(runs[0]), attacks=attacks)
    if evidence is not None:
        raise ConfigError(f"A report with evidence must be of one run. Got {len(runs)} runs.")
    return runs_page(runs)


def runs_page(runs: Sequence[RunRecord]) -> str:
    """The page of several runs."""
    private = [run for run in runs if run.statement is not None]
    notices = [notice("working_copy")] if private else []
    if len(private) < len(runs):
        these = "Some of these" if private else "These"
        notices.append(notice("no_guarantees", these=these))
    made = [bool(run.scores.get("synthetic")) for run in runs]
    badge = "SYNTHETIC" if all(made) else "PARTLY SYNTHETIC" if any(made) else None
    if badge is not None:
        notices.append(notice("synthetic", the="The" if all(made) else "Some of the"))
    datasets = _listed({run.dataset for run in runs})
    summary = {
        "title": f"{len(runs)} runs side by side",
        "synthetic": badge,
        "lede": f"{len(runs)} runs on {datasets}, {len(private) or 'none'} of them with a "
        "privacy guarantee.",
        "notices": notices,
        "run_table": _run_table(runs),
        "curves": _curves(runs),
    }
    return render("runs.html", summary)


def _read_run(folder: Path, name: str) -> RunRecord:
    """Reads a run, and computes its epsilon again from its files."""
    if not folder.exists():
        raise DataError(
            f"There is no folder {folder}. Name a folder that 'privgcn train' wrote."
        )
    if not is_stored(folder) and not (folder / SCORES).exists():
        raise DataError(
            f"A report needs run folders (with {SCORES}). Got {folder}, which is none. Name a "
            "folder that 'privgcn train' wrote; 'privgcn reproduce' writes its own page."
        )
    run = Run(folder)
    if run.kind != "run":
        raise DataError(
            f"The {run.kind} {folder} has no scores to report. Name the run itself; of "
            "a release, card.html is the page."
        )
    checked = () if run.verification is None else run.verification.checked
    return RunRecord(run.settings, run.statement, run.scores, name, checked)


def _run_table(runs: Sequence[RunRecord]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        statement, modes = run.statement, run.scores["modes"]
        claim: tuple[Cell, ...] = ("no guarantee", None, None, "no")
        if statement is not None:
            claim = (
                f"≤ {round_up(statement.epsilon)}",
                number(statement.delta),
                SHORT_UNIT[statement.unit],
                "yes" if statement.releasable else "no",
            )
        shown = [cell for mode in MODES for cell in cells(modes.get(mode, {}), "micro_f1")]
        dataset = f"{run.dataset} (synthetic)" if run.scores.get("synthetic") else run.dataset
        documents = max((entry.get("documents") or 0 for entry in modes.values()), default=0)
        rows.append((run.name, dataset, run.settings.recipe, *claim, documents or None, *shown))
    outside = {mode for mode, facts in MODES.items() if not facts.covered}
    columns = ["run", "dataset", "recipe", "epsilon", "delta", "protects", "releasable"]
    columns += ["test documents"]
    columns += [name for mode in MODES for name in (mode, f"{mode}, 95\u00a0%")]
    note = (
        f"No guarantee of the {COVERAGE} covers the scores of {_listed(outside)}. The 95 % "
        "intervals answer for the test documents, not for the luck of a seed."
    )
    return Table("Guarantee of each run, and micro-F1 by inference mode", columns, rows, [note])


def _curves(runs: Sequence[RunRecord]) -> list[Figure]:
    """One figure for each dataset and kind of guarantee: other epsilons do not compare."""
    data: dict[Any, Any] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    levels: dict[str, Any] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        for mode in covered_modes(run.scores):
            value = run.scores["modes"][mode].get("micro_f1")
            if value is not None and run.statement is None:
                levels[run.dataset][f"without privacy, {mode}"].append(value)
            elif value is not None and run.statement is not None:
                claim = run.statement
                lines = data[run.dataset, claim.unit, claim.relation]
                epsilon = float(round_up(claim.epsilon, 3))
                lines[f"{run.settings.recipe}, {mode}"][epsilon].append(value)
    figures = []
    for (dataset, unit, relation), lines in data.items():
        series = [
            Series(name, [Point(at, fmean(values)) for at, values in sorted(row.items())])
            for name, row in lines.items()
        ]
        series += [
            Series(name, [Point(None, fmean(values))], reference=True)
            for name, values in levels[dataset].items()
        ]
        title = f"{dataset}: score against epsilon (unit {unit}, relation {relation})"
        notes = ["Runs with the same recipe and epsilon are averaged."]
        figures.append(Figure(title, series, EPSILON_AXIS, SCORE_AXIS, notes=notes))
    return figures


def _listed(names: Iterable[str]) -> str:
    *most, last = sorted(names)
    return f"{', '.join(most)} and {last}" if most else last
