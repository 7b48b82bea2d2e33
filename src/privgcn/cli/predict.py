"""``privgcn predict``: classes of new documents."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from privgcn.cli.flags import MODES, AsJson, Source
from privgcn.cli.output import (
    STANDARD_OUTPUT,
    check_out,
    note,
    print_json,
    say,
    shown_progress,
)


def predict(
    run: Annotated[Path, typer.Argument(help="A run or release folder.", metavar="RUN")],
    source: Source,
    inference: Annotated[
        str, typer.Option(help=f"What a prediction may look at: {MODES}.", metavar="MODE")
    ] = "own-graph",
    out: Annotated[
        Path,
        typer.Option(help="A .csv, .jsonl or .parquet file to write; - for CSV on stdout."),
    ] = Path("predictions.csv"),
    all_classes: Annotated[
        bool, typer.Option("--all-classes", help="Also write the probability of every class.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Predict the class of each document of a folder.

    Of the documents that the run was made from, those that trained it are left out.
    """
    from privgcn.config import check_mode
    from privgcn.runs.predictions import are_predictions, check_format, predict_source

    check_mode(inference)
    check_format(out)
    check_out(out, are_predictions, as_json=as_json)
    with shown_progress():
        predictions = predict_source(run, source, inference)
    if out == STANDARD_OUTPUT:
        sys.stdout.write(predictions.csv_text(all_classes=all_classes))
    else:
        predictions.write(out, all_classes=all_classes)
    answered = len(predictions.ids)
    if as_json:
        print_json(
            {
                "predictions": str(out),
                "documents": answered,
                "inference": inference,
                "covered": predictions.covered,
                "coverage": predictions.coverage,
                "training_documents": list(predictions.trained),
                "left_out": predictions.left_out,
            }
        )
        return
    tell = note if out == STANDARD_OUTPUT else say
    tell(f"Wrote {answered} predictions to {out} (inference {inference}).")
    if predictions.left_out:
        tell(
            f"Answered {answered} of {answered + predictions.left_out} documents. Left out: "
            f"{predictions.left_out} documents that trained the model; to predict a document, "
            "put it in a folder of its own."
        )
    tell(predictions.coverage)
