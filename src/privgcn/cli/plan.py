"""``privgcn plan``: what can be expected of a budget, before any document is read?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from privgcn.cli.flags import AsJson, Chosen, settings
from privgcn.cli.output import print_json, say

if TYPE_CHECKING:
    from privgcn.auto.forecast import Forecast


@settings(
    *("delta", "unit", "relation"), files=False, unit="What is protected: document or person."
)
def plan(
    chosen: Chosen,
    documents: Annotated[
        int,
        typer.Option(help="Number of training documents; of owners for unit person.", min=1),
    ],
    classes: Annotated[int, typer.Option(help="Number of classes.", min=2)],
    epsilon: Annotated[float, typer.Option(help="Privacy budget epsilon.")] = 1.0,
    features: Annotated[
        int | None,
        typer.Option(help="Number of features (default: that of the kind).", min=1),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(help="Kind of features, such as minilm (default), static or hashing."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Estimate noise, steps and score from public numbers alone, before any training."""
    from privgcn.auto.forecast import forecast

    result = forecast(
        documents,
        classes,
        epsilon,
        features=features,
        kind=kind,
        **chosen.by_name,
    )
    if as_json:
        print_json(_record(result))
        return
    for line in _lines(result):
        say(line)


def _record(result: Forecast) -> dict[str, Any]:
    made = result.plan
    names = ("unit", "relation", "epsilon", "delta", "noise_multiplier", "steps", "clip_norm")
    return {
        "recipe": "auto",
        "documents": made.units,
        "classes": result.classes,
        "features": result.features,
        "kind": result.kind,
        **{name: getattr(made, name) for name in names},
        "noise_for_each_unit": result.noise_for_each_unit,
        "signal": result.signal,
        "expected": {"micro_f1": list(result.interval), "recovered": result.recovered},
        "measured": result.measured,
        "advice": list(result.advice),
    }


def _lines(result: Forecast) -> list[str]:
    from privgcn.privacy.wording import round_up

    made, (low, high) = result.plan, result.interval
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
            f"{result.noise_for_each_unit:.2g} clip norms in every coordinate of the mean "
            "gradient over all steps",
        ),
        (
            "score",
            f"micro-F1 {low:.2f} to {high:.2f} (inference own-graph) in four of five cases",
        ),
        (
            "",
            f"about {result.recovered:.0%} of the way from guessing to the score "
            "without privacy",
        ),
    ]
    if made.weak_delta:
        rows.append(
            ("delta", f"too large for this many units: use {0.1 / made.units:.1g} or less")
        )
    rows += [("advice", line) for line in result.advice]
    return [f"{name:<12}{text}" for name, text in rows]
