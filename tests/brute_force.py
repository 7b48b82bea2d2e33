"""The yardstick of private sums: one document after the other, whole numbers, nothing clever.

Rows are cut with 400 decimal digits, products and sums are Python's integers, and what the
product computes in float64 for one document is done here one number at a time. Nothing of the
package is used but the grid and the factor that takes off roundings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from privgcn.graph import DocumentGraph
from privgcn.mechanism.fixed_point import Grid, shortened
from privgcn.privacy.plan import PartitionFacts, PrivacyPlan, Schedule

FINE = 2**25


# -- plans and graphs --------------------------------------------------------------------------


def plan_of(
    graph: DocumentGraph,
    *,
    by: str = "document",
    groups: int | None = None,
    seed: int = 0,
    unit: str | None = None,
    relation: str = "remove",
    noise: float = 1.0,
    clip_norm: float = 1.0,
    steps: int = 3,
    probability: float | None = None,
    sampling: str = "all",
) -> PrivacyPlan:
    """A plan over all documents: each document or owner a group, or random groups."""
    members = len(graph) if by == "document" else len(np.unique(graph.owners))
    count = members if groups is None else groups
    kind = {"kind": "each"} if groups is None else {"kind": "random", "seed": seed}
    kind = {"kind": "single"} if groups == 1 else kind
    sampling = sampling if probability is None else "poisson"
    return PrivacyPlan(
        unit=unit or ("person" if by == "owner" else "document"),
        relation=relation,
        partition=PartitionFacts(groups=count, by=by, **kind),
        schedule=Schedule(sampling, count, probability),
        clip_norm=clip_norm,
        noise_multiplier=noise,
        steps=steps,
        delta=min(1e-3, 0.5 / len(graph)),
        units=members if (unit or by) in ("person", "owner") else len(graph),
    )


def random_graph(
    documents: int = 40,
    features: int = 12,
    classes: int = 4,
    edges: int = 80,
    *,
    seed: int = 0,
    sparse: bool = False,
    unlabelled: float = 0.2,
    owners: int | None = None,
) -> DocumentGraph:
    """Random documents with random edges; some without a label. Every owner has one."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(documents, features)) * (rng.random((documents, features)) < 0.5)
    labels = rng.integers(0, classes, documents)
    labels[rng.random(documents) < unlabelled] = -1
    ends = np.sort(rng.integers(0, documents, (2, edges)), axis=0)
    own = None if owners is None else rng.permutation(np.arange(documents) % owners)
    return DocumentGraph(
        csr_array(rows.astype("f4")) if sparse else rows.astype("f4"),
        np.unique(ends[:, ends[0] != ends[1]], axis=1),
        labels,
        classes,
        np.zeros(documents, np.int8),
        own,
    )


# -- sums --------------------------------------------------------------------------------------


def whole_row(row: Sequence[float], grid: Grid, mean: Any = None) -> list[int]:
    """A row's direction in steps of 2^-row_bits, cut toward zero; zero if it has none.

    A mean is taken off the direction, and what is left is divided by its length.
    """
    with localcontext(prec=400):
        if not all(math.isfinite(value) for value in row):
            return [0] * len(row)
        exact = [Decimal(float(value)) for value in row]
        length = sum(value * value for value in exact).sqrt()
        if not Decimal("1e-140") < length < Decimal("1.3e154"):
            return [0] * len(row)
        exact = [value / length for value in exact]
        if mean is not None:
            exact = [value - Decimal(float(m)) for value, m in zip(exact, mean, strict=True)]
            length = sum(value * value for value in exact).sqrt()
            exact = [value / length for value in exact]
        factor = Decimal(shortened(len(row)) * 2.0**grid.row_bits)
        return [int(value * factor) for value in exact]


def softmax_vectors(
    graph: DocumentGraph,
    group: NDArray[np.int64],
    weights: NDArray[Any],
    bias: NDArray[Any],
    clip_norm: float,
    grid: Grid,
    mean: Any = None,
) -> dict[int, NDArray[Any]]:
    """What each group adds to the gradient of a linear model: exact integers."""
    table = _whole_weights(weights, grid.row_bits)
    rows, vectors = _dense(graph), {}
    for number in np.unique(group):
        members = [d for d in np.flatnonzero(group == number) if _known(graph, d)]
        vector = np.zeros(weights.shape, dtype=object)
        for document in members:
            q = whole_row(rows[document], grid, mean)
            scores = [
                float(sum(q[j] * table[j][c] for j in range(len(q)))) + float(bias[c])
                for c in range(graph.classes)
            ]
            highest = max(scores)
            likely = [int(np.exp(np.array([s - highest]))[0] * FINE) for s in scores]
            r = [int(each * (float(FINE) / sum(likely))) for each in likely]
            r[graph.labels[document]] -= FINE
            length = math.sqrt(sum(each * each for each in r))
            factor = shortened(1) / len(members) * (grid.unit * 2.0**-grid.row_bits)
            factor /= max(length, clip_norm * FINE)
            e = [int(each * factor) for each in r]
            vector += np.array([[qj * ec for ec in e] for qj in q], dtype=object)
        vectors[int(number)] = vector
    return vectors


def statistics_vectors(
    graph: DocumentGraph, group: NDArray[np.int64], grid: Grid, mean: Any = None
) -> dict[int, NDArray[Any]]:
    """What each group adds to the mean row and the class priors: exact integers."""
    rows, vectors = _dense(graph), {}
    for number in np.unique(group):
        members = np.flatnonzero(group == number)
        labelled = [document for document in members if _known(graph, document)]
        label = np.zeros(graph.classes, dtype=object)
        for document in labelled:
            part = 0.6 if graph.dense else 1.0
            label[graph.labels[document]] += int(
                shortened(1) / len(labelled) * (part * grid.unit)
            )
        row = np.zeros(graph.width, dtype=object)
        for document in members:
            each = shortened(1) / len(members) * (0.8 * grid.unit * 2.0**-grid.row_bits)
            whole = whole_row(rows[document], grid, mean)
            row += np.array([int(each) * q for q in whole], object)
        vectors[int(number)] = np.concatenate([row, label]) if graph.dense else label
    return vectors


def integers(total: NDArray[np.float64]) -> NDArray[Any]:
    """A sum as Python's integers; it must be whole."""
    assert np.array_equal(total, np.rint(total))
    return np.vectorize(int, otypes=[object])(total)


def squared_length(vector: NDArray[Any]) -> int:
    """Exact, of whole numbers."""
    return sum(int(value) ** 2 for value in vector.ravel())


def no_longer_than_a_clip_norm(vector: NDArray[Any], grid: Grid) -> bool:
    """Decided in exact numbers."""
    return squared_length(vector) <= Fraction(grid.unit) ** 2


def _known(graph: DocumentGraph, document: int) -> bool:
    return 0 <= int(graph.labels[document]) < graph.classes


def _dense(graph: DocumentGraph) -> NDArray[Any]:
    features = graph.features
    return np.asarray(features.toarray() if issparse(features) else features, np.float64)


def _whole_weights(weights: NDArray[Any], row_bits: int) -> list[list[Fraction]]:
    digits = 52 - row_bits - math.ceil(math.log2(max(len(weights), 2)))
    largest = max(max(abs(float(value)) for value in weights.ravel()), 2.0**-200)
    unit = Fraction(2) ** (math.frexp(largest)[1] - digits)
    step = unit / 2**row_bits
    return [[math.trunc(Fraction(float(v)) / unit) * step for v in row] for row in weights]
