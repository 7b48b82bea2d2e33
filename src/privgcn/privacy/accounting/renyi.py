"""Two accountants built on moments: ``rdp`` (Renyi) and ``moments`` (the paper's).

Both start from the moments of the Poisson-sampled Gaussian at whole orders, which have a
closed form. Written as ``1 + sum of positive terms`` it loses no digits, however small the
sampling probability; the usual form subtracts nearly equal numbers there and can return a
negative divergence, which a converter then reads as epsilon 0.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from privgcn.errors import PrivacyContractError
from privgcn.privacy.accounting.events import GaussianRelease, merge

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

#: Twice the Renyi orders: half orders come at no cost, and 2C needs the pair 2a, 2a - 1.
_DOUBLED = np.unique(
    np.concatenate([np.arange(3, 257), 2 * np.geomspace(130, 16384, 32).astype(np.int64)])
)
#: Orders close to 1 decide where epsilon is large; there a sampled release counts as at 1.5.
_LOW_ORDERS = np.concatenate([1.0 + np.geomspace(0.02, 0.1, 12), np.arange(1.12, 1.5, 0.02)])
_HALF_ORDERS = _DOUBLED / 2.0
#: The Renyi orders of every curve.
ORDERS = np.concatenate([_LOW_ORDERS, _HALF_ORDERS])
_MOMENT_ORDERS = np.arange(1, 33)


def renyi_epsilon(releases: tuple[GaussianRelease, ...], delta: float) -> float:
    """Epsilon by Renyi divergences of many orders, converted at the best one.

    Guarantees:
        An upper bound. A sensitivity of two clip norms is never read as one: unsampled it
        halves the noise multiplier, sampled it pays the Renyi group bound.
    """
    return curve_epsilon(renyi_curve(releases), delta)


def renyi_curve(releases: tuple[GaussianRelease, ...]) -> Array:
    """Upper bounds on the Renyi divergences of releases about the same units, at ``ORDERS``."""
    ratio, sampled = merge(releases)
    curve: Array = ORDERS * (0.5 * ratio * ratio)
    for release in sampled:
        curve = curve + release.count * _sampled_curve(release)
    return curve


def curve_epsilon(curve: Array, delta: float) -> float:
    """The epsilon at ``delta`` of whatever has these Renyi divergences at ``ORDERS``."""
    from dp_accounting.rdp import rdp_privacy_accountant as library

    epsilon, _ = library.compute_epsilon(list(ORDERS), list(curve), delta)
    return float(epsilon)


def curve_deltas(curve: Array, epsilons: Array) -> Array:
    """The deltas at some epsilons of whatever has these Renyi divergences at ``ORDERS``.

    Canonne, Kamath and Steinke (2020), proposition 12, at the best order for each.
    """
    gaps = curve - epsilons[:, None]
    logs = (ORDERS - 1.0) * (gaps + np.log1p(-1.0 / ORDERS)) - np.log(ORDERS)
    result: Array = np.exp(np.minimum(logs.min(axis=1), 0.0))
    return result


def moments_epsilon(releases: tuple[GaussianRelease, ...], delta: float) -> float:
    """Epsilon by the moments accountant as the paper used it: orders 1 to 32.

    Kept for comparison with published figures: order 32 is often too low to be best, and
    the classical conversion is not the tightest.

    Raises:
        PrivacyContractError: a sampled release has sensitivity 2; the accountant's bound
            covers adding or removing only.
    """
    ratio, sampled = merge(releases)
    if any(release.sensitivity != 1 for release in sampled):
        raise PrivacyContractError(
            "The 'accountant' of a plan with Poisson sampling and a sensitivity of two clip "
            "norms must be pld or rdp. Got moments, whose bound covers a sensitivity of one "
            "clip norm only. Use accountant 'pld'."
        )
    log_moments = 0.5 * ratio * ratio * _MOMENT_ORDERS * (_MOMENT_ORDERS + 1.0)
    for release in sampled:
        log_moments = log_moments + release.count * _log_moments(
            release.noise_multiplier, release.sampling_probability, tuple(_MOMENT_ORDERS + 1)
        )
    return float(np.min((log_moments - math.log(delta)) / _MOMENT_ORDERS))


def _sampled_curve(release: GaussianRelease) -> Array:
    """Upper bounds on the Renyi divergences of one sampled release at ``ORDERS``."""
    curve = _half_order_curve(release)
    # Divergences rise with the order, and sampling never costs.
    curve = np.concatenate([np.full(_LOW_ORDERS.size, curve[0]), curve])
    return np.minimum(
        curve, ORDERS * (0.5 * (release.sensitivity / release.noise_multiplier) ** 2)
    )


def _half_order_curve(release: GaussianRelease) -> Array:
    """The same at ``_HALF_ORDERS``, from closed forms at whole orders."""
    noise, probability = release.noise_multiplier, release.sampling_probability
    if release.sensitivity == 2:
        above = _divergences(noise, probability, tuple(_DOUBLED))
        below = _divergences(noise, probability, tuple(_DOUBLED - 1))
        # From the data to the data without the unit, and on to its replacement: the weak
        # triangle inequality for Renyi divergences with both Hoelder exponents at 2.
        return (_HALF_ORDERS - 0.5) / (_HALF_ORDERS - 1.0) * above + below
    # (order - 1) times the divergence is convex in the order, so a half order lies below
    # the mean of its whole neighbours.
    lower = _log_moments(noise, probability, tuple(_DOUBLED // 2))
    upper = _log_moments(noise, probability, tuple((_DOUBLED + 1) // 2))
    result: Array = 0.5 * (lower + upper) / (_HALF_ORDERS - 1.0)
    return result


def _divergences(noise: float, probability: float, orders: tuple[int, ...]) -> Array:
    """Renyi divergences of the sampled Gaussian at whole orders of at least 2."""
    result: Array = _log_moments(noise, probability, orders) / (np.array(orders) - 1.0)
    return result


@functools.lru_cache(maxsize=256)
def _log_moments(noise: float, probability: float, orders: tuple[int, ...]) -> Array:
    """The logarithm of E[(density ratio)^order] for each whole order of at least 1.

    Mironov, Talwar and Zhang (2019), equation for integer orders, with the binomial weights'
    total of 1 taken out of the sum.
    """
    from scipy.special import gammaln

    counts = np.arange(max(orders) + 1, dtype=np.float64)
    log_factorials = gammaln(counts + 1.0)
    exponents = counts[2:] * (counts[2:] - 1.0) / (2.0 * noise * noise)
    # Factors of the terms that belong to 2, 3, ... sampled copies, and to the rest.
    taken = exponents + np.log(-np.expm1(-exponents))
    taken += counts[2:] * math.log(probability) - log_factorials[2:]
    left = counts * math.log1p(-probability) - log_factorials
    result = np.zeros(len(orders))
    for place, order in enumerate(orders):
        if order < 2:
            continue
        terms = taken[: order - 1] + left[order - 2 :: -1]
        top = float(terms.max())
        log_sum = log_factorials[order] + top + math.log(float(np.exp(terms - top).sum()))
        result[place] = np.logaddexp(0.0, log_sum)
    result.setflags(write=False)
    return result
