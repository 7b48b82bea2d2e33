"""What ``privgcn reproduce`` writes: tables and figures, reports, ``docs/reproduction.md``.

Everything is written from records, never by hand.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from privgcn.experiments.paper.published import read_text
from privgcn.experiments.paper.reproduce import Reproduction
from privgcn.experiments.progress import duration
from privgcn.experiments.results import Presentation
from privgcn.files import write_atomically
from privgcn.report import Report
from privgcn.report.charts import save_svg
from privgcn.report.results import NOT_MEASURED, Takeaway, write_outcome


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
            disagreements=done.disagreements,
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


def reproduction_page(done: Reproduction, command: str) -> str:
    """The whole comparison as one Markdown page, which names the command that wrote it."""
    head = read_text("introduction.md").format(command=command, size=_size(done))
    blocks = [head, "## The five take-aways", *_takeaway_blocks(done.takeaways)]
    blocks += [
        "## Every published number, and the reason for each disagreement",
        done.disagreements.markdown(),
    ]
    for shown in done.shown:
        blocks += [f"## {shown.title}", f"`privgcn reproduce {shown.name}`"]
        blocks += shown.presentation.notes
        blocks += [table.markdown() for table in shown.presentation.tables]
    if done.failures:
        blocks.append("## Runs that failed")
        blocks += [f"- {failure['label']}: {failure['reason']}" for failure in done.failures]
    return "\n\n".join(block.rstrip() for block in blocks) + "\n"


def _size(done: Reproduction) -> str:
    """How many runs there are, and how long they took where all of them are there."""
    made = done.summary.kept + done.summary.done
    if made < done.summary.runs:
        return (
            f"These tables hold {made} of the {done.summary.runs} runs that these experiments "
            "ask for; means are over the seeds that are there, and a dash stands for none."
        )
    time = duration(done.training_seconds)
    return f"These tables hold {made} runs. Training them took {time} in all, one by one."


def _takeaway_blocks(found: Sequence[Takeaway]) -> list[str]:
    blocks = []
    for number, one in enumerate(found, 1):
        lines = [f"{number}. **{one.claim}** Under sound clipping it **{one.verdict}**"]
        lines[0] += f" ({one.reach})." if one.reach else "."
        if one.verdict == NOT_MEASURED:
            lines = [f"{number}. **{one.claim}** **Not measured** in these runs."]
        lines += [f"   - {sentence}" for sentence in one.evidence]
        lines.append(f"   - Rule: {one.rule}")
        blocks.append("\n".join(lines))
    return blocks
