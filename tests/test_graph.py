"""Documents as a graph: induced subgraphs, degrees inside a group, nothing across."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from brute_force import random_graph
from privgcn.data.edges import canonical_edges
from privgcn.errors import PrivacyContractError
from privgcn.graph import DocumentGraph, in_blocks, partition, random_groups, scaled_rows
from privgcn.privacy.plan import PartitionFacts
from privgcn.storage import mapping


def a_graph(*, sparse=False):
    graph = random_graph(40, 6, 3, edges=150, sparse=sparse, owners=9)
    return replace(graph, split=(np.arange(40) % 4).astype(np.int8))


def rows_of(graph):
    return np.asarray(graph.features if graph.dense else graph.features.toarray())


def test_propagation_is_the_definition():
    graph = a_graph()
    adjacency = np.eye(40)
    adjacency[graph.edges[0], graph.edges[1]] = adjacency[graph.edges[1], graph.edges[0]] = 1
    scale = adjacency.sum(1) ** -0.5
    expected = scale[:, None] * adjacency * scale
    assert np.allclose(graph.propagation.toarray(), expected, atol=1e-7)
    assert graph.propagation is graph.propagation


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("count", [1, 4, 40, 60])
def test_subgraphs_are_the_induced_ones_and_no_edge_crosses(count, sparse):
    graph = a_graph(sparse=sparse)
    group = np.random.default_rng(1).integers(0, count, 40)
    pieces = graph.subgraphs(group, count)
    assert len(pieces) == count
    for number, piece in enumerate(pieces):
        own = graph.induced(np.flatnonzero(group == number))
        assert np.array_equal(rows_of(piece), rows_of(own))
        for name in ("labels", "split", "owners"):
            assert np.array_equal(getattr(piece, name), getattr(own, name))
        assert {*zip(*piece.edges.tolist(), strict=True)} == {
            *zip(*own.edges.tolist(), strict=True)
        }
        assert (piece.edges[0] < piece.edges[1]).all()
    within = int((group[graph.edges[0]] == group[graph.edges[1]]).sum())
    assert sum(piece.edges.shape[1] for piece in pieces) == within


def test_induced_keeps_the_order_that_is_asked_for():
    graph, chosen = a_graph(), np.array([7, 3, 30])
    piece = graph.induced(chosen)
    assert np.array_equal(piece.features, graph.features[chosen])
    full = graph.propagation.toarray() > 0
    assert np.array_equal(piece.propagation.toarray() > 0, full[np.ix_(chosen, chosen)])
    with pytest.raises(ValueError, match="one row, label and split"):
        DocumentGraph(np.ones((3, 2)), np.zeros((2, 0), int), np.zeros(2, int), 2, np.zeros(3))


@pytest.mark.parametrize("norm", ["none", "l1", "l2"])
@pytest.mark.parametrize("sparse", [True, False])
def test_rows_are_scaled_by_themselves(norm, sparse):
    rows = np.array([[3.0, 4.0], [0.0, 0.0], [1e30, 1e30], [1e-30, 0.0], [-1.0, 1.0]])
    bad = np.array([[np.nan, 1.0], [np.inf, 1.0], [1e300, 0.0]])
    both = np.concatenate([rows, bad])
    scaled = scaled_rows(csr_array(both) if sparse else both, norm)
    scaled = scaled.toarray() if sparse else scaled
    size = {"none": 1.0, "l1": np.abs(rows).sum(1), "l2": np.linalg.norm(rows, axis=1)}[norm]
    expected = rows / np.reshape(np.where(size == 0, 1.0, size), (-1, 1))
    assert np.allclose(scaled[:5], expected, rtol=1e-6, atol=0)
    assert not scaled[5:].any()
    assert scaled.dtype == np.float32


def test_random_groups_come_from_seed_and_number_alone():
    for members, groups in ((10, 3), (10, 10), (7, 1), (100, 13)):
        sizes = np.bincount(random_groups(members, groups, 0), minlength=groups)
        assert (sizes.sum(), sizes.max() - sizes.min() <= 1) == (members, True)
        assert np.array_equal(sizes, np.sort(sizes)[::-1]), "larger groups come first"
    assert np.array_equal(random_groups(50, 7, 3), random_groups(50, 7, 3))
    together = np.stack([random_groups(20, 4, seed) for seed in range(2000)])
    same = (together[:, 0] == together[:, 1]).mean()
    assert same == pytest.approx(4 / 19, abs=0.04), "any two fall together alike"


OWNERS = np.array([5, 2, 5, 9, 2, 2])
COLUMNS = {"ward": ["b", "a", "b", "c", "a", "a"], "page": [1, 1, 2, 2, 3, 3]}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"kind": "each", "groups": 6}, [0, 1, 2, 3, 4, 5]),
        ({"kind": "each", "groups": 3, "by": "owner"}, [1, 0, 1, 2, 0, 0]),
        ({"kind": "single", "groups": 1}, [0] * 6),
        ({"kind": "column", "groups": 3, "column": "page"}, [0, 0, 1, 1, 2, 2]),
        ({"kind": "column", "groups": 3, "column": "ward", "by": "owner"}, [1, 0, 1, 2, 0, 0]),
    ],
)
def test_partitions(facts, expected):
    made = partition(PartitionFacts(**facts), 6, OWNERS, COLUMNS)
    assert made.tolist() == expected


def test_a_random_partition_by_owner_splits_nobody():
    facts = PartitionFacts(kind="random", groups=2, by="owner", seed=3)
    group = partition(facts, 6, OWNERS, {})
    assert all(len({*group[owner == OWNERS].tolist()}) == 1 for owner in OWNERS)


@pytest.mark.parametrize(
    ("facts", "owners", "message"),
    [
        (
            {"kind": "each", "groups": 5},
            OWNERS,
            "for 5 groups, but the training documents give",
        ),
        ({"kind": "each", "groups": 3, "by": "owner"}, None, "needs a corpus with owners"),
        ({"kind": "column", "groups": 3, "column": "sex"}, OWNERS, "Columns: ward, page"),
        (
            {"kind": "column", "groups": 3, "column": "page", "by": "owner"},
            OWNERS,
            "documents of one owner into different",
        ),
    ],
)
def test_plans_for_other_documents_are_refused(facts, owners, message):
    with pytest.raises(PrivacyContractError, match=message):
        partition(PartitionFacts(**facts), 6, owners, COLUMNS)


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_are_made_a_block_at_a_time(sparse, on_disk):
    dense = np.arange(30, dtype=np.float32).reshape(10, 3) % 4
    features, sizes = csr_array(dense) if sparse else dense, []
    chosen = np.arange(10)[::-1]

    def doubled(block):
        sizes.append(block.shape[0])
        return 2 * block

    made = in_blocks(features, doubled, chosen, on_disk=on_disk, size=4)
    assert sizes == [4, 4, 2]
    assert (mapping(made) is not None) == on_disk
    np.testing.assert_array_equal(made.toarray() if sparse else made, 2 * dense[::-1])


@pytest.mark.parametrize("bound", [0, 1 << 20])
def test_large_graphs_are_the_same_on_disk(bound, monkeypatch):
    monkeypatch.setattr("privgcn.storage.MOST_IN_MEMORY", bound)
    monkeypatch.setattr("privgcn.storage._EDGES_AT_ONCE", 7)
    random = np.random.default_rng(0)
    ends = random.integers(0, 20, (2, 100))
    edges = canonical_edges(*ends, 20)
    assert (mapping(edges) is None) == bool(bound)
    pairs = {(min(pair), max(pair)) for pair in ends.T.tolist() if pair[0] != pair[1]}
    assert edges.T.tolist() == [list(pair) for pair in sorted(pairs)]
    dense = np.eye(20)
    dense[tuple(edges)] = dense[tuple(edges[::-1])] = 1
    scale = dense.sum(0) ** -0.5
    graph = DocumentGraph(dense, edges, np.zeros(20, int), 2, np.zeros(20, np.int8))
    expected = (scale * dense * scale[:, None]).astype(np.float32)
    np.testing.assert_array_equal(graph.propagation.toarray(), expected)
    induced = graph.induced(np.array([9, 2, 17]))
    among = {(0, 1): (9, 2), (0, 2): (9, 17), (1, 2): (2, 17)}
    known = [list(new) for new, old in among.items() if dense[old]]
    assert sorted(induced.edges.T.tolist()) == known
