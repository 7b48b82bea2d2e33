"""Whole numbers in float64: their sums do not round, so they have no order.

Everything that private training adds up is a whole number of grid steps. Float64 adds whole
numbers exactly while they stay below 2^53. So blocks, threads, ranks and the order of
documents change no bit of a sum, and one group moves it by its own vector and no more.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = Any  # one per document: an array, a ``numpy.memmap`` or a ``csr_array``

# Shorter rows have no direction: float64 could not square them, or only rounding is left.
_SHORTEST, _NOTHING_LEFT = 1e-140, 1e-6


class Grid(NamedTuple):
    """How long a step is. It follows from public numbers alone.

    A clip norm has ``unit`` steps. A standard deviation of the noise has 2^noise_bits, so that
    noise is assembled from random bits. A row of length one is 2^row_bits steps long.
    """

    unit: float
    noise_bits: int
    row_bits: int

    @classmethod
    def of(cls, noise_multiplier: float, groups: int) -> Grid:
        """The finest grid with groups * unit <= 2^51 steps, and noise below 2^51 of them."""
        noise_bits = min(45, 51 - math.ceil(math.log2(groups / noise_multiplier)))
        unit = 2.0**noise_bits / noise_multiplier
        return cls(unit, noise_bits, min(14, math.frexp(unit)[1] // 2))


def shortened(coordinates: int) -> float:
    """The factor that takes off more than float64 may add to the length of a vector.

    The length of n coordinates has a relative error of (n / 2 + 2) 2^-53 at most, in whatever
    order they are added, and some roundings follow: 2^-30 + n 2^-52 is more than all of them.
    """
    return 1.0 - 2.0**-30 - coordinates * 2.0**-52


def directions(rows: Rows, mean: NDArray[Any] | None = None) -> Rows:
    """Each row divided by its own length; rows without length, or not finite, become zero.

    A released ``mean`` is taken off dense directions; what is left has length one again.
    """
    if issparse(rows) and not rows.has_canonical_format:
        # An entry that is stored in two pieces is longer than the pieces' squares tell.
        rows = rows.copy()
        rows.sum_duplicates()
    scaled = _divided(rows.astype(np.float64), _SHORTEST)
    if mean is None:
        return scaled
    left = np.where(scaled.any(axis=1, keepdims=True), scaled - mean, 0.0)
    return _divided(left, _NOTHING_LEFT)


def _divided(rows: Rows, shortest: float) -> Rows:
    with np.errstate(all="ignore"):
        lengths = np.sqrt(row_squares(rows))
        factors = np.where(lengths > shortest, 1.0 / lengths, 0.0)  # 0 also for infinity
        if issparse(rows):
            factors = np.repeat(factors, np.diff(rows.indptr))
            values = np.where(factors > 0, rows.data * factors, 0.0)
            return csr_array((values, rows.indices, rows.indptr), shape=rows.shape)
        return np.where(factors[:, None] > 0, rows * factors[:, None], 0.0)


def row_squares(rows: Rows) -> Floats:
    """The squared length of each row: by itself, in its own order, wherever it lies."""
    if issparse(rows):
        row_of = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        return np.asarray(np.bincount(row_of, rows.data**2, rows.shape[0]), np.float64)
    return np.asarray(np.square(np.ascontiguousarray(rows)).sum(axis=1), np.float64)


def whole_rows(rows: Rows, bits: int) -> Rows:
    """Rows no longer than one in steps of 2^-bits, cut toward zero: none becomes longer."""
    factor = shortened(rows.shape[1]) * 2.0**bits
    if issparse(rows):
        cut = np.trunc(rows.data * factor).astype(np.int16)
        return csr_array((cut, rows.indices, rows.indptr), shape=rows.shape)
    return np.trunc(rows * factor).astype(np.int16)


def exact_weights(weights: NDArray[Any], row_bits: int) -> Floats:
    """Released weights ``[features, classes]``, cut so that scores of whole rows are exact.

    A score then depends on its own row alone, whatever a BLAS library does with others.
    """
    digits = 52 - row_bits - math.ceil(math.log2(max(len(weights), 2)))
    wide = weights.astype(np.float64)  # the smallest integer of a type has no absolute value
    largest = max(float(np.abs(wide).max(initial=0.0)), 2.0**-200)
    unit = 2.0 ** (math.frexp(largest)[1] - digits)
    return np.asarray(np.trunc(wide / unit) * (unit * 2.0**-row_bits))
