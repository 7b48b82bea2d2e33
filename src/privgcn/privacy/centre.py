"""What all dense feature rows have in common, released once so that it can be taken off.

Averaged word vectors and encoder outputs all point in much the same direction. That common
part tells no class from another, takes most of a clipped row's length and makes large steps
swing. One release of the plan, the first, therefore is the mean of the rows themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from privgcn.graph.blocks import adds_up_in_blocks
from privgcn.graph.dense_rows import DenseRows
from privgcn.graph.partition import PartitionedGraph
from privgcn.privacy.noise import noisy_mean
from privgcn.privacy.part_gradients import Samples
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.scales import sum_slack
from privgcn.randomness import RandomSource

WORTH_TAKING = 1 / 3
"""Rows of length one whose mean is shorter than this have too little in common."""

SURE = 4.0
"""Standard deviations by which the mean must be longer than noise alone would make it."""

_SHORTEST = 1e-30
_PARTS_AT_ONCE = 1024


def clipped_row_means(graph: PartitionedGraph, clip_norm: float, samples: Samples) -> Tensor:
    """The sum over parts of the mean direction of a part's rows, ``[features, 1]``.

    Guarantees:
        Each part adds a vector of norm at most ``clip_norm`` that is computed from that part
        alone, and moves the float64 sum by no more than that. A row without length, or with
        one that float32 cannot invert, adds zero.
    """
    rows = graph.features.dense()
    lengths = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
    usable = (lengths > _SHORTEST) & (lengths < 1 / _SHORTEST)
    rows = rows if bool(usable.all()) else torch.where(usable[:, None], rows, 0.0)
    if not graph.sizes_public:
        shares = torch.where(usable, 1.0 / lengths, 0.0)
        return _sum_by_owner(graph, rows, shares, clip_norm, samples)
    # Directions have length one, so the mean of some is no longer than one.
    reach = clip_norm * (1 - sum_slack(len(graph), blocked=adds_up_in_blocks(len(graph))))
    weights = torch.where(usable, reach / (lengths * graph.sizes[graph.part_of_row]), 0.0)
    if samples is not None:
        weights = weights * _sampled(graph, samples)[graph.part_of_row]
    return DenseRows(rows).summed_transposed_times(weights[:, None].float())


def _sum_by_owner(
    graph: PartitionedGraph, rows: Tensor, shares: Tensor, clip_norm: float, samples: Samples
) -> Tensor:
    """The same sum where sizes are private: float64 throughout, each part's mean by itself."""
    # A mean of directions has length one at most, but for roundings of its own.
    reach = clip_norm * (1 - sum_slack(graph.parts))
    weights = torch.full((graph.parts,), reach, dtype=torch.float64, device=rows.device)
    if samples is not None:
        weights = weights * _sampled(graph, samples)
    weights = weights / graph.sizes.clamp(min=1)
    total = torch.zeros(rows.shape[1], dtype=torch.float64, device=rows.device)
    starts = graph.offsets.tolist()
    for first in range(0, graph.parts, _PARTS_AT_ONCE):
        last = min(first + _PARTS_AT_ONCE, graph.parts)
        own = slice(starts[first], starts[last])
        directions = rows[own].double() * shares[own, None]
        sums = directions.new_zeros(last - first, rows.shape[1])
        sums.index_add_(0, graph.part_of_row[own] - first, directions)
        total += (sums * weights[first:last, None]).sum(0)
    return total[:, None]


def _sampled(graph: PartitionedGraph, samples: Sequence[npt.NDArray[np.int64]]) -> Tensor:
    """1 for a part of the sample, 0 for any other."""
    sampled = torch.zeros(graph.parts, dtype=torch.float64)
    sampled[torch.from_numpy(samples[0])] = 1.0
    return sampled.to(graph.offsets.device)


def released_centre(graph: PartitionedGraph, plan: PrivacyPlan, source: RandomSource) -> Tensor:
    """The noisy centre of all rows ``[features, 1]``: one release of the plan.

    The noise is known, so the mean is shrunk by as much of its length as the noise explains
    (James and Stein), and is zero where too little is left to be worth taking off. Both only
    look at what was released.

    Guarantees:
        One Gaussian release of the plan's noise on a sum of vectors clipped to its norm.
    """
    sampled = plan.schedule.sample(0, source)
    sums = clipped_row_means(graph, plan.clip_norm, None if sampled is None else [sampled])
    (mean,) = noisy_mean([sums], plan, source)
    mean /= plan.clip_norm
    variance = (plan.noise_multiplier / plan.schedule.expected_parts) ** 2
    squares = float(mean.double().square().sum())
    common = squares - mean.numel() * variance
    chance = SURE * variance * math.sqrt(2 * mean.numel())
    if common < max(WORTH_TAKING**2, chance):
        return torch.zeros_like(mean)
    return mean * (common / squares)
