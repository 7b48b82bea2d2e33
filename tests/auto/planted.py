"""Small corpora for recipe ``auto``, and models trained on them through a session."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privgcn.auto.moment_matching import matched_scores
from privgcn.auto.train import train
from privgcn.config import Mode, Settings, make_settings
from privgcn.graph import DocumentGraph, scaled_rows
from privgcn.inference import scores_in_mode
from privgcn.mechanism import Groups, RandomSource, Session
from privgcn.privacy.plan import PrivacyPlan, plan_for
from privgcn.released import Released

CLASSES, WIDTH = 3, 40
NO_EDGES = np.zeros((2, 0), np.int64)


def graph_of(
    rows: Any, labels: NDArray[np.int64], classes: int, edges: Any = NO_EDGES
) -> DocumentGraph:
    """A graph whose rows have length one; all documents train."""
    split = np.zeros(len(labels), np.int8)
    return DocumentGraph(scaled_rows(rows, "l2"), np.asarray(edges), labels, classes, split)


def planted(documents: int, seed: int, *, edges: int = 3) -> DocumentGraph:
    """Documents around three weak centers, with edges within their class."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, documents)
    centers = np.random.default_rng(99).normal(size=(CLASSES, WIDTH))
    rows = 0.2 * centers[labels] + rng.normal(size=(documents, WIDTH))
    pairs = set()
    for row in range(documents):
        same = np.flatnonzero(labels == labels[row])
        for other in rng.choice(same, edges) if edges else ():
            if other != row:
                pairs.add((min(row, int(other)), max(row, int(other))))
    ends = np.array(sorted(pairs), np.int64).reshape(-1, 2).T
    return graph_of(rows, labels, CLASSES, ends)


def rewired(graph: DocumentGraph) -> DocumentGraph:
    """The same documents; the second ends of the edges in a random order."""
    order = np.random.default_rng(5).permutation(graph.edges.shape[1])
    ends = np.stack([graph.edges[0], graph.edges[1][order]])
    return replace(graph, edges=np.sort(ends[:, ends[0] != ends[1]], axis=0))


def templated(documents: int, seed: int) -> DocumentGraph:
    """Documents of six classes, most of whose length is one of four templates."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(98)
    labels = rng.integers(0, 6, documents)
    centers, templates = fixed.normal(size=(6, 100)), fixed.normal(size=(4, 100))
    rows = 0.4 * centers[labels] + 5 * templates[rng.integers(0, 4, documents)]
    return graph_of(rows + rng.normal(size=(documents, 100)), labels, 6)


def auto_settings(epsilon: float | None = 1.0, **changes: Any) -> Settings:
    """Settings of the recipe, reproducible; ``privacy__unit`` stands for ``privacy.unit``."""
    dotted = {name.replace("__", "."): value for name, value in changes.items()}
    usual = {"privacy.reproducible": True, "privacy.delta": 1e-4}
    return make_settings("auto", epsilon=epsilon, changes={**usual, **dotted})


def plan_of(graph: DocumentGraph, settings: Settings) -> PrivacyPlan:
    """The plan of these documents, each a unit or its owner one."""
    assert settings.privacy is not None
    person = settings.privacy.unit == "person"
    units = len(np.unique(graph.owners)) if person else len(graph)
    epochs = settings.training.epochs
    return plan_for(settings.privacy, units, epochs=epochs, seed=settings.seed, columns={})


def trained(
    graph: DocumentGraph,
    settings: Settings,
    *,
    seed: int = 0,
    label_vectors: NDArray[np.float32] | None = None,
) -> Released:
    """A model of these documents."""
    plan = plan_of(graph, settings)
    source = RandomSource.seeded(seed, "test")
    session = Session(plan, Groups.of_plan(plan, graph), source)
    return train(session, settings, label_vectors=label_vectors)


def accuracy(released: Released, graph: DocumentGraph, mode: Mode) -> float:
    """On all documents of a graph."""
    scores = scores_in_mode(released, graph, np.arange(len(graph)), mode)
    return float((scores.argmax(axis=1) == graph.labels).mean())


def with_constants(released: Released, **changes: float) -> Released:
    """The same model with other constants of moment matching."""
    assert released.matching is not None
    return replace(released, matching={**released.matching, **changes})


def matched(released: Released, graph: DocumentGraph) -> NDArray[np.float32]:
    """Scores of all documents by moment matching."""
    return matched_scores(released, graph, np.arange(len(graph)))
