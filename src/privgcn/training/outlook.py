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
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

from privgcn.errors import ConfigError
from privgcn.privacy.checks import require_count
from privgcn.privacy.plan import PrivacyPlan
from privgcn.training.planning import one_shot_noise, plan_for_units
from privgcn.training.recipes import by_flag, resolve

ENCODER_FEATURES = 384
#: Those of the encoder that texts get by default.
DEFAULT_FEATURES = ENCODER_FEATURES
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
    plain: float

    @property
    def score(self) -> float:
        """The micro-F1 in mode ``own-graph``."""
        return self.own_graph * self.plain

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Measured:
        """Reads a row of the table."""
        return cls(
            signal_of(row["units"], row["classes"], row["features"], row["noise"]),
            row["alone"] / row["plain"],
            row["own_graph"] / row["plain"],
            row["plain"],
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
class Setup:
    """What an outlook is asked about; each of these numbers is public.

    Attributes:
        units: Training documents; training owners for unit ``person``.
        classes: Number of classes.
        features: Number of features.
        delta: Delta of the guarantee; the recipe's where it is ``None``.
        unit: ``document`` or ``person``.
        relation: ``remove`` or ``replace``.
    """

    units: int
    classes: int
    features: int = DEFAULT_FEATURES
    delta: float | None = None
    unit: str | None = None
    relation: str | None = None

    def plan(self, epsilon: float) -> PrivacyPlan:
        """What recipe ``auto`` would run for this epsilon."""
        wishes = {
            "privacy.delta": self.delta,
            "privacy.unit": self.unit,
            "privacy.relation": self.relation,
            "privacy.epsilon": epsilon,
        }
        settings = resolve(by_flag(wishes))
        if settings.privacy is None:
            raise ConfigError(f"The 'epsilon' of {_OWNER} must be given. Got {epsilon!r}.")
        return plan_for_units(
            settings.privacy, self.units, epochs=settings.training.epochs, seed=0, columns={}
        )

    def signal(self, epsilon: float) -> float:
        """The quantity by which measured runs are compared."""
        noise = one_shot_noise(self.plan(epsilon))
        return signal_of(self.units, self.classes, self.features, noise)


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
    setup = Setup(units, classes, features, delta, unit, relation)
    here = setup.signal(epsilon)
    expected = expectation(here)
    advice: list[str] = []
    if expected.share < WORTH_IT:
        counted = "{:,} people" if unit == "person" else "{:,} documents"
        options = [
            _least(lambda count: replace(setup, units=count).signal(epsilon), units, counted),
            _least(setup.signal, epsilon, "epsilon {:.2g}"),
        ]
        encoded = replace(setup, features=ENCODER_FEATURES)
        if expectation(encoded.signal(epsilon)).share >= WORTH_IT:
            options.append(f"a public encoder with {ENCODER_FEATURES} features")
        advice.append(_pay(expected, [option for option in options if option]))
    if expected.links < _LINKS_WORTH:
        advice.append(
            "Links will hardly help: at this signal, they added "
            f"{max(expected.links, 0.0):.0%} of the non-private score in our measurements."
        )
    if not expected.measured:
        advice.append(
            "This is outside the range of our measurements: the estimate may be far off."
        )
    return Outlook(setup.plan(epsilon), here, expected, tuple(advice))


def signal_of(units: int, classes: int, features: int, noise: float) -> float:
    """How far the mean document of a class stands above the noise."""
    return units / (classes * noise * math.sqrt(features))


def nearest_runs(signal: float, runs: Sequence[Measured] | None = None) -> list[Measured]:
    """The measured runs with the nearest signals."""
    rows = runs or measured_runs()
    return sorted(rows, key=lambda row: abs(math.log(row.signal / signal)))[:_NEAREST]


def expectation(signal: float, runs: Sequence[Measured] | None = None) -> Expectation:
    """What the measured runs with the nearest signals kept of the non-private score."""
    near = nearest_runs(signal, runs)
    shares = [row.own_graph for row in near]
    signals = [row.signal for row in runs or measured_runs()]
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
    verdict = (
        "is too small for a useful model"
        if expected.share < _POOR
        else "costs much of the score"
    )
    remedy = "Use more documents, a public encoder, or a larger epsilon."
    if options:
        remedy += f" {WORTH_IT:.0%} can be expected with: {', or '.join(options)}."
    share = f"expect {expected.share:.0%} of the non-private score"
    return f"The budget {verdict}: {share}. {remedy}"
