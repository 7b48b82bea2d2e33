"""Small graphs, and sessions over them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

import brute_force
from privgcn.mechanism import Groups, RandomSource, Session


def random_graph(documents=30, width=8, *, edges=70, sparse=True, seed=0):
    """Documents of four classes that can be learned, some of them without label."""
    made = brute_force.random_graph(documents, width, 4, edges, seed=seed, unlabelled=0.1)
    rows = made.features
    rows[np.arange(documents), made.labels] += 2.0 * (made.labels >= 0)
    split = np.random.default_rng(seed).choice([0, 0, 1, 2], documents).astype(np.int8)
    return replace(made, features=csr_array(rows) if sparse else rows, split=split)


@pytest.fixture
def make_graph():
    return random_graph


@pytest.fixture
def make_session():
    def made(graph, *, noise=1.0, clip_norm=1.0, seed=0):
        options = {"unit": "part", "groups": 5, "steps": 4}
        plan = brute_force.plan_of(graph, **options, noise=noise, clip_norm=clip_norm)
        source = RandomSource.seeded(seed, "test of a network")
        return Session(plan, Groups.of_plan(plan, graph), source)

    return made
