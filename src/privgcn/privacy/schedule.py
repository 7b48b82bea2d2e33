"""Which parts a step uses, and what that costs: one object answers both.

The sampler and the accounting event come from the same frozen object, so a run cannot
visit every part and account for random ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from privgcn.errors import ConfigError
from privgcn.privacy.accounting.events import Probability
from privgcn.privacy.checks import Count, require_count, strict

if TYPE_CHECKING:
    import numpy.typing as npt

    from privgcn.randomness import RandomSource

_OWNER = "a sampling schedule"


@strict("a composition")
class Composition:
    """What is accounted: ``count`` Gaussian releases, each Poisson-sampled at one rate."""

    sampling_probability: Probability
    count: Count


@strict(_OWNER)
class AllParts:
    """Every step uses every part: the Gaussian mechanism, once for each step.

    As for every schedule, ``sample`` gives the parts of one step, ``composition`` what steps
    cost, and ``expected_parts`` the divisor of the noisy sum.
    """

    parts: Count
    name: Literal["all"] = "all"

    @property
    def expected_parts(self) -> float:
        """All of them."""
        return float(self.parts)

    def sample(self, step: int, source: RandomSource) -> npt.NDArray[np.int64] | None:
        """Always ``None``: all parts."""
        return None

    def composition(self, steps: int) -> Composition:
        """One unsampled release for each step."""
        return Composition(1.0, require_count(steps, "steps", _OWNER))


@strict(_OWNER)
class PoissonParts:
    """Each part joins a step independently with ``sampling_probability``.

    Assumes:
        The source of the samples stays as secret as the noise.
    """

    parts: Count
    sampling_probability: Probability
    name: Literal["poisson"] = "poisson"

    @property
    def expected_parts(self) -> float:
        """The expectation, never the size of a realised sample: that size is private."""
        return self.parts * self.sampling_probability

    def sample(self, step: int, source: RandomSource) -> npt.NDArray[np.int64] | None:
        """A fresh independent sample, possibly empty; ``step`` has no influence."""
        return source.choose(self.parts, self.sampling_probability)

    def composition(self, steps: int) -> Composition:
        """One Poisson-sampled release for each step."""
        return Composition(self.sampling_probability, require_count(steps, "steps", _OWNER))


@strict(_OWNER)
class EpochParts:
    """One part after the other, each once per epoch; no amplification is claimed.

    Parts are disjoint, so a unit is touched once per epoch begun. Given the past, a step on
    another part has the same law on both neighbours, which is why this holds for adaptive
    steps too.
    """

    parts: Count
    name: Literal["epoch"] = "epoch"

    @property
    def expected_parts(self) -> float:
        """Exactly one."""
        return 1.0

    def sample(self, step: int, source: RandomSource) -> npt.NDArray[np.int64] | None:
        """Part ``step`` modulo ``parts``."""
        return np.array(
            [require_count(step, "step", _OWNER, low=0) % self.parts], dtype=np.int64
        )

    def composition(self, steps: int) -> Composition:
        """One unsampled release for each epoch begun."""
        return Composition(1.0, -(-require_count(steps, "steps", _OWNER) // self.parts))


AnySchedule = AllParts | PoissonParts | EpochParts
SCHEDULES: dict[str, type[AnySchedule]] = {
    "all": AllParts,
    "poisson": PoissonParts,
    "epoch": EpochParts,
}


def make_schedule(
    name: str, parts: int, sampling_probability: float | None = None
) -> AnySchedule:
    """Builds a schedule by name; ``poisson`` by default samples at 1 / parts, as the paper.

    Raises:
        ConfigError: a probability for a schedule that has none, or none for one part, where
            the default would silently mean ``all``.
    """
    if name not in tuple(SCHEDULES):
        raise ConfigError(
            f"The 'sampling' of {_OWNER} must be one of {', '.join(SCHEDULES)}. Got {name!r}."
        )
    if name != "poisson" and sampling_probability is not None:
        raise ConfigError(
            f"The 'sampling_probability' of {_OWNER} must be left out for sampling "
            f"'{name}'. Got {sampling_probability!r}. Use sampling 'poisson' for random parts."
        )
    if name != "poisson":
        return AllParts(parts) if name == "all" else EpochParts(parts)
    if sampling_probability is None:
        if require_count(parts, "parts", _OWNER) == 1:
            raise ConfigError(
                f"The 'sampling_probability' of {_OWNER} must be given for sampling 'poisson' "
                "with one part. Got None. Use sampling 'all' to train on everything."
            )
        sampling_probability = 1.0 / parts
    return PoissonParts(parts, sampling_probability)


def steps_per_epoch(schedule: AnySchedule) -> int:
    """Steps in which each part is used once, or once in expectation."""
    return max(1, round(schedule.parts / schedule.expected_parts))
