"""``privgcn audit`` and ``attack``: what models give away, measured."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from typer import Option

from privgcn.cli.flags import REPLACE, RUN_OR_SOURCE, Chosen, takes
from privgcn.cli.output import Answer, Line, check_out, shown_progress

if TYPE_CHECKING:
    from privgcn.audit.audit import Target

BROKEN = 5
"""Exit code of an audit that found a claim broken."""


@takes(
    *("epsilon", "delta", "unit", "relation", "parts", "sampling", "recipe", "optimizer"),
    *("features", "seed"),
    source=RUN_OR_SOURCE,
    epsilon="The claim to audit; a run has its own.",
    repeats=Option(help="Runs on each of two neighbours (default: about a minute's).", min=10),
    confidence="With which the bound holds.",
)
def audit(
    source: str, chosen: Chosen, repeats: int | None = None, confidence: float = 0.95
) -> Answer:
    """Measure a lower bound on epsilon by attacks on the engine; fail above the claim."""
    from privgcn.audit.audit import audit_target
    from privgcn.privacy.wording import round_up

    target = _target(source, chosen)
    with shown_progress("auditing"):
        result = audit_target(target, runs=repeats, confidence=confidence)
    for reason in result.broken:
        typer.echo(f"THE CLAIM IS BROKEN: {reason}.", err=True)
    # Lower bounds are rounded down.
    epsilon, mu = (math.floor(1000 * least) / 1000 for least in (result.epsilon, result.mu))
    lines = [
        f"Claim: epsilon at most {round_up(result.claim)} at delta {round_up(result.delta)} "
        f"(mu {round_up(result.claim_mu)}), unit {result.unit}, relation {result.relation}.",
        f"Measured: epsilon at least {epsilon:.3f} (mu {mu:.3f}) with "
        f"{result.confidence:.0%} confidence, {math.floor(100 * result.share)}% of the claim, "
        f"from {result.correct:,} right guesses of {result.guesses:,}.",
        f"One unit moved a sum by {result.largest_move:.4f} clip norms at most; the plan "
        f"accounts for {result.sensitivity}.",
    ]
    record = {"source": source, "share": result.share, **result._asdict()}
    errors = result.generalisation
    if errors is not None:
        record["generalisation"] = errors._asdict()
        lines.append(
            f"A model of these documents, each seen alone, errs on {errors.seen:.1%} of those "
            f"that trained it and on {errors.unseen:.1%} of others; the claim allows "
            f"{errors.allowed:.1%} on documents of the same kind."
        )
    if result.broken:
        return Answer(record, lines, BROKEN)
    sound = "Nothing contradicts the claim. An audit bounds epsilon from below; it is no proof."
    return Answer(record, [*lines, sound])


@takes(
    *("epsilon", "delta", "unit", "features", "seed"),
    source=RUN_OR_SOURCE,
    epsilon="Of the private models; a run has its own (default: 1).",
    shadows=Option(help="Models of each kind that tell membership; even.", min=4),
    out="A file for 'privgcn report --evidence'.",
    overwrite=REPLACE,
)
def attack(
    source: str,
    chosen: Chosen,
    shadows: int = 16,
    out: Path | None = None,
    overwrite: bool = False,
) -> Answer:
    """Attack models with and without privacy: membership and edges."""
    from privgcn.audit.attacks import attack as attack_target
    from privgcn.files import write_atomically
    from privgcn.report.attacks import table
    from privgcn.runs.folder import is_stored

    if out is not None:
        check_out(out, overwrite=overwrite)
    flags = chosen.flags
    if flags["epsilon"] is None and chosen.config is None and not is_stored(Path(source)):
        chosen = chosen._replace(flags={**flags, "epsilon": 1.0})
    target = _target(source, chosen)
    with shown_progress("attacking"):
        result = attack_target(target, shadows=shadows)
    written = ""
    if out is not None:
        write_atomically(out, result.model_dump_json(indent=1) + "\n")
        written = f"Wrote {out}. Next: privgcn report RUN --evidence {out}"
    lines: list[Line] = [table(result), "No guarantee covers inference full-graph.", written]
    return Answer(result.model_dump(mode="json"), lines)


def _target(source: str, chosen: Chosen) -> Target:
    from privgcn.audit.audit import Target
    from privgcn.config import resolve
    from privgcn.errors import ConfigError
    from privgcn.runs.folder import is_stored

    if not is_stored(Path(source)):
        return Target.of_corpus(resolve(*chosen.overrides(source=source)))
    if chosen.options:
        raise ConfigError(
            f"The settings of the run {source} are its own. Got {chosen.options[0]}. Leave it "
            "out, or name a corpus."
        )
    return Target.of_run(Path(source))
