"""Options that several verbs share.

An option that changes a setting is ``None`` unless it was typed, so that no default of an
option stands above ``--set`` or ``--config``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

MODES = "alone, own-graph, full-graph"
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Inference = Annotated[
    str,
    typer.Option(help=f"What a prediction may look at: {MODES}.", metavar="MODE"),
]
Source = Annotated[str, typer.Argument(help="A dataset's name or a folder of documents.")]
Delta = Annotated[float | None, typer.Option(help="Delta of the guarantee (default: 1e-5).")]
Unit = Annotated[
    str | None, typer.Option(help="What is protected: document, person, part or graph.")
]
Relation = Annotated[
    str | None, typer.Option(help="How neighbouring data differ: remove or replace.")
]
Features = Annotated[
    str | None, typer.Option(help="Kind of features, such as minilm, static, hashing or tfidf.")
]
Language = Annotated[
    str | None,
    typer.Option(
        help="Language of the texts (default: english). The encoders inside know English only."
    ),
]
Classes = Annotated[
    str | None, typer.Option(help="The class set, comma-separated, if it is public knowledge.")
]
Seed = Annotated[
    int | None,
    typer.Option(help="Seed of the partition and the initial weights (default: 0).", min=0),
]
Device = Annotated[
    str | None,
    typer.Option(help="Where to train: auto (what is faster), cpu or cuda (default: cpu)."),
]
Config = Annotated[
    Path | None,
    typer.Option(help="A TOML file of settings; --set and other options override it."),
]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="Change one setting: a.b=c.")
]
