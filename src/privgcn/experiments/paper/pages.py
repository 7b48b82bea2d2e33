"""What ``privgcn reproduce`` writes into a results folder: tables, figures and reports."""

from __future__ import annotations

import json
from pathlib import Path

from privgcn.experiments.paper.comparison import disagreements
from privgcn.experiments.paper.reproduce import Reproduction
from privgcn.experiments.results import Presentation
from privgcn.files import write_atomically
from privgcn.report import Report
from privgcn.report.charts import save_svg
from privgcn.report.results import write_outcome


def write_pages(folder: Path, done: Reproduction) -> Path:
    """Writes JSON, Markdown, CSV and SVG files, and one page with everything.

    Returns:
        The page.
    """
    for shown in done.shown:
        _write_files(shown.folder, shown.name, shown.presentation)
        # Failed runs of the call are stored, so that later pages name them too.
        outcome = write_outcome(shown.folder, shown.title, failures=done.failures)
        made = shown.presentation
        report = Report.of_experiment(
            shown.title, made.tables, made.figures, made.notes, outcome=outcome
        )
        report.save(shown.folder / "report.html")
    if len(done.shown) > 1:
        write_outcome(
            folder,
            f"Reproduction of the paper: {len(done.shown)} experiments",
            failures=done.failures,
            experiments=[shown.name for shown in done.shown],
            takeaways=done.takeaways,
            disagreements=disagreements(done.results, done.compared),
        )
        Report.of_folders([folder]).save(folder / "report.html")
    return folder / "report.html"


def _write_files(folder: Path, name: str, made: Presentation) -> None:
    contents = {
        "notes": made.notes,
        "tables": [table.model_dump(mode="json") for table in made.tables],
        "figures": [figure.model_dump(mode="json") for figure in made.figures],
    }
    for what, content in contents.items():
        text = json.dumps(content, indent=1, allow_nan=False) + "\n"
        write_atomically(folder / f"{what}.json", text)
    blocks = [f"# {name}", *made.notes, *(table.markdown() for table in made.tables)]
    write_atomically(folder / "tables.md", "\n\n".join(blocks) + "\n")
    for number, table in enumerate(made.tables, 1):
        write_atomically(folder / "tables" / f"{number:02d}.csv", table.csv())
        write_atomically(folder / "tables" / f"{number:02d}.tex", table.latex())
    for number, figure in enumerate(made.figures, 1):
        save_svg(figure, folder / "figures" / f"{number:02d}.svg")
