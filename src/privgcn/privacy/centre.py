"""What all dense feature rows have in common, released once so that it can be taken off.

Averaged word vectors and encoder outputs all point in much the same direction. That common
part tells no class from another, takes most of a clipped row's length and makes large steps
swing. One release of the plan, the first, therefore is the mean of the rows themselves.
"""

from __future__ import annotations

import math

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
    # Directions have length one, so the mean of some is no longer than one.
    reach = clip_norm * (1 - sum_slack(len(graph), blocked=adds_up_in_blocks(len(graph))))
    weights = torch.where(usable, reach / (lengths * graph.sizes[graph.part_of_row]), 0.0)
    if samples is not None:
        sampled = torch.zeros(graph.parts, dtype=torch.bool)
        sampled[torch.from_numpy(samples[0])] = True
        weights = weights * sampled.to(weights.device)[graph.part_of_row]
    return DenseRows(rows).summed_transposed_times(weights[:, None].float())


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
