"""From a corpus to tensors: features made, scaled and joined with the links."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from privgcn.config import Settings
from privgcn.corpus import Corpus
from privgcn.features import Featurizer, make_featurizer
from privgcn.graph.rows import normalised
from privgcn.graph.textgraph import TextGraph


def fitted_featurizer(
    train: Corpus, settings: Settings, *, documents: int | None = None
) -> Featurizer:
    """The featurizer of the settings, fitted on training documents only.

    Args:
        train: The training documents.
        settings: Name the features, or leave the choice.
        documents: How many will be encoded in all; by default those.
    """
    made = make_featurizer(
        settings.features.kind,
        settings.features.options,
        train,
        language=settings.features.language,
        documents=documents,
    )
    return made.fit(train)


def graph_of(corpus: Corpus, featurizer: Featurizer, settings: Settings) -> TextGraph:
    """The documents of a corpus as a graph with feature rows scaled as the settings say."""
    graph = TextGraph.from_corpus(corpus, featurizer.transform(corpus))
    scaled = normalised(graph.features, settings.features.normalise)
    return TextGraph(
        scaled, graph.edges, graph.labels, graph.classes, graph.split, graph.owners
    )


def rows_with_split(graph: TextGraph, *codes: int) -> torch.Tensor:
    """Rows of the documents whose split is one of ``codes``."""
    return torch.nonzero(torch.isin(graph.split, torch.tensor(codes, dtype=torch.int8)))[:, 0]


def with_split(corpus: Corpus, codes: npt.ArrayLike) -> Corpus:
    """The same documents with another split: one code for all, or one for each."""
    split = np.broadcast_to(np.asarray(codes, dtype=np.int8), (len(corpus),))
    return replace(corpus, split=split)
