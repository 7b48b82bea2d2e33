"""The grid on which a release lies: rows, sums and noise are multiples of one step.

Mironov (2012) broke Gaussian noise in floats: which values a noisy float can take tells what
the noise was added to. Here the sum S and the noise N, rounded, are multiples of one step h.
S + round(N) = round(S + N) is then the real Gaussian mechanism followed by rounding, every
multiple of h is possible whatever the data are, and sums are exact in any order.

All of it is in units of the clip norm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, overload

from torch import Tensor

from privgcn.graph.exact import EXACT_BITS
from privgcn.privacy.plan import PrivacyPlan

MOST_REACH = 32.0
"""How many clip norms the terms of one part's vector may have before they cancel."""

# The step is the noise's standard deviation over 2^32 at least: float64 noise is off by less
# than 2^-46 of it, so no value of a coordinate is more or less likely than it should be by more
# than a relative 2^-14.
_NOISE_BITS = 32
# Output-gradient rows get the digits that input rows leave.
_INPUT_BITS = 12


@dataclass(frozen=True)
class Grid:
    """Multiples of 2^-``bits`` clip norms.

    Attributes:
        bits: The step is 2^-bits clip norms. It follows from public numbers alone.
        input_bits: Digits of input rows below their own largest entry.
    """

    bits: int
    input_bits: int

    @classmethod
    def of(cls, noise_multiplier: float, parts: int) -> Grid:
        """The finest grid on which noise is accurate and a sum over ``parts`` is exact."""
        for_noise = _NOISE_BITS - math.ceil(math.log2(noise_multiplier))
        # One digit less than sums need: rounding adds numbers twice as large to their terms.
        for_sums = EXACT_BITS - 1 - math.ceil(math.log2(MOST_REACH * parts))
        bits = min(for_noise, for_sums)
        return cls(bits, min(_INPUT_BITS, bits // 2))

    @property
    def step(self) -> float:
        """The distance of two neighbours, in clip norms."""
        return 2.0**-self.bits

    @property
    def output_step(self) -> float:
        """The step of output-gradient rows, whose products with input rows lie on the grid."""
        return 2.0 ** (self.input_bits - self.bits)


@dataclass(frozen=True, eq=False)
class ReplicaGrids:
    """The grids of replicas that get different noise.

    Attributes:
        step: The distance of two neighbours ``[R, 1]``, in clip norms.
        input_bits: Digits of input rows below their own largest entry; the same for all.
    """

    step: Tensor
    input_bits: int

    @property
    def output_step(self) -> Tensor:
        """The step of output-gradient rows, whose products with input rows lie on the grid."""
        return self.step * 2.0**self.input_bits

    def of(self, replicas: Tensor) -> ReplicaGrids:
        """The grids of some of the replicas, which may be named more than once."""
        return ReplicaGrids(self.step.index_select(0, replicas), self.input_bits)


AnyGrid = Grid | ReplicaGrids


class OnOwnGrids(Protocol):
    """Plans whose replicas have grids of their own."""

    @property
    def grid(self) -> ReplicaGrids:
        """The grid of each replica."""


@overload
def grid_of(plan: PrivacyPlan) -> Grid: ...
@overload
def grid_of(plan: PrivacyPlan | OnOwnGrids) -> AnyGrid: ...
def grid_of(plan: PrivacyPlan | OnOwnGrids) -> AnyGrid:
    """The grid of a plan's sums and noise; it follows from the plan alone."""
    if not isinstance(plan, PrivacyPlan):
        return plan.grid
    return Grid.of(plan.noise_multiplier, plan.schedule.parts)
