"""Sampled parts side by side: on a device, one pass for all parts of all replicas of a step.

A slot is one part on one replica. Slots take the place of replicas: every slot has its own
documents, its own links and the weights of its replica, so the same layers and the same
clipping serve, and a step costs what was sampled, not what there is. What a step samples is
written into tensors of fixed size, so that a recorded step reads it from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from privgcn.graph.exact import GridRows
from privgcn.graph.on_disk import sparse_in_memory
from privgcn.graph.parts import PartitionedGraph
from privgcn.graph.sparse_rows import SparseRows
from privgcn.randomness import UniformBytes

_FEWEST = 4


@dataclass(frozen=True, eq=False)
class Slots:
    """What a step samples: the part and the replica of each slot; part -1 is nobody's."""

    places: Tensor

    @classmethod
    def empty(cls, count: int, device: torch.device) -> Slots:
        """Slots that nobody uses."""
        return cls(torch.tensor([[-1], [0]], device=device).repeat(1, count))

    @property
    def parts(self) -> Tensor:
        """Of each slot."""
        return self.places[0]

    @property
    def replicas(self) -> Tensor:
        """Of each slot."""
        return self.places[1]

    def fill(self, samples: Sequence[npt.NDArray[np.int64]]) -> None:
        """Writes the parts that each replica samples; there must be room for all of them."""
        parts = np.concatenate(samples)
        written = np.zeros(self.places.shape, dtype=np.int64)
        written[0, len(parts) :] = -1
        written[0, : len(parts)] = parts
        written[1, : len(parts)] = np.repeat(np.arange(len(samples)), [*map(len, samples)])
        # From memory that is not pinned: it has been read when this returns.
        self.places.copy_(torch.from_numpy(written), non_blocking=True)


def slots_for(samples: Sequence[npt.NDArray[np.int64]]) -> int:
    """How many slots a step gets: the next power of two, so that there are few sizes."""
    taken = sum(len(own) for own in samples)
    return max(_FEWEST, 1 << (taken - 1).bit_length()) if taken else _FEWEST


class SlotBlock(NamedTuple):
    """The documents of each slot, ``[rows, slots, ...]``; shorter parts end in empty rows."""

    features: GridRows
    matrix: SlotLinks | None
    labels: Tensor
    loss_weights: Tensor
    used: Tensor


@dataclass(frozen=True, eq=False)
class SlotLinks:
    """The links of each slot, one after the other.

    What fills up the links of a slot belongs to one more row of it, which is left out: even
    with weight 0 it would spoil a row that is not finite, so that a part with more links
    would move another one's.

    Attributes:
        starts: Where the links of each row begin, then what fills up, slot after slot; one
            more entry at the end.
        columns: The other document of each link, slot after slot.
        values: Their weights.
    """

    starts: Tensor
    columns: Tensor
    values: Tensor
    rows: int

    def times(self, table: Tensor) -> Tensor:
        """The product with a table ``[rows, slots * width]``."""
        width = table.shape[1] * (self.rows + 1) // (len(self.starts) - 1)
        flat = table.view(self.rows, -1, width).transpose(0, 1).reshape(-1, width)
        made = embedding_bag(
            self.columns,
            flat,
            self.starts,
            mode="sum",
            per_sample_weights=self.values,
            include_last_offset=True,
        )
        kept = made.view(-1, self.rows + 1, width)[:, :-1]
        return kept.transpose(0, 1).reshape(table.shape)


class PartTables:
    """All parts of a graph, each filled up to the same number of rows and links."""

    def __init__(self, graph: PartitionedGraph, bits: int) -> None:
        self.bits = bits
        parts, rows = graph.parts, int(graph.sizes.max())
        device = graph.offsets.device
        places = torch.arange(rows, device=device)
        # Row of the graph for each place; the row after the last one is empty.
        self.source = torch.where(
            places < graph.sizes[:, None], graph.offsets[:-1, None] + places, len(graph)
        )

        def laid_out(values: Tensor, empty: float) -> Tensor:
            more = values.new_full((1, *values.shape[1:]), empty)
            return torch.cat([values, more])[self.source]

        self.features = laid_out(graph.features.dense().double(), 0.0)
        self.powers = laid_out(graph.features.powers.double(), 1.0)
        self.labels = laid_out(graph.labels, -1)
        self.loss_weights = laid_out(graph.loss_weights, 0.0)
        self.links = (
            None
            if graph.matrix is None
            else _links(graph, sparse_in_memory(graph.matrix), rows)
        )
        self.parts, self.rows = parts, rows

    def block(self, slots: Slots) -> SlotBlock:
        """The documents of each slot."""
        used = slots.parts >= 0
        parts = slots.parts.clamp(min=0)
        values = self.features[parts].transpose(0, 1)
        powers = self.powers[parts].T[..., None]
        matrix = None
        if self.links is not None:
            starts, columns, weights = self.links
            count, most = len(parts), columns.shape[1]
            shift = torch.arange(count, device=parts.device)[:, None]
            begins = (starts[parts] + shift * most).view(-1)
            end = begins.new_full((1,), count * most)
            matrix = SlotLinks(
                torch.cat([begins, end]),
                (columns[parts] + shift * self.rows).view(-1),
                weights[parts].view(-1),
                self.rows,
            )
        return SlotBlock(
            GridRows(values, powers, self.bits),
            matrix,
            self.labels[parts].T,
            self.loss_weights[parts].T,
            used,
        )


def _links(
    graph: PartitionedGraph, matrix: SparseRows, rows: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Begins of the rows' links ``[parts, rows + 1]``, columns and values ``[parts, links]``.

    The last row of a part has what fills up.
    """
    device = graph.offsets.device
    bounds = matrix.offsets[graph.offsets]
    counts = bounds.diff()
    most = int(counts.max())
    places = torch.arange(most, device=device)
    there = places < counts[:, None]
    source = torch.where(there, bounds[:-1, None] + places, 0)
    begin = graph.offsets[:-1, None]
    columns = torch.where(there, matrix.columns[source] - begin, rows - 1)
    values = torch.where(there, matrix.values[source], 0.0)
    at = torch.arange(rows + 1, device=device)
    real = torch.where(at < graph.sizes[:, None], begin + at, graph.offsets[1:, None])
    starts = matrix.offsets[real] - bounds[:-1, None]
    return starts, columns, values


class SlotDraws:
    """Dropout masks of slots: those that each replica drew, for every part it sampled.

    Guarantees:
        What a slot gets depends on its replica's own draws, never on what else was sampled.
    """

    def __init__(self, draws: UniformBytes, slots: Slots, replicas: int) -> None:
        self._draws, self._slots, self._replicas = draws, slots, replicas

    def uniform_bytes(self, shape: torch.Size | tuple[int, ...]) -> Tensor:
        """Uniform bytes, the same for two slots of one replica."""
        own = (*shape[:-2], self._replicas, shape[-1])
        drawn = torch.as_tensor(self._draws.uniform_bytes(own))
        return drawn.index_select(-2, self._slots.replicas)
