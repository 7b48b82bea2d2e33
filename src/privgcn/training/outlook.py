"""What a budget will buy, said before any document is touched.

The noise follows from the plan. What it does to a score cannot be computed; it was measured on
many corpora (``outlook.toml``, made by ``scripts/measure_outlook.py``). Two things are read off
these runs, both from the signal: training units for each class, over the noise and the square
root of the number of features among which the noise spreads.

- the *reach*: how much of the way from guessing to the score without privacy a run goes. It
  hardly depends on the corpus, and says whether a budget is worth it;
- the *interval* of the score itself, which also depends on how hard the corpus is. Nobody
  knows that beforehand, so the interval is as wide as it must be to hold four of five runs on a
  corpus that was not measured (``fitted_curve``).
"""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from privgcn.config import Mode, Overrides, resolve
from privgcn.errors import ConfigError
from privgcn.privacy.checks import require_count
from privgcn.privacy.plan import PrivacyPlan
from privgcn.training.planning import one_shot_noise, plan_for_units

MODE: Mode = "own-graph"
"""The inference mode whose score is expected."""

COVERED = 0.8
"""The share of runs on corpora not measured that lie in the interval."""

FEATURES = {"minilm": 384, "static": 256, "hashing": 4096}
"""How many features the kinds have that come with the package."""

DEFAULT_KIND = "minilm"
GUESSING, USEFUL = 0.3, 0.75
"""A reach below the first is hardly better than guessing; from the second on a budget pays."""

# The interval is made for a little more than it promises: which corpora happened to be measured
# moves what it holds on others by several hundredths.
_AIM = 0.85
_ENCODERS = {"minilm", "static", "transformer", "word-vectors"}
_EPSILONS = (0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 15, 20)
_MOST_TIMES = 1000
_OWNER = "an outlook"
Vector = npt.NDArray[np.float64]


class Measured(BaseModel):
    """One measured run.

    Attributes:
        corpus: Its name.
        unit: What was protected.
        kind: Of the features.
        features: How many.
        classes: How many.
        units: Training documents; training owners for unit ``person``.
        epsilon: The budget.
        noise: Noise multiplier over the square root of the steps.
        majority: Score of always naming the most frequent training class.
        alone: Score in mode ``alone``.
        own_graph: Score in mode ``own-graph``.
        plain: Score of the better regression without privacy, on the same documents.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    corpus: str
    unit: str
    kind: str
    features: int
    classes: int
    units: int
    epsilon: float
    noise: float
    majority: float
    alone: float
    own_graph: float
    plain: float

    @property
    def group(self) -> str:
        """The corpus, whichever of its features were used."""
        return self.corpus.removesuffix("-text")

    @property
    def signal(self) -> float:
        """The quantity by which runs are compared."""
        return signal_of(self.units, self.classes, self.features, self.noise)


class Curve(BaseModel):
    """From signal and number of classes to reach and score.

    Attributes:
        top: Reach without noise.
        half: Logarithm of the signal that reaches half of it.
        slope: How steep the reach is there.
        weights: Of one, the logarithm of the reach and that of the number of classes; they add
            up to the log odds of the score.
        below: How far the interval goes below the middle, at the top.
        above: How far it goes above.
        widening: How much wider it is, relatively, where nothing is reached.
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

    def reach(self, signal: float) -> float:
        """How much of the way from guessing to the score without privacy is expected."""
        return float(_reach(np.array([math.log(signal)]), self.top, self.half, self.slope)[0])

    def interval(self, signal: float, classes: int) -> tuple[float, float]:
        """Where four of five scores on other corpora lie."""
        signals, counts = np.array([math.log(signal)]), np.array([math.log(classes)])
        reach = _reach(signals, self.top, self.half, self.slope)
        middle = float(_score(reach, counts, np.array(self.weights))[0])
        wider = 1 + self.widening * (1 - float(reach[0]) / self.top)
        low, high = middle - self.below * wider, middle + self.above * wider
        return min(max(0.0, low), 1.0), max(0.0, min(1.0, high))


