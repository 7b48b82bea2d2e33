"""Which noise could have made a released number: the attack of Mironov (2012) on its bits.

Where noise is made as a float and added to a sum, only some results can come out, and which
ones depends on the sum. Given what was released and the sums of two neighbours, the attack
looks for noise that turns one of them into it. A neighbour for which there is no such noise
is ruled out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Lattice: TypeAlias = "type[np.float32] | type[np.float64] | float"
"""All numbers of a float type, or all multiples of a number."""

FARTHEST = 47.0
"""Standard deviations that no noise exceeds: its size comes from a uniform word of 64 bits."""

# Bits of surprise without which nobody knows how noise was made.
_CONVINCING = 30.0


class Seen(NamedTuple):
    """What is known of noisy sums: for each coordinate, intervals one of which holds it.

    Attributes:
        position: Coordinate of each interval, in the flattened array.
        low: Lower end of each interval, float64.
        high: Upper end.
        vague: Whether nothing is known of a coordinate.
        chance: How likely a coordinate would have an interval if noise were made otherwise.
    """

    position: NDArray[np.int64]
    low: Floats
    high: Floats
    vague: NDArray[np.bool_]
    chance: Floats

    def within(self, chosen: NDArray[np.bool_]) -> Seen:
        """The same, of some coordinates only."""
        some = chosen[self.position]
        ends = self.position[some], self.low[some], self.high[some]
        return Seen(*ends, self.vague | ~chosen, self.chance)

    def allows(self, sums: Floats, lattice: Lattice, farthest: float) -> bool:
        """Whether every coordinate may be ``sums`` and noise from a lattice.

        Args:
            sums: The sums before noise.
            lattice: Where the noise lies.
            farthest: The largest noise.
        """
        own = sums.ravel()[self.position]
        possible = np.zeros(len(own), bool)
        for noise in _around((self.low + self.high) / 2 - own, lattice):
            total = noise + own
            inside = (self.low <= total) & (total <= self.high)
            possible |= inside & (np.abs(noise) <= farthest)
        explained = self.vague.copy()
        explained[self.position[possible]] = True
        return bool(explained.all())

    def bits(self, sums: Floats, lattice: Lattice) -> float:
        """How surprising it is that ``allows`` holds, if noise was made otherwise.

        An interval narrower than the gaps of the lattice holds one of its numbers by chance
        only; each halving is one bit.
        """
        middle = (self.low + self.high) / 2
        _, before, after = _around(middle - sums.ravel()[self.position], lattice)
        narrowest = next_above(middle) - middle
        with np.errstate(divide="ignore"):  # a grid may be finer than floats are here
            fractions = np.maximum(self.high - self.low, narrowest) / ((after - before) / 2)
        explained = np.asarray(
            np.bincount(self.position, fractions, len(self.chance)), np.float64
        )
        chances = np.minimum(explained, 1.0) * self.chance
        return -float(np.log2(chances[~self.vague]).sum())


def _around(wanted: Floats, lattice: Lattice) -> list[Floats]:
    """The lattice's number next to the one wanted, and its two neighbours, as float64."""
    if isinstance(lattice, float):
        nearest = np.floor(wanted / lattice + 0.5) * lattice
        return [nearest, nearest - lattice, nearest + lattice]
    typed = wanted.astype(lattice)
    return [v.astype(np.float64) for v in (typed, next_below(typed), next_above(typed))]


def next_above(values: NDArray[Any]) -> NDArray[Any]:
    """The next larger float of each value."""
    return np.asarray(np.nextafter(values, values.dtype.type(math.inf)))


def next_below(values: NDArray[Any]) -> NDArray[Any]:
    """The next smaller float of each value."""
    return np.asarray(np.nextafter(values, values.dtype.type(-math.inf)))


def float32_cell(values: NDArray[np.float32]) -> tuple[Floats, Floats]:
    """The ends of what rounds to float32 values, in float64."""
    here, below, above = (
        v.astype(np.float64) for v in (values, next_below(values), next_above(values))
    )
    return (here + below) / 2, (here + above) / 2


def spacing_of(sums: Iterable[Floats]) -> float:
    """The largest power of two, at most 1, of which all sums are multiples."""
    values = np.concatenate([each.astype(np.float64).ravel() for each in sums])
    mantissas, exponents = np.frexp(values[values != 0])
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    lowest = np.log2((whole & -whole).astype(np.float64)).astype(np.int64)
    return math.ldexp(1.0, int((lowest + exponents).min(initial=53)) - 53)


def left_standing(
    rounded: Seen, exact: Seen, hypotheses: Sequence[Floats], spacing: float, farthest: float
) -> bool | None:
    """Tests sums with and without the document against noisy sums.

    Each test supposes one way to make and add noise. It says nothing if it rules out both
    hypotheses, by what the document touches or by the rest, or if the one that is left could
    have explained everything by chance: then noise was made in another way, or may have been.

    Args:
        rounded: The noisy sums, supposing that they were rounded to float32.
        exact: The noisy sums, supposing that they were not.
        hypotheses: The sums with and those without the document.
        spacing: The grid of sums and noise, supposing that there is one.
        farthest: The largest noise.

    Returns:
        Whether the document was there; ``None`` where both or none may be true.
    """
    supposed: list[tuple[Seen, Lattice]] = [
        (rounded, np.float32),
        (exact, np.float32),
        (exact, np.float64),
        (exact, spacing),
    ]
    touched = (hypotheses[0] != hypotheses[1]).ravel()
    standing: set[bool] = set()
    for seen, lattice in supposed:
        present, absent = (
            seen.within(touched).allows(sums, lattice, farthest) for sums in hypotheses
        )
        if present == absent:
            continue
        survivor = hypotheses[0 if present else 1]
        holds = seen.within(~touched).allows(survivor, lattice, farthest)
        if holds and seen.bits(survivor, lattice) >= _CONVINCING:
            standing.add(present)
    return standing.pop() if len(standing) == 1 else None


def decide(
    released: NDArray[Any],
    present: Floats,
    absent: Floats,
    *,
    spacing: float | None = None,
    farthest: float = math.inf,
) -> bool | None:
    """Attacks noisy sums directly: was it ``present`` or ``absent`` before the noise?

    Args:
        released: The noisy sum, float64, or float32 if it was rounded to that.
        present: The sum with the document, float64.
        absent: The sum without it.
        spacing: The grid of sums and noise; default: what fits both sums.
        farthest: The largest noise. Leave it infinite to look at bits only: noise far below
            the clip norm tells by its size, as any likelihood would.

    Returns:
        ``True`` or ``False`` where only one hypothesis can have led to ``released``;
        ``None`` where both or none can.
    """
    flat = released.ravel()
    typed = flat.astype(np.float32)
    certain = np.zeros(len(flat), bool)
    position = np.flatnonzero(typed.astype(np.float64) == flat)
    chance = np.full(len(flat), float(np.finfo(flat.dtype).eps) / 2.0**-23)
    rounded = exact = Seen(position, *float32_cell(typed[position]), certain, chance)
    if flat.dtype == np.float64:
        exact = Seen(np.arange(len(flat)), flat, flat, certain, np.ones(len(flat)))
    grid = spacing_of((present, absent)) if spacing is None else spacing
    return left_standing(rounded, exact, (present, absent), grid, farthest)
