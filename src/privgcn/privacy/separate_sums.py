"""Clipped sums in which each part decides alone how it is computed.

Where all parts take part and their sizes are public, sizes choose what is cheapest for all of
them. An owner's number of documents is private, and so is who was sampled. If these chose for
all, one document more could turn everybody's vectors into slightly different ones, and
thousands of small differences add up to many clip norms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from privgcn.graph.partition import PartitionedGraph
from privgcn.graph.rows import segment_positions
from privgcn.models.stack import LayerGradient
from privgcn.privacy.clipping import ClippedSums

# Parts with more documents have their gradient multiplied out on their own.
_MOST_IN_PAIRS = 32


@dataclass(frozen=True, eq=False)
class SeparateSums:
    """Computes clipped sums over parts whose sizes, or whose presence, are private.

    Guarantees:
        As ``ClippedSums``. How a part's vector is computed and clipped follows from that part
        and from public numbers (parts, features, classes), and sums over parts are float64.

    Attributes:
        terms: How many part gradients the caller adds up; at least the graph's own parts.
    """

    graph: PartitionedGraph
    clip_norm: float
    terms: int = 0

    def clipped_sum(
        self, gradients: Sequence[LayerGradient], *, included: Tensor | None = None
    ) -> list[Tensor]:
        """The sum of the clipped part gradients, for weights and biases in layer order."""
        sums = [group.clipped_sum(gradients, included) for group in self._groups]
        return [torch.stack(tensors).sum(0) for tensors in zip(*sums, strict=True)]

    @cached_property
    def _groups(self) -> list[_Group]:
        large = self.graph.sizes > _MOST_IN_PAIRS
        methods: dict[Literal["pairs", "direct"], Tensor] = {"pairs": ~large, "direct": large}
        terms = max(self.terms, self.graph.parts)
        groups = []
        for method, chosen in methods.items():
            parts = torch.nonzero(chosen)[:, 0]
            if len(parts):
                rows = segment_positions(self.graph.offsets[parts], self.graph.sizes[parts])
                sums = ClippedSums(self.graph.select(parts), self.clip_norm, terms)
                groups.append(_Group(parts, rows, sums, method))
        return groups


@dataclass(frozen=True, eq=False)
class _Group:
    """Parts that are computed in one way."""

    parts: Tensor
    rows: Tensor
    sums: ClippedSums
    method: Literal["pairs", "direct"]

    def clipped_sum(
        self, gradients: Sequence[LayerGradient], included: Tensor | None
    ) -> list[Tensor]:
        own = None if included is None else included[self.parts]
        taken = [self._of(gradient) for gradient in gradients]
        return self.sums.clipped_sum(taken, included=own, method=self.method)

    def _of(self, gradient: LayerGradient) -> LayerGradient:
        inputs, outputs, bias = gradient
        features = self.sums.graph.features
        return LayerGradient(
            inputs[self.rows] if isinstance(inputs, Tensor) else features,
            outputs[self.rows],
            None if bias is None else bias[self.rows],
        )
