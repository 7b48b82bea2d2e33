"""Scores of documents in an inference mode, which says what a prediction may look at.

``full-graph``, the paper's protocol, is **not** covered by the guarantee. Fewer than ``FEWEST``
documents tell too little about each other: recipe ``auto`` answers as about each alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privgcn.auto.moment_matching import matched_scores
from privgcn.auto.train import blocks, text_scores
from privgcn.config import Mode
from privgcn.graph import DocumentGraph
from privgcn.released import Released
from privgcn.storage import room, unmap

if TYPE_CHECKING:
    from torch import nn

# Documents that must be there for recipe ``auto`` to look at them together.
FEWEST = 40


def scores_in_mode(
    released: Released,
    graph: DocumentGraph,
    rows: NDArray[np.int64],
    mode: Mode,
    *,
    module: nn.Module | None = None,
) -> NDArray[Any]:
    """Class scores ``[rows, classes]``; ``module`` is the user's own network, if it is one."""
    if len(rows) == 0:
        return np.zeros((0, graph.classes), np.float32)
    if "iterates" not in released.tensors:
        # PyTorch takes a second to import.
        from privgcn.sgd.gcn import network_scores

        if mode != "full-graph":
            graph, rows = graph.induced(rows), np.arange(len(rows))
        return network_scores(released, graph, module=module, alone=mode == "alone")[rows]
    direct = released.settings.prediction.method == "direct"
    there = len(graph) if mode == "full-graph" else len(rows)
    if mode == "alone" or direct or too_few(released, there):
        # A linear model sees no edges. Few rows at a time: features may lie on disk.
        scores = room((len(rows), graph.classes), np.float64)
        for own in blocks(len(rows)):
            scores[own] = text_scores(released, graph.features[rows[own]])
            unmap(graph.features)
        return scores
    if mode == "own-graph":
        graph, rows = graph.induced(rows), np.arange(len(rows))
    return matched_scores(released, graph, rows)


def too_few(released: Released, documents: int) -> bool:
    """Whether so many documents are answered as each alone, whatever the mode."""
    return "iterates" in released.tensors and documents < FEWEST
