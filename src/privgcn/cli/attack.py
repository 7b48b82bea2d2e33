"""``privgcn attack``: what do released models give away, with and without privacy?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privgcn.cli.audit import RunOrSource, subject_of
from privgcn.cli.options import AsJson, Config, Delta, Features, Overrides, Seed, Unit
from privgcn.cli.output import check_out, print_json

if TYPE_CHECKING:
    from privgcn.evidence.attack_record import Attacks
    from privgcn.evidence.roc import Measured


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
    from privgcn import progress
    from privgcn.cli.progress import shown_stages
    from privgcn.evidence.attacks import attack as attack_subject
    from privgcn.files import write_atomically
    from privgcn.runs.folder import is_stored

    if out is not None:
        check_out(out, _holds_attacks)
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
    with shown_stages():
        progress.begin("attacking")
        found = attack_subject(subject, shadows=shadows, column=column)
    if out is not None:
        write_atomically(out, found.model_dump_json(indent=1) + "\n")
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    _print(found)
    if out is not None:
        typer.echo(f"Wrote {out}. Next: privgcn report RUN --evidence {out}")


def _holds_attacks(path: Path) -> bool:
    from privgcn.errors import DataError
    from privgcn.evidence.attack_record import read_attacks

    try:
        read_attacks(path)
    except DataError:
        return False
    return True


def _print(found: Attacks) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from privgcn.evidence.roc import FALSE_POSITIVES
    from privgcn.report.evidence import attack_name, attack_notes

    rates = [f"TPR at {rate:.1%} FPR" for rate in FALSE_POSITIVES]
    for attack in dict.fromkeys(row.attack for row in found.rows):
        rows = [row for row in found.rows if row.attack == attack]
        others = any(row.others is not None for row in rows)
        title = Text(f"{found.source}: {attack_name(attack, found.column)}")
        table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        for name in ("model", "inference"):
            table.add_column(name)
        for name in ("AUC", *rates, *(["AUC of others"] if others else [])):
            table.add_column(name, justify="right")
        for row in rows:
            numbers = [row.auc, *row.tpr, *([row.others] if row.others else [])]
            table.add_row(row.model, row.inference or "-", *map(_short, numbers))
        Console().print(table)
    for note in (*attack_notes(found), "No guarantee covers inference full-graph."):
        typer.echo(note)


def _short(value: Measured) -> str:
    """A number and the farther end of its interval."""
    spread = max(value.high - value.value, value.value - value.low)
    return f"{value.value:.3f} ±{spread:.3f}"
