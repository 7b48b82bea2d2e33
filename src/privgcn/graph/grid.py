"""Numbers on grids of powers of two: products and sums of these do not round.

A float sum depends on the order in which it is taken, and so on threads, blocks, devices and
on whatever else lies beside a row. Multiples of one power of two that stay below 2^53 of it
add up exactly, in every order. Rows are truncated toward zero, each relative to its own
largest entry, so what a row becomes depends on that row alone and is never longer.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

EXACT_BITS = 52
"""Float64 adds multiples of a unit exactly while sums stay below 2^52 units (and one spare)."""

LARGEST = 2.0**100
"""Numbers from here on count as infinite: their grid would leave float32."""


def powers_above(sizes: Tensor) -> Tensor:
    """For each size the least power of two above it; 2^-100 at least, infinite from 2^100."""
    _, exponents = torch.frexp(sizes)
    powers = torch.ldexp(torch.ones_like(sizes), exponents.clamp_(-100, 100))
    return torch.where(sizes < LARGEST, powers, torch.inf)


def truncated(values: Tensor, unit: Tensor | float, scale: Tensor | float = 1.0) -> Tensor:
    """``scale`` times the values, cut off toward zero to multiples of ``unit``.

    The unit is a power of two, and the result is no number where that is infinite.
    """
    return (values * (scale / unit)).trunc_().mul_(unit)


def row_powers(rows: Tensor) -> Tensor:
    """The power of two above the largest entry of each row ``[..., 1]``."""
    return powers_above(rows.abs().amax(-1, keepdim=True))


def rows_on_grid(rows: Tensor, bits: int) -> Tensor:
    """Each row truncated to ``bits`` binary digits below its own power of two."""
    return truncated(rows, row_powers(rows) * 2.0**-bits)


def product_bits(terms: int) -> int:
    """Digits that two factors may have together so that ``terms`` products add up exactly."""
    return EXACT_BITS - math.ceil(math.log2(max(terms, 2)))


def exact_weights(weight: Tensor, bits: int) -> Tensor:
    """Weights ``[k, R, m]`` cut to the digits that rows of ``bits`` digits leave them.

    Guarantees:
        Float64 products of such rows with them have the same bits whatever other rows,
        threads, blocks, replicas and devices there are.
    """
    most = weight.abs().amax((0, 2), keepdim=True)
    digits = min(24, product_bits(len(weight)) - bits)
    return truncated(weight, powers_above(most) * 2.0**-digits).double()
