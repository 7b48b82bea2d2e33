"""``privgcn evaluate``: scores of a run's model on its test documents, computed again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privgcn.cli.options import AsJson
from privgcn.cli.output import print_json


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run folder.", metavar="RUN")],
    inference: Annotated[
        str, typer.Option(help="alone, own-graph, full-graph, or all.", metavar="MODE")
    ] = "all",
    as_json: AsJson = False,
) -> None:
    """Score a trained model on the test documents of its corpus that it has not seen."""
    from privgcn.cli.progress import shown_stages
    from privgcn.config import MODES, check_mode
    from privgcn.runs.run import Run

    modes = tuple(MODES) if inference == "all" else (check_mode(inference),)
    finished = Run(run)
    with shown_stages():
        trial, left_out = finished.evaluation()
        scores = {
            "dataset": trial.corpus.name,
            "synthetic": trial.corpus.facts.synthetic,
            "modes": trial.scored(modes)[0],
            "baselines": finished.scores["baselines"],
        }
    if as_json:
        print_json(
            {
                "run": str(run),
                "dataset": scores["dataset"],
                "left_out": left_out,
                "scores": scores["modes"],
            }
        )
        return
    from rich.console import Console

    from privgcn.cli.score_lines import guarantee_line, scores_table

    Console().print(scores_table(scores, private=finished.statement is not None))
    if left_out:
        typer.echo(f"Left out: {left_out} test documents that the model was trained on.")
    typer.echo(guarantee_line(finished.statement))
