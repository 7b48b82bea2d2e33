"""What predictions about training documents tell of their links and of a private column."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from privgcn.config import Mode
from privgcn.data.corpus import TRAIN
from privgcn.errors import ConfigError
from privgcn.evidence.membership import Members
from privgcn.graph.textgraph import TextGraph
from privgcn.prediction.inference import scores_in_mode
from privgcn.runs.train import rows_with_split
from privgcn.training.fitted import Fit

Array = npt.NDArray[np.float64]

# Pairs of each kind, at most.
_PAIRS = 4_000


def answers(fitted: Fit, graph: TextGraph, mode: Mode) -> Array:
    """Class probabilities of all documents, as a service in this mode would give them.

    Whoever asks knows documents but no links. Only a ``full-graph`` service has the links.
    """
    asked = torch.arange(len(graph))
    if mode != "full-graph":
        graph = replace(graph, edges=graph.edges[:, :0])
    return scores_in_mode(fitted, graph, asked, mode)[:, 0].double().softmax(-1).numpy()


def stolen_links(graph: TextGraph, vectors: Array) -> Members:
    """Tells linked training documents from others by how alike their vectors are.

    He et al. (2021). Linked documents are alike anyway: compare with the vectors of their
    texts, which no model made.
    """
    linked, apart = _pairs(graph)
    return Members(_alike(vectors, linked), _alike(vectors, apart))


def inferred_column(
    values: npt.NDArray[np.object_], graph: TextGraph, vectors: Array
) -> tuple[Members, Members]:
    """Guesses a column from vectors; the guesser learned from documents that did not train.

    Returns:
        For training documents, and for those that the guesser did not learn from either: true
        values and all others, scored. What can be told of documents that never trained is no
        leak of the training.
    """
    from sklearn.linear_model import LogisticRegression

    names, codes = np.unique(values.astype(str), return_inverse=True)
    training = (graph.split == TRAIN).numpy()
    outside = np.flatnonzero(~training)
    logs = np.log(np.clip(vectors, 1e-9, None))
    logs = (logs - logs[outside].mean(0)) / np.maximum(logs[outside].std(0), 1e-9)

    def scored(learned: npt.NDArray[np.int64], asked: npt.NDArray[np.int64]) -> Members:
        if len(np.unique(codes[learned])) < 2:
            raise ConfigError(
                "The column of an attack must have two values at least among documents that "
                "do not train: whoever guesses it learns from them. Choose another column."
            )
        guesser = LogisticRegression(max_iter=200).fit(logs[learned], codes[learned])
        table = np.full((len(asked), len(names)), -50.0)
        prior = np.log(np.bincount(codes[learned], minlength=len(names)) / len(learned) + 1e-9)
        found = guesser.predict_log_proba(logs[asked])
        table[:, guesser.classes_] = np.maximum(found - prior[guesser.classes_], -50.0)
        true = codes[asked][:, None] == np.arange(len(names))
        return Members(table[true], table[~true])

    # Every second document of each value.
    half = np.zeros(len(outside), dtype=bool)
    half[np.argsort(codes[outside], kind="stable")[::2]] = True
    if graph.owners is not None:
        # No person is on both sides: their documents would tell of each other.
        half = graph.owners.numpy()[outside] % 2 == 0
    return (
        scored(outside, np.flatnonzero(training)),
        scored(outside[half], outside[~half]),
    )


def _pairs(graph: TextGraph) -> tuple[Tensor, Tensor]:
    """Linked and other pairs of training documents, as many of the one as of the other."""
    random = np.random.default_rng(0)
    training = graph.split == TRAIN
    linked = graph.edges[:, training[graph.edges].all(0)]
    if linked.shape[1] > _PAIRS:
        linked = linked[:, torch.from_numpy(random.permutation(linked.shape[1])[:_PAIRS])]
    rows = rows_with_split(graph, TRAIN).numpy()
    drawn = torch.from_numpy(random.choice(rows, (2, 4 * linked.shape[1] + 16)))
    low, high = drawn.amin(0), drawn.amax(0)
    known = graph.edges[0] * len(graph) + graph.edges[1]
    free = (low != high) & ~torch.isin(low * len(graph) + high, known)
    return linked, torch.stack([low, high])[:, free][:, : linked.shape[1]]


def _alike(vectors: Array, pairs: Tensor) -> Array:
    """The cosine of two vectors, each less the mean of all."""
    moved = vectors - vectors.mean(0)
    lengths = np.linalg.norm(moved, axis=1)
    first, second = pairs.numpy()
    products = np.einsum("ij,ij->i", moved[first], moved[second])
    return np.asarray(products / np.maximum(lengths[first] * lengths[second], 1e-12))
