"""``privgcn predict``: classes of new documents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privgcn.cli.options import AsJson, Inference
from privgcn.cli.output import print_json


def predict(
    run: Annotated[Path, typer.Argument(help="A run or release folder.", metavar="RUN")],
    source: Annotated[str, typer.Argument(help="A dataset's name or a folder of documents.")],
    inference: Inference = "own-graph",
    out: Annotated[Path, typer.Option(help="Where to write.")] = Path("predictions.csv"),
    as_json: AsJson = False,
) -> None:
    """Predict the class of each document of a folder."""
    from privgcn.runs.predictions import predict_source

    predictions = predict_source(run, source, inference)
    predictions.write_csv(out)
    if as_json:
        print_json(
            {
                "predictions": str(out),
                "documents": len(predictions.ids),
                "inference": inference,
                "covered": predictions.covered,
                "coverage": predictions.coverage,
                "training_documents": list(predictions.trained),
                "left_out": predictions.left_out,
            }
        )
        return
    typer.echo(f"Wrote {len(predictions.ids)} predictions to {out} (inference {inference}).")
    if predictions.left_out:
        typer.echo(f"Left out: {predictions.left_out} documents that trained the model.")
    typer.echo(predictions.coverage)
