"""Epsilon from what ran: three accountants behind one question.

Every answer is an upper bound on the true epsilon, whatever the inputs; where none can be
given, one clear error is.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.privacy.accounting.distribution import distribution_epsilon
from privgcn.privacy.accounting.events import GaussianRelease, merge
from privgcn.privacy.accounting.renyi import curve_epsilon, moments_epsilon, renyi_epsilon
from privgcn.privacy.accounting.selection import Release, SelectedRelease, composed_curve
from privgcn.privacy.checks import Check, Real

Accountant = Literal["pld", "rdp", "moments"]
#: A delta that every accountant can work with.
Delta = Annotated[
    Real,
    Field(
        ge=1e-300,
        le=0.5,
        description="Choose it well below one over the number of protected units.",
    ),
]
check_delta = Check(Delta, "delta")

_OWNER = "an account"
_ONE_AT_A_TIME = threading.Lock()
_check_accountant = Check(Accountant, "accountant")
#: Closed forms and root searches round; the claim is rounded up by more than they can err.
_ROUND_UP = 1e-9
_ROUND_UP_BY = 1e-12


def epsilon_of(
    *,
    noise_multiplier: float,
    steps: int,
    sampling_probability: float = 1.0,
    sensitivity: int = 1,
    delta: float = 1e-5,
    accountant: str = "pld",
) -> float:
    """The epsilon of ``steps`` noisy sums, each with Poisson-sampled parts.

    Args:
        noise_multiplier: noise standard deviation over clip norm.
        steps: how many noisy sums are released (for sampling ``epoch``: epochs begun).
        sampling_probability: the rate at which each part joins a step; 1 for all parts.
        sensitivity: 1 or 2 clip norms; see ``sensitivity_in_clips``.
        delta: the delta of the guarantee.
        accountant: ``pld`` (tight), ``rdp``, or ``moments`` (the paper's, for comparison).

    Guarantees:
        An upper bound on the true epsilon, finite.

    Raises:
        ConfigError: a value outside its range, or no finite bound.
        PrivacyContractError: ``moments`` with sensitivity 2 under sampling.

    Example:
        >>> round(epsilon_of(noise_multiplier=112, steps=2000), 3)
        1.552
        >>> round(epsilon_of(noise_multiplier=112, steps=2000, accountant="moments"), 2)
        2.0
    """
    release = GaussianRelease(noise_multiplier, steps, sampling_probability, sensitivity)
    return epsilon_of_releases([release], delta=delta, accountant=accountant)


def epsilon_of_releases(
    releases: Sequence[Release], *, delta: float, accountant: str = "pld"
) -> float:
    """The epsilon of several kinds of releases about the same units together.

    Raises:
        PrivacyContractError: a search (``SelectedRelease``) with another accountant than
            ``rdp``; its bound is one on Renyi divergences.
    """
    _check_accountant(accountant, _OWNER)
    delta = check_delta(delta, _OWNER)
    if any(type(release) not in (GaussianRelease, SelectedRelease) for release in releases):
        raise ConfigError(
            f"The 'releases' of {_OWNER} must be GaussianRelease objects. Got {releases!r}."
        )
    if accountant != "rdp" and any(type(release) is SelectedRelease for release in releases):
        raise PrivacyContractError(
            f"The 'accountant' of a search must be rdp. Got {accountant}: what a search costs "
            "is known as a bound on Renyi divergences."
        )
    if not releases:
        return 0.0
    # Threads that ask the same wait for one answer instead of each computing it.
    with _ONE_AT_A_TIME:
        return _epsilon(tuple(releases), delta, accountant)


@functools.lru_cache(maxsize=4096)
def _epsilon(releases: tuple[Release, ...], delta: float, accountant: str) -> float:
    single = tuple(release for release in releases if isinstance(release, GaussianRelease))
    if len(single) < len(releases):
        epsilon = curve_epsilon(composed_curve(releases), delta)
    else:
        epsilon = ACCOUNTANTS[accountant](single, delta)
    if not math.isfinite(epsilon) or epsilon < 0.0:
        raise ConfigError(
            "The 'noise_multiplier' of an account must be large enough for a finite epsilon. "
            f"Got {[release.noise_multiplier for release in single]} with accountant "
            f"'{accountant}'. Use more noise, fewer steps or a larger delta."
        )
    return epsilon and epsilon * (1.0 + _ROUND_UP) + _ROUND_UP_BY


def _pld(releases: tuple[GaussianRelease, ...], delta: float) -> float:
    """The tightest of three proven bounds.

    Without sampling, the Gaussian mechanism is exact in closed form. With it, the privacy
    loss distribution is nearly always the tightest; where rounding spoils it (tiny rates
    over very many steps, huge epsilon, tiny delta), the Renyi bound or the bound for
    someone who sees the samples is.
    """
    ratio, sampled = merge(releases)
    if not sampled:
        return gaussian_epsilon(ratio, delta)
    if ratio == 0.0 and sum(r.count * r.sampling_probability for r in sampled) <= delta:
        # The unit is never sampled at all but with a probability of at most delta.
        return 0.0
    open_ratio, _ = merge(tuple(release.without_amplification() for release in releases))
    rough = min(renyi_epsilon(releases, delta), gaussian_epsilon(open_ratio, delta))
    return min(rough, distribution_epsilon(releases, delta, rough=rough))


def gaussian_epsilon(ratio: float, delta: float) -> float:
    """The exact epsilon of one Gaussian release with this sensitivity-to-noise ratio."""
    from dp_accounting.gaussian_mechanism import get_epsilon_gaussian

    with np.errstate(divide="ignore"):  # deltas below 1e-300 on the way to the root
        return float(get_epsilon_gaussian(1.0 / ratio, delta))


ACCOUNTANTS: dict[str, Callable[[tuple[GaussianRelease, ...], float], float]] = {
    "pld": _pld,
    "rdp": renyi_epsilon,
    "moments": moments_epsilon,
}
