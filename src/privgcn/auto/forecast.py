"""What a budget will buy, said before any document is touched.

    signal     s = units / (classes * noise * sqrt(features)),
               where noise = noise multiplier / sqrt(steps)
    recovered  q = top / (1 + exp(-slope (log s - half))): how much of the way from guessing
               to the score without privacy a run goes
    score      log odds = w0 + w1 log q + w2 log(classes), with an interval around it

The noise follows from the plan. What it does to a score cannot be computed: it was measured on
many corpora, and ``forecast.toml`` has the runs beside the curve that was fitted to them
(``scripts/measure_outlook.py``). How much is recovered hardly depends on the corpus, and says
whether a budget is worth it. The score itself also depends on how hard the corpus is, which
nobody knows beforehand: so its interval is wide enough for four of five runs on corpora that
were not measured.

Examples:
    >>> small, large = (forecast(documents, 5, 1.0) for documents in (100, 10_000))
    >>> small.expected.recovered < 0.75 < large.expected.recovered
    True
    >>> large.advice
    ()
"""

from __future__ import annotations

import functools
import math
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from privgcn.auto.recipe import noise_over_steps
from privgcn.config import Mode, Overrides, resolve
from privgcn.errors import ConfigError, shown
from privgcn.privacy.plan import PrivacyPlan, plan_for

MODE: Mode = "own-graph"
"""The inference mode whose score is forecast."""

COVERED = 0.8
"""The fraction of runs on corpora not measured that lie in the interval."""

FEATURES = {"minilm": 384, "static": 256, "hashing": 4096}
"""How many features the kinds have that come with the package."""

DEFAULT_KIND = "minilm"
GUESSING, USEFUL = 0.3, 0.75
"""Below the first, a run is hardly better than guessing; from the second on a budget pays."""

_ENCODERS = {"minilm", "static", "transformer", "word-vectors"}
_EPSILONS = (0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 15, 20)
_MOST_TIMES = 1000


