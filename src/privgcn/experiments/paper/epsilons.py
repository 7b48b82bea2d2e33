"""The paper's table of noise and epsilon, computed again; no training needed."""

from __future__ import annotations

from functools import partial
from typing import Any

from privgcn.experiments.paper.published import OPTIMIZERS, published
from privgcn.experiments.paper.tables import table
from privgcn.privacy.accounting.epsilon import epsilon_of
from privgcn.report import Table


def moments_epsilon(noise_multiplier: float, steps: int, probability: float = 1.0) -> float:
    """The epsilon that the paper's accountant gives."""
    return epsilon_of(
        noise_multiplier=noise_multiplier,
        steps=steps,
        sampling_probability=probability,
        accountant="moments",
    )


def same_digits(again: float, told: float) -> bool:
    """Whether an epsilon is the published one, in the digits that are printed."""
    return round(again, 2) == told


def noise_table() -> Table:
    """The paper's table of noise and epsilon, with the exact epsilon beside it."""
    rows: list[tuple[Any, ...]] = []
    for row in published()["noise_to_epsilon"]:
        for optimizer in OPTIMIZERS:
            noise, steps = row[optimizer]["noise_multiplier"], row[optimizer]["steps"]
            exact = partial(epsilon_of, noise_multiplier=noise, steps=steps, accountant="pld")
            again, told = moments_epsilon(noise, steps), row["epsilon"]
            found = round(exact(), 4), round(exact(sensitivity=2), 4)
            head = (optimizer, noise, steps, told, round(again, 4))
            rows.append((*head, same_digits(again, told), *found))
    return table("noise", rows)
