"""Dense feature rows, as encoders and averaged word vectors give them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import linear

from privgcn.graph.exact import row_powers

# Of a row of length one, less than this is rounding.
_NO_LENGTH = 1e-6
ROWS_AT_ONCE = 1 << 14
"""Rows that a device, or a file, gives at once; on a CPU they are cut further."""
# Numbers that stay in a core's own cache: six times faster than what does not.
_IN_CACHE = 1 << 18


@dataclass(frozen=True, eq=False)
class DenseRows:
    """Dense float32 feature rows with the interface of ``SparseRows``."""

    values: Tensor
    is_dense: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.values.shape[0], self.values.shape[1]

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.values.shape[1]

    @property
    def stored(self) -> int:
        """Number of stored values."""
        return self.values.numel()

    def to(self, device: torch.device | str) -> DenseRows:
        """The same rows on another device."""
        return DenseRows(self.values.to(device))

    def _stretches(self) -> Iterator[slice]:
        """Rows that are computed with at once: rows do not mix."""
        rows = ROWS_AT_ONCE
        if not self.values.is_cuda:
            # A power of two, so that a cut of what was cut already changes nothing.
            rows = min(rows, 1 << (max(1, _IN_CACHE // max(1, self.width)).bit_length() - 1))
        for begin in range(0, len(self.values), rows):
            yield slice(begin, begin + rows)

    def times(self, table: Tensor) -> Tensor:
        """The product with a dense table of ``width`` rows."""
        product = table.new_empty(len(self.values), table.shape[1])
        turned = table.T.contiguous()
        for own in self._stretches():
            product[own] = linear(self.values[own].to(table.dtype), turned)
        return product

    def transposed_times(self, table: Tensor) -> Tensor:
        """The product of the transpose with a dense table of one row per document."""
        total = table.new_zeros(table.shape[1], self.width)
        for own in self._stretches():
            # In this order the many columns of the rows stay next to each other.
            total.addmm_(table[own].T, self.values[own].to(table.dtype))
        return total.T.contiguous()

    @cached_property
    def powers(self) -> Tensor:
        """The power of two above the largest entry of each row."""
        powers = self.values.new_empty(len(self.values))
        for own in self._stretches():
            powers[own] = row_powers(self.values[own])[:, 0]
        return powers

    def on_grid(self, bits: int) -> DenseRows:
        """Each row cut, toward zero, to ``bits`` digits below its own power of two."""
        units = self.powers[:, None] * 2.0**-bits
        out = self.values / units
        for own in self._stretches():
            out[own].trunc_().mul_(units[own])
        return DenseRows(out)

    def select(self, index: Tensor) -> DenseRows:
        """The named rows, in that order."""
        return DenseRows(self.values[index])

    def part(self, begin: int, end: int) -> DenseRows:
        """Neighbouring rows."""
        return DenseRows(self.values[begin:end])

    def scaled(self, factors: Tensor) -> DenseRows:
        """Each row times its factor, multiplied in the factors' precision."""
        out = torch.empty_like(self.values)
        for own in self._stretches():
            out[own] = self.values[own] * factors[own, None]
        return DenseRows(out)

    def row_sums(self, power: int) -> Tensor:
        """Float64 sum over each row of ``|value| ** power``."""
        sums = self.values.new_empty(len(self.values), dtype=torch.float64)
        for own in self._stretches():
            # Row after row in memory: else a sum's order depends on how many rows there are.
            rows = self.values[own].double().contiguous()
            rows = rows.square() if power == 2 else rows.abs() ** power
            # Threads would divide a long sum that is alone, so that it never is.
            sums[own] = rows.sum(1) if len(rows) > 1 else rows.repeat(2, 1).sum(1)[:1]
        return sums

    def finite(self) -> DenseRows:
        """The same rows, with every row that holds a non-finite value set to zero."""
        if len(self.values) and bool(torch.stack(self.values.aminmax()).isfinite().all()):
            return self
        bad = ~torch.isfinite(self.row_sums(2))
        return self if not bool(bad.any()) else self.emptied(bad)

    def emptied(self, bad: Tensor) -> DenseRows:
        """The same rows with the marked ones set to zero."""
        return DenseRows(torch.where(bad[:, None], 0.0, self.values))

    def dense(self) -> Tensor:
        """The rows as a dense tensor."""
        return self.values

    def centred(self, centre: Tensor) -> DenseRows:
        """Each row's direction without ``centre``, of length one; zero rows stay zero."""
        out = torch.empty_like(self.values)
        for own in self._stretches():
            out[own] = DenseRows(self.values[own])._centred(centre)
        return DenseRows(out)

    def _centred(self, centre: Tensor) -> Tensor:
        length = self.row_sums(2).sqrt()[:, None]
        directions = torch.where(length > 0, self.values / length, 0.0).to(self.values.dtype)
        filled = self.values.any(dim=1, keepdim=True)
        moved = torch.where(filled, directions - centre, 0.0)
        left = torch.linalg.vector_norm(moved, dim=1, keepdim=True, dtype=torch.float64)
        return moved.mul_(torch.where(left > _NO_LENGTH, 1.0 / left, 0.0))
