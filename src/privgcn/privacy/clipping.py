"""Exact sums of jointly clipped part gradients, without one gradient copy per part.

For a weight with input rows Z and output-gradient rows D, part i's gradient is Z_i^T D_i.
Its squared norm needs no product of that size: it is the sum over pairs of rows inside the
part of (z_u . z_v)(d_u . d_v). With one document per part this is |z|^2 |d|^2. The clipped
sum is then one ordinary product, Z^T (c D), with c the scale of each row's part. For few
large parts the pairs outnumber the weights, and a direct product per part is cheaper.

Rounding. Rows that are huge and cancel make pairwise norms come out far too small, and the
rounding of their product can exceed the clip norm by itself. Each method answers for that:

- one document per part: norm and gradient are products without a sum, nothing cancels;
- pairs: norms *and* the clipped sum are taken in float64, and the scale also pays for the
  largest error float64 could make on these rows;
- direct: the norm is that of the very vector that is added, rounding included.

The sum over parts rounds too, and not alike with and without a unit: in float32, rows made
for it let one document move the sum of 20 000 by several clip norms. Sums over parts are
therefore taken in float64 (inside small blocks of documents, float32 is as good) and returned
in it, and ``sum_slack`` pays for what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.graph.blocks import adds_up_in_blocks
from privgcn.graph.dense_rows import DenseRows
from privgcn.graph.partition import PartitionedGraph
from privgcn.graph.rows import Rows
from privgcn.models.stack import LayerGradient, transposed_product
from privgcn.privacy.pairs import PairProducts, count_pairs
from privgcn.privacy.scales import BEYOND, ROUNDOFF, clip_scales, sum_slack

Method = Literal["rows", "pairs", "direct"]

# What pairs cost however few there are, in weights' worth of streaming.
_PAIRS_SETUP = 300_000


@dataclass(frozen=True, eq=False)
class ClippedSums:
    """Computes clipped sums over the parts of one partitioned graph.

    What depends on the features alone (row norms, inner products) is computed once.

    Guarantees:
        ``clipped_sum`` returns the float64 sum over parts of part gradients, each scaled as
        a whole, over all tensors together, to norm at most ``clip_norm``. One part moves it
        by no more than that, rounding included. A part whose gradient is not finite adds
        exactly zero and leaves the others' sum intact.
    Assumes:
        The gradient rows of a part depend on that part only.

    Attributes:
        terms: How many part gradients the caller adds up; at least the graph's own parts.
    """

    graph: PartitionedGraph
    clip_norm: float
    terms: int = 0

    def __post_init__(self) -> None:
        if not self.clip_norm > 0:
            raise ConfigError(
                f"The 'clip_norm' of ClippedSums must be positive. Got {self.clip_norm}."
            )

    def clipped_sum(
        self,
        gradients: Sequence[LayerGradient],
        *,
        included: Tensor | None = None,
        method: Method | None = None,
    ) -> list[Tensor]:
        """The sum of the clipped part gradients, for weights and biases in layer order.

        Args:
            gradients: Gradient rows of all parts, layer by layer.
            included: ``[parts, R]``, which parts count for which replica; ``None``: all.
            method: How norms are found; by default whatever is cheapest.
        """
        method = method or self._cheapest(gradients)
        if method == "direct":
            return self._direct_sum(gradients, included)
        if method == "rows":
            blocked = adds_up_in_blocks(len(self.graph))
            scales = self._scales(self._row_norms(gradients), blocked=blocked)
            scales = _only(included, scales).float()
            return _scaled_sum([self._usable(gradient) for gradient in gradients], scales)
        scales = _only(included, self._scales(self._pair_norms(gradients)))
        exact = [self._double(gradient) for gradient in gradients]
        return _scaled_sum(exact, scales[self.graph.part_of_row])

    def _scales(self, norms: Tensor, *, blocked: bool = False) -> Tensor:
        slack = sum_slack(max(self.terms, self.graph.parts), blocked=blocked)
        return clip_scales(norms, self.clip_norm, slack)

    def _cheapest(self, gradients: Sequence[LayerGradient]) -> Method:
        if not self.graph.sizes_public:
            raise PrivacyContractError(
                "The sizes of these parts are private, so they must not choose the method of "
                "all of them. Use SeparateSums."
            )
        if self.graph.one_document_each:
            return "rows"
        weights = sum(_width(g.inputs) * g.outputs.shape[2] for g in gradients)
        pairs = count_pairs(self.graph)
        # A pair costs about as much as 16 weights' worth of streaming: it takes a float64
        # inner product per layer. Only sizes decide, and these are public.
        cost = _PAIRS_SETUP + 16 * pairs
        return "pairs" if cost < self.graph.parts * weights else "direct"

    # -- one document per part ------------------------------------------------------------

    @cached_property
    def _feature_squares(self) -> Tensor:
        return self._bounded(self.graph.features.row_sums(2)[:, None])

    @cached_property
    def _features(self) -> Rows:
        """The features without rows that are not finite: zero times those is no zero."""
        bad = torch.isinf(self._feature_squares[:, 0])
        features = self.graph.features
        return features.emptied(bad) if bool(bad.any()) else features

    def _usable(self, gradient: LayerGradient) -> LayerGradient:
        own = isinstance(gradient.inputs, Tensor)
        return gradient if own else gradient._replace(inputs=self._features)

    def _bounded(self, squares: Tensor) -> Tensor:
        """Squared norms of input rows; infinite for a row that no scale could tame."""
        return torch.where(squares < (BEYOND * self.clip_norm) ** 2, squares, torch.inf)

    def _input_squares(self, inputs: Rows | Tensor) -> Tensor:
        if not isinstance(inputs, Tensor):
            return self._feature_squares
        return self._bounded(_row_squares(inputs))

    def _row_norms(self, gradients: Sequence[LayerGradient]) -> Tensor:
        squares = torch.zeros((), dtype=torch.float64)
        for inputs, outputs, bias_rows in gradients:
            lengths = _row_squares(outputs)
            squares = squares + self._input_squares(inputs) * lengths
            if bias_rows is not None:
                # Without links between documents the bias rows are the output rows.
                squares = squares + (
                    lengths if bias_rows is outputs else _row_squares(bias_rows)
                )
        return squares.sqrt()

    # -- pairs of rows inside a part ------------------------------------------------------

    def _pair_norms(self, gradients: Sequence[LayerGradient]) -> Tensor:
        parts, replicas = self.graph.parts, gradients[0].outputs.shape[1]
        squares = gradients[0].outputs.new_zeros(parts, replicas, dtype=torch.float64)
        reach = torch.zeros_like(squares)
        for gradient in gradients:
            lengths = _row_squares(gradient.outputs)
            reach += self._sum_by_part((self._input_squares(gradient.inputs) * lengths).sqrt())
            squares += self._pairs.squares(gradient)
            if gradient.bias_rows is not None:
                squares += self._sum_by_part(gradient.bias_rows.double()).square().sum(-1)
                reach += self._sum_by_part(_row_squares(gradient.bias_rows).sqrt())
        longest = max(_width(g.inputs) + g.outputs.shape[2] for g in gradients)
        terms = (self.graph.sizes[:, None] + longest).double()
        return (squares.clamp(min=0) + terms * ROUNDOFF * reach.square()).sqrt()

    def _sum_by_part(self, rows: Tensor) -> Tensor:
        sums = rows.new_zeros(self.graph.parts, *rows.shape[1:])
        return sums.index_add_(0, self.graph.part_of_row, rows)

    @cached_property
    def _exact_features(self) -> Rows:
        return self._features.double()

    def _double(self, gradient: LayerGradient) -> LayerGradient:
        inputs, outputs, bias = gradient
        doubled = inputs.double() if isinstance(inputs, Tensor) else self._exact_features
        return LayerGradient(doubled, outputs.double(), None if bias is None else bias.double())

    @cached_property
    def _pairs(self) -> PairProducts:
        return PairProducts(self.graph, self._exact_features)

    # -- few large parts ------------------------------------------------------------------

    @cached_property
    def _single_parts(self) -> list[PartitionedGraph]:
        if self.graph.parts == 1:
            return [self.graph]
        parts = torch.arange(self.graph.parts, device=self.graph.offsets.device)
        return [self.graph.select(part[None]) for part in parts]

    def _direct_sum(
        self, gradients: Sequence[LayerGradient], included: Tensor | None
    ) -> list[Tensor]:
        totals: list[Tensor] = []
        starts = self.graph.offsets.tolist()
        for part, (begin, end) in enumerate(pairwise(starts)):
            own = [self._of_part(gradient, part, begin, end) for gradient in gradients]
            tensors = [tensor for gradient in own for tensor in gradient.totals()]
            own_part = None if included is None else included[part]
            scales = _only(own_part, self._scales(_joint_norms(tensors)))
            kept = scales > 0
            usable = bool(kept.all())
            for number, tensor in enumerate(tensors):
                scaled = tensor.mul_(scales.float()[:, None])
                scaled = scaled if usable else torch.where(kept[:, None], scaled, 0.0)
                if part == 0:
                    totals.append(scaled.double())
                else:
                    totals[number] += scaled
        return totals

    def _of_part(
        self, gradient: LayerGradient, part: int, begin: int, end: int
    ) -> LayerGradient:
        inputs, bias = gradient.inputs, gradient.bias_rows
        own = self._single_parts[part].features
        inputs = inputs[begin:end] if isinstance(inputs, Tensor) else own
        return LayerGradient(
            inputs, gradient.outputs[begin:end], None if bias is None else bias[begin:end]
        )


def _only(included: Tensor | None, scales: Tensor) -> Tensor:
    """Scales of the included parts; 0 for the others."""
    return scales if included is None else torch.where(included, scales, 0.0)


def _joint_norms(tensors: Sequence[Tensor]) -> Tensor:
    """Float64 norm of each replica over all tensors together."""
    flat = [tensor.transpose(0, -2).flatten(1) for tensor in tensors]
    return torch.stack([_row_squares(rows) for rows in flat]).sum(0).sqrt()


def _row_squares(rows: Tensor) -> Tensor:
    """Float64 squared norm of each row ``[documents, R]``."""
    norms: Tensor = torch.linalg.vector_norm(rows, dim=-1, dtype=torch.float64)
    return norms.square_()


def _width(inputs: Rows | Tensor) -> int:
    return inputs.shape[-1]


def _summed_product(inputs: Rows | Tensor, rows: Tensor) -> Tensor:
    """``inputs^T rows`` for each replica, with float64 sums over (blocks of) documents."""
    if rows.dtype == torch.float64:
        return transposed_product(inputs, rows)
    documents, replicas, width = rows.shape
    if isinstance(inputs, Tensor):
        if replicas > 1:
            return transposed_product(inputs.double(), rows.double())
        inputs = DenseRows(inputs[:, 0])
    flat = inputs.summed_transposed_times(rows.reshape(documents, replicas * width))
    return flat.view(-1, replicas, width)


def _scaled_sum(gradients: Sequence[LayerGradient], row_scales: Tensor) -> list[Tensor]:
    """Float64 sums over all rows, each row of output gradients times its scale."""
    scales = row_scales[:, :, None]
    kept = scales > 0
    everything = bool(kept.all())

    def scaled(rows: Tensor) -> Tensor:
        # Zero times infinity is no number: rows of a dropped part are replaced, not scaled.
        return rows * scales if everything else torch.where(kept, rows * scales, 0.0)

    totals: list[Tensor] = []
    for inputs, outputs, bias_rows in gradients:
        if isinstance(inputs, Tensor) and not everything:
            inputs = torch.where(kept, inputs, 0.0)
        totals.append(_summed_product(inputs, scaled(outputs)))
        if bias_rows is not None:
            totals.append(scaled(bias_rows).sum(0, dtype=torch.float64))
    return totals
