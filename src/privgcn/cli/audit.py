"""``privgcn audit``: how large is epsilon at least, measured?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privgcn.cli.flags import AsJson, Chosen, RunOrSource, settings
from privgcn.cli.output import print_json, print_table, say, shown_progress

if TYPE_CHECKING:
    from privgcn.audit.audit import Audit, Target

BROKEN = 5
"""Exit code of an audit that found a claim broken."""


@settings(
    *("epsilon", "delta", "unit", "relation", "parts", "sampling", "recipe", "optimizer"),
    *("features", "seed"),
    epsilon="The claim to audit; a run has its own.",
)
def audit(
    source: RunOrSource,
    chosen: Chosen,
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
    from privgcn.audit.audit import audit_target

    target = target_of(source, chosen)
    with shown_progress():
        progress.begin("auditing")
        result = audit_target(target, runs=repeats, canaries=canaries, confidence=confidence)
    if as_json:
        bound = {"source": source, "epsilon": result.epsilon, "share": result.share}
        print_json({**bound, **result.model_dump(mode="json")})
    else:
        _print(result)
    if result.broken:
        for reason in result.broken:
            typer.echo(f"THE CLAIM IS BROKEN: {reason}.", err=True)
        raise typer.Exit(BROKEN)


def target_of(source: str, chosen: Chosen, **more: Any) -> Target:
    """A run, whose settings are its own, or a corpus with the settings that were typed."""
    from privgcn.audit.audit import Target
    from privgcn.config import resolve
    from privgcn.errors import ConfigError
    from privgcn.runs.folder import is_stored

    if not is_stored(Path(source)):
        return Target.of_corpus(resolve(*chosen.overrides(data__source=source, **more)))
    if chosen.words:
        raise ConfigError(
            f"The settings of the run {source} are its own. Got {chosen.words[0]}. Leave it "
            "out, or name a corpus."
        )
    return Target.of_run(Path(source))


def _print(result: Audit) -> None:
    columns = ("adversary sees", "method", "right guesses", "epsilon at least", "of the claim")
    print_table(
        "Lower bounds on epsilon",
        {name: index > 1 for index, name in enumerate(columns)},
        [
            (
                finding.adversary,
                finding.method,
                f"{finding.correct:,} of {finding.guesses:,}",
                f"{finding.epsilon:.3f}",
                f"{finding.epsilon / result.claim:.0%}",
            )
            for finding in result.findings
        ],
    )
    say(
        f"Claim: epsilon <= {result.claim:.3f} at delta = {result.delta:g}, unit "
        f"{result.unit}, relation {result.relation}."
    )
    say(
        f"Measured: epsilon >= {result.epsilon:.3f} with {result.confidence:.0%} confidence, "
        f"{result.share:.0%} of the claim."
    )
    say(
        f"One unit moved a sum by {result.largest_move:.4f} clip norms at most; the plan "
        f"accounts for {result.sensitivity}."
    )
    if not result.broken:
        say(
            "Nothing contradicts the claim. An audit bounds epsilon from below; it is no proof."
        )
