"""What predictions about training documents tell of their edges and of a private column."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from privgcn.audit.audit import Array
from privgcn.audit.membership import Members
from privgcn.config import Mode
from privgcn.data import TRAIN
from privgcn.errors import ConfigError
from privgcn.graph import DocumentGraph
from privgcn.inference import scores_in_mode
from privgcn.released import Released

# Pairs of each kind, at most.
_PAIRS = 4_000


def answers(released: Released, graph: DocumentGraph, mode: Mode) -> Array:
    """Class probabilities of all documents, as a service in this mode would give them.

    Whoever asks knows documents but no edges. Only a ``full-graph`` service has the edges.
    """
    asked = np.arange(len(graph))
    if mode != "full-graph":
        graph = replace(graph, edges=graph.edges[:, :0])
    scores = scores_in_mode(released, graph, asked, mode)
    return np.asarray(softmax(scores.astype(np.float64), axis=1))


def stolen_edges(graph: DocumentGraph, vectors: Array) -> Members:
    """Tells connected training documents from others by how alike their vectors are.

    He et al. (2021). Connected documents are alike anyway: compare with the vectors of their
    texts, which no model made.
    """
    connected, apart = _pairs(graph)
    return Members(_alike(vectors, connected), _alike(vectors, apart))


def inferred_column(
    values: NDArray[np.object_], graph: DocumentGraph, vectors: Array
) -> tuple[Members, Members]:
    """Guesses a column from vectors; the guesser learned from documents that did not train.

    Returns:
        For training documents, and for those that the guesser did not learn from either: true
        values and all others, scored. What can be told of documents that never trained is no
        leak of the training.
    """
    from sklearn.linear_model import LogisticRegression

    names, codes = np.unique(values.astype(str), return_inverse=True)
    training = graph.split == TRAIN
    outside = np.flatnonzero(~training)
    logs = np.log(np.clip(vectors, 1e-9, None))
    logs = (logs - logs[outside].mean(0)) / np.maximum(logs[outside].std(0), 1e-9)

    def scored(learned: NDArray[np.int64], asked: NDArray[np.int64]) -> Members:
        if len(np.unique(codes[learned])) < 2:
            raise ConfigError(
                "The column of an attack must have two values at least among documents that "
                "do not train: whoever guesses it learns from them. Choose another column."
            )
        guesser = LogisticRegression(max_iter=200).fit(logs[learned], codes[learned])
        table = np.full((len(asked), len(names)), -50.0)
        prior = np.log(np.bincount(codes[learned], minlength=len(names)) / len(learned) + 1e-9)
        guessed = guesser.predict_log_proba(logs[asked])
        table[:, guesser.classes_] = np.maximum(guessed - prior[guesser.classes_], -50.0)
        true = codes[asked][:, None] == np.arange(len(names))
        return Members(table[true], table[~true])

    # Every second document of each value.
    half = np.zeros(len(outside), dtype=bool)
    half[np.argsort(codes[outside], kind="stable")[::2]] = True
    if graph.owners is not None:
        # No person is on both sides: their documents would tell of each other.
        half = graph.owners[outside] % 2 == 0
    return (
        scored(outside, np.flatnonzero(training)),
        scored(outside[half], outside[~half]),
    )


def _pairs(graph: DocumentGraph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Connected and other pairs of training documents, as many of the one as of the other."""
    random = np.random.default_rng(0)
    training = graph.split == TRAIN
    connected = graph.edges[:, training[graph.edges].all(0)]
    if connected.shape[1] > _PAIRS:
        connected = connected[:, random.permutation(connected.shape[1])[:_PAIRS]]
    rows = np.flatnonzero(training)
    pairs = np.sort(random.choice(rows, (2, 4 * connected.shape[1] + 16)), axis=0)
    known = graph.edges[0] * len(graph) + graph.edges[1]
    free = (pairs[0] != pairs[1]) & ~np.isin(pairs[0] * len(graph) + pairs[1], known)
    return connected, pairs[:, free][:, : connected.shape[1]]


def _alike(vectors: Array, pairs: NDArray[np.int64]) -> Array:
    """The cosine of two vectors, each less the mean of all."""
    moved = vectors - vectors.mean(0)
    lengths = np.linalg.norm(moved, axis=1)
    products = np.einsum("ij,ij->i", moved[pairs[0]], moved[pairs[1]])
    return np.asarray(products / np.maximum(lengths[pairs[0]] * lengths[pairs[1]], 1e-12))
