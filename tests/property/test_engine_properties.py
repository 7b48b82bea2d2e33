"""Whatever the documents are: the sum is right, and no part gives more than its share."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from brute_force import (
    FINE,
    clipped_sum,
    joint_norm,
    plan_for,
    random_graph,
    relative_error,
    replica_of,
)
from privgcn.graph import DenseRows, PartitionedGraph, TextGraph, cut, random_parts
from privgcn.models import make_model
from privgcn.models.stack import LayerGradient
from privgcn.privacy.mechanism import clipping
from privgcn.privacy.mechanism.clipping import ClippedSums
from privgcn.privacy.mechanism.noise_grid import Grid
from privgcn.privacy.mechanism.part_gradients import StackGradients

QUICK = settings(max_examples=40, deadline=None, derandomize=True)


@pytest.fixture(autouse=True, scope="module")
def _fine_grid() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Grid, "of", lambda noise_multiplier, parts: FINE)
        yield


@QUICK
@given(
    documents=st.integers(1, 24),
    features=st.integers(1, 9),
    classes=st.integers(2, 5),
    links=st.integers(0, 80),
    hidden=st.integers(1, 6),
    hops=st.integers(0, 3),
    replicas=st.integers(1, 3),
    parts=st.floats(0, 1),
    kind=st.sampled_from(["gcn", "linear", "mlp"]),
    sparse=st.booleans(),
    clip_norm=st.sampled_from([1e-3, 0.1, 10.0]),
    unlabelled=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 10**6),
    data=st.data(),
)
def test_equal_to_a_loop_over_parts(
    documents: int,
    features: int,
    classes: int,
    links: int,
    hidden: int,
    hops: int,
    replicas: int,
    parts: float,
    kind: str,
    sparse: bool,
    clip_norm: float,
    unlabelled: float,
    seed: int,
    data: st.DataObject,
) -> None:
    graph = random_graph(
        documents, features, classes, links, seed=seed, sparse=sparse, unlabelled=unlabelled
    )
    count = 1 + round(parts * (documents - 1))
    part_of = random_parts(documents, count, seed)
    model = make_model(kind, features, classes, hidden=hidden, hops=hops, dropout=0.0)
    parameters = model.initial(range(seed, seed + replicas))
    for bias in parameters[1::2] if model.bias else []:
        bias.normal_(generator=torch.Generator().manual_seed(seed))
    plan = plan_for(count, clip_norm)
    gradients = StackGradients(model, cut(graph, part_of, count), plan, None)
    some = st.sets(st.integers(0, count - 1))
    chosen = data.draw(st.none() | st.lists(some, min_size=replicas, max_size=replicas))
    samples = None if chosen is None else [np.array(sorted(c), dtype=np.int64) for c in chosen]
    sums = gradients.clipped_sum(parameters, samples)
    for replica in range(replicas):
        expected = clipped_sum(
            model,
            replica_of(parameters, replica),
            graph,
            part_of,
            clip_norm,
            None if samples is None else samples[replica],
        )
        found = replica_of(sums, replica)
        apart = [clip_norm * a - b for a, b in zip(found, expected, strict=True)]
        # Sums that cancel have no relative precision; the clip norm is their yardstick. A
        # residual is a difference of float32 probabilities, so a sure document's is known to
        # no more than their spacing, however small it is.
        yardstick = 1e-5 * max(joint_norm(expected), min(clip_norm, 1.0))
        assert joint_norm(apart) <= yardstick + count * 2.0**-23


Floats = npt.NDArray[np.float32]
ANY = st.floats(width=32, allow_nan=True, allow_infinity=True, allow_subnormal=True)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    rows=hnp.arrays(np.float32, (6, 3), elements=ANY),
    outputs=hnp.arrays(np.float32, (6, 1, 2), elements=ANY),
    hidden=hnp.arrays(np.float32, (6, 1, 2), elements=ANY),
    clip_norm=st.sampled_from([1e-6, 1e-2, 1.0, 1e6]),
    sizes=st.sampled_from([[1] * 6, [2, 4], [6], [3, 0, 3]]),
    most_in_pairs=st.sampled_from([1, 64]),
    grid=st.sampled_from([FINE, Grid(30, 12), Grid(25, 12), Grid(2, 1)]),
)
def test_no_part_exceeds_the_bound_whatever_its_rows(
    rows: Floats,
    outputs: Floats,
    hidden: Floats,
    clip_norm: float,
    sizes: list[int],
    most_in_pairs: int,
    grid: Grid,
) -> None:
    offsets = torch.tensor([0, *sizes]).cumsum(0)
    labels = torch.zeros(6, dtype=torch.int64)
    features = DenseRows(torch.from_numpy(rows))
    graph = PartitionedGraph(features, None, labels, 2, offsets, torch.arange(6))
    given_rows = torch.from_numpy(outputs)
    layers = [
        LayerGradient(features, given_rows, given_rows),
        LayerGradient(torch.from_numpy(hidden), given_rows, given_rows),
    ]
    whole: list[torch.Tensor] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clipping, "_MOST_IN_PAIRS", most_in_pairs)
        sums = ClippedSums(graph, clip_norm, grid)
        for part in range(len(sizes)):
            only = torch.zeros(len(sizes), 1, dtype=torch.bool)
            only[part] = True
            share = sums.clipped_sum(layers, included=only)
            assert joint_norm(share) <= 1
            assert all(torch.equal(t, t.mul(2.0**grid.bits).round() * grid.step) for t in share)
            whole = [a + b for a, b in zip(whole, share, strict=True)] if whole else share
        together = sums.clipped_sum(layers)
    assert all(torch.equal(a, b) for a, b in zip(whole, together, strict=True))


@QUICK
@given(
    documents=st.integers(2, 20),
    parts=st.floats(0, 1),
    seed=st.integers(0, 10**6),
    document=st.integers(0, 19),
)
def test_a_cut_keeps_every_document_and_no_link_between_parts(
    documents: int, parts: float, seed: int, document: int
) -> None:
    graph = random_graph(documents, 3, links=4 * documents, seed=seed)
    count = 1 + round(parts * (documents - 1))
    part_of = random_parts(documents, count, seed)
    pieces = cut(graph, part_of, count)
    assert sorted(pieces.order.tolist()) == list(range(documents))
    if pieces.matrix is not None:
        joined = pieces.matrix.dense() != 0
        row = pieces.order.tolist().index(document % documents)
        seen = set(part_of[pieces.order[joined[row]]].tolist())
        assert seen == {int(part_of[document % documents])}


@QUICK
@given(seed=st.integers(0, 10**6), order=st.permutations(range(8)))
def test_the_order_of_documents_inside_parts_does_not_matter(
    seed: int, order: list[int]
) -> None:
    graph = random_graph(8, 4, seed=seed, unlabelled=0.0, links=12)
    part_of = torch.arange(8) % 2
    model = make_model("gcn", 4, 4, hidden=3, dropout=0.0)
    parameters = model.initial([seed])
    index = torch.tensor(order)
    shuffled: TextGraph = graph.induced(index)
    sums = [
        StackGradients(model, cut(g, p, 2), plan_for(2, 0.1), None).clipped_sum(
            parameters, None
        )
        for g, p in ((graph, part_of), (shuffled, part_of[index]))
    ]
    assert relative_error(*sums) < 1e-4
