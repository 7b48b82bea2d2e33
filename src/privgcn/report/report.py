"""``Report``: one page about a run, several runs or an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from privgcn.config import Settings
from privgcn.errors import ConfigError
from privgcn.privacy.statement import PrivacyStatement
from privgcn.report.citation import citations
from privgcn.report.comparison import RunRecord, runs_summary
from privgcn.report.figures import Figure
from privgcn.report.rendering import render
from privgcn.report.sources import Results, read_folders
from privgcn.report.summarise import run_summary
from privgcn.report.tables import Table
from privgcn.report.writing import write_text


class Report:
    """One self-contained HTML page: no network, no script, works from disk.

    Build it with :meth:`of_run`, :meth:`of_runs`, :meth:`of_experiment` or
    :meth:`of_folders`. The same input gives the same bytes.
    """

    def __init__(self, template: str, summary: Mapping[str, Any]) -> None:
        self._template = template
        self._summary = dict(summary)

    @classmethod
    def of_run(
        cls,
        settings: Settings,
        statement: PrivacyStatement | None,
        scores: Mapping[str, Any],
        *,
        curve: Sequence[Mapping[str, Any]] | None = None,
    ) -> Report:
        """The page of one run; a working copy for the owner of the data.

        Args:
            settings: Of the run.
            statement: ``None`` for a run without privacy, and the page says so.
            scores: The content of ``scores.json``.
            curve: Points ``{"epsilon", "score"}`` of a measured privacy-utility curve,
                optionally with ``std`` and ``series``. Without any, a private run is drawn
                as points at its epsilon, beside what public corpora of its size scored.

        Raises:
            ConfigError: Settings and statement do not belong together.
            DataError: The scores or the curve cannot be read.
        """
        return cls("run.html", run_summary(settings, statement, scores, curve))

    @classmethod
    def of_runs(cls, runs: Sequence[RunRecord], results: Sequence[Results] = ()) -> Report:
        """The page of several runs side by side, and of results beside them."""
        if not runs:
            raise ConfigError("A comparison needs at least one run. Got none.")
        summary = runs_summary(runs)
        return cls("runs.html", {**summary, "parts": [_part(result) for result in results]})

    @classmethod
    def of_experiment(
        cls,
        name: str,
        tables: Sequence[Table | Mapping[str, Any]],
        figures: Sequence[Figure | Mapping[str, Any]],
        notes: Sequence[str] | str = (),
    ) -> Report:
        """The page of an experiment.

        Args:
            name: Of the experiment.
            tables: ``{"title", "columns", "rows", "notes"}``, or ``Table`` objects.
            figures: ``{"title", "series", "x_label", "y_label"}``, or ``Figure`` objects.
            notes: Sentences that introduce the experiment.
        """
        read = Results(
            name,
            tuple(Table.from_dict(table) for table in tables),
            tuple(Figure.from_dict(figure) for figure in figures),
        )
        notes = [notes] if isinstance(notes, str) else list(notes)
        return cls._of_results([read], notes)

    @classmethod
    def of_folders(cls, paths: Sequence[str | Path]) -> Report:
        """The page of run folders, results folders, or both.

        Every claim is computed again from its files before the page repeats it.

        Raises:
            DataError: A folder is neither, or a file in it cannot be read.
            PrivacyContractError: A statement was edited.
        """
        if not paths:
            raise ConfigError("A report needs at least one folder. Got none.")
        runs, results = read_folders([Path(path) for path in paths])
        if not runs:
            return cls._of_results(results, [])
        if len(runs) == 1 and not results:
            run = runs[0]
            summary = run_summary(
                run.settings, run.statement, run.scores, checked=run.checked, name=run.name
            )
            return cls("run.html", summary)
        return cls.of_runs(runs, results)

    @classmethod
    def _of_results(cls, results: Sequence[Results], notes: Sequence[str]) -> Report:
        title = ", ".join(result.name for result in results)
        summary = {
            "title": title,
            "synthetic": None,
            "notes": list(notes),
            "parts": [_part(result) for result in results],
            "citations": citations(),
        }
        return cls("experiment.html", summary)

    def html(self) -> str:
        """The page."""
        return render(self._template, self._summary)

    def save(self, path: str | Path) -> Path:
        """Writes the page atomically, and says where it is."""
        return write_text(path, self.html())


def _part(results: Results) -> dict[str, Any]:
    return {
        "name": results.name,
        "tables": list(results.tables),
        "figures": list(results.figures),
    }
