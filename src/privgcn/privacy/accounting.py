"""Epsilon from what ran, by three accountants, and the least noise that meets a target.

Everything follows from what is released about the same units, a :class:`GaussianEvent`:

- ``pld``: exact in closed form where every group takes part in every step; else the privacy
  loss distribution of dp-accounting, pessimistic, on a grid that is stated here;
- ``rdp``: Renyi divergences, of a paid search too (``selection``);
- ``moments``: the paper's accountant, for comparison with its figures.

Renyi divergences and the closed form of a Gaussian are written out here, so that ``verify``
starts at once: dp-accounting has the same numbers (tests hold both to each other), but takes
1.3 s to import, and SciPy 0.3 s.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from privgcn.errors import NotCalibratedError, PrivacyContractError
from privgcn.privacy.values import Count, Real, Whole, checked, strict

if TYPE_CHECKING:
    from privgcn.privacy.selection import Selection

Array: TypeAlias = NDArray[np.float64]

#: Less noise than this protects nothing (one release already costs epsilon 5000), more
#: than this drowns every signal. Inside the range no accountant overflows.
LEAST_NOISE, MOST_NOISE = 0.01, 1e9

Accountant = Literal["pld", "rdp", "moments"]
_LESS = "Less protects nothing, more drowns everything; 'plain' trains without privacy."
Noise = Annotated[Real, Field(ge=LEAST_NOISE, le=MOST_NOISE, description=_LESS)]
_ALWAYS = "Use 1.0 to take every group in every step."
Probability = Annotated[Real, Field(gt=0.0, le=1.0, description=_ALWAYS)]
_WELL_BELOW = "Choose it well below one over the number of protected units."
Delta = Annotated[Real, Field(ge=1e-300, le=0.5, description=_WELL_BELOW)]
_Target = Annotated[Real, Field(ge=1e-6, le=1e6)]
_OWNER = "an account"
#: Closed forms and root searches round; the claim is rounded up by more than they can err.
_ROUND_UP, _ROUND_UP_BY, _ROUNDING_OF_MASS = 1e-9, 1e-12, 1e-15
#: The rate of false alarms at which detections of the best attack are stated; at how many
#: epsilons the deltas of what was released are compared; and the largest mu.
FALSE_ALARMS, _POINTS, _MOST_MU = 0.01, 24, 1e4


@strict("a Gaussian event")
class GaussianEvent:
    """``count`` sums with Gaussian noise about the same units, alike in every respect.

    Noise and sensitivity are in clip norms. Under sampling, a sensitivity of 1 is the
    add/remove case and 2 a substitution. Rounding is bounded for up to a billion sums.
    """

    noise_multiplier: Noise
    count: Annotated[Count, Field(le=1_000_000_000, title="steps")] = 1
    sampling_probability: Probability = 1.0
    sensitivity: Annotated[Whole, Field(ge=1, le=2)] = 1

    def without_amplification(self) -> GaussianEvent:
        """The same event for someone who knows every sample."""
        return replace(self, sampling_probability=1.0)


Event: TypeAlias = "GaussianEvent | Selection"
_Gaussians: TypeAlias = tuple[GaussianEvent, ...]


def epsilon_of(
    *,
    noise_multiplier: float,
    steps: int,
    sampling_probability: float = 1.0,
    sensitivity: int = 1,
    delta: float = 1e-5,
    accountant: str = "pld",
) -> float:
    """The epsilon of ``steps`` noisy sums; an upper bound on the true one, finite.

    Args:
        noise_multiplier: Noise standard deviation over clip norm.
        steps: How many noisy sums are released (for sampling ``epoch``: epochs begun).
        sampling_probability: The rate at which each group joins a step; 1 for all groups.
        sensitivity: 1 or 2 clip norms; see ``PrivacyPlan.sensitivity``.
        delta: Of the guarantee.
        accountant: ``pld`` (tight), ``rdp``, or ``moments`` (the paper's, for comparison).

    Raises:
        ConfigError: A value outside its range.
        PrivacyContractError: ``moments`` with sensitivity 2 under sampling.
    """
    event = GaussianEvent(noise_multiplier, steps, sampling_probability, sensitivity)
    return epsilon_of_events([event], delta=delta, accountant=accountant)


def epsilon_of_events(
    events: Sequence[Event], *, delta: float, accountant: str = "pld"
) -> float:
    """The epsilon of several events about the same units together."""
    delta = checked(delta, Delta, "delta", _OWNER)
    check_accountant(accountant, events)
    return _epsilon(tuple(events), delta, accountant) if events else 0.0


def check_accountant(accountant: str, events: Sequence[Event]) -> None:
    """Refuses an accountant that has no bound for some of the events."""
    checked(accountant, Accountant, "accountant", _OWNER)
    for event in events:
        if not isinstance(event, GaussianEvent):
            if accountant != "rdp":
                raise PrivacyContractError(
                    f"The 'accountant' of a search must be rdp. Got {accountant}."
                )
        elif accountant == "moments" and event.sampling_probability < 1 < event.sensitivity:
            raise PrivacyContractError(
                "The 'accountant' of Poisson sampling with a sensitivity of two clip norms "
                "must be pld or rdp. Got moments, whose bound covers one clip norm only."
            )


# Events are values: a plan, its statement and its calibration ask for the same epsilon.
@lru_cache(maxsize=1024)
def _epsilon(events: tuple[Event, ...], delta: float, accountant: str) -> float:
    epsilon = ACCOUNTANTS[accountant](events, delta)
    if not 0.0 <= epsilon < math.inf:
        raise ArithmeticError(f"an epsilon of {epsilon} for {events}")
    return rounded_up(epsilon)


def rounded_up(value: float) -> float:
    """A bound from a closed form or a root, by more than these can err; 0 stays 0."""
    return value and value * (1.0 + _ROUND_UP) + _ROUND_UP_BY


def merged(events: _Gaussians) -> tuple[float, _Gaussians]:
    """The ratio of the unsampled events together (0 without any), and the sampled ones.

    Unsampled Gaussians compose exactly: squares of sensitivity-to-noise ratios add up.
    """
    squares, counts = 0.0, Counter[GaussianEvent]()
    for event in events:
        if event.sampling_probability < 1.0:
            counts[replace(event, count=1)] += event.count
        else:
            squares += event.count * (event.sensitivity / event.noise_multiplier) ** 2
    return math.sqrt(squares), tuple(replace(one, count=n) for one, n in counts.items())


#: Below this rate the grid is no longer refined with it: rounding would add up.
_COARSEST_GRID, _LEAST_RATE = 1e-4, 1e-4
#: Points of one event's distribution, and of the composed one, that stay quick to handle.
_STEP_POINTS, _COMPOSED_POINTS = 200_000, 2_500_000
#: Above this loss, exp(-loss) comes near the end of floating point.
_LARGEST_LOSS = 600.0
#: Mass that rounding may add over all steps before another bound is the better one; and of
#: more steps than this the library makes far too wide a range.
_MOST_EXCESS, _MOST_STEPS = 0.1, 250_000
#: What rounding can take from delta: several times what was measured, for any number of steps.
_ROUNDING_PER_STEP, _ROUNDING_AT_LEAST = 2e-15, 1e-11


def _pld(events: _Gaussians, delta: float) -> float:
    # The tightest of three bounds. Where rounding spoils the loss distribution (tiny rates over
    # very many steps), Renyi's or the one for somebody who sees the samples is tighter.
    ratio, sampled = merged(events)
    if not sampled:
        return gaussian_epsilon(ratio, delta)
    rough, composed, reserve = _composed(events, delta)
    epsilon = composed and float(composed.get_epsilon_for_delta(delta - reserve))
    return rough if epsilon is None or math.isnan(epsilon) else min(rough, epsilon)


def ratio_of(events: _Gaussians) -> float:
    """Of all events together for someone who knows every sample: mu of Gaussian DP."""
    return merged(tuple(event.without_amplification() for event in events))[0]


def deltas_of(event: Event, epsilons: Array, delta: float) -> Array:
    """Upper bounds on one event's deltas: the least of three, or of a search Renyi's."""
    deltas = curve_deltas(renyi_curve((event,)), epsilons)
    if isinstance(event, GaussianEvent):
        deltas = np.minimum(deltas, gaussian_deltas(ratio_of((event,)), epsilons))
        _, composed, reserve = _composed((event,), delta)
        if composed is not None:
            own = [composed.get_delta_for_epsilon(float(epsilon)) for epsilon in epsilons]
            deltas = np.minimum(deltas, np.array(own) + reserve)
    return deltas


def gaussian_epsilon(ratio: float, delta: float) -> float:
    """The epsilon of a Gaussian release of this ratio: Balle and Wang (2018), equation 6."""
    log_delta, high = math.log(delta), 1.0
    if log_gaussian_delta(ratio, 0.0) <= log_delta:
        return 0.0
    while log_gaussian_delta(ratio, high) > log_delta:
        high *= 2.0
    return root(lambda epsilon: log_gaussian_delta(ratio, epsilon) > log_delta, 0.0, high)


def gaussian_deltas(ratio: float, epsilons: Array) -> Array:
    """Upper bounds on the deltas of such a release at some epsilons."""
    exact = np.exp([log_gaussian_delta(ratio, epsilon) for epsilon in epsilons])
    # Near epsilon 0 two nearly equal masses are subtracted, each of at most 1.
    return np.minimum(exact + _ROUNDING_OF_MASS, 1.0)


def log_gaussian_delta(ratio: float, epsilon: float) -> float:
    """The logarithm of the delta at ``epsilon`` of one Gaussian release with this ratio."""
    above = _log_normal_mass(ratio / 2.0 - epsilon / ratio)
    below = epsilon + _log_normal_mass(-ratio / 2.0 - epsilon / ratio)
    return above + math.log(-math.expm1(below - above)) if below < above else -math.inf


def _log_normal_mass(point: float) -> float:
    """The logarithm of the standard normal's mass below ``point``."""
    if point > -25.0:
        return math.log(0.5 * math.erfc(-point / math.sqrt(2.0)))
    # The asymptotic series; the first term left out is below 1e-11 here.
    inverse, series = 1.0 / (point * point), 1.0
    for factor in (7.0, 5.0, 3.0, 1.0):
        series = 1.0 - factor * inverse * series
    return -0.5 * point * point - math.log(-point * math.sqrt(2.0 * math.pi)) + math.log(series)


def root(too_small: Callable[[float], bool], low: float, high: float) -> float:
    """Where a rule stops to hold between ``low`` and ``high``: the side where it does not."""
    while (middle := 0.5 * (low + high)) not in (low, high):
        low, high = (middle, high) if too_small(middle) else (low, middle)
    return high


def _composed(events: _Gaussians, delta: float) -> tuple[float, Any, float]:
    # A rough bound on epsilon, which sizes the grid; the composed loss distribution, if any
    # fits; and what rounding can take from a delta. Losses round up, cut tails are infinite.
    ratio, sampled = merged(events)
    rough = min(_rdp(events, delta), gaussian_epsilon(ratio_of(events), delta))
    span = ratio * (10.0 + ratio)
    for event in sampled:
        noise, rate = event.noise_multiplier, event.sampling_probability
        # About the largest loss that is not counted as infinite: log(1 - rate + rate exp(at)).
        at = (10.0 * noise + event.sensitivity) / (noise * noise)
        span = max(span, float(np.logaddexp(math.log1p(-rate), math.log(rate) + at)))
    reserve = _ROUNDING_PER_STEP * (1 + sum(e.count for e in sampled)) + _ROUNDING_AT_LEAST
    too_long = any(event.count > _MOST_STEPS for event in sampled)
    if too_long or max(rough, span) > _LARGEST_LOSS or reserve > 0.1 * delta:
        return rough, None, reserve
    rates = (max(e.sampling_probability, _LEAST_RATE) / e.noise_multiplier for e in sampled)
    grid = min(_COARSEST_GRID, min(rates) / 20.0)
    grid = max(grid, span / _STEP_POINTS, 4.0 * (rough + span) / _COMPOSED_POINTS)
    composed: Any = loss_distribution(GaussianEvent(1.0 / ratio), grid) if ratio else None
    for event in sampled:
        one = loss_distribution(event, grid)
        # All mass counts at a loss this far below; rounding only ever adds to it.
        if event.count * (one.get_delta_for_epsilon(-_LARGEST_LOSS) - 1.0) > _MOST_EXCESS:
            return rough, None, reserve
        many = one.self_compose(event.count)
        composed = many if composed is None else composed.compose(many)
    return rough, composed, reserve


def loss_distribution(event: GaussianEvent, grid: float) -> Any:
    """One release as dp-accounting has it; without sampling, of a sensitivity of 1 alone."""
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    relations = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
    return from_gaussian_mechanism(
        event.noise_multiplier,
        sampling_prob=event.sampling_probability,
        value_discretization_interval=grid,
        neighboring_relation=relations[event.sensitivity - 1],
    )


#: Twice the Renyi orders.
_DOUBLED = np.unique(
    np.concatenate([np.arange(3, 257), 2 * np.geomspace(130, 16384, 32).astype(np.int64)])
)
#: Orders close to 1 decide where epsilon is large; there a sampled event counts as at 1.5.
_LOW_ORDERS = np.concatenate([1.0 + np.geomspace(0.02, 0.1, 12), np.arange(1.12, 1.5, 0.02)])
_HALF_ORDERS = _DOUBLED / 2.0
#: The Renyi orders of every curve.
ORDERS: Array = np.concatenate([_LOW_ORDERS, _HALF_ORDERS])


def _rdp(events: tuple[Event, ...], delta: float) -> float:
    """Canonne, Kamath and Steinke (2020), proposition 12, at the best order."""
    curve = renyi_curve(events)
    epsilons = curve + np.log1p(-1.0 / ORDERS) - np.log(delta * ORDERS) / (ORDERS - 1.0)
    return max(0.0, float(epsilons.min()))


def renyi_curve(events: tuple[Event, ...]) -> Array:
    """Upper bounds on the Renyi divergences of events about the same units, at ``ORDERS``."""
    ratio, sampled = merged(tuple(e for e in events if isinstance(e, GaussianEvent)))
    curve: Array = ORDERS * (0.5 * ratio * ratio)
    for one in sampled:
        curve = curve + one.count * _sampled_curve(one)
    return sum((e.curve() for e in events if not isinstance(e, GaussianEvent)), curve)


def _sampled_curve(event: GaussianEvent) -> Array:
    noise, rate = event.noise_multiplier, event.sampling_probability
    if event.sensitivity == 2:
        above = log_moments(noise, rate, _DOUBLED) / (_DOUBLED - 1.0)
        below = log_moments(noise, rate, _DOUBLED - 1) / (_DOUBLED - 2.0)
        # From the data to the data without the unit, and on to its replacement: the weak
        # triangle inequality for Renyi divergences with both Hoelder exponents at 2.
        curve = (_HALF_ORDERS - 0.5) / (_HALF_ORDERS - 1.0) * above + below
    else:
        # (order - 1) times the divergence is convex in the order, so a half order lies below
        # the mean of its whole neighbours.
        lower = log_moments(noise, rate, _DOUBLED // 2)
        upper = log_moments(noise, rate, (_DOUBLED + 1) // 2)
        curve = 0.5 * (lower + upper) / (_HALF_ORDERS - 1.0)
    # Divergences rise with the order, and sampling never costs.
    curve = np.concatenate([np.full(_LOW_ORDERS.size, curve[0]), curve])
    return np.minimum(curve, ORDERS * (0.5 * (event.sensitivity / noise) ** 2))


def log_moments(noise: float, rate: float, orders: NDArray[np.int64]) -> Array:
    """The logarithm of E[(density ratio)^order], Mironov, Talwar and Zhang (2019).

    The binomial weights' total of 1 is taken out: positive terms, which lose no digits, remain.
    """
    counts = np.arange(orders.max() + 1.0)
    log_factorials = np.concatenate([[0.0], np.cumsum(np.log(counts[1:]))])
    exponents = counts[2:] * (counts[2:] - 1.0) / (2.0 * noise * noise)
    # Factors of the terms that belong to 2, 3, ... sampled copies, and to the rest.
    taken = exponents + np.log(-np.expm1(-exponents))
    taken += counts[2:] * math.log(rate) - log_factorials[2:]
    left = counts * math.log1p(-rate) - log_factorials
    result = np.zeros(len(orders))
    for index, order in enumerate(orders):
        if order >= 2:
            terms = taken[: order - 1] + left[order - 2 :: -1]
            top = terms.max()
            log_sum = log_factorials[order] + top + np.log(np.exp(terms - top).sum())
            result[index] = np.logaddexp(0.0, log_sum)
    return result


def curve_deltas(curve: Array, epsilons: Array) -> Array:
    """The deltas at some epsilons of whatever has these Renyi divergences at ``ORDERS``."""
    gaps = curve - epsilons[:, None]
    logs = (ORDERS - 1.0) * (gaps + np.log1p(-1.0 / ORDERS)) - np.log(ORDERS)
    return np.asarray(np.exp(np.minimum(logs.min(axis=1), 0.0)))


def _moments(events: _Gaussians, delta: float) -> float:
    """As the paper used it: orders 1 to 32, and a conversion that is not the tightest."""
    few = (ORDERS >= 2) & (ORDERS <= 33) & (ORDERS % 1 == 0)
    return float((renyi_curve(events)[few] - math.log(delta) / (ORDERS[few] - 1.0)).min())


ACCOUNTANTS: dict[str, Callable[[Any, float], float]]
ACCOUNTANTS = {"pld": _pld, "rdp": _rdp, "moments": _moments}

_LOG_LEAST, _LOG_MOST = math.log(LEAST_NOISE), math.log(MOST_NOISE)
#: Calibrated epsilon lies between this much below its target and the target.
_CLOSE = 1e-5


class Calibration(NamedTuple):
    """A noise multiplier and the epsilon that it gives, which is at most the target."""

    noise_multiplier: float
    epsilon: float


def calibrate(
    *,
    epsilon: float,
    steps: int,
    sampling_probability: float = 1.0,
    sensitivity: int = 1,
    delta: float = 1e-5,
    accountant: str = "pld",
) -> Calibration:
    """Finds the noise multiplier for a target epsilon; arguments as in ``epsilon_of``.

    Guarantees:
        The resulting epsilon is at most the target, and within 0.001 % of it wherever epsilon
        does not jump and noise is needed at all.

    Raises:
        NotCalibratedError: Too small for any noise.
    """

    def event(noise: float) -> GaussianEvent:
        return GaussianEvent(noise, steps, sampling_probability, sensitivity)

    return calibrate_event(epsilon, event, delta=delta, accountant=accountant)


def calibrate_event(
    epsilon: float, event: Callable[[float], Event], *, delta: float, accountant: str
) -> Calibration:
    """The same for any event of a noise multiplier; more noise must cost less."""
    target = checked(epsilon, _Target, "epsilon", "a calibration")
    # Just below the target, so that the root may lie on either side of the aim.
    aim = target * (1.0 - 0.5 * _CLOSE)

    def tried(log_noise: float, by: str) -> Calibration:
        noise = min(max(math.exp(log_noise), LEAST_NOISE), MOST_NOISE)
        paid = epsilon_of_events([event(noise)], delta=delta, accountant=by)
        return Calibration(noise, paid)

    def gap(log_noise: float, by: str) -> float:
        paid = tried(log_noise, by).epsilon
        return math.log(paid / aim) if paid > 0.0 else -1e3

    here = _LOG_MOST
    # pld never costs more than rdp, which answers in milliseconds and lies close by.
    for by in ("rdp", "pld") if accountant == "pld" else (accountant,):
        if gap(_LOG_LEAST, by) <= 0.0:
            here = _LOG_LEAST
        elif gap(here, by) <= 0.0:
            from scipy.optimize import brentq

            most = here
            here = float(brentq(gap, _LOG_LEAST, most, (by,), xtol=1e-9))
            # Epsilon may jump, or the root lie a hair on the cheap side.
            while gap(here, by) > 0.0:
                here = min(here + 1e-8, most)
    made = tried(here, accountant)
    if made.epsilon > target:
        raise NotCalibratedError(
            "The 'epsilon' of a calibration must be reachable by some noise multiplier up to "
            f"{MOST_NOISE:g}. Got {target:g}, but the least epsilon is {made.epsilon:.4g}. "
            "Use a larger epsilon or delta, fewer steps, or accountant 'pld'."
        )
    return made


class Strength(NamedTuple):
    """What the best attack can do.

    No test tells more than one between normal distributions of variance one, ``mu`` apart (with
    sampling or a search, at no smaller delta), ``None`` from 10,000 up. ``detections`` is its
    chance of a true alarm where a false one has a chance of ``FALSE_ALARMS``.
    """

    mu: float | None
    detections: float


@lru_cache(maxsize=64)
def strength_of(event: Event, delta: float) -> Strength:
    """Upper bounds on what any attack can do, whatever accountant the claim names.

    Where every group takes part in every step, detections follow exactly from one Gaussian
    (Dong, Roth and Su 2022). Else they are at most exp(epsilon) times the false alarms, plus
    delta, and correct rejections at most exp(epsilon) times the misses, plus delta.
    """
    mu, accountant = math.inf, "rdp"
    if isinstance(event, GaussianEvent):
        mu, accountant = ratio_of((event,)), "pld"
    if event == event.without_amplification() and mu < math.inf:
        missed = NormalDist().cdf(NormalDist().inv_cdf(1.0 - FALSE_ALARMS) - mu)
    else:
        epsilon = epsilon_of_events([event], delta=delta, accountant=accountant)
        epsilons = np.linspace(0.0, epsilon, _POINTS)
        deltas = deltas_of(event, epsilons, delta)
        factors = np.exp(np.minimum(epsilons, 700.0))
        by_alarms = 1.0 - deltas - FALSE_ALARMS * factors
        missed = float(np.maximum(by_alarms, (1.0 - FALSE_ALARMS - deltas) / factors).max())
        mu = min(mu, _mu(epsilons, deltas))
    detections = min(1.0, rounded_up(1.0 - max(0.0, missed)))
    return Strength(rounded_up(mu) if mu < math.inf else None, detections)


def _mu(epsilons: Array, deltas: Array) -> float:
    # The least mu whose Gaussian has no smaller delta at any epsilon from first to last. As
    # functions of exp(epsilon), deltas are convex: between two points they lie below the chord,
    # and the Gaussian's above the tangent in the middle. The ends of both are compared.
    middles = 0.5 * (epsilons[1:] + epsilons[:-1])

    def too_small(mu: float) -> bool:
        for left, middle in enumerate(middles):
            slope = -NormalDist().cdf(-middle / mu - mu / 2.0)
            here = math.exp(log_gaussian_delta(mu, middle))
            for end in (left, left + 1):
                step = math.exp(epsilons[end]) - math.exp(middle)
                if here + slope * step < deltas[end]:
                    return True
        return False

    if epsilons[-1] > 700.0 or too_small(_MOST_MU):
        return math.inf
    return root(too_small, 1e-9, _MOST_MU)
