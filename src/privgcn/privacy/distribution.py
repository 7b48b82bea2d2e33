"""The ``pld`` accountant: privacy loss distributions, composed numerically, pessimistically.

The library (dp_accounting) builds the distribution of one step on a grid that dominates the
true one, and composes it by Fourier transforms. What this module adds is care about floating
point: which grid, how much of delta is set aside for rounding, and when the distribution no
longer fits and must not be used.
"""

from __future__ import annotations

import math
from typing import Any

from privgcn.privacy.releases import GaussianRelease, merge

_FINEST_GRID = 1e-10
_COARSEST_BASE_GRID = 1e-4
#: Points of one step's distribution, and of the composed one, that stay quick to handle.
_STEP_POINTS = 120_000
_COMPOSED_POINTS = 1_000_000
#: Rounding of one release's distribution, relative to a total mass of 1.
_ROUNDING = 1e-15
#: Mass that rounding may add over all steps before a coarser grid is the better bound.
_MASS_TOLERANCE = 0.02
#: The tail of the Gaussian that the library moves to infinite loss, in standard deviations.
_TAIL = 9.75
#: Above this loss, exp(-loss) leaves the range of floating point.
_LARGEST_LOSS = 600.0


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
    reserve = _ROUNDING * (10.0 * steps + _COMPOSED_POINTS)
    if rough > _LARGEST_LOSS or reserve > 0.1 * delta:
        return math.inf
    span = max(_span(release) for release in sampled)
    if ratio > 0.0:
        span = max(span, ratio * (2.0 * _TAIL + ratio))
    base = min(
        _COARSEST_BASE_GRID,
        *(r.sampling_probability / (20.0 * r.noise_multiplier) for r in sampled),
    )
    width = 2.0 * rough + 2.0 * span + 40.0 * min(1.0, rough + span)
    grid = max(base, _FINEST_GRID, span / _STEP_POINTS, width / _COMPOSED_POINTS) / refine
    while True:
        composed, excess = _compose(ratio, sampled, grid)
        if excess <= _MASS_TOLERANCE:
            break
        # A finer grid divides rounding errors by a smaller number: fewer, wider steps help.
        grid *= 2.0
        if grid > span:
            return math.inf
    epsilon = float(composed.get_epsilon_for_delta(delta - reserve))
    return math.inf if math.isnan(epsilon) else epsilon


def _span(release: GaussianRelease) -> float:
    """The largest finite loss of one sampled release, in either direction, up to rounding."""
    noise, probability = release.noise_multiplier, release.sampling_probability
    exponent = (_TAIL * noise + 1.0) / (noise * noise)
    log_odds = math.log(probability) + exponent
    largest = (
        log_odds + math.log1p(math.exp(-log_odds))
        if log_odds > 0
        else math.log1p(math.exp(log_odds))
    )
    return 2.0 * max(largest, -math.log1p(-probability))


def _compose(
    ratio: float, sampled: tuple[GaussianRelease, ...], grid: float
) -> tuple[Any, float]:
    """The composed distribution on ``grid`` and the mass that rounding added to it."""
    from dp_accounting.pld import privacy_loss_distribution as library
    from dp_accounting.privacy_accountant import NeighboringRelation

    excess = 0.0
    composed = None
    for release in sampled:
        relation = NeighboringRelation.ADD_OR_REMOVE_ONE
        if release.sensitivity == 2:
            # Exchanging a vector of norm 1 for another: sensitivity stays 1 here, the pair of
            # mixtures at -1 and +1 is what makes it two clip norms.
            relation = NeighboringRelation.REPLACE_ONE
        one = library.from_gaussian_mechanism(
            release.noise_multiplier,
            sensitivity=1.0,
            sampling_prob=release.sampling_probability,
            value_discretization_interval=grid,
            neighboring_relation=relation,
        )
        mass = float(one.get_delta_for_epsilon(-1e6))
        excess += release.count * max(0.0, mass - 1.0)
        if excess > _MASS_TOLERANCE:
            return None, excess
        many = one.self_compose(release.count)
        composed = many if composed is None else composed.compose(many)
    if ratio > 0.0 and composed is not None:
        gaussian = library.from_gaussian_mechanism(
            1.0 / ratio, value_discretization_interval=grid
        )
        composed = composed.compose(gaussian)
    return composed, excess
