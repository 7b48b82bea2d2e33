"""In what precision products of many rows are added up.

Sums that carry a privacy guarantee must not round differently with and without a document
by more than is accounted for (``privgcn.privacy.scales``).
"""

from __future__ import annotations

BLOCK_ROWS = 256
"""Rows whose products are added up in float32 before they meet the others in float64."""

_FEW_ROWS = 4096


def adds_up_in_blocks(rows: int) -> bool:
    """Whether sums over so many rows are float32 inside blocks and float64 across them.

    Sums over few rows are float64 throughout, which takes longer for many.
    """
    return rows > _FEW_ROWS
