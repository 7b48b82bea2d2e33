"""Exact sums of jointly clipped part gradients, without one gradient copy per part.

For a weight with input rows Z and output-gradient rows D, part i's gradient is Z_i^T D_i. The
clipped sum is one ordinary product, Z^T (c D), with c the scale of each row's part. Norms come
first, and each part's own size says how:

- one document: |z| |d|, a product without a sum;
- few documents: from the inner products of its rows (``privgcn.privacy.mechanism.pairs``);
- many documents: the gradient itself, multiplied out for each part, several parts at a time.

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
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from privgcn.graph.exact import (
    EXACT_BITS,
    GridRows,
    powers_above,
    product_bits,
    rounded,
    rows_on_grid,
    upper_sums,
)
from privgcn.graph.parts import PartitionedGraph
from privgcn.graph.rows import Rows
from privgcn.graph.sparse_rows import SparseRows, segment_positions
from privgcn.models.stack import LayerGradient, transposed_product
from privgcn.privacy.mechanism.noise_grid import MOST_REACH, AnyGrid
from privgcn.privacy.mechanism.pairs import RowPairs, pair_digits

# Parts with more documents have their gradient multiplied out: pairs would cost more.
_MOST_IN_PAIRS = 64
# Norms and scales are float64, so they are off by far less.
_ROUNDING = 2.0**-30
_UNIT_ROUNDOFF = 2.0**-53
# Numbers that a device adds up in one order, however many sums there are: one for each lane.
_ONE_ORDER = 32
# Numbers of all gradients that are multiplied out at once: what a cache holds.
_AT_ONCE = 1 << 19


def worth_multiplying_out(documents: int) -> bool:
    """Whether the gradient of a part with so many documents is multiplied out."""
    return documents > _MOST_IN_PAIRS


class _Layer(NamedTuple):
    """The rows of one layer: inputs on their grid, float64 outputs still to be scaled.

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
    prepared: tuple[Rows, Tensor, Tensor] | None = None

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
        if sum(map(len, self._large)) < self.graph.parts:
            totals = self._small_sum(layers, lengths, included)
        if self._large:
            units = self._units(lengths)
            numbers = sum(g.inputs.shape[-1] * g.outputs[0].numel() for g in layers)
            for large in self._large_blocks(numbers):
                sums = self._large_sum(large, layers, units, included)
                totals = (
                    [a.add_(b) for a, b in zip(totals, sums, strict=True)] if totals else sums
                )
        return totals

    def __len__(self) -> int:
        return len(self.graph)

    def select(self, parts: Tensor) -> ClippedSums:
        """The named parts alone; what was prepared of their rows is taken over."""
        features, powers, squares = self.features
        rows = segment_positions(self.graph.offsets[parts], self.graph.sizes[parts])
        prepared = (features.select(rows), powers[rows], squares[rows])
        return ClippedSums(self.graph.select(parts), self.clip_norm, self.grid, prepared)

    # -- rows -----------------------------------------------------------------------------

    @cached_property
    def features(self) -> tuple[Rows, Tensor, Tensor]:
        """Feature rows on the grid, their powers and squared norms.

        A row that is not finite has an infinite norm and no entries: zero times infinity
        is no zero.
        """
        if self.prepared is not None:
            return self.prepared
        rows = self.graph.features
        bad = ~torch.isfinite(rows.powers * rows.row_sums(1))
        rows = (rows.emptied(bad) if bool(bad.any()) else rows).on_grid(self.grid.input_bits)
        squares = torch.where(bad, torch.inf, rows.row_sums(2))
        return rows, rows.powers.double()[:, None, None], squares[:, None]

    def _layer(self, gradient: LayerGradient) -> _Layer:
        inputs, outputs, bias_rows = gradient
        if isinstance(inputs, Tensor | GridRows):
            return _dense_layer(inputs, outputs, bias_rows, self.grid)
        return _Layer(*self.features, *_widened(outputs, bias_rows))

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
        own = self._sum_by_part(lengths.square())
        squares = own
        if len(self._pairs):
            squares = own + 2.0 * self._pairs.sums_by_part(self._pair_products(layers))
        # Rows that are huge and cancel make such norms come out too small, and so do the
        # digits that pairs leave out: of each row, this share of its length at most.
        sizes = self.graph.sizes[:, None]
        widths = [g.inputs.shape[-1] + g.outputs.shape[2] for g in layers]
        terms = sizes.square() + max(widths)
        lost = max(_digits_lost(g.outputs.shape[2]) for g in layers)
        squares = squares.clamp(min=0) + 2 * lost * own
        norms = (squares + terms * _UNIT_ROUNDOFF * reach.square()).sqrt_() + lost * reach
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
            ends = self._pairs.products(_for_pairs(outputs))
            products = products + own * ends
            if bias_rows is not None:
                linked = bias_rows is not outputs
                ends = self._pairs.products(_for_pairs(bias_rows)) if linked else ends
                products = products + ends
        return products

    @cached_property
    def _pairs(self) -> RowPairs:
        return RowPairs.of(self.graph, _MOST_IN_PAIRS)

    @cached_property
    def _feature_products(self) -> Tensor:
        return self._pairs.products(self.features[0])

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
    def _large(self) -> list[list[int]]:
        """Parts with many documents, those of like sizes together."""
        sizes = self.graph.sizes
        parts = torch.nonzero(sizes > _MOST_IN_PAIRS)[:, 0]
        like: dict[int, list[int]] = {}
        for part, size in zip(parts.tolist(), sizes[parts].tolist(), strict=True):
            like.setdefault(size.bit_length(), []).append(part)
        return list(like.values())

    def _large_blocks(self, numbers: int) -> list[_LargeParts]:
        """All large parts, as many at once as ``numbers`` of one gradient allow."""
        if numbers not in self._blocks:
            # Dense rows become float64 a few at a time; their product outweighs the rest.
            dense = not isinstance(self.features[0], SparseRows)
            most = 1 if dense else max(1, _AT_ONCE // numbers)
            self._blocks[numbers] = [
                _LargeParts.of(self.graph, self.features[0], like[begin : begin + most])
                for like in self._large
                for begin in range(0, len(like), most)
            ]
        return self._blocks[numbers]

    @cached_property
    def _blocks(self) -> dict[int, list[_LargeParts]]:
        return {}

    def _units(self, lengths: Tensor) -> Tensor:
        """The unit of each part's rows before they are multiplied out ``[parts, R]``.

        Relative to all that they could add up to: so the gradient is exact.
        """
        digits = 2.0 ** (self.grid.input_bits - EXACT_BITS)
        if self.graph.parts == 1:
            return powers_above(upper_sums(lengths)[None]) * digits
        part_of = self.graph.part_of_row
        most = lengths.new_zeros(self.graph.parts, lengths.shape[1])
        most.scatter_reduce_(0, part_of[:, None].expand_as(lengths), lengths, "amax")
        # What ``upper_sums`` does, for each part.
        fine = powers_above(most) * self._sum_digits
        reach = self._sum_by_part((lengths / fine[part_of]).ceil_()).mul_(fine)
        return powers_above(reach) * digits

    @cached_property
    def _sum_digits(self) -> Tensor:
        digits = [2.0 ** -product_bits(size) for size in self.graph.sizes.tolist()]
        device = self.graph.offsets.device
        return torch.tensor(digits, dtype=torch.float64, device=device)[:, None]

    def _large_sum(
        self,
        large: _LargeParts,
        layers: Sequence[_Layer],
        units: Tensor,
        included: Tensor | None,
    ) -> list[Tensor]:
        """The sum of clipped gradients of large parts: each is on the grid, and so is the sum.

        The norm that is clipped is that of the exact gradient of rounded rows.
        """
        unit = units[large.parts][large.part_of_row][..., None]
        vectors: list[Tensor] = []
        for inputs, powers, _, outputs, bias_rows in layers:
            rows = rounded(outputs[large.rows], unit / powers[large.rows])
            vectors.append(large.products(inputs, rows))
            if bias_rows is not None:
                vectors.append(large.sums(rounded(bias_rows[large.rows], unit)))
        return clipped_vectors(
            vectors,
            self.clip_norm,
            self.grid,
            None if included is None else included[large.parts],
        )


@dataclass(frozen=True, eq=False)
class _LargeParts:
    """Large parts whose gradients are multiplied out at once.

    Attributes:
        parts: Their numbers.
        rows: Their documents, part after part.
        part_of_row: Place of each document's part among these parts.
        sizes: Documents in each part.
        features: Feature rows; of several parts, each with columns of its own.
        by_part: Adds up the documents of each part.
    """

    parts: Tensor
    rows: slice | Tensor
    part_of_row: Tensor
    sizes: list[int]
    features: Rows
    by_part: SparseRows

    @classmethod
    def of(cls, graph: PartitionedGraph, features: Rows, parts: Sequence[int]) -> _LargeParts:
        """The named parts of a graph."""
        chosen = torch.tensor(parts, device=graph.offsets.device)
        sizes = graph.sizes[chosen]
        offsets = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
        places = torch.arange(len(chosen), device=sizes.device)
        part_of_row = torch.repeat_interleave(places, sizes)
        rows = segment_positions(graph.offsets[chosen], sizes)
        everything = len(rows) == len(graph) and bool((rows.diff() > 0).all())
        own = features if everything else features.select(rows)
        if isinstance(own, SparseRows) and len(parts) > 1:
            shift = torch.repeat_interleave(part_of_row * own.width, own.lengths)
            width = own.width * len(parts)
            own = SparseRows(own.offsets, own.columns + shift, own.values, width)
        ones = torch.ones(len(rows), dtype=torch.float64, device=sizes.device)
        columns = torch.arange(len(rows), device=sizes.device)
        return cls(
            chosen,
            slice(None) if everything else rows,
            part_of_row,
            sizes.tolist(),
            own,
            SparseRows(offsets, columns, ones, len(rows)),
        )

    def products(self, inputs: Rows | Tensor, outputs: Tensor) -> Tensor:
        """The gradient of each part ``[parts, inputs, R, outputs]``, from exact rows."""
        parts, (_, replicas, width) = len(self.sizes), outputs.shape
        if isinstance(inputs, Tensor) and parts > 1:
            one, other = self._side_by_side(inputs[self.rows]), self._side_by_side(outputs)
            return torch.einsum("plri,plro->piro", one, other).contiguous()
        rows = inputs[self.rows] if isinstance(inputs, Tensor) else self.features
        made = transposed_product(rows, outputs).contiguous()
        return made.view(parts, -1, replicas, width)

    def _side_by_side(self, rows: Tensor) -> Tensor:
        """Rows ``[parts, longest, ...]``, zero where a part has no more."""
        return pad_sequence(list(torch.split(rows, self.sizes)), batch_first=True)

    def sums(self, rows: Tensor) -> Tensor:
        """The sum of each part's rows ``[parts, R, outputs]``."""
        if len(self.sizes) == 1:
            return rows.sum(0)[None]
        return self.by_part.times(rows.flatten(1)).view(-1, *rows.shape[1:])


def clipped_vectors(
    vectors: Sequence[Tensor],
    clip_norm: float,
    grid: AnyGrid,
    included: Tensor | None = None,
) -> list[Tensor]:
    """The sum of vectors ``[n, ..., R, k]``, each scaled to norm at most one clip norm.

    In units of the clip norm, on the grid, in float64.

    Args:
        vectors: One vector for each place of the first dimension, over all tensors together.
        clip_norm: The most a vector may have.
        grid: What each is rounded to.
        included: ``[n, R]``, which of them count; ``None``: all.

    Guarantees:
        Rounding to the grid is paid for before. A vector that is not finite becomes zero.
    """
    norms = _joint_norms(vectors)[..., None]
    entries = sum(tensor[0].numel() for tensor in vectors) / norms.shape[1]
    room = clip_norm * (1.0 - _ROUNDING - 0.5 * entries**0.5 * grid.step)
    scales = (room * norms.reciprocal()).clamp_(max=1.0) / clip_norm
    if included is not None:
        scales = torch.where(included[..., None], scales, 0.0)
    kept = scales > 0
    everything = _all(kept)
    scales = scales / grid.step
    sums: list[Tensor] = []
    for tensor in vectors:
        own = (len(tensor), *[1] * (tensor.ndim - 3), -1, 1)
        # Not in place: of a user's module, two tensors may be one and the same.
        made = (tensor * scales.view(own)).round_()
        if not everything:
            made = torch.where(kept.view(own), made, 0.0)
        # Whole numbers: their sum is exact.
        sums.append((made[0] if len(made) == 1 else made.sum(0)).mul_(grid.step))
    return sums


def clipped_vector(vector: Sequence[Tensor], clip_norm: float, grid: AnyGrid) -> list[Tensor]:
    """One vector ``[..., R, k]`` scaled as a whole; see :func:`clipped_vectors`."""
    return clipped_vectors([tensor[None] for tensor in vector], clip_norm, grid)


def _for_pairs(rows: Tensor) -> Tensor:
    """Rows with so few digits that their inner products are exact."""
    return rows_on_grid(rows, pair_digits(rows.shape[-1])).values


def _digits_lost(width: int) -> float:
    """What :func:`_for_pairs` takes off a row at most, as a share of its length.

    In each coordinate it is less than a unit, and the power of two that the unit is relative
    to is at most twice the largest coordinate.
    """
    return float(2.0 ** (1 - pair_digits(width)) * width**0.5)


def clipped_parts(
    gradients: Sequence[LayerGradient], clip_norm: float, grid: AnyGrid, most: int
) -> list[Tensor]:
    """The clipped gradients of parts that lie side by side, ``[..., parts, k]`` each.

    The replica dimension of the rows counts parts: all rows of it are one part's, on whichever
    replica. Each is multiplied out, as ``ClippedSums`` does with parts of many documents.

    Args:
        gradients: Gradient rows; a part ends in empty ones, as many as the longest part needs.
        clip_norm: The most a part may have.
        grid: What each is rounded to.
        most: Documents that a part can have, a public number: how many empty rows there are
            must change no bit.
    """
    layers = []
    for inputs, outputs, bias_rows in gradients:
        assert isinstance(inputs, Tensor | GridRows)
        layers.append(_dense_layer(inputs, outputs, bias_rows, grid))
    return _multiplied_out(layers, _lengths(layers), clip_norm, grid, most)


def _dense_layer(
    inputs: Tensor | GridRows, outputs: Tensor, bias_rows: Tensor | None, grid: AnyGrid
) -> _Layer:
    if isinstance(inputs, Tensor):
        inputs = rows_on_grid(inputs, grid.input_bits)
    elif inputs.bits > grid.input_bits:
        inputs = rows_on_grid(inputs.values, grid.input_bits)
    values, powers, _ = inputs
    return _Layer(values, powers, _row_squares(values), *_widened(outputs, bias_rows))


def _widened(outputs: Tensor, bias_rows: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Both in float64, once for norms and rounding; one tensor where they are one."""
    wide = outputs.double()
    if bias_rows is None or bias_rows is outputs:
        return wide, None if bias_rows is None else wide
    return wide, bias_rows.double()


def _multiplied_out(
    layers: Sequence[_Layer], lengths: Tensor, clip_norm: float, grid: AnyGrid, most: int
) -> list[Tensor]:
    """The clipped gradient of one part, from its own rows.

    They are first rounded to a grid of their own, relative to all that they could add up to:
    so the gradient is exact, and its norm is the one that is clipped.
    """
    digits = EXACT_BITS - grid.input_bits
    unit = powers_above(upper_sums(lengths, most)[:, None]) * 2.0**-digits
    vector: list[Tensor] = []
    for inputs, powers, _, outputs, bias_rows in layers:
        vector.append(transposed_product(inputs, rounded(outputs, unit / powers)))
        if bias_rows is not None:
            vector.append(rounded(bias_rows, unit).sum(0))
    return clipped_vector(vector, clip_norm, grid)


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
    """Float64 squared norm of each row ``[rows, R]``; the same whatever rows are beside it.

    A device chooses the order of a longer sum by how many rows there are.
    """
    width = rows.shape[-1]
    if width > _ONE_ORDER:
        pieces = pad(rows, (0, -width % _ONE_ORDER)).view(*rows.shape[:-1], -1, _ONE_ORDER)
        return _row_squares(torch.linalg.vector_norm(pieces, dim=-1, dtype=torch.float64))
    norms: Tensor = torch.linalg.vector_norm(rows, dim=-1, dtype=torch.float64)
    return norms.square_()


def _joint_norms(vectors: Sequence[Tensor]) -> Tensor:
    """The norm of each vector and replica over all tensors together ``[n, R]``."""
    count, replicas = len(vectors[0]), vectors[0].shape[-2]
    squares = [_row_squares(tensor).view(count, -1, replicas) for tensor in vectors]
    joined = torch.cat(squares, 1).transpose(0, 1).reshape(-1, count * replicas)
    return upper_sums(joined).sqrt_().view(count, replicas)
