"""The cut: induced subgraphs, degrees inside the part, nothing across."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from brute_force import random_graph
from privgcn.errors import ConfigError
from privgcn.graph import cut, links_within, propagation_matrix, random_parts


@pytest.mark.parametrize(("members", "parts"), [(10, 3), (10, 10), (7, 1), (100, 13)])
def test_random_parts_are_balanced_and_complete(members: int, parts: int) -> None:
    sizes = torch.bincount(random_parts(members, parts, 0), minlength=parts)
    assert int(sizes.sum()) == members
    assert int(sizes.max()) - int(sizes.min()) <= 1
    assert torch.equal(sizes, sizes.sort(descending=True).values), "larger parts come first"


def test_random_parts_come_from_seed_and_number_alone() -> None:
    assert torch.equal(random_parts(50, 7, 3), random_parts(50, 7, 3))
    assert not torch.equal(random_parts(50, 7, 3), random_parts(50, 7, 4))
    together = torch.stack([random_parts(20, 4, seed) for seed in range(2000)])
    same = (together[:, 0] == together[:, 1]).double().mean()
    assert float(same) == pytest.approx(4 / 19, abs=0.04), "any two fall together alike"


def test_parts_must_be_at_least_one() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        random_parts(5, 0, 0)


@pytest.mark.parametrize("parts", [1, 4, 40])
def test_no_link_crosses_parts_and_degrees_count_inside(parts: int) -> None:
    graph = random_graph(40, 6, links=150)
    part_of = random_parts(40, parts, 2)
    pieces = cut(graph, part_of, parts)
    assert pieces.parts == parts
    assert torch.equal(part_of[pieces.order], pieces.part_of_row)
    assert torch.equal(pieces.features.dense(), graph.features.dense()[pieces.order])
    assert torch.equal(pieces.labels, graph.labels[pieces.order])
    matrix = torch.eye(40) if pieces.matrix is None else pieces.matrix.dense()
    crossing = pieces.part_of_row[:, None] != pieces.part_of_row[None, :]
    assert not bool(matrix[crossing].any()), "no entry of the matrix joins two parts"
    kept = links_within(graph.edges, part_of)
    place = torch.argsort(pieces.order)
    assert torch.allclose(matrix, propagation_matrix(place[kept], 40).dense())
    for part in range(parts):
        begin, end = pieces.offsets[part : part + 2].tolist()
        own = graph.induced(pieces.order[begin:end])
        assert torch.allclose(matrix[begin:end, begin:end], own.propagation().dense())


def test_selected_parts_are_what_the_cut_gave_them() -> None:
    graph = random_graph(40, 6, links=150)
    pieces = cut(graph, random_parts(40, 5, 2), 5)
    for chosen in ([0], [3, 1], [4, 0, 2], []):
        part = pieces.select(torch.tensor(chosen, dtype=torch.int64))
        rows = torch.cat(
            [torch.arange(*pieces.offsets[c : c + 2].tolist()) for c in chosen]
            or [torch.empty(0, dtype=torch.int64)]
        )
        assert torch.equal(part.order, pieces.order[rows])
        assert torch.equal(part.loss_weights, pieces.loss_weights[rows])
        assert pieces.matrix is not None
        assert part.matrix is not None
        assert torch.equal(part.matrix.dense(), pieces.matrix.dense()[rows][:, rows])


def test_the_mean_loss_is_over_the_parts_own_labels() -> None:
    graph = replace(random_graph(6, 3), labels=torch.tensor([0, 1, -1, -1, -1, 2]))
    pieces = cut(graph, torch.tensor([0, 0, 0, 1, 1, 2]), 4)
    expected = [0.5, 0.5, 0.0, 0.0, 0.0, 1.0]
    assert pieces.loss_weights.tolist() == pytest.approx(expected)
    assert pieces.sizes.tolist() == [3, 2, 1, 0]
    assert not pieces.one_document_each


def test_partition_and_shapes_ignore_content() -> None:
    first = random_graph(40, 6, seed=1)
    second = random_graph(40, 6, seed=2, links=3, unlabelled=0.9)
    cuts = [cut(graph, random_parts(40, 7, 0), 7) for graph in (first, second)]
    assert torch.equal(cuts[0].order, cuts[1].order)
    assert torch.equal(cuts[0].offsets, cuts[1].offsets)


def test_a_cut_needs_one_part_for_each_document() -> None:
    with pytest.raises(ConfigError, match="one entry per document"):
        cut(random_graph(10), torch.zeros(9, dtype=torch.int64), 1)


def test_a_cut_is_linear_in_documents_and_links() -> None:
    # A quadratic step (a dense block, a loop over parts) would need minutes or gigabytes.
    documents = 200_000
    graph = random_graph(10, 3)
    rng = np.random.default_rng(0)
    ends = torch.from_numpy(rng.integers(0, documents, (2, 1_000_000)))
    large = replace(
        graph,
        features=graph.features.select(torch.zeros(documents, dtype=torch.int64)),
        edges=torch.stack([ends.amin(0), ends.amax(0)])[:, ends[0] != ends[1]],
        labels=torch.zeros(documents, dtype=torch.int64),
        split=torch.zeros(documents, dtype=torch.int8),
    )
    pieces = cut(large, random_parts(documents, documents // 2, 0), documents // 2)
    assert len(pieces) == documents
