"""``privgcn account``: which epsilon does a noise multiplier give?"""

from __future__ import annotations

from typing import Annotated

import typer

from privgcn.cli.options import AsJson
from privgcn.cli.output import print_json

Steps = Annotated[
    int, typer.Option("--steps", help="Number of noisy steps (sampling 'epoch': of epochs).")
]
SamplingProbability = Annotated[
    float,
    typer.Option(
        "--sampling-probability",
        help="Probability that a part is sampled in a step; 1 for all parts.",
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
    from privgcn.privacy.accounting.epsilon import epsilon_of
    from privgcn.privacy.statement_text import round_up

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
    typer.echo(f"epsilon <= {round_up(epsilon)} at delta = {delta:g}, accountant {accountant}")
