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
from privgcn.report.outcome import Outcome
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
    def of_runs(
        cls,
        runs: Sequence[RunRecord],
        results: Sequence[Results] = (),
        outcomes: Sequence[Outcome] = (),
    ) -> Report:
        """The page of several runs side by side, and of results beside them."""
        if not runs:
            raise ConfigError("A comparison needs at least one run. Got none.")
        parts = {"parts": _parts(results), "outcomes": list(outcomes)}
        return cls("runs.html", {**runs_summary(runs), **parts})

    @classmethod
    def of_experiment(
        cls,
        name: str,
        tables: Sequence[Table | Mapping[str, Any]],
        figures: Sequence[Figure | Mapping[str, Any]],
        notes: Sequence[str] | str = (),
        *,
        outcome: Outcome | None = None,
    ) -> Report:
        """The page of an experiment.

        Args:
            name: Of the experiment.
            tables: ``{"title", "columns", "rows", "notes"}``, or ``Table`` objects.
            figures: ``{"title", "series", "x_label", "y_label"}``, or ``Figure`` objects.
            notes: Sentences that introduce the experiment.
            outcome: What the runs came to, such as those that failed.
        """
        read = Results(
            name,
            tuple(Table.model_validate(table) for table in tables),
            tuple(Figure.model_validate(figure) for figure in figures),
            notes=(notes,) if isinstance(notes, str) else tuple(notes),
        )
        return cls._of_results([read], [] if outcome is None else [outcome])

    @classmethod
    def of_folders(cls, paths: Sequence[str | Path]) -> Report:
        """The page of run folders, results folders, or both.

        Every claim is computed again from its files before the page repeats it.

        Raises:
            ConfigError: There is no folder, or one is there twice.
            DataError: A folder is neither, or a file in it cannot be read.
            PrivacyContractError: A statement was edited.
        """
        if not paths:
            raise ConfigError("A report needs at least one folder. Got none.")
        found = read_folders([Path(path) for path in paths])
        if not found.runs:
            return cls._of_results(found.results, found.outcomes)
        if len(found.runs) == 1 and not found.results:
            run = found.runs[0]
            summary = run_summary(
                run.settings, run.statement, run.scores, checked=run.checked, name=run.name
            )
            return cls("run.html", summary)
        return cls.of_runs(found.runs, found.results, found.outcomes)

    @classmethod
    def _of_results(cls, results: Sequence[Results], outcomes: Sequence[Outcome]) -> Report:
        parts = _parts(results)
        title = f"{len(results)} experiments"
        if len(outcomes) == 1 and outcomes[0].experiments:
            title = outcomes[0].title
        notes: list[str] = []
        if len(parts) == 1:
            # Its notes introduce the page.
            title, notes = parts[0]["name"], parts[0]["notes"]
            parts = [{**parts[0], "notes": []}]
        summary = {
            "title": title,
            "synthetic": None,
            "notes": notes,
            "parts": parts,
            "outcomes": list(outcomes),
            "citations": citations(),
        }
        return cls("experiment.html", summary)

    def html(self) -> str:
        """The page."""
        return render(self._template, self._summary)

    def save(self, path: str | Path) -> Path:
        """Writes the page atomically, and says where it is."""
        return write_text(path, self.html())


def _parts(results: Sequence[Results]) -> list[dict[str, Any]]:
    headings = [result.heading for result in results]
    return [
        {
            "name": f"{heading} ({result.name})" if headings.count(heading) > 1 else heading,
            "tables": list(result.tables),
            "figures": list(result.figures),
            "notes": list(result.notes),
        }
        for result, heading in zip(results, headings, strict=True)
    ]
