"""``privgcn account`` and ``calibrate``: noise and epsilon, without training anything."""

from __future__ import annotations

from typing import Annotated

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

    epsilon = epsilon_of(
        noise_multiplier=noise_multiplier,
        steps=steps,
        sampling_probability=sampling_probability,
        sensitivity=sensitivity,
        delta=delta,
        accountant=accountant,
    )
    if as_json:
        print_json(
            {
                "epsilon": epsilon,
                "delta": delta,
                "accountant": accountant,
                "noise_multiplier": noise_multiplier,
                "steps": steps,
                "sampling_probability": sampling_probability,
                "sensitivity": sensitivity,
            }
        )
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

    result = accounting.calibrate(
        epsilon=epsilon,
        steps=steps,
        sampling_probability=sampling_probability,
        sensitivity=sensitivity,
        delta=delta,
        accountant=accountant,
    )
    if as_json:
        print_json(
            {
                "noise_multiplier": result.noise_multiplier,
                "epsilon": result.epsilon,
                "delta": delta,
                "accountant": accountant,
                "steps": steps,
                "sampling_probability": sampling_probability,
                "sensitivity": sensitivity,
            }
        )
        return
    say(
        f"noise multiplier {round_up(result.noise_multiplier, 6)} gives epsilon <= "
        f"{round_up(result.epsilon)} at delta = {delta:g}, accountant {accountant}"
    )
