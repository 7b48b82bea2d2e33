"""Finds runs and results in folders; a claim is checked again before a page repeats it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from privgcn.errors import ConfigError, DataError
from privgcn.report.comparison import RunRecord
from privgcn.report.results import (
    FIGURES_FILE,
    TABLES_FILE,
    Outcome,
    Results,
    has_results,
    read_outcome,
    read_results,
)
from privgcn.report.scores import Scores
from privgcn.runs.folder import SCORES, is_stored
from privgcn.runs.run import Run


@dataclass(frozen=True)
class Found:
    """What folders hold: runs, experiments, and what the calls that wrote these came to."""

    runs: list[RunRecord]
    results: list[Results]
    outcomes: list[Outcome]


def read_folders(paths: Sequence[Path]) -> Found:
    """Reads each folder for what it is.

    A folder of several experiments is read with the sub-folders that its last call wrote;
    tables that an earlier call left beside them are passed over.

    Raises:
        ConfigError: A folder is there twice.
        DataError: A folder is neither, or a file in it cannot be read.
        PrivacyContractError: A claim does not hold.
    """
    found = Found([], [], [])
    places: list[Path] = []
    for path in paths:
        inside, outcome = _places(path)
        places += inside
        if outcome is not None:
            found.outcomes.append(outcome)
    whole = [place.resolve() for place in places]
    twice = next((path for path in whole if whole.count(path) > 1), None)
    if twice is not None:
        raise ConfigError(
            f"Each folder of a report must be named once. Got {twice} twice. Name it once."
        )
    for path, name in zip(places, _short_names(places), strict=True):
        if _is_run(path):
            found.runs.append(_read_run(path, name))
        else:
            found.results.append(read_results(path, name))
    return found


def _places(path: Path) -> tuple[list[Path], Outcome | None]:
    """The folders to read in the place of one, and what the call that wrote them came to."""
    if not path.exists():
        raise DataError(
            f"There is no folder {path}. Name a folder that 'privgcn train' or "
            "'privgcn reproduce' wrote."
        )
    if _is_run(path):
        return [path], None
    outcome = read_outcome(path)
    if outcome is not None and outcome.experiments:
        parts = [path / name for name in outcome.experiments]
        lost = [part.name for part in parts if not has_results(part)]
        if lost:
            raise DataError(
                f"The results folder {path} has lost its sub-folder {lost[0]}. Copy the whole "
                "folder, or run 'privgcn reproduce' again with --resume."
            )
        return parts, outcome
    if not has_results(path):
        raise DataError(
            f"A report needs run folders (with {SCORES}) or results folders (with "
            f"{TABLES_FILE} or {FIGURES_FILE}). Got {path}, which is neither. Name a "
            "folder that 'privgcn train' or 'privgcn reproduce' wrote."
        )
    return [path], outcome


def _is_run(path: Path) -> bool:
    return is_stored(path) or (path / SCORES).exists()


def _read_run(folder: Path, name: str) -> RunRecord:
    """Reads a run, and computes its epsilon again from its files."""
    run = Run(folder)
    if run.stored.kind != "run":
        raise DataError(
            f"The {run.stored.kind} {folder} has no scores to report. Name the run itself; of "
            "a release, card.html is the page."
        )
    scores = Scores.read(run.scores, f"run {name}")
    checked = () if run.verification is None else run.verification.checked
    return RunRecord(name, run.settings, run.statement, scores, checked)


def _short_names(paths: Sequence[Path]) -> list[str]:
    """Folder names; with their parents where two folders share a name."""
    names = [path.resolve().name for path in paths]
    return [
        "/".join(path.resolve().parts[-2:]) if names.count(name) > 1 else name
        for path, name in zip(paths, names, strict=True)
    ]
