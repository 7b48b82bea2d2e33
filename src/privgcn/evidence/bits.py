"""Which noise could have made a released number: the attack of Mironov (2012) on its bits.

Where noise is drawn as a float and added to a sum, only some results can come out, and which
ones depends on the sum. Given what was released and the sums of two neighbours, the attack
looks for noise that turns one of them into it. A neighbour for which there is no such noise
is ruled out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

FARTHEST = 13.4
"""Standard deviations that no draw exceeds: its radius comes from a uniform of 128 bits."""

# Bits of surprise without which nobody knows how noise was drawn.
_CONVINCING = 30.0


class Seen(NamedTuple):
    """What is known of noisy sums: for each coordinate, intervals one of which holds it.

    Attributes:
        place: Coordinate of each interval, in the flattened tensor.
        low: Lower end of each interval, float64.
        high: Upper end.
        vague: Whether nothing is known of a coordinate.
        chance: How likely a coordinate would have an interval if noise were made otherwise.
    """

    place: Tensor
    low: Tensor
    high: Tensor
    vague: Tensor
    chance: Tensor

    def within(self, chosen: Tensor) -> Seen:
        """The same, of some coordinates only."""
        kept = chosen[self.place]
        place, low, high = self.place[kept], self.low[kept], self.high[kept]
        return Seen(place, low, high, self.vague | ~chosen, self.chance)

    def allows(self, sums: Tensor, lattice: torch.dtype | float, reach: float) -> bool:
        """Whether every coordinate may be ``sums`` and noise from a lattice.

        Args:
            sums: The sums before noise, float64.
            lattice: All numbers of a float type, or all multiples of a number.
            reach: The largest noise.
        """
        own = sums.flatten()[self.place]
        possible = torch.zeros_like(self.low, dtype=torch.bool)
        for drawn in _around((self.low + self.high) / 2 - own, lattice):
            total = drawn + own
            inside = (self.low <= total) & (total <= self.high)
            possible |= inside & (drawn.abs() <= reach)
        explained = self.vague.clone()
        explained[self.place[possible]] = True
        return bool(explained.all())

    def bits(self, sums: Tensor, lattice: torch.dtype | float) -> float:
        """How surprising it is that ``allows`` holds, if noise was made otherwise.

        An interval narrower than the gaps of the lattice holds one of its numbers by chance
        only; each halving is one bit.
        """
        middle = (self.low + self.high) / 2
        _, before, after = _around(middle - sums.flatten()[self.place], lattice)
        narrowest = next_above(middle) - middle
        shares = torch.maximum(self.high - self.low, narrowest) / ((after - before) / 2)
        found = torch.zeros_like(self.chance).index_add_(0, self.place, shares)
        chances = found.clamp_(max=1.0) * self.chance
        return -float(chances[~self.vague].log2().sum())


def _around(wanted: Tensor, lattice: torch.dtype | float) -> list[Tensor]:
    """The lattice's number next to the one wanted, and its two neighbours, as float64."""
    if isinstance(lattice, float):
        nearest = torch.floor(wanted / lattice + 0.5) * lattice
        return [nearest, nearest - lattice, nearest + lattice]
    nearest = wanted.to(lattice)
    return [value.double() for value in (nearest, next_below(nearest), next_above(nearest))]


def next_above(values: Tensor) -> Tensor:
    """The next larger float of each value."""
    return torch.nextafter(values, values.new_tensor(math.inf))


def next_below(values: Tensor) -> Tensor:
    """The next smaller float of each value."""
    return torch.nextafter(values, values.new_tensor(-math.inf))


def float32_cell(values: Tensor) -> tuple[Tensor, Tensor]:
    """The ends of what rounds to float32 values, in float64."""
    here = values.double()
    return (here + next_below(values).double()) / 2, (here + next_above(values).double()) / 2


def spacing_of(sums: Iterable[Tensor]) -> float:
    """The largest power of two, at most 1, of which all sums are multiples."""
    values = np.concatenate([each.double().flatten().numpy() for each in sums])
    mantissas, exponents = np.frexp(values[values != 0])
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    lowest = np.log2((whole & -whole).astype(np.float64)).astype(np.int64)
    return math.ldexp(1.0, int((lowest + exponents).min(initial=53)) - 53)


def left_standing(
    rounded: Seen, exact: Seen, hypotheses: Sequence[Tensor], spacing: float, reach: float
) -> bool | None:
    """Tests sums with and without the document against noisy sums.

    Each test supposes one way to draw and add noise. It says nothing if it rules out both
    hypotheses, by what the document touches or by the rest, or if the one that is left could
    have explained everything by chance: then noise was made in another way, or may have been.

    Args:
        rounded: The noisy sums, supposing that they were rounded to float32.
        exact: The noisy sums, supposing that they were not.
        hypotheses: The sums with and those without the document.
        spacing: The grid of sums and noise, supposing that there is one.
        reach: The largest noise.

    Returns:
        Whether the document was there; ``None`` where both or none may be true.
    """
    supposed: list[tuple[Seen, torch.dtype | float]] = [
        (rounded, torch.float32),
        (exact, torch.float32),
        (exact, torch.float64),
        (exact, spacing),
    ]
    touched = (hypotheses[0] != hypotheses[1]).flatten()
    standing: set[bool] = set()
    for seen, lattice in supposed:
        present, absent = (
            seen.within(touched).allows(sums, lattice, reach) for sums in hypotheses
        )
        if present == absent:
            continue
        survivor = hypotheses[0 if present else 1]
        holds = seen.within(~touched).allows(survivor, lattice, reach)
        if holds and seen.bits(survivor, lattice) >= _CONVINCING:
            standing.add(present)
    return standing.pop() if len(standing) == 1 else None


def decide(
    released: Tensor,
    present: Tensor,
    absent: Tensor,
    *,
    spacing: float | None = None,
    reach: float = math.inf,
) -> bool | None:
    """Attacks noisy sums directly: was it ``present`` or ``absent`` before the noise?

    Args:
        released: The noisy sum, float64, or float32 if it was rounded to that.
        present: The sum with the document, float64.
        absent: The sum without it.
        spacing: The grid of sums and noise; default: what fits both sums.
        reach: The largest noise. Leave it infinite to look at bits only: noise far below
            the clip norm tells by its size, as any likelihood would.

    Returns:
        ``True`` or ``False`` where only one hypothesis can have led to ``released``;
        ``None`` where both or none can.
    """
    flat = released.flatten()
    certain = torch.zeros_like(flat, dtype=torch.bool)
    place = (flat.float().double() == flat.double()).nonzero()[:, 0]
    chance = torch.full(flat.shape, torch.finfo(flat.dtype).eps / 2.0**-23, dtype=torch.float64)
    rounded = exact = Seen(place, *float32_cell(flat.float()[place]), certain, chance)
    if flat.dtype == torch.float64:
        exact = Seen(torch.arange(len(flat)), flat, flat, certain, torch.ones_like(flat))
    grid = spacing_of((present, absent)) if spacing is None else spacing
    return left_standing(rounded, exact, (present, absent), grid, reach)
