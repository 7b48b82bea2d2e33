"""Dense feature rows, as encoders and averaged word vectors give them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import linear

from privgcn.graph.exact import row_powers

# Of a row of length one, less than this is rounding.
_NO_LENGTH = 1e-6
# Rows that are doubled at once, so that memory stays small: rows do not mix.
_ROWS_AT_ONCE = 1 << 14


@dataclass(frozen=True, eq=False)
class DenseRows:
    """Dense float32 feature rows with the interface of ``SparseRows``."""

    values: Tensor

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

    def _pieces(self, dtype: torch.dtype) -> Iterator[tuple[slice, Tensor]]:
        """The rows in the precision of the other factor; if that is not theirs, in pieces."""
        at_once = max(1, len(self.values)) if dtype == self.values.dtype else _ROWS_AT_ONCE
        for begin in range(0, len(self.values), at_once):
            own = slice(begin, begin + at_once)
            yield own, self.values[own].to(dtype)

    def times(self, table: Tensor) -> Tensor:
        """The product with a dense table of ``width`` rows."""
        product = table.new_empty(len(self.values), table.shape[1])
        turned = table.T.contiguous()
        for own, rows in self._pieces(table.dtype):
            product[own] = linear(rows, turned)
        return product

    def transposed_times(self, table: Tensor) -> Tensor:
        """The product of the transpose with a dense table of one row per document."""
        total = table.new_zeros(table.shape[1], self.width)
        for own, rows in self._pieces(table.dtype):
            # In this order the many columns of the rows stay next to each other.
            total.addmm_(table[own].T, rows)
        return total.T.contiguous()

    @cached_property
    def powers(self) -> Tensor:
        """The power of two above the largest entry of each row."""
        return row_powers(self.values)[:, 0]

    def on_grid(self, bits: int) -> DenseRows:
        """Each row cut, toward zero, to ``bits`` digits below its own power of two."""
        units = self.powers[:, None] * 2.0**-bits
        return DenseRows((self.values / units).trunc_().mul_(units))

    def select(self, index: Tensor) -> DenseRows:
        """The named rows, in that order."""
        return DenseRows(self.values[index])

    def scaled(self, factors: Tensor) -> DenseRows:
        """Each row times its factor, multiplied in the factors' precision."""
        return DenseRows((self.values * factors[:, None]).to(self.values.dtype))

    def row_sums(self, power: int) -> Tensor:
        """Float64 sum over each row of ``|value| ** power``."""
        # Row after row in memory: else a sum's order depends on how many rows there are.
        pieces = [
            (rows.double().contiguous().abs() ** power).sum(1)
            for rows in torch.split(self.values, _ROWS_AT_ONCE)
        ]
        return torch.cat(pieces)

    def finite(self) -> DenseRows:
        """The same rows, with every row that holds a non-finite value set to zero."""
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
        for begin in range(0, len(out), _ROWS_AT_ONCE):
            own = slice(begin, begin + _ROWS_AT_ONCE)
            out[own] = DenseRows(self.values[own])._centred(centre)
        return DenseRows(out)

    def _centred(self, centre: Tensor) -> Tensor:
        length = self.row_sums(2).sqrt()[:, None]
        directions = torch.where(length > 0, self.values / length, 0.0).to(self.values.dtype)
        filled = self.values.any(dim=1, keepdim=True)
        moved = torch.where(filled, directions - centre, 0.0)
        left = torch.linalg.vector_norm(moved, dim=1, keepdim=True, dtype=torch.float64)
        return moved.mul_(torch.where(left > _NO_LENGTH, 1.0 / left, 0.0))
