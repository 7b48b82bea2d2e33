"""Propagation is PyTorch Geometric's ``gcn_norm``."""

import pytest
import torch

from brute_force import random_graph
from privgcn.graph import propagate, propagation_matrix


@pytest.mark.filterwarnings("ignore")
def test_equal_to_gcn_norm() -> None:
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    graph = random_graph(30, 4, links=60)
    both = torch.cat([graph.edges, graph.edges.flip(0)], dim=1)
    index, weights = gcn_norm(both, num_nodes=30)
    expected = torch.zeros(30, 30)
    expected[index[1], index[0]] = weights
    assert torch.allclose(propagation_matrix(graph.edges, 30).dense(), expected, atol=1e-7)


def test_symmetric_and_local_without_links() -> None:
    graph = random_graph(30, 4, links=60)
    dense = propagation_matrix(graph.edges, 30).dense()
    assert torch.equal(dense, dense.T)
    empty = torch.empty((2, 0), dtype=torch.int64)
    assert torch.equal(propagation_matrix(empty, 5).dense(), torch.eye(5))


def test_hops() -> None:
    graph = random_graph(12, 4, links=20)
    matrix = propagation_matrix(graph.edges, 12)
    values = torch.randn(12, 2, 3)
    twice = torch.einsum("ij,jk,krc->irc", matrix.dense(), matrix.dense(), values)
    assert torch.allclose(propagate(matrix, values, 2), twice, atol=1e-6)
    assert propagate(matrix, values, 0) is values
    assert propagate(None, values, 2) is values
