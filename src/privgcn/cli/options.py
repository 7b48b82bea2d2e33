"""Options that several verbs share."""

from __future__ import annotations

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Inference = Annotated[
    str,
    typer.Option(
        help="What a prediction may look at: alone, own-graph or full-graph.", metavar="MODE"
    ),
]
