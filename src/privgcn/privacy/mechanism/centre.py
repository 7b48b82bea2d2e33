"""What all dense feature rows have in common, released once so that it can be taken off.

Averaged word vectors and encoder outputs all point in much the same direction. That common
part tells no class from another, takes most of a clipped row's length and makes large steps
swing. One release of the plan, the first, therefore is the mean of the rows themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from privgcn.graph.parts import PartitionedGraph
from privgcn.models.stack import LayerGradient
from privgcn.privacy.mechanism.clipping import ClippedSums
from privgcn.privacy.mechanism.noise import noisy_mean
from privgcn.privacy.mechanism.noise_grid import grid_of
from privgcn.privacy.mechanism.part_gradients import Samples
from privgcn.privacy.plan import PrivacyPlan
from privgcn.randomness import RandomSource

WORTH_TAKING = 1 / 3
"""Rows of length one whose mean is shorter than this have too little in common."""

SURE = 4.0
"""Standard deviations by which the mean must be longer than noise alone would make it."""


def clipped_row_means(graph: PartitionedGraph, plan: PrivacyPlan, samples: Samples) -> Tensor:
    """The sum over parts of the mean direction of a part's rows, ``[features, 1]``.

    In units of the clip norm: directions have length one, so a mean of some is no longer.

    Guarantees:
        Each part adds a clipped vector on the plan's grid that is computed from that part
        alone. A row without length adds zero.
    """
    included = None
    if samples is not None:
        included = torch.zeros(graph.parts, 1, dtype=torch.bool)
        included[torch.from_numpy(samples[0])] = True
    device = graph.offsets.device
    total = torch.zeros(graph.features.width, 1, dtype=torch.float64, device=device)
    for own, block in graph.blocks(torch.arange(graph.parts, device=device)):
        lengths = block.features.row_sums(2).sqrt() * block.sizes[block.part_of_row]
        shares = torch.where(lengths > 0, plan.clip_norm / lengths, 0.0)
        rows = LayerGradient(block.features, shares[:, None, None], None)
        chosen = None if included is None else included[own.cpu()].to(device)
        sums = ClippedSums(block, plan.clip_norm, grid_of(plan))
        total += sums.clipped_sum([rows], included=chosen)[0][..., 0]
    return total


RowMeans = Callable[[PartitionedGraph, PrivacyPlan, Samples], Tensor]


def released_centre(
    graph: PartitionedGraph,
    plan: PrivacyPlan,
    source: RandomSource,
    row_means: RowMeans = clipped_row_means,
) -> Tensor:
    """The noisy centre of all rows ``[features, 1]``: one release of the plan.

    The noise is known, so the mean is shrunk by as much of its length as the noise explains
    (James and Stein), and is zero where too little is left to be worth taking off. Both only
    look at what was released.

    Args:
        graph: The training documents, cut as planned.
        plan: Of the run.
        source: Of sample and noise.
        row_means: Sums the clipped row means; over several ranks it asks all of them.

    Guarantees:
        One Gaussian release of the plan's noise on a sum of vectors clipped to its norm.
    """
    sampled = plan.schedule.sample(0, source)
    sums = row_means(graph, plan, None if sampled is None else [sampled])
    (mean,) = noisy_mean([sums], plan, source)
    mean /= plan.clip_norm
    variance = (plan.noise_multiplier / plan.schedule.expected_parts) ** 2
    squares = float(mean.double().square().sum())
    common = squares - mean.numel() * variance
    chance = SURE * variance * math.sqrt(2 * mean.numel())
    if common < max(WORTH_TAKING**2, chance):
        return torch.zeros_like(mean)
    return mean * (common / squares)