@dataclass(frozen=True)
class Expectation:
    """What is expected of a run.

    Attributes:
        reach: The share of the way from guessing to the score without privacy.
        interval: Four of five micro F1 scores, in mode ``own-graph``.
        measured: Whether runs with such a signal were measured.
    """

    reach: float
    interval: tuple[float, float]
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
        kind: Kind of the features, for advice.
    """

    units: int
    classes: int
    features: int
    delta: float | None = None
    unit: str | None = None
    relation: str | None = None
    kind: str = DEFAULT_KIND

    def plan(self, epsilon: float) -> PrivacyPlan:
        """What recipe ``auto`` would run for this epsilon."""
        return _plan(self, epsilon)

    def signal(self, epsilon: float) -> float:
        """The quantity by which runs are compared."""
        noise = one_shot_noise(self.plan(epsilon))
        return signal_of(self.units, self.classes, self.features, noise)

    def expectation(self, epsilon: float) -> Expectation:
        """What is expected at this epsilon."""
        curve, signal = stored_curve(), self.signal(epsilon)
        return Expectation(
            curve.reach(signal),
            curve.interval(signal, self.classes),
            # Beyond the largest signal, scores stay about as they are.
            curve.least <= signal <= 10 * curve.most,
        )


@functools.lru_cache(maxsize=256)
def _plan(setup: Setup, epsilon: float) -> PrivacyPlan:
    wishes = {
        "privacy.delta": setup.delta,
        "privacy.unit": setup.unit,
        "privacy.relation": setup.relation,
        "privacy.epsilon": epsilon,
    }
    settings = resolve(Overrides.typed(wishes, flags=True))
    if settings.privacy is None:
        raise ConfigError(f"The 'epsilon' of {_OWNER} must be given. Got {epsilon!r}.")
    return plan_for_units(
        settings.privacy, setup.units, epochs=settings.training.epochs, seed=0, columns={}
    )


@dataclass(frozen=True)
class Outlook:
    """What to expect of recipe ``auto``.

    Attributes:
        setup: What was asked about.
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
        return one_shot_noise(self.plan) / self.plan.units


