"""Dense feature rows, as encoders and averaged word vectors give them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear

from privgcn.graph.blocks import BLOCK_ROWS, adds_up_in_blocks

# Of a row of length one, less than this is rounding.
_NO_LENGTH = 1e-6
_BLOCKS_AT_ONCE = 64


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

    def double(self) -> DenseRows:
        """The same rows in float64."""
        return DenseRows(self.values.double())

    def times(self, table: Tensor) -> Tensor:
        """The product with a dense table of ``width`` rows."""
        return linear(self.values, table.T.contiguous())

    def transposed_times(self, table: Tensor) -> Tensor:
        """The product of the transpose with a dense table of one row per document."""
        # In this order the many columns of the rows stay next to each other.
        return (table.T @ self.values).T.contiguous()

    def summed_transposed_times(self, table: Tensor) -> Tensor:
        """The same product, added up as ``adds_up_in_blocks`` says."""
        if not adds_up_in_blocks(len(table)):
            return DenseRows(self.values.double()).transposed_times(table.double())
        total = table.new_zeros(table.shape[1], self.width, dtype=torch.float64)
        whole = len(table) - len(table) % BLOCK_ROWS
        for begin in range(0, whole, _BLOCKS_AT_ONCE * BLOCK_ROWS):
            end = min(whole, begin + _BLOCKS_AT_ONCE * BLOCK_ROWS)
            rows = self.values[begin:end].reshape(-1, BLOCK_ROWS, self.width)
            part = table[begin:end].reshape(len(rows), BLOCK_ROWS, -1)
            total += torch.bmm(part.transpose(1, 2), rows).sum(0, dtype=torch.float64)
        return total.add_(table[whole:].T @ self.values[whole:]).T.contiguous()

    def select(self, index: Tensor) -> DenseRows:
        """The named rows, in that order."""
        return DenseRows(self.values[index])

    def scaled(self, factors: Tensor) -> DenseRows:
        """Each row times its factor, multiplied in the factors' precision."""
        return DenseRows((self.values * factors[:, None]).to(self.values.dtype))

    def row_sums(self, power: int) -> Tensor:
        """Float64 sum over each row of ``|value| ** power``."""
        return (self.values.double().abs() ** power).sum(1)

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

    def _directions(self) -> Tensor:
        length = self.row_sums(2).sqrt()[:, None]
        return torch.where(length > 0, self.values / length, 0.0).to(self.values.dtype)

    def centred(self, centre: Tensor) -> DenseRows:
        """Each row's direction without ``centre``, of length one; zero rows stay zero."""
        filled = self.values.any(dim=1, keepdim=True)
        moved = torch.where(filled, self._directions() - centre, 0.0)
        length = torch.linalg.vector_norm(moved, dim=1, keepdim=True)
        return DenseRows(moved.mul_(torch.where(length > _NO_LENGTH, 1.0 / length, 0.0)))
