"""``privgcn attack``: what do released models give away, with and without privacy?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privgcn.cli.audit import RunOrSource, subject_of
from privgcn.cli.options import AsJson, Config, Delta, Features, Overrides, Seed, Unit
from privgcn.cli.output import print_json

if TYPE_CHECKING:
    from privgcn.evidence.attack_record import Attacks


def attack(
    source: RunOrSource,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Of the private models; a run has its own (default: 1)."),
    ] = None,
    delta: Delta = None,
    unit: Unit = None,
    features: Features = None,
    seed: Seed = None,
    config: Config = None,
    overrides: Overrides = None,
    shadows: Annotated[
        int, typer.Option(help="Models of each kind that tell membership; even.", min=4)
    ] = 16,
    column: Annotated[
        str | None, typer.Option(help="A column of the documents to infer, or label.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A file for 'privgcn report --evidence'.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Attack models with and without privacy: membership, links, a private column."""
    from privgcn.cli.progress import progress_bar
    from privgcn.evidence.attacks import attack as attack_subject
    from privgcn.files import write_atomically
    from privgcn.runs.folder import is_stored

    if epsilon is None and config is None and not is_stored(Path(source)):
        epsilon = 1.0
    flags = {
        "seed": seed,
        "features.kind": features,
        "privacy.epsilon": epsilon,
        "privacy.delta": delta,
        "privacy.unit": unit,
    }
    subject = subject_of(source, flags, overrides, config)
    with progress_bar("attacking"):
        found = attack_subject(subject, shadows=shadows, column=column)
    if out is not None:
        write_atomically(out, found.model_dump_json(indent=1) + "\n")
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    _print(found)
    if out is not None:
        typer.echo(f"Wrote {out}. Next: privgcn report RUN --evidence {out}")


def _print(found: Attacks) -> None:
    from rich.console import Console
    from rich.table import Table

    from privgcn.report.evidence import attack_table

    shown = attack_table(found)
    table = Table(title=shown.title, title_justify="left")
    for number, name in enumerate(shown.columns):
        table.add_column(name, justify="right" if number > 3 else "left")
    for row in shown.rows:
        table.add_row(*shown.texts(row))
    Console().print(table)
    for note in shown.notes:
        typer.echo(note)
