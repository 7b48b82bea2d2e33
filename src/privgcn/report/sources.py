"""Reads run folders and results folders; a claim is checked again before a page repeats it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privgcn.errors import ConfigError, DataError
from privgcn.files import read_bounded
from privgcn.report.comparison import RunRecord
from privgcn.report.figures import Figure
from privgcn.report.outcome import SUMMARY_FILE, Outcome
from privgcn.report.records import read_record
from privgcn.report.score_tables import check_scores
from privgcn.report.tables import Table
from privgcn.runs.folder import SCORES, is_stored
from privgcn.runs.run import Run

TABLES_FILE = "tables.json"
FIGURES_FILE = "figures.json"
NOTES_FILE = "notes.json"
RECORDS_FOLDER = "records"
_MOST_BYTES = 1 << 28
NO_NOTES = (
    "The notes of these results were not kept: they say what carries no guarantee and what was "
    "not run. Run 'privgcn reproduce' again with --resume to have them here."
)


@dataclass(frozen=True)
class Results:
    """What an experiment left behind.

    Attributes:
        name: Of its folder.
        tables: Its tables.
        figures: Its figures.
        title: What a page calls it; empty where nobody stored one.
        notes: Sentences without which its numbers would be misread.
    """

    name: str
    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]
    title: str = ""
    notes: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        """The title, or else the name."""
        return self.title or self.name


@dataclass(frozen=True)
class Found:
    """What some folders hold.

    Attributes:
        runs: Run folders.
        results: Experiments, also those in sub-folders.
        outcomes: What the calls that wrote the results came to.
    """

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
            f"Each folder of a report must be there once. Got {twice} twice. Name it once."
        )
    for path, name in zip(places, _short_names(places), strict=True):
        if _is_run(path):
            found.runs.append(read_run(path, name))
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
        lost = [part.name for part in parts if not _has_results(part)]
        if lost:
            raise DataError(
                f"The results folder {path} has lost its sub-folder {lost[0]}. Copy the whole "
                "folder, or run 'privgcn reproduce' again with --resume."
            )
        return parts, outcome
    places = [path] if _has_results(path) else []
    if outcome is None and (path / RECORDS_FOLDER).is_dir():
        # A folder of an earlier version does not say which call was the last.
        places += sorted(part for part in path.iterdir() if _has_results(part))
    if not places:
        raise DataError(
            f"A report needs run folders (with {SCORES}) or results folders (with "
            f"{TABLES_FILE} or {FIGURES_FILE}). Got {path}, which is neither. Name a "
            "folder that 'privgcn train' or 'privgcn reproduce' wrote."
        )
    return places, outcome


def _is_run(path: Path) -> bool:
    return is_stored(path) or (path / SCORES).exists()


def _has_results(path: Path) -> bool:
    return (path / TABLES_FILE).is_file() or (path / FIGURES_FILE).is_file()


def read_outcome(folder: Path) -> Outcome | None:
    """The outcome that is stored in a folder; ``None`` where there is none."""
    path = folder / SUMMARY_FILE
    return Outcome.from_dict(_json(path), str(folder)) if path.is_file() else None


def read_run(folder: Path, name: str | None = None) -> RunRecord:
    """Reads a run, and computes its epsilon again from its files.

    Raises:
        DataError: A file is missing or cannot be read.
        PrivacyContractError: The claim does not hold.
    """
    name = name or folder.resolve().name
    run = Run(folder)
    scores = check_scores(run.scores, f"run {name}")
    checked = () if run.verification is None else run.verification.checked
    return RunRecord(name, run.settings, run.statement, scores, checked)


def read_results(folder: Path, name: str | None = None) -> Results:
    """Reads the tables, figures, notes and title of an experiment."""
    outcome = read_outcome(folder)
    several = outcome is not None and bool(outcome.experiments)
    return Results(
        name or folder.resolve().name,
        tuple(_tables(folder / TABLES_FILE)),
        tuple(_figures(folder / FIGURES_FILE)),
        "" if outcome is None or several else outcome.title,
        _notes(folder / NOTES_FILE),
    )


def _tables(path: Path) -> list[Table]:
    return [read_record(Table, one, f"a table of {path}") for one in _records(path)]


def _figures(path: Path) -> list[Figure]:
    return [read_record(Figure, one, f"a figure of {path}") for one in _records(path)]


def _notes(path: Path) -> tuple[str, ...]:
    """The notes of an experiment; earlier versions did not keep them, which must be said."""
    if not path.exists():
        return (NO_NOTES,)
    return tuple(str(note) for note in _records(path))


def _records(path: Path) -> list[Any]:
    if not path.exists():
        return []
    records = _json(path)
    if isinstance(records, dict):
        records = [records]
    if not isinstance(records, list):
        raise DataError(
            f"The file {path} must hold a list of objects or texts. Got {str(records)[:60]!r}. "
            "Run 'privgcn reproduce' again."
        )
    return records


def _json(path: Path) -> Any:
    try:
        return json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"The file {path} is not valid JSON: {error}. Make it again.") from None


def _text(path: Path) -> str:
    try:
        return read_bounded(path, most=_MOST_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"The file {path} cannot be read: {error}.") from None


def _short_names(paths: Sequence[Path]) -> list[str]:
    """Folder names; with their parents where two folders share a name."""
    names = [path.resolve().name for path in paths]
    return [
        "/".join(path.resolve().parts[-2:]) if names.count(name) > 1 else name
        for path, name in zip(paths, names, strict=True)
    ]
