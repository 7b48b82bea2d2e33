"""The noise that was drawn, beside the noise that a plan accounts for.

An adversary sees sums with noise. An auditor also sees the noise by itself and can ask of it
what the accounting assumes: drawn anew for every run, release and coordinate, Gaussian, and as
large as planned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from privgcn.evidence.releases import Observer

# Runs whose noise is looked at value by value.
_RUNS = 256
# Noise lies on a grid of 2^-32 of its deviation: some draws of millions may be equal by chance.
_BY_CHANCE = 2


@dataclass(eq=False)
class Drawn:
    """Noise of many runs.

    Attributes:
        again: Runs that drew, in some release, noise that was drawn before.
        alike: Coordinates that got the noise of another one in the same release.
        beside: Released numbers that do not lie on the grid.
        squares: Sum of squared draws, in clip norms.
        draws: How many there were.
    """

    again: int = 0
    alike: int = 0
    beside: int = 0
    squares: float = 0.0
    draws: int = 0
    _before: set[bytes] = field(default_factory=set)
    _values: list[npt.NDArray[np.float64]] = field(default_factory=list)

    def add(self, seen: Observer) -> None:
        """Takes the noise of a pass into account."""
        again: set[int] = set()
        for release in seen.noise:
            drawn = release.numpy()
            for run, row in enumerate(drawn):
                key = row.tobytes()
                if key in self._before:
                    again.add(run)
                self._before.add(key)
            some = drawn[:_RUNS]
            self.alike += int((np.diff(np.sort(some, axis=1), axis=1) == 0).sum())
            self._values.append(some.ravel())
        self.again += len(again)
        self.beside += seen.beside
        self.squares += seen.squares[0]
        self.draws += seen.squares[1]

    @property
    def usual(self) -> float:
        """The root of the mean square, in clip norms."""
        return math.sqrt(self.squares / self.draws)

    def most(self, confidence: float) -> float:
        """The largest standard deviation that the draws leave plausible, in clip norms."""
        from scipy.stats import chi2

        return math.sqrt(self.squares / float(chi2.ppf(1.0 - confidence, self.draws)))

    def reasons(self, noise_multiplier: float, confidence: float) -> list[str]:
        """Why this is not the noise that is accounted for, in words; none if it may be.

        Args:
            noise_multiplier: What is accounted for.
            confidence: Of the size and of the shape, each.
        """
        from scipy.stats import kstest

        found = []
        if self.again:
            found.append(f"{self.again} runs drew noise that was drawn before")
        if self.alike > _BY_CHANCE:
            found.append(f"{self.alike} coordinates got the noise of another one")
        if self.beside:
            found.append(f"{self.beside} released numbers do not lie on the grid")
        most = self.most(confidence)
        if most < noise_multiplier:
            found.append(
                f"noise has a standard deviation of at most {most:.4g} clip norms, the plan "
                f"accounts for {noise_multiplier:.4g}"
            )
        values = np.concatenate(self._values)
        # By its own deviation: too much noise breaks no claim. Draws that repeat count twice.
        scale = math.sqrt(float(np.square(values).mean()))
        if found:
            return found
        if kstest(values / scale, "norm").pvalue < 1.0 - confidence:
            found.append("noise is not Gaussian")
        return found
