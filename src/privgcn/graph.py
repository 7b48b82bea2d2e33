"""Documents as a graph: feature rows, edges, propagation, and the partition into groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from privgcn.errors import PrivacyContractError
from privgcn.storage import (
    Grown,
    GrownRows,
    edge_blocks,
    edges_among,
    in_order,
    mapping,
    sparse_rows,
    unmap,
)

if TYPE_CHECKING:
    from privgcn.privacy.plan import PartitionFacts

# One row per document: an array, a ``numpy.memmap`` or a ``csr_array``.
Features: TypeAlias = Any

# The system may map two megabytes around each row.
_FEW = 32


@dataclass(frozen=True, eq=False)
class DocumentGraph:
    """A graph of documents, ready for a model.

    Attributes:
        edges: ``[2, m]``, undirected, each edge once with the smaller index first.
        labels: Class of each document, -1 where there is none.
        split: 0 train, 1 validation, 2 test, 3 outside.
        owners: Owner of each document, or ``None``.
    """

    features: Features
    edges: NDArray[np.int64]
    labels: NDArray[np.int64]
    classes: int
    split: NDArray[np.int8]
    owners: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        for values in (self.labels, self.split, self.owners):
            if values is not None and len(values) != len(self):
                raise ValueError("Each document of a graph must have one row, label and split.")

    def __len__(self) -> int:
        return int(self.features.shape[0])

    @property
    def width(self) -> int:
        """Number of features."""
        return int(self.features.shape[1])

    @property
    def dense(self) -> bool:
        """Whether feature rows are stored without gaps."""
        return not issparse(self.features)

    @cached_property
    def propagation(self) -> csr_array:
        """The matrix D^-1/2 (A + I) D^-1/2 (Kipf and Welling 2017), float32."""
        count = len(self)
        degrees = np.ones(count, np.int64)
        for ends in edge_blocks(self.edges):
            degrees += np.bincount(ends.ravel(), minlength=count)
        scale, values, columns = degrees**-0.5, Grown(np.float32), Grown(np.int32)

        def cells() -> Iterator[NDArray[np.int64]]:
            for source, target in edge_blocks(self.edges):
                yield source * count + target
                yield target * count + source
            yield np.arange(count) * (count + 1)

        for keys in in_order(cells(), count * count):
            source, target = np.divmod(keys, count)
            values.append(scale[source] * scale[target])
            columns.append(target)
        lengths = np.concatenate([[0], degrees])
        return csr_array(sparse_rows(values.array(), columns.array(), lengths, count))

    def induced(self, rows: NDArray[np.int64]) -> DocumentGraph:
        """The chosen documents, in the order of ``rows``, and the edges among them only."""
        position = np.full(len(self), -1, np.int64)
        position[rows] = np.arange(len(rows))
        features, disk = self.features, mapping(self.features) is not None
        if disk:
            features = in_blocks(features, lambda block: block, rows, on_disk=True)
        return self._of(rows, edges_among(self.edges, position), features if disk else None)

    def _of(
        self, rows: NDArray[np.int64], edges: NDArray[np.int64], features: Features = None
    ) -> DocumentGraph:
        features = self.features[rows] if features is None else features
        owners = None if self.owners is None else self.owners[rows]
        labels, split = self.labels[rows], self.split[rows]
        return DocumentGraph(features, edges, labels, self.classes, split, owners)

    def subgraphs(self, group: NDArray[np.int64], count: int) -> list[DocumentGraph]:
        """The subgraph of each group, in linear time: its documents in order, its own edges.

        Guarantees:
            Edges between groups are dropped.
        """
        edges = self.edges[:, group[self.edges[0]] == group[self.edges[1]]]
        rows, begins = _sorted_by(group, count)
        order, edge_begins = _sorted_by(group[edges[0]], count)
        position = np.empty(len(self), np.int64)
        position[rows] = np.arange(len(self)) - begins[group[rows]]
        edges = np.sort(position[edges[:, order]], axis=0)
        return [
            self._of(rows[begin:end], edges[:, first:last])
            for (begin, end), (first, last) in zip(
                pairwise(begins), pairwise(edge_begins), strict=True
            )
        ]


def _sorted_by(group: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], ...]:
    begins = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=count))])
    return np.argsort(group, kind="stable"), begins


def check_rows(graph: DocumentGraph, rows: NDArray[np.int64] | None) -> None:
    """A ``ValueError`` unless feature rows, and chosen ones, are what sums take them for.

    A row of a ``csc_array`` would be a column, a document that was chosen twice in two groups.
    """
    features = graph.features
    stored = features.format if issparse(features) else type(features)
    if stored not in ("csr", np.ndarray, np.memmap):
        raise ValueError("Feature rows must be an array or a csr_array.")
    if features.ndim != 2 or features.dtype.kind not in "biuf":
        raise ValueError("Feature rows must be a table of real numbers.")
    if rows is None:
        return
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise ValueError("Chosen rows must be indices, as whole numbers.")
    inside = (rows >= 0) & (rows < len(graph))
    if not inside.all() or len(np.unique(rows)) < len(rows):
        raise ValueError(f"Chosen rows must differ, and lie between 0 and {len(graph) - 1}.")


def in_blocks(
    features: Features,
    make: Callable[[Features], Features],
    rows: NDArray[np.int64] | None = None,
    *,
    on_disk: bool,
    size: int = 1 << 13,
) -> Features:
    """What ``make`` makes of rows, so many at a time, as one array in memory or on disk."""
    count = features.shape[0] if rows is None else len(rows)
    made = GrownRows(0 if on_disk else math.inf)
    for begin in range(0, max(count, 1), size):
        own = slice(begin, begin + size)
        made.append(make(features[own if rows is None else rows[own]]))
        unmap(features)
    return made.rows()


def picked(rows: Features, chosen: NDArray[np.int64]) -> Features:
    """Rows from anywhere; of a mapped file few at once, as others come along with each."""
    size = _FEW if mapping(rows) is not None else max(1, len(chosen))
    return in_blocks(rows, lambda block: block, chosen, on_disk=False, size=size)


def scaled_rows(features: Features, norm: Literal["none", "l1", "l2"]) -> Features:
    """Feature rows in float32, each divided by its own norm: this costs no privacy.

    Rows without length, or with a number that is not finite in float32, become zero.
    """
    sparse = issparse(features)
    rows = features.tocsr() if sparse else features
    with np.errstate(all="ignore"):
        wide = (rows.data if sparse else rows).astype(np.float32).astype(np.float64)
        parts = np.abs(wide) if norm == "l1" else wide * wide
        if sparse:
            row_of = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        size = np.bincount(row_of, parts, rows.shape[0]) if sparse else parts.sum(1)
        length = {"none": np.ones_like(size), "l1": size, "l2": np.sqrt(size)}[norm]
        factor = np.where(np.isfinite(size) & (size > 0), 1.0 / length, 0.0)
        factor = factor[row_of] if sparse else factor[:, None]
        scaled = np.where(factor > 0, wide * factor, 0.0).astype(np.float32)
    return csr_array((scaled, rows.indices, rows.indptr), rows.shape) if sparse else scaled


def random_groups(members: int, groups: int, seed: int) -> NDArray[np.int64]:
    """The group of each index: as in the paper, even chunks of a random order."""
    assigned = np.empty(members, np.int64)
    chunks = np.sort(np.arange(members) % groups)
    assigned[np.random.default_rng(seed).permutation(members)] = chunks
    return assigned


def partition(
    facts: PartitionFacts,
    documents: int,
    owners: NDArray[np.int64] | None,
    columns: Mapping[str, Any],
) -> NDArray[np.int64]:
    """The group of each of some training documents, as the partition of a plan says.

    Guarantees:
        Seed and index decide, or a column that was declared public: never text, labels, edges
        or how many documents an owner has. By ``owner``, no group splits an owner.
    """
    member, members = np.arange(documents), documents
    if facts.by == "owner":
        if owners is None:
            raise PrivacyContractError(
                "A partition by 'owner' needs a corpus with owners, and this one has none. "
                "Add an 'owner' column, or protect unit 'document'."
            )
        known, member = np.unique(owners, return_inverse=True)
        members = len(known)
    if facts.kind == "column":
        group, groups = column_groups(columns, str(facts.column))
        first = np.full(members, -1)
        first[member] = group
        if (first[member] != group).any():
            raise PrivacyContractError(
                f"The partition column '{facts.column}' puts documents of one owner into "
                "different groups. Give all documents of an owner the same value."
            )
    elif facts.kind == "each":
        group, groups = member, members
    else:
        groups = facts.groups
        group = random_groups(members, groups, facts.seed or 0)[member]
    if groups != facts.groups:
        raise PrivacyContractError(
            f"The plan is for {facts.groups} groups, but the training documents give {groups}."
        )
    return group


def column_groups(columns: Mapping[str, Any], name: str) -> tuple[NDArray[np.int64], int]:
    """The group of each document from a column that the user declared public, and how many."""
    if name not in columns:
        raise PrivacyContractError(
            f"The partition column '{name}' is not in the corpus. "
            f"Columns: {', '.join(columns) or 'none'}."
        )
    values, group = np.unique(np.asarray(columns[name]).astype(str), return_inverse=True)
    return group.astype(np.int64), len(values)
