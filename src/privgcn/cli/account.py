"""``privgcn account`` and ``calibrate``: noise and epsilon, without training anything."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from privgcn.cli.flags import AsJson
from privgcn.cli.output import print_json, say

Steps = Annotated[
    int, typer.Option("--steps", help="Number of noisy steps (sampling 'epoch': of epochs).")
]
SamplingProbability = Annotated[
    float,
    typer.Option(
        "--sampling-probability",
        help="Probability that a group is sampled in a step; 1 for all groups.",
    ),
]
Sensitivity = Annotated[
    int,
    typer.Option(
        "--sensitivity", help="Sensitivity of a step to one unit, in clip norms: 1 or 2."
    ),
]
Delta = Annotated[float, typer.Option("--delta", help="The delta of the guarantee.")]
Accountant = Annotated[
    str, typer.Option("--accountant", help="pld (tight), rdp, or moments (the paper's).")
]


def account(
    noise_multiplier: Annotated[
        float,
        typer.Option(
            "--noise-multiplier",
            help="Standard deviation of the noise, divided by the clip norm.",
        ),
    ],
    steps: Steps,
    sampling_probability: SamplingProbability = 1.0,
    sensitivity: Sensitivity = 1,
    delta: Delta = 1e-5,
    accountant: Accountant = "pld",
    as_json: AsJson = False,
) -> None:
    """Compute the epsilon of a noise multiplier, without training anything."""
    from privgcn.privacy.accounting import epsilon_of
    from privgcn.privacy.wording import round_up

    mechanism = _named(steps, sampling_probability, sensitivity, delta, accountant)
    epsilon = epsilon_of(noise_multiplier=noise_multiplier, **mechanism)
    if as_json:
        print_json({"epsilon": epsilon, "noise_multiplier": noise_multiplier, **mechanism})
        return
    say(f"epsilon <= {round_up(epsilon)} at delta = {delta:g}, accountant {accountant}")


def calibrate(
    epsilon: Annotated[
        float, typer.Option("--epsilon", help="Target epsilon; never exceeded.")
    ],
    steps: Steps,
    sampling_probability: SamplingProbability = 1.0,
    sensitivity: Sensitivity = 1,
    delta: Delta = 1e-5,
    accountant: Accountant = "pld",
    as_json: AsJson = False,
) -> None:
    """Find the smallest noise multiplier whose epsilon is at most the target."""
    from privgcn.privacy import accounting
    from privgcn.privacy.wording import round_up

    mechanism = _named(steps, sampling_probability, sensitivity, delta, accountant)
    result = accounting.calibrate(epsilon=epsilon, **mechanism)
    noise, reached = result.noise_multiplier, result.epsilon
    if as_json:
        print_json({"noise_multiplier": noise, "epsilon": reached, **mechanism})
        return
    say(
        f"noise multiplier {round_up(noise, 6)} gives epsilon <= {round_up(reached)} at "
        f"delta = {delta:g}, accountant {accountant}"
    )


def _named(
    steps: int, sampling_probability: float, sensitivity: int, delta: float, accountant: str
) -> dict[str, Any]:
    """What both verbs know of a mechanism, as both functions take it and JSON prints it."""
    return {
        "steps": steps,
        "sampling_probability": sampling_probability,
        "sensitivity": sensitivity,
        "delta": delta,
        "accountant": accountant,
    }
