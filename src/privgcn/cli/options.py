"""Options that several verbs share.

An option that changes a setting is ``None`` unless it was typed, so that no default of an
option stands above ``--set`` or ``--config``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Inference = Annotated[
    str,
    typer.Option(
        help="What a prediction may look at: alone, own-graph or full-graph.", metavar="MODE"
    ),
]
Source = Annotated[str, typer.Argument(help="A dataset's name or a folder of documents.")]
Delta = Annotated[float | None, typer.Option(help="Delta of the guarantee (default: 1e-5).")]
Unit = Annotated[
    str | None, typer.Option(help="What is protected: document, person, part or graph.")
]
Relation = Annotated[str | None, typer.Option(help="remove or replace.")]
Features = Annotated[
    str | None, typer.Option(help="Feature kind, such as minilm, static, hashing or tfidf.")
]
Language = Annotated[
    str | None,
    typer.Option(
        help="Of the texts (default: english); for others there is no encoder inside."
    ),
]
Classes = Annotated[
    str | None, typer.Option(help="The class set, comma-separated: a declared public fact.")
]
Seed = Annotated[
    int | None, typer.Option(help="Of partition and first weights (default: 0).", min=0)
]
Config = Annotated[
    Path | None, typer.Option(help="A settings file (TOML); --set and other options win.")
]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="Change one setting: a.b=c.")
]
