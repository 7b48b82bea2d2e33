"""Cutting the training graph into disjoint parts.

A partition is drawn from the seed and the index alone, never from text, labels, links or
the number of documents an owner has, so drawing it costs no privacy. A part is the
*induced* subgraph of its documents: links between parts are dropped and degrees are
counted inside the part, so nothing in one part can move the gradient of another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from privgcn.errors import ConfigError
from privgcn.graph.on_disk import RowsOnDisk, in_memory, sparse_in_memory, stretch_by_stretch
from privgcn.graph.propagation import propagation_of
from privgcn.graph.rows import Rows
from privgcn.graph.sparse_rows import SparseRows, segment_positions
from privgcn.graph.textgraph import TextGraph


def random_parts(members: int, parts: int, seed: int) -> Tensor:
    """The part of each of ``members`` indices: random, sizes differing by at most one.

    As in the paper, a random order of the indices is cut into ``parts`` stretches: the
    first ``members mod parts`` hold one index more than the rest.
    """
    if parts < 1:
        raise ConfigError(f"The 'parts' of a partition must be at least 1. Got {parts}.")
    order = torch.from_numpy(np.random.default_rng(seed).permutation(members))
    small, larger = divmod(members, parts)
    sizes = torch.full((parts,), small)
    sizes[:larger] += 1
    assignment = torch.empty(members, dtype=torch.int64)
    assignment[order] = torch.repeat_interleave(torch.arange(parts), sizes)
    return assignment


def links_within(edges: Tensor, part_of: Tensor) -> Tensor:
    """The links whose two documents lie in the same part."""
    return stretch_by_stretch(edges, lambda own: own[:, part_of[own[0]] == part_of[own[1]]])


@dataclass(frozen=True, eq=False)
class PartitionedGraph:
    """Training documents laid out part after part, without links between parts.

    Attributes:
        features: Rows of the documents, those of one part next to each other.
        matrix: Block-diagonal propagation matrix; ``None`` where no part has a link.
        labels: Class index or -1, in the same order.
        offsets: Where each part begins; one more entry than parts.
        order: Index of each row in the graph that was cut.
    """

    features: Rows
    matrix: SparseRows | RowsOnDisk | None
    labels: Tensor
    classes: int
    offsets: Tensor
    order: Tensor

    @property
    def parts(self) -> int:
        """Number of parts, empty ones included."""
        return len(self.offsets) - 1

    def __len__(self) -> int:
        return self.features.shape[0]

    @cached_property
    def sizes(self) -> Tensor:
        """Documents in each part."""
        return self.offsets.diff()

    @cached_property
    def part_of_row(self) -> Tensor:
        """Part of each row."""
        parts = torch.arange(self.parts, device=self.offsets.device)
        return torch.repeat_interleave(parts, self.sizes, output_size=len(self))

    @cached_property
    def one_document_each(self) -> bool:
        """Whether part ``i`` is exactly row ``i``."""
        return self.parts == len(self) and bool((self.sizes == 1).all())

    @cached_property
    def loss_weights(self) -> Tensor:
        """Weight of each row in the mean loss of its own part; 0 without a known label."""
        labelled = ((self.labels >= 0) & (self.labels < self.classes)).float()
        counts = torch.zeros(self.parts, device=labelled.device)
        counts.index_add_(0, self.part_of_row, labelled)
        return labelled / counts.clamp(min=1)[self.part_of_row]

    def blocks(self, parts: Tensor) -> Iterator[tuple[Tensor, PartitionedGraph]]:
        """Some parts as graphs in memory, with their places among them.

        Rows in memory make one block; of rows on disk, each block is as large as its parts
        allow. A part is never divided.
        """
        if not isinstance(self.features, RowsOnDisk):
            places = torch.arange(len(parts), device=parts.device)
            yield places, self if len(parts) == self.parts else self.select(parts)
            return
        before = self.sizes[parts].cumsum(0) - self.sizes[parts]
        block = torch.div(before, self.features.at_once, rounding_mode="floor")
        places = torch.arange(len(parts), device=parts.device)
        counts = torch.unique_consecutive(block, return_counts=True)[1].tolist()
        for own in torch.split(places, counts):
            yield own, self.select(parts[own])

    def with_features(self, features: Rows) -> PartitionedGraph:
        """The same parts with other feature rows."""
        return replace(self, features=features)

    def select(self, parts: Tensor) -> PartitionedGraph:
        """The named parts alone, as a smaller partitioned graph."""
        starts, sizes = self.offsets[parts], self.sizes[parts]
        rows = segment_positions(starts, sizes)
        offsets = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
        matrix = None
        if self.matrix is not None:
            taken = sparse_in_memory(self.matrix.select(rows))
            # A row's links stay inside its part, so they move by the shift of the part.
            shift = torch.repeat_interleave(offsets[:-1] - starts, sizes)
            columns = taken.columns + torch.repeat_interleave(shift, taken.lengths)
            matrix = SparseRows(taken.offsets, columns, taken.values, len(rows))
        return PartitionedGraph(
            in_memory(self.features.select(rows)),
            matrix,
            self.labels[rows],
            self.classes,
            offsets,
            self.order[rows],
        )


def cut(graph: TextGraph, part_of: Tensor, parts: int) -> PartitionedGraph:
    """Cuts a graph into the induced subgraphs of its parts, in linear time.

    Args:
        graph: The training documents.
        part_of: Part of each document.
        parts: Number of parts; a part without documents stays, empty.
    """
    if len(part_of) != len(graph):
        raise ConfigError(
            f"The 'part_of' of a cut must have one entry per document ({len(graph)}). "
            f"Got {len(part_of)}."
        )
    part_of = part_of.to(graph.edges.device)
    order = torch.argsort(part_of, stable=True)
    sizes = torch.bincount(part_of, minlength=parts)
    offsets = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    edges = links_within(graph.edges, part_of)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device)
    # Whether any link survived must not change what is computed, only how fast: with the
    # identity as matrix every product would give the same values.
    placed = stretch_by_stretch(edges, lambda own: place[own])
    matrix = propagation_of(placed, len(graph)) if edges.shape[1] else None
    rows = graph.features
    return PartitionedGraph(
        rows.laid_out(order) if isinstance(rows, RowsOnDisk) else rows.select(order),
        matrix,
        graph.labels[order],
        graph.classes,
        offsets,
        order,
    )
