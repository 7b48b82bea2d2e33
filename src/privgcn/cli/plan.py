"""``privgcn plan``: what can be expected of a budget, before any document is read?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from privgcn.cli.options import AsJson, Delta, Relation
from privgcn.cli.output import print_json

if TYPE_CHECKING:
    from privgcn.training.outlook import Outlook


def plan(
    documents: Annotated[
        int,
        typer.Option(help="Number of training documents; of owners for unit person.", min=1),
    ],
    classes: Annotated[int, typer.Option(help="Number of classes.", min=2)],
    epsilon: Annotated[float, typer.Option(help="Privacy budget epsilon.")] = 1.0,
    delta: Delta = None,
    features: Annotated[
        int | None,
        typer.Option(help="Number of features (default: that of the kind).", min=1),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(help="Kind of features, such as minilm (default), static or hashing."),
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="What is protected: document or person.")
    ] = None,
    relation: Relation = None,
    as_json: AsJson = False,
) -> None:
    """Estimate noise, steps and score from public numbers alone, before any training."""
    from privgcn.training.outlook import outlook

    found = outlook(
        documents,
        classes,
        epsilon,
        features=features,
        kind=kind,
        delta=delta,
        unit=unit,
        relation=relation,
    )
    if as_json:
        print_json(_record(found))
        return
    for line in _lines(found):
        typer.echo(line)


def _record(found: Outlook) -> dict[str, Any]:
    made, expected, setup = found.plan, found.expected, found.setup
    return {
        "recipe": "auto",
        "documents": made.units,
        "classes": setup.classes,
        "features": setup.features,
        "kind": setup.kind,
        "unit": made.unit,
        "relation": made.relation,
        "epsilon": made.epsilon,
        "delta": made.delta,
        "noise_multiplier": made.noise_multiplier,
        "steps": made.steps,
        "clip_norm": made.clip_norm,
        "noise_for_each_unit": found.noise_for_each_unit,
        "signal": found.signal,
        "expected": {"micro_f1": list(expected.interval), "reach": expected.reach},
        "measured": expected.measured,
        "advice": list(found.advice),
    }


def _lines(found: Outlook) -> list[str]:
    from privgcn.privacy.statement_text import round_up
    from privgcn.training.outlook import MODE

    made, (low, high) = found.plan, found.expected.interval
    counted = "people" if made.unit == "person" else "documents"
    rows = [
        (
            "guarantee",
            f"epsilon <= {round_up(made.epsilon)} at delta = {made.delta:g}, unit {made.unit}, "
            f"relation {made.relation}",
        ),
        (
            "noise",
            f"multiplier {made.noise_multiplier:.4g} in each of {made.steps} steps over all "
            f"{made.units:,} {counted}",
        ),
        (
            "",
            f"{found.noise_for_each_unit:.2g} clip norms in every coordinate of the mean "
            "gradient over all steps",
        ),
        (
            "score",
            f"micro-F1 {low:.2f} to {high:.2f} (inference {MODE}) in four of five cases",
        ),
        (
            "",
            f"about {found.expected.reach:.0%} of the way from guessing to the score without "
            "privacy",
        ),
    ]
    if made.weak_delta:
        rows.append(
            ("delta", f"too large for this many units: use {0.1 / made.units:.1g} or less")
        )
    rows += [("advice", line) for line in found.advice]
    return [f"{name:<12}{text}" for name, text in rows]
