"""``privgcn plan`` and ``ledger``: what a budget buys, what noise costs, and what was spent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer import Argument, Option

from privgcn.cli.flags import takes
from privgcn.cli.output import Answer
from privgcn.errors import ConfigError, DataError


@takes(
    documents=Option(help="Number of training documents; of owners for unit person.", min=1),
    classes=Option(help="Number of classes.", min=2),
    epsilon="Privacy budget epsilon (default: 1).",
    unit="What is protected: document or person.",
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
) -> Answer:
    """Say what a budget buys or what noise costs, without data or training.

    With --documents and --classes: noise and steps of recipe auto, and whether they are
    enough. With --steps and --noise-multiplier: epsilon. With --steps and --epsilon: noise.
    """
    from privgcn.privacy.accounting import calibrate, epsilon_of
    from privgcn.privacy.wording import round_up

    if documents is not None and classes is not None and steps is None:
        more = {"features": features, "kind": kind, "unit": unit, "relation": relation}
        bought = 1.0 if epsilon is None else epsilon
        return _budget(documents, classes, bought, delta=delta, **more)
    alternatives = (noise_multiplier is None) != (epsilon is None)
    if steps is None or documents is not None or not alternatives:
        raise ConfigError(
            "A plan needs --documents and --classes, or --steps with either "
            "--noise-multiplier or --epsilon. Add what is missing."
        )
    mechanism: dict[str, Any] = {
        "steps": steps,
        "sampling_probability": sampling_probability,
        "sensitivity": sensitivity,
        "delta": 1e-5 if delta is None else delta,
        "accountant": accountant,
    }
    if epsilon is not None:
        noise_multiplier = calibrate(epsilon=epsilon, **mechanism).noise_multiplier
    mechanism["noise_multiplier"] = noise_multiplier
    spent = epsilon_of(**mechanism)
    # Rounded up, too: less noise would cost more.
    line = (
        f"noise multiplier {round_up(mechanism['noise_multiplier'], 6)} gives epsilon at most "
        f"{round_up(spent)} at delta {round_up(mechanism['delta'])}, accountant {accountant}"
    )
    return Answer({"epsilon": spent, **mechanism}, [line])


def _budget(documents: int, classes: int, epsilon: float, **more: Any) -> Answer:
    from privgcn.auto.budget import Budget
    from privgcn.privacy.wording import round_up

    result = Budget.of(documents, classes, epsilon, **more)
    made = result.plan
    names = ("unit", "relation", "epsilon", "delta", "noise_multiplier", "steps", "clip_norm")
    own = ("classes", "features", "kind", "noise_for_each_unit", "signal")
    record = {
        "recipe": "auto",
        "documents": made.units,
        **{name: getattr(made, name) for name in names},
        **{name: getattr(result, name) for name in own},
        "advice": list(result.advice),
    }
    counted = "people" if made.unit == "person" else "documents"
    weak = f"delta       too large for this many units: use {0.1 / made.units:.1g} or less"
    lines = [
        f"guarantee   epsilon at most {round_up(made.epsilon)} at delta "
        f"{round_up(made.delta)}, unit {made.unit}, relation {made.relation}",
        f"noise       multiplier {round_up(made.noise_multiplier)} in each of {made.steps} "
        f"steps over all {made.units:,} {counted}",
        f"            {result.noise_for_each_unit:.2g} clip norms in every coordinate of the "
        "mean gradient over all steps",
        weak if made.weak_delta else "",
        *(f"advice      {line}" for line in result.advice),
    ]
    return Answer(record, lines)


@takes(
    path=Argument(help="A ledger file.", metavar="LEDGER"),
    delta="Of the sum (default: that of the last release).",
)
def ledger(path: Path, delta: float | None = None) -> Answer:
    """Show the releases that a ledger recorded, and what they cost together."""
    from privgcn.privacy.ledger import Ledger
    from privgcn.privacy.wording import round_up
    from privgcn.report.tables import Table

    if not path.is_file():
        raise DataError(f"There is no ledger {path}. 'privgcn release --ledger' makes one.")
    book, names = Ledger(path), ("epsilon", "delta", "unit", "relation")
    releases = [
        {"digest": entry.digest, **{name: getattr(entry.plan, name) for name in names}}
        for entry in book.entries()
    ]
    if delta is None:
        delta = releases[-1]["delta"] if releases else 1e-5
    spent = book.spent(delta)
    rows = [
        (digest[:12], round_up(epsilon), round_up(own), unit, relation)
        for digest, epsilon, own, unit, relation in (each.values() for each in releases)
    ]
    columns = ("statement", "epsilon at most", "delta", "unit", "relation")
    table = Table(f"Releases in {path}", columns, rows)
    total = f"Together: epsilon at most {round_up(spent)} at delta {round_up(delta)}."
    record = {"ledger": str(path), "releases": releases, "spent": spent, "delta": delta}
    return Answer(record, [table, total])
