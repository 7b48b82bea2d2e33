"""Numbers on grids of powers of two: products and sums of these do not round.

A float sum depends on the order in which it is taken, and so on threads, blocks, devices and
on whatever else lies beside a row. Multiples of one power of two that stay below 2^53 of it
add up exactly, in every order. Rows are rounded each relative to its own largest entry, so
what a row becomes depends on that row alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

EXACT_BITS = 52
"""Float64 adds multiples of a unit exactly while sums stay below 2^52 units (and one spare)."""

# By the bytes of a float: its exponent's bits (the sign is not among them), and the least power
# that its reciprocal and further digits allow. In float64 that is below every float32.
_EXPONENTS = {
    4: (torch.int32, 0x7F800000, 2.0**-100),
    8: (torch.int64, 0x7FF0000000000000, 2.0**-200),
}
_UNIT_IS_LAST_DIGIT = 1.5 * 2.0**52


def powers_above(sizes: Tensor) -> Tensor:
    """The least power of two above each size, infinite where none is.

    It is 2^-100 at least, in float64 2^-200.
    """
    integer, mask, least = _EXPONENTS[sizes.element_size()]
    below = (sizes.view(integer) & mask).view(sizes.dtype)
    return below.mul_(2.0).clamp_(min=least)


def rounded(values: Tensor, unit: Tensor | float, scale: Tensor | None = None) -> Tensor:
    """``scale`` times the values, in float64, rounded to multiples of ``unit``, half to even.

    The unit is a power of two, and the result is no number where that is infinite. What is
    rounded must be smaller than 2^51 units.
    """
    wide = values.double()
    scaled = wide if scale is None else wide * scale
    # The last digit of a float64 this large is one unit: what is smaller does not stay.
    large = unit * _UNIT_IS_LAST_DIGIT
    return (scaled + large).sub_(large)


class GridRows(NamedTuple):
    """Dense rows on grids of their own, as :func:`rows_on_grid` makes them.

    Attributes:
        values: Float64 rows ``[..., k]``.
        powers: The power of two above the largest entry of each row ``[..., 1]``.
        bits: Digits below that power.
    """

    values: Tensor
    powers: Tensor
    bits: int


def row_powers(rows: Tensor) -> Tensor:
    """The power of two above the largest entry of each row ``[..., 1]``."""
    return powers_above(rows.abs().amax(-1, keepdim=True))


def rows_on_grid(rows: Tensor, bits: int) -> GridRows:
    """Each row cut to ``bits`` binary digits below its own power of two."""
    powers = row_powers(rows)
    units = powers * 2.0**-bits
    # Only powers of two are multiplied with, so float32 is as exact as float64, and faster.
    values = rows.mul(units.reciprocal()).floor_().mul_(units)
    return GridRows(values.double(), powers.double(), bits)


def product_bits(terms: int) -> int:
    """Digits that two factors may have together so that ``terms`` products add up exactly."""
    return EXACT_BITS - math.ceil(math.log2(max(terms, 2)))


def exact_sums(values: Tensor) -> Tensor:
    """Sums ``[..., 1]`` of float32 numbers from 0 to 1, in float64; no order changes a bit.

    A device may choose the order of a sum by how many rows there are.
    """
    # Taking this up and off again cuts what is smaller to multiples of its last digit.
    least = 2.0 ** (24 - product_bits(values.shape[-1]))
    cut = values.add(least).sub_(least).double()
    # Of few columns four times faster than a sum.
    return cut @ cut.new_ones(values.shape[-1], 1)


def upper_sums(values: Tensor, most: int | None = None) -> Tensor:
    """Sums over the first dimension of float64 numbers that are not negative, from above.

    Each number is rounded up, relative to the largest, so far that sums are exact: no order
    and no device changes a bit. Of n numbers the sum is too large by a relative n^2 2^-51
    at most.

    Args:
        values: The numbers.
        most: How many there can be, where how many zeros there are must change no bit;
            otherwise as many as there are.
    """
    units = powers_above(values.amax(0)) * 2.0 ** -product_bits(most or len(values))
    return (values / units).ceil_().sum(0).mul_(units)


def exact_weights(weight: Tensor, bits: int) -> Tensor:
    """Weights ``[k, R, m]`` cut to the digits that rows of ``bits`` digits leave them.

    Guarantees:
        Float64 products of such rows with them have the same bits whatever other rows,
        threads, blocks, replicas and devices there are.
    """
    most = weight.abs().amax((0, 2), keepdim=True)
    digits = min(24, product_bits(len(weight)) - bits)
    return rounded(weight, powers_above(most).double() * 2.0**-digits)
