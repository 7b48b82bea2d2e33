"""``privgcn audit``: how large is epsilon at least, measured?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privgcn.cli.options import (
    AsJson,
    Config,
    Delta,
    Features,
    Overrides,
    Relation,
    Seed,
    Unit,
)
from privgcn.cli.output import print_json

if TYPE_CHECKING:
    from privgcn.evidence.audit import Audit
    from privgcn.evidence.subject import Subject

BROKEN = 5
"""Exit code of an audit that found a claim broken."""

RunOrSource = Annotated[
    str, typer.Argument(help="A run folder, a dataset's name or a folder of documents.")
]


def audit(
    source: RunOrSource,
    epsilon: Annotated[
        float | None, typer.Option(help="The claim to audit; a run has its own.")
    ] = None,
    delta: Delta = None,
    unit: Unit = None,
    relation: Relation = None,
    parts: Annotated[
        str | None, typer.Option(help="each, a number, or column:NAME (declared public).")
    ] = None,
    sampling: Annotated[str | None, typer.Option(help="all, poisson or epoch.")] = None,
    recipe: Annotated[
        str | None, typer.Option(help="auto (default), paper-full or paper-split.")
    ] = None,
    optimizer: Annotated[str | None, typer.Option(help="sgd or adam.")] = None,
    features: Features = None,
    seed: Seed = None,
    config: Config = None,
    overrides: Overrides = None,
    repeats: Annotated[
        int | None,
        typer.Option(
            help="Runs on each of two neighbours (default: about a minute's).", min=10
        ),
    ] = None,
    canaries: Annotated[
        int, typer.Option(help="Canaries among the documents in one more run; 0: none.", min=0)
    ] = 2_000,
    confidence: Annotated[
        float, typer.Option(help="With which the bounds hold, all together.")
    ] = 0.95,
    as_json: AsJson = False,
) -> None:
    """Measure a lower bound on epsilon by attacks on the engine; fail above the claim."""
    from privgcn import progress
    from privgcn.cli.progress import shown_stages
    from privgcn.evidence.audit import audit_subject

    flags = {
        "recipe": recipe,
        "seed": seed,
        "training.optimizer": optimizer,
        "features.kind": features,
        "privacy.epsilon": epsilon,
        "privacy.delta": delta,
        "privacy.unit": unit,
        "privacy.relation": relation,
        "privacy.parts": parts,
        "privacy.sampling": sampling,
    }
    subject = subject_of(source, flags, overrides, config)
    with shown_stages():
        progress.begin("auditing")
        found = audit_subject(subject, runs=repeats, canaries=canaries, confidence=confidence)
    if as_json:
        bound = {"source": source, "epsilon": found.epsilon, "share": found.share}
        print_json({**bound, **found.model_dump(mode="json")})
    else:
        _print(found)
    if found.broken:
        for reason in found.broken:
            typer.echo(f"THE CLAIM IS BROKEN: {reason}.", err=True)
        raise typer.Exit(BROKEN)


def subject_of(
    source: str, flags: dict[str, Any], overrides: list[str] | None, config: Path | None
) -> Subject:
    """A run, whose settings are its own, or a corpus with the settings that were typed."""
    from privgcn.config import Overrides, resolve
    from privgcn.errors import ConfigError
    from privgcn.evidence.subject import Subject
    from privgcn.runs.folder import is_stored

    if not is_stored(Path(source)):
        wishes = Overrides.command_line({**flags, "data.source": source}, overrides, config)
        return Subject.of_corpus(resolve(*wishes))
    typed = [name.rpartition(".")[2] for name, value in flags.items() if value is not None]
    if typed or overrides or config:
        raise ConfigError(
            f"The settings of the run {source} are its own. Got "
            f"--{typed[0] if typed else 'set' if overrides else 'config'}. Leave it out, or "
            "name a corpus."
        )
    return Subject.of_run(Path(source))


def _print(found: Audit) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Lower bounds on epsilon", title_justify="left")
    for name in (
        "adversary sees",
        "method",
        "right guesses",
        "epsilon at least",
        "of the claim",
    ):
        table.add_column(
            name, justify="left" if name in ("adversary sees", "method") else "right"
        )
    for finding in found.findings:
        table.add_row(
            finding.adversary,
            finding.method,
            f"{finding.correct:,} of {finding.guesses:,}",
            f"{finding.epsilon:.3f}",
            f"{finding.epsilon / found.claim:.0%}",
        )
    Console().print(table)
    typer.echo(
        f"Claim: epsilon <= {found.claim:.3f} at delta = {found.delta:g}, unit {found.unit}, "
        f"relation {found.relation}. Measured: epsilon >= {found.epsilon:.3f} with "
        f"{found.confidence:.0%} confidence, {found.share:.0%} of the claim."
    )
    typer.echo(
        f"One unit moved a sum by {found.largest_move:.4f} clip norms at most; the plan "
        f"accounts for {found.sensitivity}."
    )
    if not found.broken:
        typer.echo(
            "Nothing contradicts the claim. An audit bounds epsilon from below; it is no proof."
        )
