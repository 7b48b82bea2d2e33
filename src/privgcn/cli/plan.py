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
        typer.Option(help="Number of features (default: 384, those of MiniLM).", min=1),
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="What is protected: document or person.")
    ] = None,
    relation: Relation = None,
    as_json: AsJson = False,
) -> None:
    """Estimate noise, steps and score from public numbers alone, before any training."""
    from privgcn.training.outlook import DEFAULT_FEATURES, outlook

    found = outlook(
        documents,
        classes,
        epsilon,
        features=features or DEFAULT_FEATURES,
        delta=delta,
        unit=unit,
        relation=relation,
    )
    if as_json:
        print_json(_record(found, classes, features or DEFAULT_FEATURES))
        return
    for line in _lines(found):
        typer.echo(line)


def _record(found: Outlook, classes: int, features: int) -> dict[str, Any]:
    made, expected = found.plan, found.expected
    return {
        "recipe": "auto",
        "documents": made.units,
        "classes": classes,
        "features": features,
        "unit": made.unit,
        "relation": made.relation,
        "epsilon": made.epsilon,
        "delta": made.delta,
        "noise_multiplier": made.noise_multiplier,
        "steps": made.steps,
        "clip_norm": made.clip_norm,
        "noise_for_each_unit": found.noise_for_each_unit,
        "signal": found.signal,
        "expected_share": {
            "mean": expected.share,
            "least": expected.least,
            "most": expected.most,
            "from_links": expected.links,
        },
        "measured": expected.measured,
        "advice": list(found.advice),
    }


def _lines(found: Outlook) -> list[str]:
    from privgcn.privacy.statement_text import round_up

    made, expected = found.plan, found.expected
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
            f"{expected.share:.0%} of the non-private score, {expected.least:.0%} to "
            f"{expected.most:.0%} in our closest measurements",
        ),
        ("", f"{max(expected.links, 0.0):.0%} of it through links (inference own-graph)"),
    ]
    if made.weak_delta:
        rows.append(
            ("delta", f"too large for this many units: use {0.1 / made.units:.1g} or less")
        )
    rows += [("advice", line) for line in found.advice]
    return [f"{name:<12}{text}" for name, text in rows]
