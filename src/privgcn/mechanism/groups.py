"""Training documents, and which of them are clipped together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from privgcn.errors import PrivacyContractError
from privgcn.graph import DocumentGraph, check_rows, in_blocks, partition
from privgcn.mechanism.fixed_point import Floats, Grid, Rows, directions, shortened, whole_rows
from privgcn.mechanism.ranks import Ranks
from privgcn.privacy.plan import PartitionFacts, PrivacyPlan
from privgcn.storage import unmap

# Cells of a dense block, which a core's own cache holds, and rows of a sparse one.
_CELLS, _SPARSE_ROWS = 1 << 17, 1 << 13
# Bytes of whole rows that memory holds; more lie in a temporary file. How many there are is
# private and decides nothing: documents of a person and words of a document, about, do.
_IN_MEMORY, _DOCUMENTS_EACH, _WORDS_EACH = 1 << 26, 16, 64


@dataclass(frozen=True, eq=False)
class Groups:
    """The documents of a plan in groups; the vector of each group is clipped as one.

    ``private`` are the documents of this rank, for the questions of this package alone. The
    rest is public: what groups were made from, how many ``units`` train, facts of the
    documents, and the ``ranks`` that share them out.

    Guarantees:
        Which group a document is in follows from seed and index, or from a column that was
        declared public: never from texts, labels, edges or how much an owner wrote.
    """

    partition: PartitionFacts
    units: int
    width: int
    classes: int
    dense: bool
    ranks: Ranks
    private: Documents = field(repr=False)

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
            columns: Their further columns, for a partition by a public one.
            ranks: Each reads the features of groups that it holds (``Ranks.holds``) alone.

        Raises:
            PrivacyContractError: The plan was made for other documents.
        """
        check_rows(graph, rows)
        chosen = slice(None) if rows is None else rows
        labels, owners = graph.labels[chosen], graph.owners
        owners = None if owners is None else owners[chosen]
        group = partition(plan.partition, len(labels), owners, columns or {})
        person = plan.unit == "person"
        units = len(np.unique(owners)) if person and owners is not None else len(labels)
        if units != plan.units:
            raise PrivacyContractError(
                f"The plan is for {plan.units} units, but there are {units} training "
                f"{'owners' if person else 'documents'}. "
                "Make the plan from the documents it is used with."
            )
        ranks = ranks or Ranks()
        if ranks.size > 1:
            own = np.flatnonzero(ranks.holds(group))
            labels, group, rows = labels[own], group[own], own if rows is None else rows[own]
        # A label outside the classes is none: an error would tell that there is one.
        labels = np.where((labels >= 0) & (labels < graph.classes), labels, -1)
        about = units * (_DOCUMENTS_EACH if person else 1)
        documents = Documents(graph, rows, labels, group, plan.partition.groups, about)
        facts = plan.partition, units, graph.width, graph.classes, graph.dense
        return cls(*facts, ranks, documents)


@dataclass(eq=False)
class Documents:
    """The private side: documents of this rank, their ``labels`` (-1 for none) and ``group``.

    ``rows`` are their indices in the graph, ``count`` says how many groups all ranks have, and
    ``about`` is a public number of documents that stands in for the private one.
    """

    graph: DocumentGraph
    rows: NDArray[np.int64] | None
    labels: NDArray[np.int64]
    group: NDArray[np.int64]
    count: int
    about: int

    def __post_init__(self) -> None:
        self._whole: tuple[Any, ...] = (None, None, None)
        self._prepared: dict[Any, list[Any]] = {}
        self.of_labelled = self._fractions(self.labels >= 0)
        self.of_all = self._fractions(np.ones_like(self.labels, bool))

    def _fractions(self, counted: NDArray[np.bool_]) -> Floats:
        """A little less than one over the counted documents of its group; 0 for the others."""
        of_group = np.bincount(self.group, counted, self.count)
        return np.asarray(shortened(1) / np.maximum(of_group, 1.0)[self.group] * counted)

    def blocks(self, grid: Grid, mean: NDArray[Any] | None) -> Iterator[tuple[slice, Rows]]:
        """Which documents are in a block, and their directions as whole numbers, in float64.

        A released ``mean`` is taken off. How many documents a block has changes no bit.
        """
        whole = self._whole  # once: another session on the same groups may replace it
        sparse, documents = issparse(self.graph.features), len(self.labels)
        width = _WORDS_EACH if sparse else self.graph.width
        size = _SPARSE_ROWS if sparse else max(1, _CELLS // max(width, 1))
        cuts = [slice(at, min(at + size, documents)) for at in range(0, documents, size)]
        disk, features = 2 * self.about * width > _IN_MEMORY, self.graph.features
        if whole[0] != grid or whole[1] is not mean:

            def cut(rows: Rows) -> Rows:
                return whole_rows(directions(rows, mean), grid.row_bits)

            made = in_blocks(features, cut, self.rows, on_disk=disk, size=size)
            # What memory holds is taken apart once, and not in every step.
            made = made if disk else [made[own] for own in cuts]
            self._whole = whole = grid, mean, made
        for number, own in enumerate(cuts):
            yield own, whole[2][own if disk else number].astype(np.float64)
            if disk:
                unmap(whole[2])

    def per_group(self, make: Callable[[DocumentGraph], Any], key: Any) -> Sequence[Any]:
        """What ``make`` makes of each group's own subgraph, once for each ``key``.

        The subgraph holds the group's documents and the edges among them. Groups without a
        labelled document, and those of other ranks, have ``None``: they add nothing.
        """
        if key not in self._prepared:
            rows = np.arange(len(self.graph)) if self.rows is None else self.rows
            labelled = np.bincount(self.group, self.labels >= 0, self.count) > 0
            subgraphs = self.graph.induced(rows).subgraphs(self.group, self.count)
            pairs = zip(subgraphs, labelled, strict=True)
            self._prepared[key] = [make(own) if some else None for own, some in pairs]
        return self._prepared[key]
