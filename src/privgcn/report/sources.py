"""Reads run folders and results folders; a claim is checked again before a page repeats it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privgcn.config import parse_settings
from privgcn.errors import DataError
from privgcn.privacy.verification import SETTINGS_FILE, STATEMENT_FILE, verify_run
from privgcn.report.comparison import RunRecord
from privgcn.report.figures import Figure
from privgcn.report.scores import check_scores
from privgcn.report.tables import Table

SCORES_FILE = "scores.json"
TABLES_FILE = "tables.json"
FIGURES_FILE = "figures.json"


@dataclass(frozen=True)
class Results:
    """What an experiment left behind."""

    name: str
    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]


def read_folders(paths: Sequence[Path]) -> tuple[list[RunRecord], list[Results]]:
    """Reads each folder for what it is.

    Raises:
        DataError: A folder is neither, or a file in it cannot be read.
    """
    runs: list[RunRecord] = []
    results: list[Results] = []
    names = _short_names(paths)
    for path, name in zip(paths, names, strict=True):
        if not path.exists():
            raise DataError(
                f"There is no folder {path}. Name a folder that 'privgcn train' or "
                "'privgcn reproduce' wrote."
            )
        if (path / SCORES_FILE).is_file():
            runs.append(read_run(path, name))
        elif (path / TABLES_FILE).is_file() or (path / FIGURES_FILE).is_file():
            results.append(read_results(path, name))
        else:
            raise DataError(
                f"A report needs run folders (with {SCORES_FILE}) or results folders (with "
                f"{TABLES_FILE} or {FIGURES_FILE}). Got {path}, which is neither. Name a "
                "folder that 'privgcn train' or 'privgcn reproduce' wrote."
            )
    return runs, results


def read_run(folder: Path, name: str | None = None) -> RunRecord:
    """Reads a run, and computes its epsilon again from its files.

    Raises:
        DataError: A file is missing or cannot be read.
        PrivacyContractError: The claim does not hold.
    """
    name = name or folder.resolve().name
    path = folder / SETTINGS_FILE
    try:
        settings = parse_settings(tomllib.loads(_text(path)))
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"The file {path} is not valid TOML: {error}. Train again.") from None
    scores = check_scores(_json(folder / SCORES_FILE), f"run {name}")
    if (folder / STATEMENT_FILE).exists():
        found = verify_run(folder)
        return RunRecord(name, settings, found.statement, scores, found.checked)
    if settings.privacy is not None:
        raise DataError(
            f"The run {folder} was trained with privacy but has no {STATEMENT_FILE}: it must "
            "not be reported without its statement. Copy the whole folder, or train again."
        )
    return RunRecord(name, settings, None, scores)


def read_results(folder: Path, name: str | None = None) -> Results:
    """Reads the tables and figures of an experiment."""
    return Results(
        name or folder.resolve().name,
        tuple(Table.from_dict(record) for record in _records(folder / TABLES_FILE)),
        tuple(Figure.from_dict(record) for record in _records(folder / FIGURES_FILE)),
    )


def _records(path: Path) -> list[Any]:
    if not path.exists():
        return []
    records = _json(path)
    if isinstance(records, dict):
        records = [records]
    if not isinstance(records, list):
        raise DataError(
            f"The file {path} must hold a list of objects. Got {str(records)[:60]!r}. "
            "Run 'privgcn reproduce' again."
        )
    return records


def _json(path: Path) -> Any:
    try:
        return json.loads(_text(path))
    except json.JSONDecodeError as error:
        raise DataError(f"The file {path} is not valid JSON: {error}. Make it again.") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(
            f"The file {path} is missing. Name a whole folder as 'privgcn train' wrote it."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"The file {path} cannot be read: {error}.") from None


def _short_names(paths: Sequence[Path]) -> list[str]:
    """Folder names; with their parents where two folders share a name."""
    names = [path.resolve().name for path in paths]
    return [
        "/".join(path.resolve().parts[-2:]) if names.count(name) > 1 else name
        for path, name in zip(paths, names, strict=True)
    ]
