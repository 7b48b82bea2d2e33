"""Graphs of documents: from a corpus, to and from PyTorch Geometric, induced subgraphs."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from brute_force import random_graph
from privgcn.data import Corpus
from privgcn.errors import DataError, MissingExtraError
from privgcn.graph import TextGraph

PYG = pytest.mark.filterwarnings("ignore")


def test_every_document_has_a_label_and_a_split() -> None:
    graph = random_graph(10)
    for name in ("labels", "split"):
        with pytest.raises(DataError, match=name):
            replace(graph, **{name: getattr(graph, name)[:9]})
    with pytest.raises(DataError, match="owners"):
        replace(graph, owners=torch.zeros(11))


def test_induced_keeps_links_among_the_chosen_only() -> None:
    graph = random_graph(20, links=60, owners=4)
    rows = torch.tensor([5, 2, 11, 7])
    part = graph.induced(rows)
    links = {frozenset(pair) for pair in graph.edges.T.tolist()}
    expected = {
        frozenset((i, j))
        for i in range(4)
        for j in range(i)
        if frozenset((int(rows[i]), int(rows[j]))) in links
    }
    assert {frozenset(pair) for pair in part.edges.T.tolist()} == expected
    assert bool((part.edges[0] < part.edges[1]).all())
    assert torch.equal(part.features.dense(), graph.features.dense()[rows])
    assert part.owners is not None
    assert graph.owners is not None
    assert torch.equal(part.owners, graph.owners[rows])


def test_from_a_corpus_empties_rows_that_are_not_finite() -> None:
    vectors = np.ones((3, 2), dtype=np.float32)
    vectors[1, 0] = np.inf
    corpus = Corpus(
        name="tiny",
        ids=np.array(["a", "b", "c"]),
        vectors=vectors,
        labels=np.array([0, 1, -1]),
        classes=("x", "y"),
        edges=np.array([[0], [1]]),
        split=np.broadcast_to(np.int8(0), 3),
    )
    graph = TextGraph.from_corpus(corpus, vectors)
    assert graph.features.dense().tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]
    assert len(graph.to("cpu")) == 3


@PYG
@pytest.mark.parametrize("sparse", [False, True])
def test_there_and_back_through_pyg(sparse: bool) -> None:
    graph = random_graph(20, owners=3, sparse=False)
    split = torch.arange(20, dtype=torch.int8) % 4
    data = replace(graph, split=split, labels=graph.labels.clamp(min=0)).to_pyg()
    if sparse:
        data.x = data.x.to_sparse()
    again = TextGraph.from_pyg(data)
    assert torch.allclose(again.features.dense(), graph.features.dense())
    links = {tuple(pair) for pair in graph.edges.T.tolist()}
    assert {tuple(pair) for pair in again.edges.T.tolist()} == links
    assert torch.equal(again.split, split)


@PYG
def test_from_pyg_drops_doubles_and_loops_and_trains_on_all_without_masks() -> None:
    from torch_geometric.data import Data

    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 1, 0]])
    data = Data(x=torch.ones(3, 2), edge_index=edges, y=torch.tensor([0, 1, 1]))
    graph = TextGraph.from_pyg(data)
    assert graph.edges.tolist() == [[0, 0], [1, 2]]
    assert graph.split.tolist() == [0, 0, 0]
    assert graph.classes == 2
    with pytest.raises(DataError, match="'edge_index', and 'x' or 'text'"):
        TextGraph.from_pyg(Data(x=torch.ones(3, 2)))


def test_without_the_extra_to_pyg_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch_geometric.data", None)
    with pytest.raises(MissingExtraError, match=r"privgcn\[graph\].*checkout.*\.\[graph\]"):
        random_graph(3, owners=1, sparse=False).to_pyg()
