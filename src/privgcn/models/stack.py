"""Layer stacks with a hand-written backward pass.

Every model here is a stack of layers ``propagate(inputs @ weight) + bias`` with ReLU and
dropout between them. Writing the backward pass by hand gives, for each weight, the two row
sets whose products are the gradient: input rows Z and output-gradient rows D, with
``gradient = Z^T D``. Clipping needs exactly these (see
``privgcn.privacy.mechanism.clipping``), and a step costs a fraction of what
automatic differentiation takes on small graphs.

All tensors carry a replica dimension R, so that several seeds train in one pass: weights
``[inputs, R, outputs]``, biases ``[R, outputs]``, activations ``[documents, R, width]``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear

from privgcn.graph.exact import (
    GridRows,
    exact_sums,
    exact_weights,
    product_bits,
    row_powers,
    rows_on_grid,
)
from privgcn.graph.propagation import Links, propagate
from privgcn.graph.rows import Rows
from privgcn.randomness import UniformBytes

# Passes values on where others are positive: the backward pass of a ReLU, in one go.
threshold_backward = torch.ops.aten.threshold_backward


class Layer(NamedTuple):
    """Widths of a layer and how many hops its output travels along the links."""

    inputs: int
    outputs: int
    hops: int


class LayerGradient(NamedTuple):
    """The gradient of one layer, as row sets that are not multiplied yet.

    The weight's gradient is ``inputs^T outputs``; the bias's is the sum of ``bias_rows``.
    """

    inputs: Rows | Tensor | GridRows
    outputs: Tensor
    bias_rows: Tensor | None

    def totals(self) -> list[Tensor]:
        """The gradients of weight and bias, summed over all rows."""
        weight = transposed_product(self.inputs, self.outputs)
        return [weight] if self.bias_rows is None else [weight, self.bias_rows.sum(0)]


def transposed_product(inputs: Rows | Tensor | GridRows, outputs: Tensor) -> Tensor:
    """``inputs^T outputs`` for each replica, as ``[inputs, R, outputs]``."""
    documents, replicas, width = outputs.shape
    if isinstance(inputs, GridRows):
        inputs = inputs.values
    if not isinstance(inputs, Tensor):
        flat = inputs.transposed_times(outputs.reshape(documents, replicas * width))
        return flat.view(-1, replicas, width)
    if replicas == 1:
        # The few outputs first: three times faster than the other way round.
        return (outputs[:, 0].T @ inputs[:, 0]).T.unsqueeze(1)
    return torch.bmm(inputs.permute(1, 2, 0), outputs.transpose(0, 1)).transpose(0, 1)


def product(
    inputs: Rows | Tensor | GridRows, weight: Tensor, *, bits: int | None = None
) -> Tensor:
    """``inputs @ weight`` for each replica, as ``[documents, R, outputs]``.

    Rows on a grid, and dense features with at most ``bits`` digits, are multiplied exactly, in
    float64, so that no row's rounding depends on which other rows there are. Nor does that of
    sparse rows: each is added up by itself.
    """
    if isinstance(inputs, GridRows):
        return product(inputs.values, exact_weights(weight, inputs.bits))
    if bits is not None and not isinstance(inputs, Tensor) and inputs.is_dense:
        return product(inputs, exact_weights(weight, bits))
    width, replicas, outputs = weight.shape
    if not isinstance(inputs, Tensor):
        table = weight.reshape(width, replicas * outputs)
        return inputs.times(table).view(-1, replicas, outputs)
    if replicas == 1:
        # Each way is twice as fast as the other where it is taken.
        if width < outputs:
            return torch.mm(inputs[:, 0], weight[:, 0].contiguous()).unsqueeze(1)
        return linear(inputs[:, 0], weight[:, 0].T.contiguous()).unsqueeze(1)
    return torch.bmm(inputs.transpose(0, 1), weight.transpose(0, 1)).transpose(0, 1)


class Tape(NamedTuple):
    """What the backward pass needs of a forward pass."""

    scores: Tensor
    inputs: list[Rows | Tensor | GridRows]


@dataclass(frozen=True)
class LayerStack:
    """A model: its layers, its dropout and whether its layers have biases."""

    name: str
    layers: tuple[Layer, ...]
    dropout: float = 0.0
    bias: bool = True

    def parameter_names(self) -> list[str]:
        """Names of the parameters, in order."""
        kinds = ("weight", "bias") if self.bias else ("weight",)
        return [f"layers.{i}.{kind}" for i in range(len(self.layers)) for kind in kinds]

    def named(self, parameters: Sequence[Tensor]) -> dict[str, Tensor]:
        """The parameters by name."""
        return dict(zip(self.parameter_names(), parameters, strict=True))

    def initial(self, seeds: Sequence[int], *, zero: bool = False) -> list[Tensor]:
        """First parameters, one replica per seed: Glorot-uniform weights, zero biases."""
        parameters: list[Tensor] = []
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        for inputs, outputs, _ in self.layers:
            weight = torch.zeros(inputs, len(seeds), outputs)
            if not zero:
                bound = math.sqrt(6.0 / (inputs + outputs))
                for replica, generator in enumerate(generators):
                    draw = torch.rand(inputs, outputs, generator=generator)
                    weight[:, replica] = draw.mul_(2 * bound).sub_(bound)
            parameters.append(weight)
            if self.bias:
                parameters.append(torch.zeros(len(seeds), outputs))
        return parameters

    def forward(
        self,
        parameters: Sequence[Tensor],
        features: Rows | GridRows,
        matrix: Links | None,
        masks: UniformBytes | None = None,
        *,
        bits: int | None = None,
    ) -> Tape:
        """Scores of all documents; with ``masks``, hidden units drop out as in training.

        With ``bits``, dense inputs of every layer are cut to so many digits, and what becomes
        of a document depends on its own part alone, to the bit. Features must be on that grid.
        """
        step = 2 if self.bias else 1
        inputs: list[Rows | Tensor | GridRows] = [features]
        hidden = torch.empty(0)
        for number, layer in enumerate(self.layers):
            weight = parameters[number * step]
            hidden = product(inputs[-1], weight, bits=bits).float()
            hidden = propagate(matrix, hidden, layer.hops)
            if self.bias:
                hidden = hidden.add_(parameters[number * step + 1])
            if number + 1 < len(self.layers):
                hidden = hidden.relu_()
                if masks is not None and self.dropout > 0:
                    hidden = hidden.mul_(dropout_mask(hidden, self.dropout, masks))
                inputs.append(hidden if bits is None else rows_on_grid(hidden, bits))
        return Tape(hidden, inputs)

    def scores(
        self, parameters: Sequence[Tensor], features: Rows, matrix: Links | None
    ) -> Tensor:
        """Scores ``[documents, R, classes]`` without dropout."""
        return self.forward(parameters, features, matrix).scores

    def scores_alone(self, parameters: Sequence[Tensor], features: Rows) -> Tensor:
        """The same of documents without links: no bit depends on the other documents."""
        bits = product_bits(features.width) // 2
        rows = features.on_grid(bits) if features.is_dense else features
        return self.forward(parameters, rows, None, bits=bits).scores

    def backward(
        self,
        parameters: Sequence[Tensor],
        tape: Tape,
        score_gradient: Tensor,
        matrix: Links | None,
        *,
        dropped: bool,
    ) -> list[LayerGradient]:
        """The gradient rows of each layer; after a pass on the grid, each by itself.

        Args:
            parameters: The parameters of the forward pass.
            tape: What the forward pass returned.
            score_gradient: Gradient of the loss in the scores, one row per document.
            matrix: The propagation matrix of the forward pass; it is symmetric.
            dropped: Whether the forward pass dropped hidden units.
        """
        step = 2 if self.bias else 1
        gradients: list[LayerGradient] = []
        rows = score_gradient
        for number in reversed(range(len(self.layers))):
            outputs = propagate(matrix, rows, self.layers[number].hops)
            inputs = tape.inputs[number]
            gradients.append(LayerGradient(inputs, outputs, rows if self.bias else None))
            if number > 0 and isinstance(inputs, Tensor | GridRows):
                weight = parameters[number * step].permute(2, 1, 0)
                if dropped and self.dropout > 0:
                    weight = weight / kept_share(self.dropout)
                taken: Tensor | GridRows = outputs
                if isinstance(inputs, GridRows):
                    taken = rows_on_grid(outputs, product_bits(len(weight)) // 2)
                # An input is positive exactly where its unit was active and kept.
                active = inputs.values if isinstance(inputs, GridRows) else inputs
                rows = threshold_backward(product(taken, weight), active, 0.0).float()
        return gradients[::-1]


def kept_share(dropout: float) -> float:
    """Share of units that a dropout mask keeps: the asked-for one, in steps of 1/256."""
    return min(255, max(1, round(256 * (1.0 - dropout)))) / 256


def dropout_mask(like: Tensor, dropout: float, masks: UniformBytes) -> Tensor:
    """A random mask of 0 and 1/kept, from one byte per unit.

    A byte of a block cipher costs a hundredth of a ``bernoulli_`` draw.
    """
    kept = kept_share(dropout)
    # Whole words for each row: so the masks of a row are the same in whatever blocks rows come.
    *rows, width = like.shape
    drawn = masks.uniform_bytes((*rows, -(-width // 8) * 8))[..., :width]
    taken = drawn < round(kept * 256)
    # NumPy turns truth values into numbers five times faster.
    mask = taken if isinstance(taken, Tensor) else torch.from_numpy(taken.astype(np.float32))
    return mask.to(like.device, like.dtype).mul_(1.0 / kept)


def loss_gradient(
    scores: Tensor, labels: Tensor, weights: Tensor, *, longest: float | None = None
) -> Tensor:
    """Gradient in the scores of the weighted cross-entropy; rows of weight 0 give 0.

    A row's gradient has the same bits whatever rows are beside it, on every device.

    Args:
        scores: ``[documents, R, classes]``.
        labels: Class index of each document; ignored where the weight is 0. One for all
            replicas, or ``[documents, R]``.
        weights: Weight of each document, likewise.
        longest: Shorten each document's residual (probabilities minus label) to this length
            before it is weighted; ``None`` leaves it as it is.
    """
    top = scores.amax(-1, keepdim=True)
    gradient = (scores - top).contiguous().exp_()
    gradient.div_(exact_sums(gradient).float())
    documents, replicas, classes = scores.shape
    places = torch.arange(0, gradient.numel(), classes, device=labels.device)
    # A label outside the classes would be a place in another document's row.
    known = labels.clamp(0, classes - 1).reshape(documents, *labels.shape[1:] or (1,))
    places = places.view(documents, replicas) + known
    ones = gradient.new_ones(()).expand(places.numel())
    gradient.view(-1).index_add_(0, places.view(-1), ones, alpha=-1.0)
    if longest is not None:
        powers = row_powers(gradient)
        squares = (gradient / powers).square_()
        norms = exact_sums(squares).sqrt_().float().mul_(powers)
        gradient.mul_((longest / norms.clamp_(min=1e-9)).clamp_(max=1.0))
    return gradient.mul_(weights[..., None] if weights.ndim == 2 else weights[:, None, None])
