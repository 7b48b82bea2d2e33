"""What experiments left behind: tables, figures, notes, and what the whole call came to.

A results folder holds ``tables.json``, ``figures.json`` and ``notes.json`` of one experiment,
or sub-folders of several; ``summary.json`` says what their runs came to, so that every later
page says it too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.dataclasses import dataclass as checked_dataclass

from privgcn.errors import DataError
from privgcn.files import read_bounded, write_atomically
from privgcn.report.figures import Figure
from privgcn.report.records import read_record
from privgcn.report.tables import Table

TABLES_FILE, FIGURES_FILE, NOTES_FILE = "tables.json", "figures.json", "notes.json"
SUMMARY_FILE = "summary.json"
_MOST_BYTES = 1 << 28
NOT_MEASURED = "not measured"
_NO_NOTES = (
    "The notes of these results are missing. They say which numbers carry no guarantee and "
    "what was not run. Run 'privgcn reproduce' again with --resume to have them here."
)
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Results:
    """The results of one experiment, by the name of its folder.

    Without its notes the numbers would be misread. The title is what a page calls it; empty
    where nobody stored one.
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


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


@checked_dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Takeaway:
    """A claim of the paper, in our words, and whether it holds in our runs.

    The evidence has one sentence per dataset; the rule says how the verdict follows from it;
    the reach says on how many datasets it holds; the leads say by how much on each, below 0
    where it does not.
    """

    claim: str
    verdict: str
    evidence: tuple[str, ...]
    rule: str
    reach: str = ""
    leads: dict[str, float] = field(default_factory=dict)

    @property
    def tone(self) -> str:
        """How a page colours the verdict."""
        return {"survives": "yes", "does not survive": "no"}.get(self.verdict, "some")


class Failure(_Stored):
    """Runs of one setting that failed for one reason."""

    run: str
    seeds: tuple[int, ...]
    reason: str


class Outcome(_Stored):
    """What a call of ``reproduce`` came to beyond its tables.

    Its experiments are the names of their sub-folders; none where there is only one.
    """

    title: str
    experiments: tuple[str, ...] = ()
    takeaways: tuple[Takeaway, ...] = ()
    disagreements: Table | None = None
    failures: tuple[Failure, ...] = ()

    @model_validator(mode="after")
    def _names_its_own_folders(self) -> Self:
        for name in self.experiments:
            if name in ("", ".", "..") or "/" in name or "\\" in name:
                raise ValueError(f"'experiments' must name sub-folders, not {name!r}")
        return self

    @property
    def judged(self) -> tuple[Takeaway, ...]:
        """The takeaways, where any of them was measured."""
        measured = any(one.verdict != NOT_MEASURED for one in self.takeaways)
        return self.takeaways if measured else ()

    @property
    def failure_table(self) -> Table | None:
        """The failed runs; ``None`` where all went well."""
        if not self.failures:
            return None
        return Table(
            title="Runs that failed",
            columns=("run", "reason", "seeds"),
            rows=tuple((f.run, f.reason, ", ".join(map(str, f.seeds))) for f in self.failures),
        )


def write_outcome(
    folder: Path, title: str, *, failures: Sequence[Mapping[str, Any]], **more: Any
) -> Outcome:
    """Stores an outcome in a results folder, whole or not at all.

    Failures are those of the store of records, with their labels.
    """
    told = [
        {"run": one["label"], "seeds": one["seeds"], "reason": one["reason"]}
        for one in failures
    ]
    outcome = Outcome.model_validate({"title": title, "failures": told, **more})
    text = json.dumps(outcome.model_dump(mode="json"), indent=1, allow_nan=False) + "\n"
    write_atomically(folder / SUMMARY_FILE, text)
    return outcome


def read_outcome(folder: Path) -> Outcome | None:
    """The outcome that is stored in a folder; ``None`` where there is none."""
    path = folder / SUMMARY_FILE
    if not path.is_file():
        return None
    return read_record(Outcome, _json(path), f"the summary of {folder}")


def has_results(path: Path) -> bool:
    """Whether a folder holds results of an experiment."""
    return (path / TABLES_FILE).is_file() or (path / FIGURES_FILE).is_file()


def read_results(folder: Path, name: str) -> Results:
    """Reads the tables, figures, notes and title of an experiment."""
    outcome = read_outcome(folder)
    several = outcome is not None and bool(outcome.experiments)
    notes = folder / NOTES_FILE
    return Results(
        name,
        _models(Table, folder / TABLES_FILE),
        _models(Figure, folder / FIGURES_FILE),
        "" if outcome is None or several else outcome.title,
        tuple(map(str, _list(notes))) if notes.exists() else (_NO_NOTES,),
    )


def _models(model: type[Model], path: Path) -> tuple[Model, ...]:
    if not path.exists():
        return ()
    owner = f"a {model.__name__.lower()} in {path}"
    return tuple(read_record(model, record, owner) for record in _list(path))


def _list(path: Path) -> list[Any]:
    records = _json(path)
    if not isinstance(records, list):
        raise DataError(
            f"The file {path} must hold a list. Got {str(records)[:60]!r}. Run 'privgcn "
            "reproduce' again."
        )
    return records


def _json(path: Path) -> Any:
    try:
        return json.loads(read_bounded(path, most=_MOST_BYTES).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"The file {path} is not valid JSON: {error}. Make it again.") from None
