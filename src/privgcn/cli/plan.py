"""``privgcn plan`` and ``ledger``: what a budget buys, what noise costs, and what was spent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer import Argument, Option

from privgcn.cli.flags import takes
from privgcn.cli.output import print_json, print_table, say
from privgcn.errors import ConfigError, DataError


@takes(
    documents=Option(help="Number of training documents; of owners for unit person.", min=1),
    classes=Option(help="Number of classes.", min=2),
    epsilon="Privacy budget epsilon (default: 1).",
    delta="Delta of the guarantee (default: 1e-5).",
    unit="What is protected: document or person.",
    relation="How neighbouring data differ: remove or replace.",
    features=Option(help="Number of features (default: that of the kind).", min=1),
    kind="Kind of features, such as both (default), static or hashing.",
    noise_multiplier="Standard deviation of the noise, divided by the clip norm.",
    steps="Number of noisy steps (sampling 'epoch': of epochs).",
    sampling_probability="Probability that a group is sampled in a step; 1 for all groups.",
    sensitivity="Sensitivity of a step to one unit, in clip norms: 1 or 2.",
    accountant="pld (tight), rdp, or moments (the paper's).",
)
def plan(
    documents: int | None = None,
    classes: int | None = None,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    steps: int | None = None,
    delta: float | None = None,
    unit: str | None = None,
    relation: str | None = None,
    features: int | None = None,
    kind: str | None = None,
    sampling_probability: float = 1.0,
    sensitivity: int = 1,
    accountant: str = "pld",
    as_json: bool = False,
) -> None:
    """Say what a budget buys or what noise costs, without data or training.

    With --documents and --classes: noise and steps of recipe auto, and whether they are
    enough. With --steps and --noise-multiplier: epsilon. With --steps and --epsilon: noise.
    """
    if documents is not None and classes is not None and steps is None:
        _budget(
            documents,
            classes,
            1.0 if epsilon is None else epsilon,
            as_json=as_json,
            features=features,
            kind=kind,
            delta=delta,
            unit=unit,
            relation=relation,
        )
        return
    if (
        steps is None
        or documents is not None
        or (noise_multiplier is None) == (epsilon is None)
    ):
        raise ConfigError(
            "A plan needs --documents and --classes, or --steps with either "
            "--noise-multiplier or --epsilon. Add what is missing."
        )
    mechanism = {
        "steps": steps,
        "sampling_probability": sampling_probability,
        "sensitivity": sensitivity,
        "delta": 1e-5 if delta is None else delta,
        "accountant": accountant,
    }
    _cost(noise_multiplier, epsilon, mechanism, as_json=as_json)


def _budget(
    documents: int, classes: int, epsilon: float, *, as_json: bool, **more: Any
) -> None:
    """Noise and steps of recipe ``auto``, and whether they are enough."""
    from privgcn.auto.budget import Budget
    from privgcn.privacy.wording import round_up
    from privgcn.report.text import number

    result = Budget.of(documents, classes, epsilon, **more)
    made = result.plan
    if as_json:
        plan = (
            "unit",
            "relation",
            "epsilon",
            "delta",
            "noise_multiplier",
            "steps",
            "clip_norm",
        )
        own = ("classes", "features", "kind", "noise_for_each_unit", "signal")
        record = {
            **{name: getattr(made, name) for name in plan},
            **{name: getattr(result, name) for name in own},
            "advice": list(result.advice),
        }
        print_json({"recipe": "auto", "documents": made.units, **record})
        return
    counted = "people" if made.unit == "person" else "documents"
    say(
        f"guarantee   epsilon at most {round_up(made.epsilon)} at delta {number(made.delta)}, "
        f"unit {made.unit}, relation {made.relation}\n"
        f"noise       multiplier {made.noise_multiplier:.4g} in each of {made.steps} steps "
        f"over all {made.units:,} {counted}\n"
        f"            {result.noise_for_each_unit:.2g} clip norms in every coordinate of the "
        "mean gradient over all steps"
    )
    if made.weak_delta:
        say(f"delta       too large for this many units: use {0.1 / made.units:.1g} or less")
    for line in result.advice:
        say(f"advice      {line}")


def _cost(
    noise: float | None, epsilon: float | None, mechanism: dict[str, Any], *, as_json: bool
) -> None:
    """The epsilon of a noise multiplier, or the noise multiplier for an epsilon."""
    from privgcn.privacy.accounting import calibrate, epsilon_of
    from privgcn.privacy.wording import round_up
    from privgcn.report.text import number

    found, reached = "", 0.0
    if noise is not None:
        reached = epsilon_of(noise_multiplier=noise, **mechanism)
    elif epsilon is not None:
        result = calibrate(epsilon=epsilon, **mechanism)
        noise, reached = result.noise_multiplier, result.epsilon
        found = f"noise multiplier {round_up(noise, 6)} gives "
    if as_json:
        print_json({"epsilon": reached, "noise_multiplier": noise, **mechanism})
        return
    say(
        f"{found}epsilon at most {round_up(reached)} at delta {number(mechanism['delta'])}, "
        f"accountant {mechanism['accountant']}"
    )


@takes(
    path=Argument(help="A ledger file.", metavar="LEDGER"),
    delta="Of the sum (default: that of the last release).",
)
def ledger(path: Path, delta: float | None = None, as_json: bool = False) -> None:
    """Show the releases that a ledger recorded, and what they cost together."""
    from privgcn.privacy.ledger import Ledger
    from privgcn.privacy.wording import round_up
    from privgcn.report.tables import Table
    from privgcn.report.text import number

    if not path.is_file():
        raise DataError(f"There is no ledger {path}. 'privgcn release --ledger' makes one.")
    book = Ledger(path)
    releases: list[dict[str, Any]] = [
        {
            "digest": entry.digest,
            "epsilon": entry.plan.epsilon,
            "delta": entry.plan.delta,
            "unit": entry.plan.unit,
            "relation": entry.plan.relation,
        }
        for entry in book.entries()
    ]
    at = delta if delta is not None else releases[-1]["delta"] if releases else 1e-5
    spent = book.spent(at)
    if as_json:
        print_json({"ledger": str(path), "releases": releases, "spent": spent, "delta": at})
        return
    rows = [
        (digest[:12], round_up(epsilon), number(own_delta), *words)
        for digest, epsilon, own_delta, *words in (one.values() for one in releases)
    ]
    columns = ("statement", "epsilon at most", "delta", "unit", "relation")
    print_table(Table(f"Releases in {path}", columns, rows))
    say(f"Together: epsilon at most {round_up(spent)} at delta {number(at)}.")
