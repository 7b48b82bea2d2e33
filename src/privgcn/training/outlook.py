"""What a budget will buy, said before any document is touched.

The noise follows from the plan. What it does to a score cannot be computed; it was measured
on our own datasets (``outlook.toml``, made by ``scripts/measure_outlook.py``) and is read off
the runs whose signal is nearest: training units for each class, over the noise and the square
root of the number of features among which the noise spreads.
"""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from privgcn.errors import ConfigError
from privgcn.privacy.checks import require_count
from privgcn.privacy.plan import PrivacyPlan
from privgcn.training.planning import one_shot_noise, plan_for_units
from privgcn.training.recipes import by_flag, resolve

DEFAULT_FEATURES = 4096
ENCODER_FEATURES = 384
#: A budget pays that keeps this share of the non-private score.
WORTH_IT = 0.9
_POOR = 0.7
#: Less than this share of the non-private score from links is no reason to have them.
_LINKS_WORTH = 0.02
_NEAREST = 7
_OWNER = "an outlook"


@dataclass(frozen=True)
class Measured:
    """One measured run: its signal and its scores, in shares of the non-private score."""

    signal: float
    alone: float
    own_graph: float

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Measured:
        """Reads a row of the table."""
        return cls(
            signal_of(row["units"], row["classes"], row["features"], row["noise"]),
            row["alone"] / row["plain"],
            row["own_graph"] / row["plain"],
        )


@dataclass(frozen=True)
class Expectation:
    """Shares of the non-private score: the mean of the nearest measured runs, and extremes."""

    share: float
    least: float
    most: float
    links: float
    measured: bool


@dataclass(frozen=True)
class Outlook:
    """What to expect of recipe ``auto``.

    Attributes:
        plan: What would be run.
        signal: The quantity by which measured runs are compared.
        expected: What measured runs of this signal kept of the non-private score.
        advice: What to change, in words; empty where nothing needs to change.
    """

    plan: PrivacyPlan
    signal: float
    expected: Expectation
    advice: tuple[str, ...]

    @property
    def noise_for_each_unit(self) -> float:
        """Noise of the mean gradient over all steps, for each unit that is averaged."""
        return one_shot_noise(self.plan) / self.plan.units


def outlook(
    units: int,
    classes: int,
    epsilon: float,
    *,
    features: int = DEFAULT_FEATURES,
    delta: float | None = None,
    unit: str | None = None,
    relation: str | None = None,
) -> Outlook:
    """What recipe ``auto`` would do with this many documents, and what it would score.

    Args:
        units: Training documents; training owners for unit ``person``.
        classes: Number of classes.
        epsilon: The privacy target.
        features: Number of features.
        delta: Delta of the guarantee.
        unit: ``document`` or ``person``.
        relation: ``remove`` or ``replace``.
    """
    units = require_count(units, "documents", _OWNER)
    classes = require_count(classes, "classes", _OWNER, low=2)
    features = require_count(features, "features", _OWNER)
    if unit not in (None, "document", "person"):
        raise ConfigError(
            f"The 'unit' of {_OWNER} must be document or person, as recipe 'auto' has it. "
            f"Got {unit!r}."
        )
    wishes = {"privacy.delta": delta, "privacy.unit": unit, "privacy.relation": relation}

    def plan(count: int, budget: float) -> PrivacyPlan:
        settings = resolve(by_flag({**wishes, "privacy.epsilon": budget}))
        if settings.privacy is None:
            raise ConfigError(f"The 'epsilon' of {_OWNER} must be given. Got {budget!r}.")
        return plan_for_units(
            settings.privacy, count, epochs=settings.training.epochs, seed=0, columns={}
        )

    def signal(count: int, budget: float, width: int) -> float:
        return signal_of(count, classes, width, one_shot_noise(plan(count, budget)))

    here = signal(units, epsilon, features)
    expected = expectation(here)
    advice: list[str] = []
    if expected.share < WORTH_IT:
        counted = "{:,} people" if unit == "person" else "{:,} documents"
        options = [
            _least(lambda count: signal(count, epsilon, features), units, counted),
            _least(lambda budget: signal(units, budget, features), epsilon, "epsilon {:.2g}"),
        ]
        if expectation(signal(units, epsilon, ENCODER_FEATURES)).share >= WORTH_IT:
            options.append(f"a public encoder with {ENCODER_FEATURES} features")
        advice.append(_pay(expected, [option for option in options if option]))
    if expected.links < _LINKS_WORTH:
        advice.append(
            "The graph will hardly pay: at this signal, links added "
            f"{max(expected.links, 0.0):.0%} of the non-private score in our measurements."
        )
    if not expected.measured:
        advice.append("This lies outside of what we measured: expect surprises.")
    return Outlook(plan(units, epsilon), here, expected, tuple(advice))


def signal_of(units: int, classes: int, features: int, noise: float) -> float:
    """How far the mean document of a class stands above the noise."""
    return units / (classes * noise * math.sqrt(features))


def expectation(signal: float, runs: Sequence[Measured] | None = None) -> Expectation:
    """What the measured runs with the nearest signals kept of the non-private score."""
    rows = sorted(runs or measured_runs(), key=lambda row: abs(math.log(row.signal / signal)))
    near = rows[:_NEAREST]
    shares = [row.own_graph for row in near]
    signals = [row.signal for row in rows]
    return Expectation(
        share=sum(shares) / len(shares),
        least=min(shares),
        most=max(shares),
        links=sum(row.own_graph - row.alone for row in near) / len(near),
        measured=min(signals) <= signal <= max(signals),
    )


@functools.cache
def measured_runs() -> tuple[Measured, ...]:
    """The table that ``scripts/measure_outlook.py`` wrote."""
    text = resources.files("privgcn.training").joinpath("outlook.toml").read_text("utf-8")
    return tuple(Measured.of(row) for row in tomllib.loads(text)["measured"])


def _least(signal: Callable[[Any], float], start: float, words: str) -> str | None:
    """How much more of something is worth it, in words; ``None`` beyond a hundredfold."""
    for percent in range(110, 10_001, 10):
        more = start * percent / 100
        value = math.ceil(more) if isinstance(start, int) else more
        if expectation(signal(value)).share >= WORTH_IT:
            return words.format(value)
    return None


def _pay(expected: Expectation, options: list[str]) -> str:
    verdict = "will not pay" if expected.share < _POOR else "costs much of the score"
    remedy = "Use more documents, a public encoder, or a larger epsilon."
    if options:
        remedy += f" {WORTH_IT:.0%} can be expected with: {', or '.join(options)}."
    share = f"expect {expected.share:.0%} of the non-private score"
    return f"The budget {verdict}: {share}. {remedy}"
