"""The noise of releases, beside the noise that a plan accounts for.

An adversary sees sums with noise. An auditor also sees the noise by itself and can ask of it
what the accounting assumes: a fresh sample for every run, release and coordinate, Gaussian,
as large as planned, and on the grid of the sums down to the last bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from privgcn.mechanism.fixed_point import Floats, Grid

# Noise lies on a fine grid: some values of millions may be equal by chance.
_BY_CHANCE = 2
# Values that are looked at one by one, of each release.
_VALUES = 256
# Lowest bits of a noise sample, each of which is a coin.
_BITS = 8


@dataclass(eq=False)
class NoiseTests:
    """Noise of many releases.

    Args:
        noise_multiplier: What is accounted for.
        grid: On which sums and noise must lie.

    Attributes:
        again: Releases with noise, or its negative, that was sampled before.
        alike: Coordinates that got the noise of another one.
        off_grid: Released numbers that do not lie on the grid.
        squares: Sum of squared samples, in clip norms.
        samples: How many there were.
    """

    noise_multiplier: float
    grid: Grid
    again: int = 0
    alike: int = 0
    off_grid: int = 0
    squares: float = 0.0
    samples: int = 0
    _ones: int = 0
    _before: set[int] = field(default_factory=set)
    _values: list[Floats] = field(default_factory=list)

    def add(self, noise: Floats) -> None:
        """Takes the noise of a release into account."""
        steps = noise * self.grid.unit
        whole = np.rint(steps)
        self.off_grid += int((np.abs(steps - whole) > 0.25).sum())
        sizes = np.abs(whole)
        key = hash(sizes.tobytes())
        self.again += key in self._before
        self._before.add(key)
        self.alike += len(sizes) - len(np.unique(sizes))
        low = whole.astype(np.int64) & ((1 << _BITS) - 1)
        self._ones += int(np.bitwise_count(low).sum())
        self._values.append(noise[:_VALUES])
        self.squares += float(np.square(noise).sum())
        self.samples += len(noise)

    @property
    def usual(self) -> float:
        """The root of the mean square, in clip norms."""
        return math.sqrt(self.squares / self.samples)

    def reasons(self, confidence: float) -> list[str]:
        """Why this is not the noise that is accounted for, in words; none if it may be.

        Args:
            confidence: Of the size, the shape and the bits, each.
        """
        from scipy.stats import binomtest, chi2, kstest

        # The largest standard deviation that the samples leave plausible.
        most = math.sqrt(self.squares / float(chi2.ppf(1.0 - confidence, self.samples)))
        reasons = {
            f"{self.again} releases had noise that was sampled before": self.again > 0,
            f"{self.alike} coordinates got the noise of another one": self.alike > _BY_CHANCE,
            f"{self.off_grid} released numbers do not lie on the grid": self.off_grid > 0,
            f"noise has a standard deviation of at most {most:.4g} clip norms, the plan "
            f"accounts for {self.noise_multiplier:.4g}": most < self.noise_multiplier,
        }
        if not any(reasons.values()):
            values = np.concatenate(self._values)
            # By its own deviation: too much noise breaks no claim.
            values /= math.sqrt(float(np.square(values).mean()))
            coins = binomtest(self._ones, _BITS * self.samples).pvalue
            reasons = {
                "the lowest bits of noise are no coins": coins < 1.0 - confidence,
                "noise is not Gaussian": kstest(values, "norm").pvalue < 1.0 - confidence,
            }
        return [words for words, true in reasons.items() if true]
