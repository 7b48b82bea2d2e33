"""How verbs speak: results on stdout, progress on stderr, one JSON object with ``--json``."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite", help="Replace the run or release in that folder, and only its own files."
    ),
]


def print_json(record: dict[str, Any]) -> None:
    """Prints exactly one JSON object to stdout."""
    typer.echo(json.dumps(record, indent=2, allow_nan=False))
