"""Exact sums of jointly clipped part gradients, without one gradient copy per part.

For a weight with input rows Z and output-gradient rows D, part i's gradient is Z_i^T D_i. The
clipped sum is one ordinary product, Z^T (c D), with c the scale of each row's part. Norms come
first, and each part's own size says how:

- one document: |z| |d|, a product without a sum;
- few documents: from the inner products of its rows (``privgcn.privacy.pairs``);
- many documents: the gradient itself, multiplied out for that part alone.

Every number that is added lies on the plan's grid (``privgcn.privacy.grid``): input rows and
scaled output rows, or the scaled gradient of a large part, are truncated toward zero. Sums are
therefore exact, whatever the order, and one part moves them by its own vector and no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from privgcn.graph.grid import (
    EXACT_BITS,
    LARGEST,
    powers_above,
    row_powers,
    rows_on_grid,
    truncated,
)
from privgcn.graph.partition import PartitionedGraph
from privgcn.graph.rows import Rows, SparseRows
from privgcn.models.stack import LayerGradient, transposed_product
from privgcn.privacy.grid import MOST_REACH, Grid
from privgcn.privacy.pairs import RowPairs

# Parts with more documents have their gradient multiplied out: pairs would cost more.
_MOST_IN_PAIRS = 64
# Norms and scales are float64, so they are off by far less.
_ROUNDING = 2.0**-30
_UNIT_ROUNDOFF = 2.0**-53
_LEAST = 1e-300


class _Layer(NamedTuple):
    """The rows of one layer: inputs on their grid, outputs still to be scaled.

    ``powers`` are those above the inputs' entries, ``[rows, R, 1]``; ``squares`` the squared
    norms of inputs. Both have one replica for features.
    """

    inputs: Rows | Tensor
    powers: Tensor
    squares: Tensor
    outputs: Tensor
    bias_rows: Tensor | None


@dataclass(frozen=True, eq=False)
class ClippedSums:
    """Computes clipped sums over the parts of one partitioned graph.

    What depends on the features alone is computed once.

    Guarantees:
        ``clipped_sum`` returns, in float64 and in units of the clip norm, the sum over parts
        of vectors on the grid, each no longer than one over all tensors together. A part's
        vector depends on that part and on public numbers alone, and sums do not round: one
        part moves the result by its own vector, to the bit. A part whose gradient is not
        finite adds exactly zero.
    Assumes:
        The gradient rows of a part depend on that part only.
    """

    graph: PartitionedGraph
    clip_norm: float
    grid: Grid

    def clipped_sum(
        self, gradients: Sequence[LayerGradient], *, included: Tensor | None = None
    ) -> list[Tensor]:
        """The sum of the clipped part gradients, for weights and biases in layer order.

        Args:
            gradients: Gradient rows of all parts, layer by layer.
            included: ``[parts, R]``, which parts count for which replica; ``None``: all.
        """
        layers = [self._layer(gradient) for gradient in gradients]
        lengths = _lengths(layers)
        addends: list[list[Tensor]] = []
        if len(self._large) < self.graph.parts:
            addends.append(self._small_sum(layers, lengths, included))
        for part in self._large:
            vector = self._vector(part, layers, lengths)
            if included is not None:
                vector = [tensor * included[part][:, None] for tensor in vector]
            addends.append(vector)
        totals = addends.pop(0)
        for vector in addends:
            for total, tensor in zip(totals, vector, strict=True):
                total += tensor
        return totals

    # -- rows -----------------------------------------------------------------------------

    @cached_property
    def _features(self) -> tuple[Rows, Tensor, Tensor]:
        """Feature rows on the grid, their powers and squared norms.

        A row that is not finite has an infinite norm and no entries: zero times infinity
        is no zero.
        """
        rows = self.graph.features
        bad = ~(rows.row_sums(2) < LARGEST**2)
        rows = (rows.emptied(bad) if bool(bad.any()) else rows).on_grid(self.grid.input_bits)
        squares = torch.where(bad, torch.inf, rows.row_sums(2))
        return rows, rows.powers.double()[:, None, None], squares[:, None]

    def _layer(self, gradient: LayerGradient) -> _Layer:
        inputs, outputs, bias_rows = gradient
        if not isinstance(inputs, Tensor):
            return _Layer(*self._features, outputs, bias_rows)
        inputs = rows_on_grid(inputs, self.grid.input_bits)
        powers = row_powers(inputs).double()
        return _Layer(inputs.double(), powers, _row_squares(inputs), outputs, bias_rows)

    # -- parts with few documents ---------------------------------------------------------

    def _small_sum(
        self, layers: Sequence[_Layer], lengths: Tensor, included: Tensor | None
    ) -> list[Tensor]:
        """Scales whole rows: their products with inputs on the grid lie on the grid too."""
        scales = self._small_scales(layers, lengths)
        if included is not None:
            scales = torch.where(included, scales, 0.0)
        if not self.graph.one_document_each:
            scales = scales[self.graph.part_of_row]
        kept = scales[..., None] > 0
        everything = bool(kept.all())
        scales = scales[..., None] / self.clip_norm
        totals: list[Tensor] = []
        for inputs, powers, _, outputs, bias_rows in layers:
            scaled = truncated(outputs, self.grid.output_step / powers, scales)
            if not everything:
                # Rows of a dropped part are replaced: zero times infinity is no zero.
                scaled = torch.where(kept, scaled, 0.0)
                inputs = (
                    torch.where(kept, inputs, 0.0) if isinstance(inputs, Tensor) else inputs
                )
            totals.append(transposed_product(inputs, scaled))
            if bias_rows is not None:
                biases = truncated(bias_rows, self.grid.step, scales)
                totals.append((biases if everything else torch.where(kept, biases, 0.0)).sum(0))
        return totals

    def _small_scales(self, layers: Sequence[_Layer], lengths: Tensor) -> Tensor:
        """The scale of each part ``[parts, R]``; 0 for large parts."""
        if self.graph.one_document_each:
            # Truncation only shortens a vector that is one product.
            return _scales(lengths, lengths, self.clip_norm, 1.0 - _ROUNDING)
        reach = self._sum_by_part(lengths)
        squares = self._sum_by_part(lengths.square())
        # Of each row that is truncated, so much may stick out where rows cancelled before.
        excess = torch.zeros_like(reach)
        longest = 0
        for inputs, powers, norms, outputs, bias_rows in layers:
            width = outputs.shape[2]
            longest = max(longest, inputs.shape[-1] + width)
            relative = norms.clamp(max=2.0**200).sqrt() / powers[..., 0]
            excess = excess + self._sum_by_part(
                (relative * (self.grid.output_step * width**0.5)).expand_as(lengths)
            )
            if len(self._pairs):
                if isinstance(inputs, Tensor):
                    products = self._pairs.products(inputs)
                else:
                    products = self._feature_products
                products = products * self._pairs.products(outputs)
                squares += 2.0 * self._pairs.sums_by_part(products)
            if bias_rows is not None:
                excess += self.graph.sizes[:, None] * (self.grid.step * width**0.5)
                if len(self._pairs):
                    products = self._pairs.products(bias_rows)
                    squares += 2.0 * self._pairs.sums_by_part(products)
        single = self.graph.sizes[:, None] == 1
        # Rows that are huge and cancel make such norms come out too small.
        terms = self.graph.sizes.square()[:, None] + longest
        squares = squares.clamp_(min=0) + terms * _UNIT_ROUNDOFF * reach.square()
        norms = torch.where(single, reach, squares.sqrt())
        room = torch.where(single, 1.0, (1.0 - excess).clamp(min=0)) - _ROUNDING
        scales = _scales(norms, reach, self.clip_norm, room.clamp(min=0))
        return torch.where(self.graph.sizes[:, None] <= _MOST_IN_PAIRS, scales, 0.0)

    @cached_property
    def _pairs(self) -> RowPairs:
        return RowPairs.of(self.graph, _MOST_IN_PAIRS)

    @cached_property
    def _feature_products(self) -> Tensor:
        return self._pairs.products(self._features[0])

    @cached_property
    def _rows_by_part(self) -> SparseRows:
        rows = len(self.graph)
        ones = torch.ones(rows, dtype=torch.float64, device=self.graph.offsets.device)
        columns = torch.arange(rows, device=self.graph.offsets.device)
        return SparseRows(self.graph.offsets, columns, ones, rows)

    def _sum_by_part(self, values: Tensor) -> Tensor:
        """The sum over each part's rows ``[parts, R]``, in their own order."""
        return self._rows_by_part.times(values)

    # -- parts with many documents --------------------------------------------------------

    @cached_property
    def _large(self) -> list[int]:
        return torch.nonzero(self.graph.sizes > _MOST_IN_PAIRS)[:, 0].tolist()

    @cached_property
    def _bounds(self) -> list[int]:
        return self.graph.offsets.tolist()

    @cached_property
    def _large_features(self) -> dict[int, Rows]:
        rows, *_ = self._features
        if self.graph.parts == 1:
            return {0: rows}
        device = self.graph.offsets.device
        return {
            part: rows.select(
                torch.arange(self._bounds[part], self._bounds[part + 1], device=device)
            )
            for part in self._large
        }

    def _vector(self, part: int, layers: Sequence[_Layer], lengths: Tensor) -> list[Tensor]:
        """The clipped gradient of one part, on the grid.

        Its rows are first truncated to a grid of their own, relative to all that they could
        add up to: so the gradient is exact, and its norm is the one that is clipped.
        """
        own = slice(self._bounds[part], self._bounds[part + 1])
        digits = EXACT_BITS - self.grid.input_bits
        unit = powers_above(lengths[own].sum(0)[:, None]) * 2.0**-digits
        vector: list[Tensor] = []
        for inputs, powers, _, outputs, bias_rows in layers:
            rows = truncated(outputs[own].double(), unit / powers[own])
            large = inputs[own] if isinstance(inputs, Tensor) else self._large_features[part]
            vector.append(transposed_product(large, rows))
            if bias_rows is not None:
                vector.append(truncated(bias_rows[own].double(), unit).sum(0))
        return clipped_vector(vector, self.clip_norm, self.grid)


