"""Training documents, and which of them are clipped together.

``Groups.of_plan`` carries out the partition that a plan names. What everybody may know of the
result are its public fields; the documents themselves are for the questions of this package.

Examples:
    >>> from privgcn.graph import DocumentGraph
    >>> from privgcn.privacy.plan import AllGroups, PartitionFacts, PrivacyPlan
    >>> plan = PrivacyPlan(
    ...     unit="document", relation="remove", schedule=AllGroups(groups=3), clip_norm=1.0,
    ...     partition=PartitionFacts(kind="each", groups=3), noise_multiplier=5.0, steps=2,
    ...     delta=1e-3, units=3,
    ... )
    >>> graph = DocumentGraph(
    ...     np.eye(3), np.zeros((2, 0), int), np.array([0, 1, -1]), 2, np.zeros(3, np.int8)
    ... )
    >>> groups = Groups.of_plan(plan, graph)
    >>> groups.count, groups.width, groups.classes, groups.dense
    (3, 3, 2, True)
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from privgcn.errors import PrivacyContractError
from privgcn.graph import DocumentGraph, partition
from privgcn.mechanism.fixed_point import Floats, Grid, Rows, directions, shortened, whole_rows
from privgcn.mechanism.ranks import Ranks
from privgcn.privacy.plan import PartitionFacts, PrivacyPlan

# Cells of a dense block, which a core's own cache holds, and rows of a sparse one.
_CELLS, _SPARSE_ROWS = 1 << 17, 1 << 13
# Bytes of whole rows that are held in memory; more are held in a temporary file.
_IN_MEMORY = 1 << 29
# How much there is follows from public numbers: documents of a person, about, and words of a
# document. How many there really are is private and decides nothing.
_DOCUMENTS_EACH, _WORDS_EACH = 16, 64


@dataclass(frozen=True, eq=False)
class Groups:
    """The documents of a plan in groups; each group's vector is clipped as one.

    Attributes:
        partition: What the groups were made from.
        units: How many units train: documents, or owners for unit ``person``.
        width: Features of a document.
        classes: Number of classes.
        dense: Whether feature rows are stored without gaps.
        private: The documents of this rank, for the questions of a session alone.

    Guarantees:
        Which group a document is in follows from seed and index, or from a column that was
        declared public: never from texts, labels, edges or how much an owner wrote.
    """

    partition: PartitionFacts
    units: int
    width: int
    classes: int
    dense: bool
    private: Documents = field(repr=False)

    @property
    def count(self) -> int:
        """How many groups there are, on all ranks together."""
        return self.partition.groups

    @classmethod
    def of_plan(
        cls,
        plan: PrivacyPlan,
        graph: DocumentGraph,
        *,
        rows: NDArray[np.int64] | None = None,
        columns: Mapping[str, Any] | None = None,
        ranks: Ranks | None = None,
    ) -> Groups:
        """The partition that a plan names.

        Args:
            plan: Names unit and partition.
            graph: Holds the documents; a ``numpy.memmap`` of features is read in blocks.
            rows: Those that train, as indices; default: all.
            columns: Further columns of the documents that train, for a public partition.
            ranks: The processes that share the work. Each holds whole groups, and reads the
                features of its own documents only: see ``Ranks.holds``.

        Raises:
            PrivacyContractError: The plan was made for other documents.
        """
        chosen = slice(None) if rows is None else rows
        labels, owners = graph.labels[chosen], graph.owners
        owners = None if owners is None else owners[chosen]
        person = plan.unit == "person"
        units = len(np.unique(owners)) if person and owners is not None else len(labels)
        if units != plan.units:
            raise PrivacyContractError(
                f"The plan is for {plan.units} units, but there are {units} training "
                f"{'owners' if person else 'documents'}. "
                "Make the plan from the documents it is used with."
            )
        group = partition(plan.partition, len(labels), owners, columns or {})
        if ranks is not None and ranks.size > 1:
            own = np.flatnonzero(ranks.holds(group))
            labels, group, rows = labels[own], group[own], own if rows is None else rows[own]
        # A label outside the classes is none: an error would tell that there is one.
        labels = np.where((labels >= 0) & (labels < graph.classes), labels, -1)
        about = units * (_DOCUMENTS_EACH if person else 1)
        documents = Documents(graph, rows, labels, group, plan.partition.groups, about)
        facts = plan.partition, units, graph.width, graph.classes, graph.dense
        return cls(*facts, private=documents)


class Documents:
    """The private side: documents of this rank, their labels and groups.

    Attributes:
        labels: Class of each document, -1 without one.
        group: Group of each document.
        count: How many groups there are on all ranks.
        of_labelled: Less than one over the labelled documents of its group, for each of them;
            over a group they add up to one at most.
        of_all: The same of all documents.
    """

    def __init__(
        self,
        graph: DocumentGraph,
        rows: NDArray[np.int64] | None,
        labels: NDArray[np.int64],
        group: NDArray[np.int64],
        count: int,
        about: int,
    ) -> None:
        self._graph, self._rows, self._about = graph, rows, about
        self.labels, self.group, self.count = labels, group, count
        self.of_labelled = self._fractions(labels >= 0)
        self.of_all = self._fractions(np.ones_like(labels, bool))
        self._prepared: dict[tuple[Any, ...], list[Any]] = {}

    def _fractions(self, counted: NDArray[np.bool_]) -> Floats:
        of_group = np.bincount(self.group, counted, self.count)
        fractions: Floats = shortened(1) / np.maximum(of_group, 1.0)[self.group] * counted
        return fractions

    def whole_rows(self, grid: Grid, mean: NDArray[Any] | None) -> WholeRows:
        """Directions of all feature rows on the grid, in blocks; their size changes no bit.

        Args:
            grid: Of the plan.
            mean: Released; taken off dense directions.
        """
        features, documents = self._graph.features, len(self.labels)
        sparse = issparse(features)
        width = _WORDS_EACH if sparse else features.shape[1]
        size = _SPARSE_ROWS if sparse else max(1, _CELLS // max(width, 1))
        disk = None
        if 2 * self._about * width > _IN_MEMORY:
            cells = features.nnz * 6 if sparse else documents * width
            disk = np.memmap(tempfile.TemporaryFile(), np.int16, "w+", shape=cells + 1)
        blocks, end = [], 0
        for begin in range(0, documents, size):
            own = slice(begin, begin + size)
            block = features[own if self._rows is None else self._rows[own]]
            rows = whole_rows(directions(block, mean), grid.row_bits)
            if disk is not None:
                rows, end = _moved(rows, disk, end)
                forget(features)
                forget(disk)
            blocks.append(rows)
        return WholeRows(blocks)

    def prepared(
        self, make: Callable[[DocumentGraph], Any], key: tuple[Any, ...]
    ) -> Sequence[Any]:
        """What ``make`` makes of each group's own subgraph, once for each ``key``.

        The subgraph holds the group's documents and the edges among them. Groups without a
        labelled document, and those of other ranks, have ``None``: they add nothing.
        """
        if key not in self._prepared:
            rows = np.arange(len(self._graph)) if self._rows is None else self._rows
            labelled = np.bincount(self.group, self.labels >= 0, self.count) > 0
            subgraphs = self._graph.induced(rows).subgraphs(self.group, self.count)
            self._prepared[key] = [
                make(subgraph) if some else None
                for subgraph, some in zip(subgraphs, labelled, strict=True)
            ]
        return self._prepared[key]


class WholeRows(NamedTuple):
    """Feature rows on the grid."""

    rows: Sequence[Rows]

    def blocks(self) -> Iterator[tuple[slice, Rows]]:
        """Each block of rows in float64, and which documents are in it."""
        end = 0
        for block in self.rows:
            begin, end = end, end + block.shape[0]
            yield slice(begin, end), block.astype(np.float64)
            forget(block)


def _moved(rows: Rows, disk: NDArray[np.int16], begin: int) -> tuple[Rows, int]:
    """A block of rows that lies on disk, and where there is room for the next."""

    def move(array: NDArray[Any]) -> NDArray[Any]:
        nonlocal begin
        words = np.ascontiguousarray(array).reshape(-1).view(np.int16)
        begin, end = -(-begin // 4) * 4, begin  # aligned
        disk[begin : begin + len(words)] = words
        begin, end = begin + len(words), begin
        return disk[end:begin].view(array.dtype).reshape(array.shape)

    if not issparse(rows):
        return move(rows), begin
    pieces = move(rows.data), move(rows.indices), rows.indptr
    return csr_array(pieces, shape=rows.shape), begin


def forget(rows: Rows) -> None:
    """Takes pages of mapped files out of memory; they are read again when needed."""
    for array in (rows.data, rows.indices) if issparse(rows) else (rows,):
        while isinstance(array, np.ndarray):
            if isinstance(array, np.memmap) and array.mode != "c":
                if isinstance(array.base, mmap.mmap):
                    array.base.madvise(mmap.MADV_DONTNEED)
            array = array.base
