"""``privgcn evaluate``: scores of a run's model on its test documents, computed again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privgcn.cli.flags import MODES, AsJson
from privgcn.cli.output import print_json, say, shown_progress


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run folder.", metavar="RUN")],
    inference: Annotated[str, typer.Option(help=f"{MODES}; or all.", metavar="MODE")] = "all",
    as_json: AsJson = False,
) -> None:
    """Score a trained model on the test documents of its corpus that did not train it."""
    from privgcn.cli.scores import print_scores
    from privgcn.config import MODES as KNOWN
    from privgcn.config import check_mode
    from privgcn.privacy.wording import guarantee_line
    from privgcn.runs.evaluate import evaluation_of
    from privgcn.runs.run import Run

    modes = tuple(KNOWN) if inference == "all" else (check_mode(inference),)
    finished = Run(run)
    with shown_progress():
        scored, left_out = evaluation_of(finished)
        scores = {
            "dataset": scored.corpus.name,
            "synthetic": scored.corpus.facts.synthetic,
            "modes": {mode: scored.scores[mode] for mode in modes},
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
    print_scores(scores, private=finished.statement is not None)
    if left_out:
        say(f"Left out: {left_out} test documents that the model was trained on.")
    say(guarantee_line(finished.statement))
