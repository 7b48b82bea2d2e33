"""What is accounted: Gaussian releases, described so that every accountant reads them alike."""

from __future__ import annotations

import math
from dataclasses import dataclass

from privgcn.errors import ConfigError
from privgcn.privacy.checks import require_count, require_real

#: Less noise than this protects nothing (one release already costs epsilon 5000), more
#: than this drowns every signal. Inside the range no accountant overflows.
LEAST_NOISE = 0.01
MOST_NOISE = 1e9
#: Rounding in the accountants is bounded up to this many steps.
MOST_STEPS = 1_000_000_000

_OWNER = "a Gaussian release"


@dataclass(frozen=True)
class GaussianRelease:
    """``count`` sums with Gaussian noise about the same units, alike in every respect.

    Attributes:
        noise_multiplier: noise standard deviation over clip norm.
        count: how many such sums are released.
        sampling_probability: the rate at which each part joins a sum; 1 means always.
        sensitivity: 1 or 2 clip norms. Under sampling, 1 is the add/remove case and 2 a
            substitution: the unit's vector is exchanged for another of the same bound.
    """

    noise_multiplier: float
    count: int = 1
    sampling_probability: float = 1.0
    sensitivity: int = 1

    def __post_init__(self) -> None:
        noise = require_real(
            self.noise_multiplier,
            "noise_multiplier",
            _OWNER,
            low=LEAST_NOISE,
            high=MOST_NOISE,
            remedy="Noise outside this range protects nothing or drowns everything.",
        )
        probability = require_real(
            self.sampling_probability,
            "sampling_probability",
            _OWNER,
            above=0.0,
            high=1.0,
            remedy="Use 1.0 for full-batch training.",
        )
        object.__setattr__(self, "noise_multiplier", noise)
        object.__setattr__(self, "sampling_probability", probability)
        count = require_count(self.count, "steps", _OWNER, high=MOST_STEPS)
        object.__setattr__(self, "count", count)
        sensitivity = require_count(self.sensitivity, "sensitivity", _OWNER, high=2)
        object.__setattr__(self, "sensitivity", sensitivity)

    @property
    def sampled(self) -> bool:
        """Whether chance decides which parts take part."""
        return self.sampling_probability < 1.0

    def without_amplification(self) -> GaussianRelease:
        """The same releases for someone who knows every sample."""
        return GaussianRelease(self.noise_multiplier, self.count, 1.0, self.sensitivity)


@dataclass(frozen=True)
class GaussianQuery:
    """One further Gaussian release about the same units, made beside training.

    Attributes:
        name: what is released, in words ("class counts").
        noise_multiplier: noise standard deviation over the bound on one unit's contribution.
        sensitivity: 1 or 2 such bounds, as for training.
    """

    name: str
    noise_multiplier: float
    sensitivity: int

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ConfigError(
                f"The 'name' of GaussianQuery must be words. Got {self.name!r}. Say what is "
                "released."
            )
        release = self.release
        object.__setattr__(self, "noise_multiplier", release.noise_multiplier)
        object.__setattr__(self, "sensitivity", release.sensitivity)

    @property
    def release(self) -> GaussianRelease:
        """The query as the accountants see it."""
        return GaussianRelease(self.noise_multiplier, 1, 1.0, self.sensitivity)


def merge(releases: tuple[GaussianRelease, ...]) -> tuple[float, tuple[GaussianRelease, ...]]:
    """Splits releases into one exact Gaussian and the sampled rest.

    Unsampled Gaussians compose exactly: together they are one Gaussian whose squared
    sensitivity-to-noise ratio is the sum of theirs.

    Returns:
        The ratio of the unsampled releases together (0 without any) and the sampled ones,
        equal ones added up.
    """
    squares = 0.0
    counts: dict[GaussianRelease, int] = {}
    for release in releases:
        if release.sampled:
            one = GaussianRelease(
                release.noise_multiplier, 1, release.sampling_probability, release.sensitivity
            )
            counts[one] = counts.get(one, 0) + release.count
        else:
            squares += release.count * (release.sensitivity / release.noise_multiplier) ** 2
    sampled = tuple(
        GaussianRelease(one.noise_multiplier, count, one.sampling_probability, one.sensitivity)
        for one, count in counts.items()
    )
    return math.sqrt(squares), sampled
