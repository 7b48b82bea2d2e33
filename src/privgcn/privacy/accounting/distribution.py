"""The ``pld`` accountant: privacy loss distributions, composed numerically, pessimistically.

One release becomes a distribution of losses on a grid that dominates the true one; the
library (dp_accounting) composes such distributions by Fourier transforms. This module decides
about the grid, sets part of delta aside for rounding, and says when no distribution fits.
"""

from __future__ import annotations

import math
from typing import Any

from privgcn.privacy.accounting.events import GaussianRelease, merge
from privgcn.privacy.accounting.hockey_stick import (
    SteppedLosses,
    largest_loss,
    removal_losses,
    replacement_losses,
)

_COARSEST_GRID = 1e-4
#: Points of one release's distribution, and of the composed one, that stay quick to handle.
_STEP_POINTS = 200_000
_COMPOSED_POINTS = 2_500_000
#: Above this epsilon there is no privacy whose third digit matters; a fifth will do.
_COARSE_ABOVE = 40.0
#: What rounding can take from delta: several times what was measured, for any number of steps.
_ROUNDING_PER_STEP = 2e-15
_ROUNDING_AT_LEAST = 1e-11
#: Mass that rounding may add over all steps before a coarser grid is the better bound.
_MASS_TOLERANCE = 1e-3
#: Above this loss, exp(-loss) comes near the end of floating point.
_LARGEST_LOSS = 600.0
#: Composed spreads beyond this many single ranges take two rounds; see ``_repeat``.
_ONE_ROUND = 10.0


def distribution_epsilon(
    releases: tuple[GaussianRelease, ...], delta: float, *, rough: float, refine: int = 1
) -> float:
    """Epsilon from the composed privacy loss distribution; infinity where none fits.

    Args:
        releases: what is composed; at least one of them sampled.
        delta: the delta of the guarantee.
        rough: a valid upper bound on epsilon from another accountant; it sizes the grid.
        refine: divides the grid, for checks of the discretisation.

    Guarantees:
        An upper bound: losses round up, cut tails count as infinite loss, and rounding is
        paid out of ``delta``.
    """
    ratio, sampled = merge(releases)
    steps = sum(release.count for release in sampled) + 1
    reserve = _ROUNDING_PER_STEP * steps + _ROUNDING_AT_LEAST
    span = max(largest_loss(release) for release in sampled)
    if ratio > 0.0:
        span = max(span, ratio * (10.0 + ratio))
    if rough > _LARGEST_LOSS or span > _LARGEST_LOSS or reserve > 0.1 * delta:
        return math.inf
    grid = min(
        _COARSEST_GRID, *(r.sampling_probability / (20.0 * r.noise_multiplier) for r in sampled)
    )
    points = _COMPOSED_POINTS / (5 if rough > _COARSE_ABOVE else 1)
    grid = max(grid, span / _STEP_POINTS, 4.0 * (rough + span) / points) / refine
    composed = _compose(ratio, sampled, grid)
    while composed is None:
        # Rounding errors are divided by the grid: a coarser one has fewer of them.
        grid *= 2.0
        if grid > span:
            return math.inf
        composed = _compose(ratio, sampled, grid)
    epsilon = float(composed.get_epsilon_for_delta(delta - reserve))
    return math.inf if math.isnan(epsilon) else epsilon


def _compose(ratio: float, sampled: tuple[GaussianRelease, ...], grid: float) -> Any | None:
    """The composed distribution on ``grid``; ``None`` if rounding adds too much mass."""
    from dp_accounting.pld import privacy_loss_distribution as library

    excess = 0.0
    composed = None
    for release in sampled:
        first, second = _one(release, grid)
        excess += release.count * max(first.excess, second.excess)
        if excess > _MASS_TOLERANCE:
            return None
        spread = math.sqrt(release.count * first.second_moment) / len(first.masses)
        one = _to_library(first, second, grid)
        many = _repeat(one, release.count, in_rounds=spread > _ONE_ROUND)
        composed = many if composed is None else composed.compose(many)
    if ratio > 0.0 and composed is not None:
        gaussian = library.from_gaussian_mechanism(
            1.0 / ratio, value_discretization_interval=grid
        )
        composed = composed.compose(gaussian)
    return composed


def _one(release: GaussianRelease, grid: float) -> tuple[SteppedLosses, SteppedLosses]:
    """The losses of one release in both directions."""
    if release.sensitivity == 1:
        return removal_losses(release, grid)
    both = replacement_losses(release, grid)
    return both, both


def _to_library(first: SteppedLosses, second: SteppedLosses, grid: float) -> Any:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    def masses(losses: SteppedLosses) -> dict[int, float]:
        return dict(enumerate(losses.masses.tolist(), start=losses.start))

    if first is second:
        return PrivacyLossDistribution.create_from_rounded_probability(
            masses(first), first.infinite, grid
        )
    return PrivacyLossDistribution.create_from_rounded_probability(
        masses(first),
        first.infinite,
        grid,
        rounded_probability_mass_function_add=masses(second),
        infinity_mass_add=second.infinite,
        symmetric=False,
    )


def _repeat(one: Any, count: int, *, in_rounds: bool) -> Any:
    """``count`` times the same release.

    The library bounds the composed range with moments at orders of one over the range of a
    single release and above: too high where the composed spread is many times that range,
    and the range comes out far too wide. Two rounds of about the square root of ``count``
    keep it narrow.
    """
    if not in_rounds:
        return one.self_compose(count)
    inner = math.isqrt(count)
    outer, rest = divmod(count, inner)
    many = one.self_compose(inner).self_compose(outer)
    return many.compose(one.self_compose(rest)) if rest else many