def outlook(
    units: int,
    classes: int,
    epsilon: float,
    *,
    features: int | None = None,
    kind: str | None = None,
    delta: float | None = None,
    unit: str | None = None,
    relation: str | None = None,
) -> Outlook:
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
    """
    units = require_count(units, "documents", _OWNER)
    classes = require_count(classes, "classes", _OWNER, low=2)
    if kind is None:
        usual = features in (None, FEATURES[DEFAULT_KIND])
        kind = DEFAULT_KIND if usual else "given"
    if features is None and kind not in FEATURES:
        raise ConfigError(
            f"The 'features' of {_OWNER} must be given for the kind {kind!r}. Known without: "
            f"{', '.join(FEATURES)}."
        )
    features = require_count(
        FEATURES[kind] if features is None else features, "features", _OWNER
    )
    if unit not in (None, "document", "person"):
        raise ConfigError(
            f"The 'unit' of {_OWNER} must be document or person, as recipe 'auto' has it. "
            f"Got {unit!r}."
        )
    setup = Setup(units, classes, features, delta, unit, relation, kind)
    expected = setup.expectation(epsilon)
    advice = _advice(setup, epsilon, expected)
    return Outlook(setup, setup.plan(epsilon), setup.signal(epsilon), expected, advice)


def _advice(setup: Setup, epsilon: float, expected: Expectation) -> tuple[str, ...]:
    lines = []
    if expected.reach < USEFUL:
        counted = "people" if setup.unit == "person" else "documents"
        here = f"{setup.units:,} {counted} at epsilon {epsilon:g}"
        way = f"{expected.reach:.0%} of the way from guessing to the score without privacy"
        verdict = f"{here}: expect only {way}"
        if expected.reach < GUESSING:
            verdict = f"{here}: expect no better than guessing ({way})"
        found = (_documents(setup, epsilon, counted), _epsilon(setup, epsilon))
        remedies = [remedy for remedy in found if remedy]
        need = f"; you need {', or '.join(remedies)}" if remedies else ""
        lines.append(f"{verdict}{need}.{_encoder(setup, epsilon)}")
    if not expected.measured:
        lines.append(
            "This is outside the range of our measurements: the estimate may be far off."
        )
    return tuple(lines)


def _documents(setup: Setup, epsilon: float, counted: str) -> str | None:
    """How many units are useful: their number enters the signal as a factor."""
    curve, signal = stored_curve(), setup.signal(epsilon)
    times = next((t for t in np.arange(1.1, _MOST_TIMES, 0.1) if _useful(curve, signal * t)), 0)
    if not times:
        return None
    count = math.ceil(setup.units * float(times))
    digits = 10 ** max(0, len(str(count)) - 2)
    return f"about {math.ceil(count / digits) * digits:,} {counted}"


def _epsilon(setup: Setup, epsilon: float) -> str | None:
    larger = (e for e in _EPSILONS if e > epsilon)
    found = next((e for e in larger if _useful(stored_curve(), setup.signal(e))), None)
    return None if found is None else f"epsilon {found:g}"


def _encoder(setup: Setup, epsilon: float) -> str:
    """What a public encoder would bring, where the features are not one already."""
    if setup.kind in _ENCODERS or setup.features <= FEATURES[DEFAULT_KIND]:
        return ""
    noise = one_shot_noise(setup.plan(epsilon))
    signal = signal_of(setup.units, setup.classes, FEATURES[DEFAULT_KIND], noise)
    better = stored_curve().reach(signal)
    name = f"a public encoder (--features {DEFAULT_KIND})"
    return f" Of English texts, {name} would go {better:.0%} of that way."


def _useful(curve: Curve, signal: float) -> bool:
    return curve.reach(signal) >= USEFUL


def signal_of(units: int, classes: int, features: int, noise: float) -> float:
    """How far the mean document of a class stands above the noise."""
    return units / (classes * noise * math.sqrt(features))


@functools.cache
def _stored() -> dict[str, Any]:
    text = resources.files("privgcn.training").joinpath("outlook.toml").read_text("utf-8")
    return tomllib.loads(text)


def stored_runs(part: str = "measured") -> tuple[Measured, ...]:
    """The measured runs; ``held_out`` are those of corpora that no curve was fitted to."""
    table = _stored()
    rows = (dict(zip(table["columns"], row, strict=True)) for row in table[part])
    return tuple(Measured.model_validate(row) for row in rows)


@functools.cache
def stored_curve() -> Curve:
    """The curve that was fitted to the measured runs."""
    return Curve.model_validate(_stored()["curve"])


def fitted_curve(runs: Sequence[Measured]) -> Curve:
    """The curve of some runs, with an interval for corpora that are not among them.

    Each corpus counts once, however many runs it has. The width is a conformal one: the curve
    is fitted without a corpus, and the interval is wide enough for the share of its runs that
    exchangeable corpora demand (pooled over corpora; Dunn, Wasserman and Ramdas, 2023).
    """
    groups = sorted({run.group for run in runs})
    parts = {name: [run for run in runs if run.group == name] for name in groups}
    errors, reaches, mass, tops = [], [], [], []
    for name, own in parts.items():
        others = _least_squares([run for run in runs if run.group != name])
        reach, middle = _predicted(others, own)
        errors.append(np.array([run.own_graph for run in own]) - middle)
        reaches.append(reach)
        tops.append(np.full(len(own), others[0]))
        mass.append(np.full(len(own), 1 / len(own)))
    error, weight = np.concatenate(errors), np.concatenate(mass)
    missed = 1 - np.concatenate(reaches) / np.concatenate(tops)
    level = min(1.0, _AIM * (len(groups) + 1) / len(groups))
    widening = _widening(np.abs(error), missed, weight)
    low, high = _shortest(error / (1 + widening * missed), weight, level)
    top, half, slope, weights = _least_squares(runs)
    signals = [run.signal for run in runs]
    return Curve(
        top=round(top, 4),
        half=round(half, 4),
        slope=round(slope, 4),
        weights=tuple(round(float(one), 4) for one in weights),
        below=round(-low, 4),
        above=round(high, 4),
        widening=round(widening, 4),
        least=round(min(signals), 4),
        most=round(max(signals), 4),
    )


def coverage(curve: Curve, runs: Iterable[Measured]) -> float:
    """The share of runs whose score lies in the interval; each corpus counts once."""
    inside: dict[str, list[bool]] = {}
    for run in runs:
        low, high = curve.interval(run.signal, run.classes)
        inside.setdefault(run.group, []).append(low <= run.own_graph <= high)
    return float(np.mean([np.mean(found) for found in inside.values()]))


Fitted = tuple[float, float, float, Vector]


def _least_squares(runs: Sequence[Measured]) -> Fitted:
    from scipy.optimize import least_squares

    names = [run.group for run in runs]
    mass = np.array([1 / names.count(name) for name in names])
    signals = np.log([run.signal for run in runs])
    gained = np.array([run.own_graph - run.majority for run in runs])
    way = np.array([run.plain - run.majority for run in runs])

    def errors(numbers: Vector) -> Vector:
        return np.asarray(np.sqrt(mass) * (_reach(signals, *numbers) * way - gained))

    top, half, slope = least_squares(errors, [0.9, -1.0, 1.5], loss="soft_l1", f_scale=0.1).x
    reached, classes = _reach(signals, top, half, slope), np.log([run.classes for run in runs])
    scores = np.array([run.own_graph for run in runs])

    def misses(weights: Vector) -> Vector:
        return np.asarray(np.sqrt(mass) * (_score(reached, classes, weights) - scores))

    weights = least_squares(misses, [1.0, 1.0, 0.0], loss="soft_l1", f_scale=0.1).x
    return float(top), float(half), float(slope), weights


def _predicted(fitted: Fitted, runs: Sequence[Measured]) -> tuple[Vector, Vector]:
    top, half, slope, weights = fitted
    reach = _reach(np.log([run.signal for run in runs]), top, half, slope)
    return reach, _score(reach, np.log([run.classes for run in runs]), weights)


def _reach(signals: Vector, top: float, half: float, slope: float) -> Vector:
    return np.asarray(top / (1 + np.exp(-slope * (signals - half))))


def _score(reach: Vector, classes: Vector, weights: Vector) -> Vector:
    columns = [np.ones_like(reach), np.log(np.maximum(reach, 0.02)), classes]
    return np.asarray(1 / (1 + np.exp(-np.stack(columns, axis=1) @ weights)))


def _widening(error: Vector, missed: Vector, mass: Vector) -> float:
    """How errors grow where less is reached: the slope of a line, relative to its start."""
    rows = np.stack([np.ones_like(missed), missed], axis=1)
    start, slope = np.linalg.lstsq(
        rows * np.sqrt(mass)[:, None], error * np.sqrt(mass), rcond=None
    )[0]
    return float(max(0.0, slope / start)) if start > 0 else 0.0


def _shortest(values: Vector, mass: Vector, level: float) -> tuple[float, float]:
    """The ends of the shortest interval that holds a share of the mass, and zero."""
    order = np.argsort(values)
    values, below = values[order], np.concatenate([[0.0], np.cumsum(mass[order])])
    wanted = level * below[-1] - 1e-9
    ends = np.searchsorted(below[1:], below[:-1] + wanted)
    pairs = [(i, end) for i, end in enumerate(ends.tolist()) if end < len(values)]
    first, last = min(pairs, key=lambda pair: values[pair[1]] - values[pair[0]])
    return min(0.0, float(values[first])), max(0.0, float(values[last]))
