"""How much a vector is scaled so that a sum of many stays within its sensitivity."""

from __future__ import annotations

import torch
from torch import Tensor

from privgcn.errors import ConfigError
from privgcn.graph.blocks import BLOCK_ROWS

ROUNDOFF = 2.0**-53
"""Largest relative error of one operation in float64."""

BEYOND = 1e36
"""Above this many clip norms a scale is no normal float32, and its rounding is unbounded."""

# Relative slack for the roundings of scale, product and norm in float32.
_SLACK = 1e-6
_MOST_SLACK = 0.05
_ROUNDOFF_32 = 2.0**-24


def sum_slack(terms: int, *, blocked: bool = False) -> float:
    """The share of the clip norm that pays for rounding in a sum of ``terms`` vectors.

    Added one by one with relative error u per operation, m vectors of norm at most C are off
    by at most m² u C, and a sum with a unit may be off in the opposite direction of the sum
    without it. Float64 adds up all terms; with ``blocked``, float32 adds up the
    ``BLOCK_ROWS`` of a block first, and a unit has a say in one block only.
    """
    slack = _SLACK + 2.0 * terms**2 * ROUNDOFF
    if blocked:
        slack += 2.0 * BLOCK_ROWS**2 * _ROUNDOFF_32
    if slack > _MOST_SLACK:
        raise ConfigError(
            "A clipped sum must have fewer than ten million terms, or its rounding is not "
            f"bounded. Got {terms}. Merge or sample parts."
        )
    return slack


def clip_scales(norms: Tensor, clip_norm: float, slack: float) -> Tensor:
    """The factor by which each gradient of a sum is scaled, as float64.

    Guarantees:
        ``scale * norm <= clip_norm * (1 - slack)``; a norm that is not finite, or beyond
        1e36 clip norms, gives 0.
    """
    scales = torch.clamp(clip_norm * (1 - slack) / norms.clamp(min=1e-300), max=1.0)
    return torch.where(norms < BEYOND * clip_norm, scales, 0.0)
