"""Exact sums of jointly clipped part gradients, without one gradient copy per part.

For a weight with input rows Z and output-gradient rows D, part i's gradient is Z_i^T D_i. The
clipped sum is one ordinary product, Z^T (c D), with c the scale of each row's part. Norms come
first, and each part's own size says how:

- one document: |z| |d|, a product without a sum;
- few documents: from the inner products of its rows (``privgcn.privacy.mechanism.pairs``);
- many documents: the gradient itself, multiplied out for that part alone.

Every number that is added lies on the plan's grid (see ``noise_grid``): input rows and
scaled output rows, or the scaled gradient of a large part, are rounded to it, and each part's
clip pays for what that could add to its own length. Sums are therefore exact, whatever the
order, and one part moves them by its own vector and no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from privgcn.graph.exact import (
    EXACT_BITS,
    GridRows,
    powers_above,
    rounded,
    rows_on_grid,
    upper_sums,
)
from privgcn.graph.parts import PartitionedGraph
from privgcn.graph.rows import Rows, SparseRows
from privgcn.models.stack import LayerGradient, transposed_product
from privgcn.privacy.mechanism.noise_grid import MOST_REACH, AnyGrid
from privgcn.privacy.mechanism.pairs import RowPairs

# Parts with more documents have their gradient multiplied out: pairs would cost more.
_MOST_IN_PAIRS = 64
# Norms and scales are float64, so they are off by far less.
_ROUNDING = 2.0**-30
_UNIT_ROUNDOFF = 2.0**-53


def worth_multiplying_out(documents: int) -> bool:
    """Whether the gradient of a part with so many documents is multiplied out."""
    return documents > _MOST_IN_PAIRS


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
    grid: AnyGrid

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
        totals: list[Tensor] = []
        if len(self._large) < self.graph.parts:
            totals = self._small_sum(layers, lengths, included)
        for part in self._large:
            vector = self._vector(part, layers, lengths)
            if included is not None:
                vector = [tensor * included[part][:, None] for tensor in vector]
            totals = (
                [a.add_(b) for a, b in zip(totals, vector, strict=True)] if totals else vector
            )
        return totals

    # -- rows -----------------------------------------------------------------------------

    @cached_property
    def _features(self) -> tuple[Rows, Tensor, Tensor]:
        """Feature rows on the grid, their powers and squared norms.

        A row that is not finite has an infinite norm and no entries: zero times infinity
        is no zero.
        """
        rows = self.graph.features
        bad = ~torch.isfinite(rows.powers * rows.row_sums(1))
        rows = (rows.emptied(bad) if bool(bad.any()) else rows).on_grid(self.grid.input_bits)
        squares = torch.where(bad, torch.inf, rows.row_sums(2))
        return rows, rows.powers.double()[:, None, None], squares[:, None]

    def _layer(self, gradient: LayerGradient) -> _Layer:
        inputs, outputs, bias_rows = gradient
        if isinstance(inputs, Tensor | GridRows):
            return _dense_layer(inputs, outputs, bias_rows, self.grid)
        return _Layer(*self._features, outputs, bias_rows)

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
        scales = scales[..., None] / self.clip_norm
        # Neither those left out nor those that are not finite.
        kept = scales > 0
        everything = _all(kept)

        def on_grid(rows: Tensor, unit: Tensor | float) -> Tensor:
            # Rows of a dropped part are replaced: zero times infinity is no zero.
            scaled = rounded(rows, unit, scales)
            return scaled if everything else torch.where(kept, scaled, 0.0)

        totals: list[Tensor] = []
        for inputs, powers, _, outputs, bias_rows in layers:
            if isinstance(inputs, Tensor) and not everything:
                inputs = torch.where(kept, inputs, 0.0)
            rows = on_grid(outputs, self.grid.output_step / powers)
            totals.append(transposed_product(inputs, rows))
            if bias_rows is not None:
                totals.append(on_grid(bias_rows, self.grid.step).sum(0))
        return totals

    def _small_scales(self, layers: Sequence[_Layer], lengths: Tensor) -> Tensor:
        """The scale of each part ``[parts, R]``; not positive for large parts."""
        room = self._room(layers)
        if self.graph.one_document_each:
            return (room / lengths).clamp_(max=1.0)
        reach = self._sum_by_part(lengths)
        squares = self._sum_by_part(lengths.square())
        if len(self._pairs):
            squares = squares + 2.0 * self._pairs.sums_by_part(self._pair_products(layers))
        # Rows that are huge and cancel make such norms come out too small.
        sizes = self.graph.sizes[:, None]
        terms = sizes.square() + max(g.inputs.shape[-1] + g.outputs.shape[2] for g in layers)
        norms = (squares.clamp(min=0) + terms * _UNIT_ROUNDOFF * reach.square()).sqrt()
        # One row is its own norm, whether other parts have more or not.
        norms = torch.where(sizes == 1, reach, torch.maximum(norms, reach / MOST_REACH))
        scales = (room / norms).clamp_(max=1.0)
        return torch.where(sizes <= _MOST_IN_PAIRS, scales, 0.0)

    def _room(self, layers: Sequence[_Layer]) -> Tensor:
        """What rounding leaves of each part's clip norm ``[parts, 1]``.

        A row's outputs move by half a unit at most in each coordinate, and with them its
        gradient by that times the length of its inputs. The same in every step.
        """
        shapes = tuple(
            (g.inputs.shape[-1], g.outputs.shape[2], g.bias_rows is None) for g in layers
        )
        if shapes not in self._rooms:
            excess = torch.zeros(1, 1, dtype=torch.float64, device=self.graph.offsets.device)
            for inputs, powers, squares, outputs, bias_rows in layers:
                corner = 0.5 * outputs.shape[2] ** 0.5
                # Entries are smaller than their power.
                features = squares.sqrt() / powers[..., 0]
                length = inputs.shape[-1] ** 0.5 if isinstance(inputs, Tensor) else features
                excess = excess + corner * self.grid.output_step * length
                if bias_rows is not None:
                    excess = excess + corner * self.grid.step
            excess = excess.expand(len(self.graph), 1)
            if not self.graph.one_document_each:
                excess = self._sum_by_part(excess.contiguous())
            self._rooms[shapes] = self.clip_norm * (1.0 - _ROUNDING - excess)
        return self._rooms[shapes]

    @cached_property
    def _rooms(self) -> dict[tuple[tuple[int, int, bool], ...], Tensor]:
        return {}

    def _pair_products(self, layers: Sequence[_Layer]) -> Tensor:
        """The inner products of the gradients of two rows, over all layers together."""
        products = torch.zeros((), dtype=torch.float64)
        for inputs, _, _, outputs, bias_rows in layers:
            if isinstance(inputs, Tensor):
                own = self._pairs.products(inputs)
            else:
                own = self._feature_products
            products = products + own * self._pairs.products(outputs)
            if bias_rows is not None:
                products = products + self._pairs.products(bias_rows)
        return products

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
        """The clipped gradient of one part, on the grid."""
        own = slice(self._bounds[part], self._bounds[part + 1])
        rows = [
            _Layer(
                inputs[own] if isinstance(inputs, Tensor) else self._large_features[part],
                powers[own],
                squares[own],
                outputs[own],
                None if bias_rows is None else bias_rows[own],
            )
            for inputs, powers, squares, outputs, bias_rows in layers
        ]
        return _multiplied_out(rows, lengths[own], self.clip_norm, self.grid)


def clipped_parts(
    gradients: Sequence[LayerGradient], clip_norm: float, grid: AnyGrid
) -> list[Tensor]:
    """The clipped gradients of parts that lie side by side, ``[..., parts, k]`` each.

    The replica dimension of the rows counts parts: all rows of it are one part's, on whichever
    replica. For parts with many documents; the vectors are those that ``ClippedSums`` adds up.
    """
    layers = []
    for inputs, outputs, bias_rows in gradients:
        assert isinstance(inputs, Tensor | GridRows)
        layers.append(_dense_layer(inputs, outputs, bias_rows, grid))
    return _multiplied_out(layers, _lengths(layers), clip_norm, grid)


def _dense_layer(
    inputs: Tensor | GridRows, outputs: Tensor, bias_rows: Tensor | None, grid: AnyGrid
) -> _Layer:
    if isinstance(inputs, Tensor):
        inputs = rows_on_grid(inputs, grid.input_bits)
    elif inputs.bits > grid.input_bits:
        inputs = rows_on_grid(inputs.values, grid.input_bits)
    values, powers, _ = inputs
    return _Layer(values, powers, _row_squares(values), outputs, bias_rows)


def _multiplied_out(
    layers: Sequence[_Layer], lengths: Tensor, clip_norm: float, grid: AnyGrid
) -> list[Tensor]:
    """The clipped gradient of one part, from its own rows.

    They are first rounded to a grid of their own, relative to all that they could add up to:
    so the gradient is exact, and its norm is the one that is clipped.
    """
    digits = EXACT_BITS - grid.input_bits
    unit = powers_above(upper_sums(lengths)[:, None]) * 2.0**-digits
    vector: list[Tensor] = []
    for inputs, powers, _, outputs, bias_rows in layers:
        vector.append(transposed_product(inputs, rounded(outputs, unit / powers)))
        if bias_rows is not None:
            vector.append(rounded(bias_rows, unit).sum(0))
    return clipped_vector(vector, clip_norm, grid)


def clipped_vector(vector: Sequence[Tensor], clip_norm: float, grid: AnyGrid) -> list[Tensor]:
    """A vector scaled as a whole to norm at most one clip norm, in units of it, on the grid.

    Tensors in float64 are overwritten.

    Guarantees:
        Rounding to the grid is paid for before. A vector that is not finite becomes zero.
    """
    norms = _joint_norms(vector)[:, None]
    entries = sum(tensor.numel() for tensor in vector) / len(norms)
    room = clip_norm * (1.0 - _ROUNDING - 0.5 * entries**0.5 * grid.step)
    scales = (room * norms.reciprocal()).clamp_(max=1.0) / clip_norm
    kept = scales > 0
    made = [
        tensor.double().mul_(scales / grid.step).round_().mul_(grid.step) for tensor in vector
    ]
    return made if _all(kept) else [torch.where(kept, tensor, 0.0) for tensor in made]


def _all(kept: Tensor) -> bool:
    """Whether nothing was dropped; a device is not asked, as the host would wait for it."""
    return not kept.is_cuda and bool(kept.all())


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


def _joint_norms(tensors: Sequence[Tensor]) -> Tensor:
    """The norm of each replica over all tensors together ``[R]``."""
    rows = [_row_squares(tensor).reshape(-1, tensor.shape[-2]) for tensor in tensors]
    return upper_sums(torch.cat(rows)).sqrt()
