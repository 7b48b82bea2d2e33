"""Small graphs, and sessions over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

import brute_force
from privgcn.graph import DocumentGraph
from privgcn.mechanism import Groups, RandomSource, Session

Make = Callable[..., DocumentGraph]


def random_graph(
    documents: int = 30, width: int = 8, *, edges: int = 70, sparse: bool = True, seed: int = 0
) -> DocumentGraph:
    """Documents of four classes that can be learned, some of them without label."""
    made = brute_force.random_graph(documents, width, 4, edges, seed=seed, unlabelled=0.1)
    rows = made.features
    rows[np.arange(documents), made.labels] += 2.0 * (made.labels >= 0)
    split = np.random.default_rng(seed).choice([0, 0, 1, 2], documents).astype(np.int8)
    return replace(made, features=csr_array(rows) if sparse else rows, split=split)


@pytest.fixture
def make_graph() -> Make:
    return random_graph


@pytest.fixture
def make_session() -> Callable[..., Session]:
    def made(
        graph: DocumentGraph, *, noise: float = 1.0, clip_norm: float = 1.0, seed: int = 0
    ) -> Session:
        plan = brute_force.plan_of(
            graph, unit="part", groups=5, steps=4, noise=noise, clip_norm=clip_norm
        )
        source = RandomSource.seeded(seed, "test of a network")
        return Session(plan, Groups.of_plan(plan, graph), source)

    return made
