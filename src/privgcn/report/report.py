"""``Report``: one page about a run, several runs or an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from privgcn.config import Settings
from privgcn.errors import ConfigError
from privgcn.evidence.attack_record import read_attacks
from privgcn.files import write_atomically
from privgcn.privacy.statement import PrivacyStatement
from privgcn.report.comparison import RunRecord, runs_summary
from privgcn.report.figures import Figure
from privgcn.report.pages import citations, render
from privgcn.report.results import Outcome, Results
from privgcn.report.run_page import run_summary
from privgcn.report.scores import Scores
from privgcn.report.sources import read_folders
from privgcn.report.tables import Table

_GENERATOR = b'<meta name="generator" content="privgcn">'


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
    ) -> Report:
        """The page of one run; a working copy for the owner of the data.

        Args:
            settings: Of the run.
            statement: ``None`` for a run without privacy, and the page says so.
            scores: The content of ``scores.json``.

        Raises:
            ConfigError: Settings and statement do not belong together.
            DataError: The scores cannot be read.
        """
        read = Scores.read(scores, "the run")
        return cls("run.html", run_summary(settings, statement, read))

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
        tables: Sequence[Table],
        figures: Sequence[Figure],
        notes: Sequence[str] | str = (),
        *,
        outcome: Outcome | None = None,
    ) -> Report:
        """The page of an experiment: notes, what its runs came to, figures and tables."""
        lines = (notes,) if isinstance(notes, str) else tuple(notes)
        read = Results(name, tuple(tables), tuple(figures), notes=lines)
        return cls._of_results([read], [] if outcome is None else [outcome])

    @classmethod
    def of_folders(
        cls, paths: Sequence[str | Path], *, evidence: str | Path | None = None
    ) -> Report:
        """The page of run folders, results folders, or both.

        Every claim is computed again from its files before the page repeats it.

        Args:
            paths: The folders.
            evidence: What ``privgcn attack --out`` wrote about the documents of a single run.

        Raises:
            ConfigError: There is no folder, or one is there twice.
            DataError: A folder is neither, or a file in it cannot be read.
            PrivacyContractError: A statement was edited.
        """
        if not paths:
            raise ConfigError("A report needs at least one folder. Got none.")
        found = read_folders([Path(path) for path in paths])
        if evidence is not None:
            if len(found.runs) != 1 or found.results:
                raise ConfigError(
                    "A report with evidence must be of one run. "
                    f"Got {len(found.runs)} runs and {len(found.results)} experiments."
                )
            attacks = read_attacks(Path(evidence))
            return cls("run.html", run_summary(**vars(found.runs[0]), attacks=attacks))
        if not found.runs:
            return cls._of_results(found.results, found.outcomes)
        if len(found.runs) == 1 and not found.results:
            return cls("run.html", run_summary(**vars(found.runs[0])))
        return cls.of_runs(found.runs, found.results, found.outcomes)

    @classmethod
    def _of_results(cls, results: Sequence[Results], outcomes: Sequence[Outcome]) -> Report:
        parts = _parts(results)
        title = f"{len(results)} experiments"
        if len(outcomes) == 1 and outcomes[0].experiments:
            title = outcomes[0].title
        summary = {"title": title, "synthetic": None, "notes": [], "outcomes": outcomes}
        if len(parts) == 1:
            # Its notes introduce the page.
            summary |= {"title": parts[0]["name"], "notes": parts[0]["notes"]}
            parts = [{**parts[0], "notes": []}]
        return cls("experiment.html", {**summary, "parts": parts, "citations": citations()})

    def html(self) -> str:
        """The page."""
        return render(self._template, self._summary)

    def save(self, path: str | Path) -> Path:
        """Writes the page atomically, and says where it is.

        Raises:
            ConfigError: ``path`` is a folder or cannot be written.
        """
        target = Path(path)
        if target.is_dir():
            raise ConfigError(
                f"The output file must not be a folder. Got {target}. "
                f"Name a file in it, such as {target / 'report.html'}."
            )
        write_atomically(target, self.html())
        return target


def is_report(path: Path) -> bool:
    """Whether a file begins as a page of ours."""
    with path.open("rb") as file:
        return _GENERATOR in file.read(1024)


def _parts(results: Sequence[Results]) -> list[dict[str, Any]]:
    headings = [result.heading for result in results]
    return [
        {
            **vars(result),
            "name": f"{heading} ({result.name})" if headings.count(heading) > 1 else heading,
        }
        for result, heading in zip(results, headings, strict=True)
    ]
