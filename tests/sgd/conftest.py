"""Small graphs, and sessions over them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.sparse import csr_array

from brute_force import plan_of
from privgcn.graph import DocumentGraph
from privgcn.mechanism import Groups, RandomSource, Session

Make = Callable[..., DocumentGraph]


def random_graph(
    documents: int = 30, width: int = 8, *, edges: int = 70, sparse: bool = True, seed: int = 0
) -> DocumentGraph:
    """Documents of four classes, a tenth of them without label."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 4, documents)
    rows = draw.normal(size=(documents, width)) * (draw.random((documents, width)) < 0.5)
    rows[np.arange(documents), labels] += 2.0
    pairs = np.sort(draw.integers(0, documents, (2, edges)), axis=0)
    pairs = np.unique(pairs[:, pairs[0] != pairs[1]], axis=1)
    labels[draw.random(documents) < 0.1] = -1
    features = rows.astype(np.float32)
    return DocumentGraph(
        csr_array(features) if sparse else features,
        pairs,
        labels,
        4,
        draw.choice([0, 0, 1, 2], documents).astype(np.int8),
    )


@pytest.fixture
def make_graph() -> Make:
    return random_graph


@pytest.fixture
def make_session() -> Callable[..., Session]:
    def made(
        graph: DocumentGraph, *, noise: float = 1.0, clip_norm: float = 1.0, seed: int = 0
    ) -> Session:
        plan = plan_of(graph, unit="part", groups=5, steps=4, noise=noise, clip_norm=clip_norm)
        source = RandomSource.seeded(seed, "test of a network")
        return Session(plan, Groups.of_plan(plan, graph), source)

    return made