def clipped_vector(vector: Sequence[Tensor], clip_norm: float, grid: Grid) -> list[Tensor]:
    """A vector scaled as a whole to norm at most one clip norm, in units of it, on the grid.

    Guarantees:
        Truncation toward zero never lengthens it. One that is not finite becomes zero.
    """
    norms = _joint_norms(vector)[:, None]
    scales = _scales(norms, norms, clip_norm, 1.0 - _ROUNDING) / clip_norm
    return [
        torch.where(scales > 0, truncated(tensor, grid.step, scales), 0.0) for tensor in vector
    ]


def _lengths(layers: Sequence[_Layer]) -> Tensor:
    """Norm of each row's own gradient, over all layers together ``[rows, R]``."""
    squares = torch.zeros((), dtype=torch.float64)
    for _, _, norms, outputs, bias_rows in layers:
        own = _row_squares(outputs)
        squares = squares + norms * own
        if bias_rows is not None:
            # Without links between documents the bias rows are the output rows.
            squares = squares + (own if bias_rows is outputs else _row_squares(bias_rows))
    return squares.sqrt()


def _row_squares(rows: Tensor) -> Tensor:
    """Float64 squared norm of each row ``[rows, R]``."""
    norms: Tensor = torch.linalg.vector_norm(rows, dim=-1, dtype=torch.float64)
    return norms.square_()


def _scales(norms: Tensor, reach: Tensor, clip_norm: float, room: Tensor | float) -> Tensor:
    """The factor by which each part is scaled; 0 where a norm is not finite.

    Guarantees:
        ``scale * norm <= clip_norm * room`` and ``scale * reach <= MOST_REACH * clip_norm``.
    """
    scales = torch.minimum(
        room * clip_norm / norms.clamp(min=_LEAST),
        MOST_REACH * clip_norm / reach.clamp(min=_LEAST),
    )
    return torch.where(torch.isfinite(reach), scales.clamp(max=1.0), 0.0)


def _joint_norms(tensors: Sequence[Tensor]) -> Tensor:
    """The norm of each replica over all tensors together ``[R]``.

    Added up in one fixed order: how many threads there are must not move a grid value.
    """
    squares = torch.cat([t.double().square().sum(-1).reshape(-1, t.shape[-2]) for t in tensors])
    while len(squares) > 1:
        half = len(squares) // 2
        pairs = squares[:half] + squares[half : 2 * half]
        squares = torch.cat([pairs, squares[2 * half :]])
    return squares[0].sqrt()
