"""Products of dense rows with a table, each row by itself.

A matrix product of a BLAS library rounds a row by where it lies and by how many rows there are
beside it. Behind a ReLU such a rounding can become a whole gradient. ``embedding_bag`` adds up
every row alone, in the order of its columns.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

_VALUES_AT_ONCE = 1 << 21


def times_each(rows: Tensor, table: Tensor) -> Tensor:
    """``rows @ table``; no other row, and no number of rows, has a say in a row's result."""
    count, width = rows.shape
    if not count:
        return rows.new_zeros(0, table.shape[1])
    at_once = max(1, _VALUES_AT_ONCE // width)
    columns = torch.arange(width, device=rows.device).repeat(min(count, at_once))
    table, pieces = table.contiguous(), []
    for piece in torch.split(rows, at_once):
        pieces.append(
            embedding_bag(
                columns[: piece.numel()],
                table,
                torch.arange(0, piece.numel() + 1, width, device=rows.device),
                mode="sum",
                per_sample_weights=piece.reshape(-1),
                include_last_offset=True,
            )
        )
    return torch.cat(pieces)