class Curve(BaseModel):
    """From signal and number of classes to what is recovered, and to the score.

    Attributes:
        top: What is recovered without noise.
        half: Logarithm of the signal that recovers half of it.
        slope: How steep the curve is there.
        weights: Of one, the logarithm of what is recovered and that of the number of classes;
            they add up to the log odds of the score.
        below: How far the interval goes below the middle, at the top.
        above: How far it goes above.
        widening: How much wider it is, relatively, where nothing is recovered.
        least: The smallest signal that was measured.
        most: The largest one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    top: float
    half: float
    slope: float
    weights: tuple[float, float, float]
    below: float
    above: float
    widening: float
    least: float
    most: float

    def recovered(self, signal: float) -> float:
        """How much of the way from guessing to the score without privacy a run goes."""
        return self.top / (1 + math.exp(-self.slope * (math.log(signal) - self.half)))

    def interval(self, signal: float, classes: int) -> tuple[float, float]:
        """Where four of five scores on other corpora lie."""
        recovered = self.recovered(signal)
        one, logarithm, of_classes = self.weights
        odds = one + logarithm * math.log(max(recovered, 0.02)) + of_classes * math.log(classes)
        middle = 1 / (1 + math.exp(-odds))
        wider = 1 + self.widening * (1 - recovered / self.top)
        low, high = middle - self.below * wider, middle + self.above * wider
        return min(max(0.0, low), 1.0), max(0.0, min(1.0, high))


@dataclass(frozen=True)
class Expectation:
    """What is expected of a run.

    Attributes:
        recovered: How much of the way from guessing to the score without privacy it goes.
        interval: Four of five micro F1 scores, in mode ``own-graph``.
        measured: Whether runs with such a signal were measured.
    """

    recovered: float
    interval: tuple[float, float]
    measured: bool


@dataclass(frozen=True)
class Setup:
    """What a forecast is made for; each of these numbers is public.

    Attributes:
        units: Training documents; training owners for unit ``person``.
        classes: Number of classes.
        features: Number of features.
        delta: Delta of the guarantee; the recipe's where it is ``None``.
        unit: ``document`` or ``person``.
        relation: ``remove`` or ``replace``.
        kind: Kind of the features, for advice.
    """

    units: int
    classes: int
    features: int
    delta: float | None = None
    unit: str | None = None
    relation: str | None = None
    kind: str = DEFAULT_KIND

    @functools.lru_cache(maxsize=256)  # noqa: B019 - frozen, and few
    def plan(self, epsilon: float) -> PrivacyPlan:
        """What recipe ``auto`` would run for this epsilon."""
        asked = {
            "privacy.delta": self.delta,
            "privacy.unit": self.unit,
            "privacy.relation": self.relation,
            "privacy.epsilon": epsilon,
        }
        settings = resolve(Overrides.typed(asked, flags=True))
        if settings.privacy is None:
            raise ConfigError(
                f"The 'epsilon' of a forecast must be given. Got {shown(epsilon)}."
            )
        epochs = settings.training.epochs
        return plan_for(settings.privacy, self.units, epochs=epochs, seed=0, columns={})

    def signal(self, epsilon: float, *, features: int | None = None) -> float:
        """How far the mean document of a class stands above the noise."""
        noise = noise_over_steps(self.plan(epsilon))
        return self.units / (self.classes * noise * math.sqrt(features or self.features))

    def expectation(self, epsilon: float) -> Expectation:
        """What is expected at this epsilon."""
        curve, signal = stored_curve(), self.signal(epsilon)
        return Expectation(
            curve.recovered(signal),
            curve.interval(signal, self.classes),
            # Beyond the largest signal, scores stay about as they are.
            curve.least <= signal <= 10 * curve.most,
        )


@dataclass(frozen=True)
class Forecast:
    """What to expect of recipe ``auto``.

    Attributes:
        setup: What the forecast is for.
        plan: What would be run.
        signal: The quantity by which runs are compared.
        expected: What is expected of the score.
        advice: What to change, in words; empty where nothing needs to change.
    """

    setup: Setup
    plan: PrivacyPlan
    signal: float
    expected: Expectation
    advice: tuple[str, ...]

    @property
    def noise_for_each_unit(self) -> float:
        """Noise of the mean gradient over all steps, for each unit that is averaged."""
        return noise_over_steps(self.plan) / self.plan.units


def forecast(
    units: int,
    classes: int,
    epsilon: float,
    *,
    features: int | None = None,
    kind: str | None = None,
    delta: float | None = None,
    unit: str | None = None,
    relation: str | None = None,
) -> Forecast:
    """What recipe ``auto`` would do with this many documents, and what it would score.

    Args:
        units: Training documents; training owners for unit ``person``.
        classes: Number of classes.
        epsilon: The privacy target.
        features: Number of features; by default that of the kind.
        kind: Kind of the features; by default the usual encoder, or, where another number of
            features is given, vectors of unknown origin.
        delta: Delta of the guarantee.
        unit: ``document`` or ``person``.
        relation: ``remove`` or ``replace``.

    Raises:
        ConfigError: A number makes no sense, or the recipe has no such unit.
        PrivacyContractError: The delta is too large for so many units.
    """
    if kind is None:
        usual = features in (None, FEATURES[DEFAULT_KIND])
        kind = DEFAULT_KIND if usual else "given"
    if features is None and kind not in FEATURES:
        raise ConfigError(
            f"The 'features' of a forecast must be given for the kind {shown(kind)}. Known "
            f"without: {', '.join(FEATURES)}."
        )
    features = FEATURES[kind] if features is None else features
    counts = {"documents": (units, 1), "classes": (classes, 2), "features": (features, 1)}
    for name, (count, least) in counts.items():
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < least:
            raise ConfigError(
                f"The '{name}' of a forecast must be a whole number of at least {least}. Got "
                f"{shown(count)}."
            )
    if unit not in (None, "document", "person"):
        raise ConfigError(
            "The 'unit' of a forecast must be document or person, as recipe 'auto' has it. "
            f"Got {shown(unit)}."
        )
    setup = Setup(int(units), int(classes), int(features), delta, unit, relation, kind)
    expected = setup.expectation(epsilon)
    advice = _advice(setup, epsilon, expected)
    return Forecast(setup, setup.plan(epsilon), setup.signal(epsilon), expected, advice)


def _advice(setup: Setup, epsilon: float, expected: Expectation) -> tuple[str, ...]:
    lines = []
    if expected.recovered < USEFUL:
        counted = "people" if setup.unit == "person" else "documents"
        here = f"{setup.units:,} {counted} at epsilon {epsilon:g}"
        way = f"{expected.recovered:.0%} of the way from guessing to the score without privacy"
        verdict = f"{here}: expect only {way}"
        if expected.recovered < GUESSING:
            verdict = f"{here}: expect no better than guessing ({way})"
        remedies = [_documents(setup, epsilon, counted), _epsilon(setup, epsilon)]
        known = [remedy for remedy in remedies if remedy]
        need = f"; you need {', or '.join(known)}" if known else ""
        lines.append(f"{verdict}{need}.{_encoder(setup, epsilon)}")
    if not expected.measured:
        lines.append(
            "This is outside the range of our measurements: the estimate may be far off."
        )
    return tuple(lines)


def _documents(setup: Setup, epsilon: float, counted: str) -> str | None:
    """How many units are useful: their number enters the signal as a factor."""
    curve, signal = stored_curve(), setup.signal(epsilon)
    factors = (float(times) for times in np.arange(1.1, _MOST_TIMES, 0.1))
    enough = next((t for t in factors if curve.recovered(signal * t) >= USEFUL), None)
    if enough is None:
        return None
    count = math.ceil(setup.units * enough)
    digits = 10 ** max(0, len(str(count)) - 2)
    return f"about {math.ceil(count / digits) * digits:,} {counted}"


def _epsilon(setup: Setup, epsilon: float) -> str | None:
    for larger in _EPSILONS:
        if larger > epsilon and stored_curve().recovered(setup.signal(larger)) >= USEFUL:
            return f"epsilon {larger:g}"
    return None


def _encoder(setup: Setup, epsilon: float) -> str:
    """What a public encoder would bring, where the features are not one already."""
    usual = FEATURES[DEFAULT_KIND]
    if setup.kind in _ENCODERS or setup.features <= usual:
        return ""
    better = stored_curve().recovered(setup.signal(epsilon, features=usual))
    name = f"a public encoder (--features {DEFAULT_KIND})"
    return f" Of English texts, {name} would go {better:.0%} of that way."


@functools.cache
def stored_curve() -> Curve:
    """The curve that was fitted to the measured runs."""
    return Curve.model_validate(stored_table()["curve"])


@functools.cache
def stored_table() -> dict[str, Any]:
    """All of ``forecast.toml``: the curve, and the measured runs that it comes from."""
    text = resources.files("privgcn.auto").joinpath("forecast.toml").read_text("utf-8")
    return tomllib.loads(text)
