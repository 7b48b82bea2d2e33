"""What is released before the first step: the mean of dense rows, and the share of each class.

Averaged word vectors and encoder outputs all point in much the same direction. That common
part tells no class from another, takes most of a clipped row's length and makes large steps
swing; without it, no direction is left that could stand for how frequent a class is. One
release of the plan, the first, therefore is the mean of the rows and of the labels themselves.
Sparse rows have little in common: of them the shares alone are released, where they are asked
for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from privgcn.graph.parts import PartitionedGraph
from privgcn.models.stack import LayerGradient
from privgcn.privacy.mechanism.clipping import ClippedSums
from privgcn.privacy.mechanism.noise import noisy_mean
from privgcn.privacy.mechanism.noise_grid import grid_of
from privgcn.privacy.mechanism.part_gradients import Samples
from privgcn.privacy.plan import PrivacyPlan
from privgcn.randomness import RandomSource

WORTH_TAKING = 1 / 3
"""Length of a mean direction below which it is left where it is."""

SURE = 4.0
"""Standard deviations by which the mean must be longer than noise alone would make it."""

ROW, LABEL = 0.8, 0.6
"""Lengths of the two parts of a document's vector, dense row and label: 1 together."""


class Outline(NamedTuple):
    """What was released of the documents as a whole.

    Attributes:
        centre: What all rows have in common, ``[features, 1]``; ``None`` for sparse rows.
        shares: Of the classes, positive and adding up to one, ``[1, classes]``.
    """

    centre: Tensor | None
    shares: Tensor


def clipped_outline(
    graph: PartitionedGraph, plan: PrivacyPlan, samples: Samples
) -> list[Tensor]:
    """Sums over parts of the mean direction of rows, and of the mean of labels.

    The first is ``[features, 1]`` and comes ``ROW`` times, the second ``[1, classes]`` and
    ``LABEL`` times; where rows are sparse there is the second only, once.

    In units of the clip norm: a direction and a label have length one each, so that a
    document's vector has, and a mean of some is no longer.

    Guarantees:
        Each part adds one clipped vector on the plan's grid, over both sums together, that is
        computed from that part alone. A row without length adds no direction, a document
        without label no label.
    """
    included = None
    if samples is not None:
        included = torch.zeros(graph.parts, 1, dtype=torch.bool)
        included[torch.from_numpy(samples[0])] = True
    device = graph.offsets.device
    shapes = [(graph.features.width, 1)] if graph.features.is_dense else []
    totals = [
        torch.zeros(shape, dtype=torch.float64, device=device)
        for shape in (*shapes, (1, graph.classes))
    ]
    for own, block in graph.blocks(torch.arange(graph.parts, device=device)):
        chosen = None if included is None else included[own.cpu()].to(device)
        sums = ClippedSums(block, plan.clip_norm, grid_of(plan))
        found = sums.clipped_sum(_vectors(block, plan.clip_norm), included=chosen)
        for total, more in zip(totals, found, strict=True):
            total += more.reshape(total.shape)
    return totals


def _vectors(graph: PartitionedGraph, clip_norm: float) -> list[LayerGradient]:
    """The rows and the labels of all documents, each divided by those of its part."""
    row, label = _lengths(graph)
    layers = []
    if row:
        lengths = graph.features.row_sums(2).sqrt() * graph.sizes[graph.part_of_row]
        scales = torch.where(lengths > 0, row * clip_norm / lengths, 0.0)
        layers.append(LayerGradient(graph.features, scales[:, None, None], None))
    known = graph.labels.clamp(0, graph.classes - 1)
    weights = label * clip_norm * graph.loss_weights
    chosen = one_hot(known, graph.classes) * weights[:, None]
    ones = torch.ones(len(chosen), 1, 1, device=chosen.device)
    return [*layers, LayerGradient(ones, chosen[:, None], None)]


OutlineSums = Callable[[PartitionedGraph, PrivacyPlan, Samples], list[Tensor]]


def released_outline(
    graph: PartitionedGraph,
    plan: PrivacyPlan,
    source: RandomSource,
    summed: OutlineSums = clipped_outline,
) -> Outline:
    """The noisy outline of all documents: one release of the plan.

    The noise is known, so the mean is shrunk by as much of its length as the noise explains
    (James and Stein), and is zero where too little is left to be worth taking off. To the
    share of each class one standard deviation of the noise is added. All of it only looks at
    what was released.

    Args:
        graph: The training documents, cut as planned.
        plan: Of the run.
        source: Of sample and noise.
        summed: Sums the clipped vectors; over several ranks it asks all of them.

    Guarantees:
        One Gaussian release of the plan's noise on a sum of vectors clipped to its norm.
    """
    row, label = _lengths(graph)
    sampled = plan.schedule.sample(0, source)
    sums = summed(graph, plan, None if sampled is None else [sampled])
    *of_rows, of_labels = noisy_mean(sums, plan, source)
    noise = plan.noise_multiplier / plan.schedule.expected_parts
    shares = (of_labels / (label * plan.clip_norm)).clamp(min=0) + noise / label
    centre = None
    if row:
        centre = _shrunk(of_rows[0] / (row * plan.clip_norm), noise / row)
    return Outline(centre, shares / shares.sum(1, keepdim=True))


def _lengths(graph: PartitionedGraph) -> tuple[float, float]:
    """Of the row and of the label in a document's vector."""
    return (ROW, LABEL) if graph.features.is_dense else (0.0, 1.0)


def _shrunk(mean: Tensor, noise: float) -> Tensor:
    squares = float(mean.double().square().sum())
    common = squares - mean.numel() * noise**2
    chance = SURE * noise**2 * math.sqrt(2 * mean.numel())
    if common < max(WORTH_TAKING**2, chance):
        return torch.zeros_like(mean)
    return mean * (common / squares)
