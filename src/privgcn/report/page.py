"""Pages: one self-contained HTML file about a run, or about several in one table.

A page needs no network and no script and works from disk; the same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from privgcn.config import MODES, Settings, to_toml
from privgcn.errors import ConfigError, DataError, PrivGCNError, reason
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.wording import SHORT_UNIT, explained, round_up
from privgcn.report import scores as scored
from privgcn.report.scores import Scores
from privgcn.report.tables import Cell, Table
from privgcn.report.text import rendered
from privgcn.runs.folder import SCORES
from privgcn.runs.run import CHECKED, Run

if TYPE_CHECKING:
    from privgcn.audit.attacks import Attacks


def folders_page(folders: Sequence[Path], *, evidence: Path | None = None) -> str:
    """The page of one run, or of several side by side.

    Every claim is computed again from its files before the page repeats it. ``evidence`` is
    what ``privgcn attack --out`` wrote about the documents of a single run.
    """
    from jinja2 import TemplateError

    runs = [Run(folder) for folder in folders]
    for run in runs:
        if run.kind != "run":
            raise DataError(
                f"The {run.kind} {run.folder} has no scores to report. Name the run itself; of "
                "a release, card.html is the page."
            )
    if evidence is not None and len(runs) > 1:
        raise ConfigError(f"A report with evidence must be of one run. Got {len(runs)}.")
    attacks = None
    if evidence is not None:
        from privgcn.audit.attacks import read_attacks

        attacks = read_attacks(evidence)
    wrong = (ArithmeticError, AttributeError, LookupError, TemplateError, TypeError, ValueError)
    try:
        if len(runs) > 1:
            return runs_page(runs)
        (run,), name = runs, folders[0].resolve().name
        parts = run.settings, run.statement, run.scores
        return run_page(*parts, name=name, checked=CHECKED, attacks=attacks)
    except PrivGCNError:
        raise
    # Whoever can write a folder can write scores that are none: nothing else binds them.
    except wrong as error:
        names = " or ".join(str(run.folder / SCORES) for run in runs)
        raise DataError(
            f"The file {names} holds no scores as 'privgcn train' writes them "
            f"({reason(error)}). Train again."
        ) from error


def run_page(
    settings: Settings,
    statement: PrivacyStatement | None,
    scores: Scores,
    *,
    name: str | None = None,
    checked: Sequence[str] = (),
    attacks: Attacks | None = None,
) -> str:
    """The page of one run, whose claim was ``checked`` against these files."""
    private, dataset = statement is not None, _dataset(settings, scores)
    shown_attacks = None
    if attacks is not None:
        from privgcn.report import attacks as attacked

        if attacks.source != dataset:
            raise ConfigError(
                f"The evidence of a report must be about the documents of its run, {dataset}. "
                f"Got {attacks.source}. Attack the run itself."
            )
        shown_attacks = attacked.figure(attacks), attacked.table(attacks)
    lead = scored.leading(scores, private=private)
    known = sorted(scored.modes_of(scores["modes"]), key=lambda mode: mode != lead)
    page = {
        "title": f"{dataset}, {'with' if private else 'without'} differential privacy",
        "name": name,
        "dataset": dataset,
        "settings": settings,
        "toml": to_toml(settings.model_dump()),
        "statement": statement,
        "words": statement and explained(statement),
        "unit": statement and SHORT_UNIT[statement.unit],
        "checked": checked,
        "synthetic": scores.get("synthetic"),
        "modes": MODES,
        "lead": lead,
        "scores": scores,
        "score": scored.cells(scores["modes"][lead], "micro_f1"),
        "documents": scored.documents(scores),
        "reference": scores.get("references", {}).get(lead),
        "baseline": scored.baseline(scores, lead),
        "deployment": scored.deployment(scores),
        "score_figure": scored.score_figure(scores, private=private),
        "tables": (
            scored.mode_table(scores, private=private),
            scored.repeat_table(scores),
            scored.reference_table(scores),
        ),
        "probability_table": scored.probability_table(scores),
        "reliability_figure": scored.reliability_figure(scores),
        "class_names": scores.get("classes", []),
        "class_table": partial(scored.class_table, scores),
        "classes": [mode for mode in known if scores["modes"][mode].get("per_class")],
        "attacks": shown_attacks,
    }
    return rendered("run.html", page=page)


def runs_page(runs: Sequence[Run]) -> str:
    """The page of several runs: their guarantees and scores in one table."""
    private = [run for run in runs if run.statement is not None]
    page = {
        "title": f"{len(runs)} runs side by side",
        "synthetic": all(run.scores.get("synthetic") for run in runs),
        "private": len(private),
        "plain": len(runs) - len(private),
        "table": _run_table(runs),
    }
    return rendered("runs.html", page=page)


def _run_table(runs: Sequence[Run]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        statement, scores = run.statement, run.scores
        claim: tuple[Cell, ...] = ("no guarantee", None, None)
        if statement is not None:
            unit = f"{SHORT_UNIT[statement.unit]}, relation {statement.relation}"
            unit += "" if statement.releasable else "; must not be released"
            claim = (f"≤ {round_up(statement.epsilon)}", round_up(statement.delta), unit)
        dataset = _dataset(run.settings, scores)
        dataset += " (synthetic)" if scores.get("synthetic") else ""
        entries = [scores["modes"].get(mode, {}) for mode in MODES]
        shown = [cell for entry in entries for cell in scored.cells(entry, "micro_f1")]
        rows.append((str(run.folder), dataset, run.settings.recipe, *claim, *shown))
    columns = ["run", "dataset", "recipe", "epsilon", "delta", "protects"]
    columns += [name for mode in MODES for name in (mode, f"{mode}, 95\u00a0%")]
    note = (
        "Epsilons of different units or relations do not compare. No guarantee of the training "
        "documents covers the scores of full-graph. The 95 % intervals answer for the test "
        "documents, not for the luck of a seed."
    )
    return Table("Guarantee of each run, and micro-F1 by inference mode", columns, rows, [note])


def _dataset(settings: Settings, scores: Scores) -> str:
    return scores.get("dataset") or settings.data.source or "unnamed documents"
