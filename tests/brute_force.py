"""The engine's yardstick: one part after the other, autograd, float64, nothing clever.

Nothing here uses the cut, the propagation matrix or the hand-written gradients of the
package: parts are found with loops over documents and links.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from privgcn.graph import TextGraph, rows_of
from privgcn.models import LayerStack
from privgcn.privacy.mechanism.noise_grid import Grid
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import AllParts

FINE = Grid(bits=44, input_bits=22)
"""A grid on which sums of a few parts are as good as real ones."""


def plan_for(parts: int, clip_norm: float = 1.0, noise_multiplier: float = 1.0) -> PrivacyPlan:
    """A plan over ``parts`` single documents."""
    return PrivacyPlan(
        unit="document",
        relation="remove",
        partition=PartitionFacts(kind="each", parts=parts),
        schedule=AllParts(parts),
        clip_norm=clip_norm,
        noise_multiplier=noise_multiplier,
        steps=3,
        delta=1e-9,
        units=parts,
    )


def random_graph(
    documents: int = 40,
    features: int = 12,
    classes: int = 4,
    links: int = 80,
    *,
    seed: int = 0,
    sparse: bool = True,
    unlabelled: float = 0.2,
    owners: int | None = None,
) -> TextGraph:
    """Random documents with random links; some without a label."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(documents, features)).astype(np.float32)
    if sparse:
        values *= rng.random(values.shape) < 0.4
    labels = rng.integers(0, classes, documents)
    labels[rng.random(documents) < unlabelled] = -1
    pairs = {tuple(sorted(pair)) for pair in rng.integers(0, documents, (links, 2)).tolist()}
    pairs = sorted(pair for pair in pairs if pair[0] != pair[1])
    return TextGraph(
        rows_of(csr_matrix(values) if sparse else values),
        torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T.contiguous(),
        torch.from_numpy(labels),
        classes,
        torch.zeros(documents, dtype=torch.int8),
        None if owners is None else torch.from_numpy(rng.integers(0, owners, documents)),
    )


def part_gradient(
    model: LayerStack, parameters: Sequence[Tensor], graph: TextGraph, members: Sequence[int]
) -> list[Tensor]:
    """Float64 gradient of the mean loss of one replica over the labelled members."""
    place = {document: row for row, document in enumerate(members)}
    adjacency = torch.eye(len(members), dtype=torch.float64)
    for source, target in graph.edges.T.tolist():
        if source in place and target in place:
            adjacency[place[source], place[target]] = 1.0
            adjacency[place[target], place[source]] = 1.0
    degrees = adjacency.sum(1)
    adjacency = adjacency / (degrees[:, None] * degrees[None, :]).sqrt()
    leaves = [parameter.double().requires_grad_() for parameter in parameters]
    hidden = graph.features.dense()[list(members)].double()
    step = 2 if model.bias else 1
    with torch.enable_grad():
        for number, layer in enumerate(model.layers):
            hidden = hidden @ leaves[number * step]
            for _ in range(layer.hops):
                hidden = adjacency @ hidden
            if model.bias:
                hidden = hidden + leaves[number * step + 1]
            if number + 1 < len(model.layers):
                hidden = hidden.relu()
        labels = graph.labels[list(members)]
        known = labels >= 0
        if not bool(known.any()):
            return [torch.zeros_like(leaf) for leaf in leaves]
        loss = torch.nn.functional.cross_entropy(hidden[known], labels[known])
        return list(torch.autograd.grad(loss, leaves))


def joint_norm(tensors: Sequence[Tensor]) -> float:
    """Norm over all tensors together, in float64."""
    return float(torch.stack([t.double().square().sum() for t in tensors]).sum().sqrt())


def clipped(tensors: Sequence[Tensor], clip_norm: float) -> list[Tensor]:
    """The tensors scaled as one vector to norm at most ``clip_norm``."""
    scale = min(1.0, clip_norm / max(joint_norm(tensors), 1e-300))
    return [tensor * scale for tensor in tensors]


def replica_of(parameters: Sequence[Tensor], number: int) -> list[Tensor]:
    """One replica of parameters or gradients."""
    return [parameter[..., number, :] for parameter in parameters]


def clipped_sum(
    model: LayerStack,
    parameters: Sequence[Tensor],
    graph: TextGraph,
    part_of: Tensor,
    clip_norm: float,
    sampled: Sequence[int] | None = None,
) -> list[Tensor]:
    """Sum over parts of the clipped part gradients, for one replica's parameters."""
    totals = [torch.zeros_like(parameter, dtype=torch.float64) for parameter in parameters]
    parts = range(int(part_of.max()) + 1) if sampled is None else sampled
    for part in parts:
        members = torch.nonzero(part_of == part)[:, 0].tolist()
        if not members:
            continue
        gradient = clipped(part_gradient(model, parameters, graph, members), clip_norm)
        for total, addition in zip(totals, gradient, strict=True):
            total += addition
    return totals


def relative_error(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """Distance over the norm of what is expected, over all tensors together."""
    apart = [a.double() - b.double() for a, b in zip(found, expected, strict=True)]
    return joint_norm(apart) / max(joint_norm(expected), 1e-12)
