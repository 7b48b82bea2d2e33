"""``privgcn report``: one page about runs or an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Folders that 'train' or 'reproduce' wrote; several runs are compared.",
            metavar="RUNS...",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    evidence: Annotated[
        Path | None,
        typer.Option(help="Attacks on the documents of one run, from 'privgcn attack --out'."),
    ] = None,
) -> None:
    """Make one self-contained HTML page: guarantee, scores, curves, settings."""
    from privgcn.report import Report

    typer.echo(f"report: {Report.of_folders(runs, evidence=evidence).save(out)}")
