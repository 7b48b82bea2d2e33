"""``privgcn plan``, ``account`` and ``calibrate``: noise, epsilon and steps, untrained."""

from __future__ import annotations

from typing import Any

from typer import Option

from privgcn.cli.flags import takes
from privgcn.cli.output import print_json, say

_MECHANISM = {
    "steps": "Number of noisy steps (sampling 'epoch': of epochs).",
    "sampling_probability": "Probability that a group is sampled in a step; 1 for all groups.",
    "sensitivity": "Sensitivity of a step to one unit, in clip norms: 1 or 2.",
    "delta": "The delta of the guarantee.",
    "accountant": "pld (tight), rdp, or moments (the paper's).",
}


@takes(
    documents=Option(help="Number of training documents; of owners for unit person.", min=1),
    classes=Option(help="Number of classes.", min=2),
    epsilon="Privacy budget epsilon.",
    delta="Delta of the guarantee (default: 1e-5).",
    unit="What is protected: document or person.",
    relation="How neighbouring data differ: remove or replace.",
    features=Option(help="Number of features (default: that of the kind).", min=1),
    kind="Kind of features, such as both (default), static or hashing.",
)
def plan(
    documents: int,
    classes: int,
    epsilon: float = 1.0,
    delta: float | None = None,
    unit: str | None = None,
    relation: str | None = None,
    features: int | None = None,
    kind: str | None = None,
    as_json: bool = False,
) -> None:
    """Say from public numbers what a budget buys: noise, steps, and whether it is enough."""
    from privgcn.auto.budget import Budget
    from privgcn.privacy.wording import round_up

    result = Budget.of(
        documents,
        classes,
        epsilon,
        features=features,
        kind=kind,
        delta=delta,
        unit=unit,
        relation=relation,
    )
    made = result.plan
    names = ("unit", "relation", "epsilon", "delta", "noise_multiplier", "steps", "clip_norm")
    if as_json:
        print_json(
            {
                "recipe": "auto",
                "documents": made.units,
                "classes": result.classes,
                "features": result.features,
                "kind": result.kind,
                **{name: getattr(made, name) for name in names},
                "noise_for_each_unit": result.noise_for_each_unit,
                "signal": result.signal,
                "advice": list(result.advice),
            }
        )
        return
    counted = "people" if made.unit == "person" else "documents"
    say(
        f"guarantee   epsilon <= {round_up(made.epsilon)} at delta = {made.delta:g}, unit "
        f"{made.unit}, relation {made.relation}\n"
        f"noise       multiplier {made.noise_multiplier:.4g} in each of {made.steps} steps "
        f"over all {made.units:,} {counted}\n"
        f"            {result.noise_for_each_unit:.2g} clip norms in every coordinate of the "
        "mean gradient over all steps"
    )
    if made.weak_delta:
        say(f"delta       too large for this many units: use {0.1 / made.units:.1g} or less")
    for line in result.advice:
        say(f"advice      {line}")


@takes(
    noise_multiplier="Standard deviation of the noise, divided by the clip norm.", **_MECHANISM
)
def account(
    noise_multiplier: float,
    steps: int,
    sampling_probability: float = 1.0,
    sensitivity: int = 1,
    delta: float = 1e-5,
    accountant: str = "pld",
    as_json: bool = False,
) -> None:
    """Compute the epsilon of a noise multiplier, without training anything."""
    from privgcn.privacy.accounting import epsilon_of
    from privgcn.privacy.wording import round_up

    mechanism: dict[str, Any] = {
        "steps": steps,
        "sampling_probability": sampling_probability,
        "sensitivity": sensitivity,
        "delta": delta,
        "accountant": accountant,
    }
    epsilon = epsilon_of(noise_multiplier=noise_multiplier, **mechanism)
    if as_json:
        print_json({"epsilon": epsilon, "noise_multiplier": noise_multiplier, **mechanism})
    else:
        say(f"epsilon <= {round_up(epsilon)} at delta = {delta:g}, accountant {accountant}")


@takes(epsilon="Target epsilon; never exceeded.", **_MECHANISM)
def calibrate(
    epsilon: float,
    steps: int,
    sampling_probability: float = 1.0,
    sensitivity: int = 1,
    delta: float = 1e-5,
    accountant: str = "pld",
    as_json: bool = False,
) -> None:
    """Find the smallest noise multiplier whose epsilon is at most the target."""
    from privgcn.privacy import accounting
    from privgcn.privacy.wording import round_up

    mechanism: dict[str, Any] = {
        "steps": steps,
        "sampling_probability": sampling_probability,
        "sensitivity": sensitivity,
        "delta": delta,
        "accountant": accountant,
    }
    result = accounting.calibrate(epsilon=epsilon, **mechanism)
    noise, reached = result.noise_multiplier, result.epsilon
    if as_json:
        print_json({"noise_multiplier": noise, "epsilon": reached, **mechanism})
    else:
        say(
            f"noise multiplier {round_up(noise, 6)} gives epsilon <= {round_up(reached)} at "
            f"delta = {delta:g}, accountant {accountant}"
        )
