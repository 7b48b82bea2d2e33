"""What is accounted: Gaussian releases, described so that every accountant reads them alike."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from privgcn.privacy.checks import Count, Real, Whole, strict

#: Less noise than this protects nothing (one release already costs epsilon 5000), more
#: than this drowns every signal. Inside the range no accountant overflows.
LEAST_NOISE = 0.01
MOST_NOISE = 1e9
#: Rounding in the accountants is bounded up to this many steps.
MOST_STEPS = 1_000_000_000

Noise = Annotated[
    Real,
    Field(
        ge=LEAST_NOISE,
        le=MOST_NOISE,
        description="Noise outside this range protects nothing or drowns everything.",
    ),
]
Steps = Annotated[Count, Field(le=MOST_STEPS, title="steps")]
Probability = Annotated[
    Real, Field(gt=0.0, le=1.0, description="Use 1.0 to take every part in every step.")
]
Sensitivity = Annotated[Whole, Field(ge=1, le=2)]


@strict("a Gaussian release")
class GaussianRelease:
    """``count`` sums with Gaussian noise about the same units, alike in every respect.

    Attributes:
        noise_multiplier: noise standard deviation over clip norm.
        count: how many such sums are released.
        sampling_probability: the rate at which each part joins a sum; 1 means always.
        sensitivity: 1 or 2 clip norms. Under sampling, 1 is the add/remove case and 2 a
            substitution: the unit's vector is exchanged for another of the same bound.
    """

    noise_multiplier: Noise
    count: Steps = 1
    sampling_probability: Probability = 1.0
    sensitivity: Sensitivity = 1

    @property
    def sampled(self) -> bool:
        """Whether chance decides which parts take part."""
        return self.sampling_probability < 1.0

    def without_amplification(self) -> GaussianRelease:
        """The same releases for someone who knows every sample."""
        return replace(self, sampling_probability=1.0)


@strict("a Gaussian query")
class GaussianQuery:
    """One further Gaussian release about the same units, made beside training.

    Attributes:
        name: what is released, in words ("class counts").
        noise_multiplier: noise standard deviation over the bound on one unit's contribution.
        sensitivity: 1 or 2 such bounds, as for training.
    """

    name: Annotated[str, Field(pattern=r"\S", description="Name what is released.")]
    noise_multiplier: Noise
    sensitivity: Sensitivity

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
            one = replace(release, count=1)
            counts[one] = counts.get(one, 0) + release.count
        else:
            squares += release.count * (release.sensitivity / release.noise_multiplier) ** 2
    sampled = tuple(replace(one, count=count) for one, count in counts.items())
    return math.sqrt(squares), sampled
