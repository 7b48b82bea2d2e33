"""What predictions about training documents tell of their edges and of a private column."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from privgcn.audit.membership import Members
from privgcn.config import Mode
from privgcn.data import TRAIN
from privgcn.errors import ConfigError
from privgcn.graph import DocumentGraph
from privgcn.inference import scores_in_mode
from privgcn.mechanism.fixed_point import Floats
from privgcn.released import Released

# Pairs of each kind, at most.
_PAIRS = 4_000


def answers(released: Released, graph: DocumentGraph, mode: Mode) -> Floats:
    """Class probabilities of all documents, as a service in this mode would give them.

    Whoever asks knows documents but no edges. Only a ``full-graph`` service has the edges.
    """
    asked = np.arange(len(graph))
    if mode != "full-graph":
        graph = replace(graph, edges=graph.edges[:, :0])
    scores = scores_in_mode(released, graph, asked, mode)
    return np.asarray(softmax(scores.astype(np.float64), axis=1))


def stolen_edges(graph: DocumentGraph, vectors: Floats) -> Members:
    """Tells connected training documents from as many others by how alike their vectors are.

    He et al. (2021). Connected documents are alike anyway: compare with the vectors of their
    texts, which no model made.
    """
    random = np.random.default_rng(0)
    training = graph.split == TRAIN
    edges = graph.edges[:, training[graph.edges].all(0)]
    if edges.shape[1] > _PAIRS:
        edges = edges[:, random.permutation(edges.shape[1])[:_PAIRS]]
    shape = (2, 4 * edges.shape[1] + 16)
    apart = np.sort(random.choice(np.flatnonzero(training), shape), axis=0)
    known = np.isin(
        apart[0] * len(graph) + apart[1], graph.edges[0] * len(graph) + graph.edges[1]
    )
    apart = apart[:, (apart[0] != apart[1]) & ~known][:, : edges.shape[1]]
    # The cosine of two vectors, each less the mean of all.
    moved = vectors - vectors.mean(0)
    moved /= np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-9)
    alike = ((moved[pairs[0]] * moved[pairs[1]]).sum(1) for pairs in (edges, apart))
    return Members(*alike)


def inferred_column(
    values: NDArray[np.object_], graph: DocumentGraph, vectors: Floats
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
