"""``privgcn report``: one page about runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privgcn.cli.flags import AsJson
from privgcn.cli.output import STANDARD_OUTPUT, check_out, print_json, say, shown_progress


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Folders that 'train' wrote; several runs are compared.",
            metavar="RUNS...",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="The page to write; - for standard output.")] = Path(
        "report.html"
    ),
    evidence: Annotated[
        Path | None,
        typer.Option(help="Attacks on the documents of one run, from 'privgcn attack --out'."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make one self-contained HTML page: guarantee, scores, curves, settings."""
    from privgcn import progress
    from privgcn.files import write_atomically
    from privgcn.report.comparison import folders_page
    from privgcn.report.page import is_report

    check_out(out, is_report, as_json=as_json)
    with shown_progress():
        progress.begin("report")
        page = folders_page(runs, evidence=evidence)
    if out == STANDARD_OUTPUT:
        say(page)
        return
    write_atomically(out, page)
    if as_json:
        print_json({"report": str(out), "runs": [str(run) for run in runs]})
    else:
        say(f"report: {out}")
