"""``privgcn report``: one page about runs or an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privgcn.cli.options import AsJson
from privgcn.cli.output import STANDARD_OUTPUT, check_out, print_json


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Folders that 'train' or 'reproduce' wrote; several runs are compared.",
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
    from privgcn.cli.progress import shown_stages
    from privgcn.report import Report, is_report

    check_out(out, is_report, as_json=as_json)
    with shown_stages():
        progress.begin("report")
        page = Report.of_folders(runs, evidence=evidence)
    if out == STANDARD_OUTPUT:
        typer.echo(page.html())
        return
    saved = page.save(out)
    if as_json:
        print_json({"report": str(saved), "runs": [str(run) for run in runs]})
    else:
        typer.echo(f"report: {saved}")
