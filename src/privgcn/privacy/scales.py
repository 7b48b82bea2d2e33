"""How much a vector is scaled so that a sum of many stays within its sensitivity."""

from __future__ import annotations

import torch
from torch import Tensor

from privgcn.errors import ConfigError

ROUNDOFF = 2.0**-53
"""Largest relative error of one operation in float64."""

BEYOND = 1e36
"""Above this many clip norms a scale is no normal float32, and its rounding is unbounded."""

# Relative slack for the roundings of scale, product and norm in float32.
_SLACK = 1e-6
_MOST_SLACK = 0.05


def sum_slack(terms: int) -> float:
    """The share of the clip norm that pays for rounding in a sum of ``terms`` vectors.

    Vectors of norm at most C added in float64, in any order, are off by at most
    ``terms**2 * 2**-53`` C; with a unit and without it may be off in opposite directions.
    """
    slack = _SLACK + 2.0 * terms**2 * ROUNDOFF
    if slack > _MOST_SLACK:
        raise ConfigError(
            f"A clipped sum must have fewer than fifteen million terms, or its rounding is not "
            f"bounded. Got {terms}. Sample or merge parts."
        )
    return slack


def clip_scales(norms: Tensor, clip_norm: float, terms: int) -> Tensor:
    """The factor by which each of ``terms`` gradients of a sum is scaled, as float64.

    Guarantees:
        ``scale * norm <= clip_norm * (1 - sum_slack(terms))`` where anything is scaled; a
        norm that is not finite, or beyond 1e36 clip norms, gives 0.
    """
    bound = clip_norm * (1 - sum_slack(terms))
    scales = torch.clamp(bound / norms.clamp(min=1e-300), max=1.0)
    return torch.where(norms < BEYOND * clip_norm, scales, 0.0)
