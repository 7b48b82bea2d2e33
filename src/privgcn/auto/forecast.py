"""What a budget will buy, said before any document is touched.

    signal     s = units / (classes * noise * sqrt(features)),
               where noise = noise multiplier / sqrt(steps)
    recovered  q = top / (1 + exp(-slope (log s - half))): how much of the way from guessing
               to the score without privacy a run goes
    score      log odds = w0 + w1 log q + w2 log(classes), with an interval around it

The noise follows from the plan. What it does to a score cannot be computed: it was measured on
many corpora, and ``forecast.toml`` has the runs beside the curve that was fitted to them. How
much is recovered hardly depends on the corpus, and says whether a budget is worth it. The score
itself also depends on how hard the corpus is, which nobody knows beforehand: so its interval is
wide enough for four of five runs on corpora that were not measured.

Examples:
    >>> small, large = (forecast(documents, 5, 1.0) for documents in (100, 10_000))
    >>> small.recovered < 0.75 < large.recovered
    True
    >>> large.advice
    ()
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from importlib import resources
from typing import Any

from privgcn.auto.recipe import noise_over_steps
from privgcn.config import make_settings, without_none
from privgcn.errors import ConfigError, shown
from privgcn.privacy.plan import PrivacyPlan, plan_for

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


@dataclass(frozen=True)
class Curve:
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
class Forecast:
    """What to expect of recipe ``auto``; it follows from public numbers.

    Attributes:
        plan: What is run.
        classes: Number of classes.
        features: Number of features.
        kind: Kind of the features, for advice.
    """

    plan: PrivacyPlan
    classes: int
    features: int
    kind: str

    @property
    def noise_for_each_unit(self) -> float:
        """Noise of the mean gradient over all steps, for each unit that is averaged."""
        return noise_over_steps(self.plan) / self.plan.schedule.expected_groups

    @property
    def signal(self) -> float:
        """How far the mean document of a class stands above the noise."""
        groups, noise = self.plan.schedule.expected_groups, noise_over_steps(self.plan)
        return groups / (self.classes * noise * math.sqrt(self.features))

    @property
    def recovered(self) -> float:
        """How much of the way from guessing to the score without privacy a run goes."""
        return stored_curve().recovered(self.signal)

    @property
    def interval(self) -> tuple[float, float]:
        """Four of five micro F1 scores, in mode ``own-graph``."""
        return stored_curve().interval(self.signal, self.classes)

    @property
    def measured(self) -> bool:
        """Whether runs with such a signal were; beyond the largest, scores stay as they are."""
        return stored_curve().least <= self.signal <= 10 * stored_curve().most

    @cached_property
    def advice(self) -> tuple[str, ...]:
        """What to change, in words; empty where nothing needs to change."""
        lines = []
        if self.recovered < USEFUL:
            counted = "people" if self.plan.unit == "person" else "documents"
            here = f"{self.plan.units:,} {counted} at epsilon {self.plan.epsilon:.3g}"
            way = f"{self.recovered:.0%} of the way from guessing to the score without privacy"
            verdict = f"{here}: expect only {way}"
            if self.recovered < GUESSING:
                verdict = f"{here}: expect no better than guessing ({way})"
            need = ", or ".join(self._remedies(counted))
            need = f"; you need {need}" if need else ""
            lines.append(f"{verdict}{need}.")
            usual = FEATURES[DEFAULT_KIND]
            if self.kind not in _ENCODERS and self.features > usual:
                better = replace(self, features=usual).recovered
                lines[0] += (
                    f" Of English texts, a public encoder (--features {DEFAULT_KIND}) would go "
                    f"{better:.0%} of that way."
                )
        if not self.measured:
            lines.append(
                "This is outside the range of our measurements: the estimate may be far off."
            )
        return tuple(lines)

    def _remedies(self, counted: str) -> list[str]:
        """How many units, or which epsilon, would do; the signal grows with the units."""
        curve, remedies = stored_curve(), []
        useful = math.exp(curve.half - math.log(curve.top / USEFUL - 1) / curve.slope)
        if useful < _MOST_TIMES * self.signal:
            count = math.ceil(self.plan.units * useful / self.signal)
            digits = 10 ** max(0, len(str(count)) - 2)
            remedies.append(f"about {math.ceil(count / digits) * digits:,} {counted}")
        names = {field.name for field in fields(self.plan)} - {"noise_multiplier"}
        given = {name: getattr(self.plan, name) for name in names}
        for epsilon in _EPSILONS:
            if epsilon > 1.01 * self.plan.epsilon:
                larger = replace(self, plan=PrivacyPlan.for_epsilon(epsilon, **given))
                if larger.recovered >= USEFUL:
                    return [*remedies, f"epsilon {epsilon:g}"]
        return remedies


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
        delta: Delta of the guarantee; the recipe's where it is ``None``.
        unit: ``document`` or ``person``.
        relation: ``remove`` or ``replace``.

    Raises:
        ConfigError: A number makes no sense, or the recipe has no such unit.
        PrivacyContractError: The delta is too large for so many units.
    """
    if kind is None:
        kind = DEFAULT_KIND if features in (None, FEATURES[DEFAULT_KIND]) else "given"
    if features is None and kind not in FEATURES:
        raise ConfigError(
            f"The 'features' of a forecast must be given for the kind {shown(kind)}. Known "
            f"without: {', '.join(FEATURES)}."
        )
    if unit not in (None, "document", "person"):
        raise ConfigError(
            "The 'unit' of a forecast must be document or person, as recipe 'auto' has it. "
            f"Got {shown(unit)}."
        )
    asked = {"epsilon": epsilon, "delta": delta, "unit": unit, "relation": relation}
    named = {f"privacy.{name}": value for name, value in asked.items()}
    settings = make_settings(changes=without_none(named))
    if settings.privacy is None:
        raise ValueError("A forecast needs an epsilon.")
    epochs = settings.training.epochs
    plan = plan_for(settings.privacy, units, epochs=epochs, seed=settings.seed, columns={})
    return Forecast(plan, classes, features or FEATURES[kind], kind)


@cache
def stored_curve() -> Curve:
    """The curve that was fitted to the measured runs."""
    return Curve(**stored_table()["curve"])


@cache
def stored_table() -> dict[str, Any]:
    """All of ``forecast.toml``: the curve, and the measured runs that it comes from."""
    text = resources.files("privgcn.auto").joinpath("forecast.toml").read_text("utf-8")
    return tomllib.loads(text)
