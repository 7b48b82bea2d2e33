"""``privgcn calibrate``: how much noise does a target epsilon need?"""

from __future__ import annotations

from typing import Annotated

import typer

from privgcn.cli.account import (
    Accountant,
    Delta,
    SamplingProbability,
    Sensitivity,
    Steps,
)
from privgcn.cli.options import AsJson
from privgcn.cli.output import print_json


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
    from privgcn.privacy.accounting import calibration
    from privgcn.privacy.statement_text import round_up

    found = calibration.calibrate(
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
                "noise_multiplier": found.noise_multiplier,
                "epsilon": found.epsilon,
                "delta": delta,
                "accountant": accountant,
                "steps": steps,
                "sampling_probability": sampling_probability,
                "sensitivity": sensitivity,
            }
        )
        return
    typer.echo(
        f"noise multiplier {round_up(found.noise_multiplier, 6)} gives epsilon <= "
        f"{round_up(found.epsilon)} at delta = {delta:g}, accountant {accountant}"
    )
