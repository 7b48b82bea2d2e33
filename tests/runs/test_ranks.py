"""Ranks encode their own texts, each by the one that holds its group; one of them scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from builders import small_corpus, small_settings
from privgcn.errors import ConfigError
from privgcn.mechanism import Ranks
from privgcn.runs.prepare import prepare
from privgcn.runs.train import _encoded, _gather


def test_without_privacy_there_is_one_process() -> None:
    settings = small_settings("plain", epsilon=None)
    with pytest.raises(ConfigError, match="one process"):
        prepare(small_corpus(), settings, ranks=Ranks(0, 2))
    assert prepare(small_corpus(), settings, ranks=Ranks()).ranks is None


def test_each_rank_encodes_whole_groups_and_the_first_gets_all() -> None:
    corpus = small_corpus(owners=20)
    settings = small_settings(
        privacy__unit="person", features__kind="static", features__options={}
    )
    train, graphs = corpus.split == 0, []
    for number in range(3):
        graphs.append(_encoded(prepare(corpus, settings, ranks=Ranks(number, 3))))
        own = graphs[-1].features.any(axis=1)
        owners = np.unique(corpus.owners[train & own])
        assert len(owners)
        assert np.array_equal(train & own, train & np.isin(corpus.owners, owners))
        assert own[~train].any() == (number == 0)
    assert (np.sum([graph.features.any(axis=1) for graph in graphs], axis=0) == 1).all()

    class Summed:
        leads = True

        def sum(self, block: Any) -> Any:
            return sum(graph.features[: len(block)].astype(float) for graph in graphs)

    ranks: Any = Summed()
    _gather(graphs[0], ranks)
    alone = _encoded(prepare(corpus, settings))
    assert np.array_equal(graphs[0].features, alone.features)
