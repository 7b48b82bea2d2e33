"""What every rank computes adds up to what one process computes, to the bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brute_force import plan_for, random_graph
from privgcn.errors import PrivacyContractError
from privgcn.graph import cut, random_parts
from privgcn.graph.on_disk import RowsOnDisk
from privgcn.graph.parts import PartitionedGraph
from privgcn.models import make_model
from privgcn.privacy.mechanism.centre import clipped_outline
from privgcn.privacy.mechanism.cutting import cut_as_planned
from privgcn.privacy.mechanism.noise_grid import grid_of
from privgcn.privacy.mechanism.part_gradients import Samples, StackGradients
from privgcn.privacy.partition import PartitionFacts
from privgcn.randomness import RandomSource, SeededReplicas
from privgcn.training.ranks import Message, Ranks, Team
from privgcn.training.shared_parts import (
    DROPOUT,
    OwnParts,
    Share,
    Task,
    _graph_of,
    _message,
    _selected,
    _serve,
)

PARTS = 7
SEEDS = [3, 4]
SAMPLES: list[Samples] = [
    None,
    [np.array([1, 2, 6]), np.array([1, 2, 6])],
    [np.array([4]), np.array([4])],
    [np.array([], dtype=np.int64)] * 2,
    None,
]


@given(st.integers(1, 50), st.integers(1, 12))
def test_every_part_is_on_one_rank_and_shares_are_even(parts: int, size: int) -> None:
    shares = [Share.of(parts, Ranks(number, size)) for number in range(size)]
    owned = [part for share in shares for part in range(share.first, share.last)]
    assert owned == list(range(parts))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    # The leader is never without work while another has some.
    assert len(shares[0]) == max(map(len, shares))


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_no_person_is_on_two_ranks(size: int) -> None:
    graph = random_graph(90, 6, owners=17)
    assert graph.owners is not None
    people = len(graph.owners.unique())
    for kind, parts in (("each", people), ("random", 6)):
        facts = PartitionFacts(
            kind=kind, parts=parts, by="owner", seed=0 if kind == "random" else None
        )
        plan = replace(
            plan_for(parts), unit="person", units=people, partition=facts, delta=1e-3
        )
        pieces = cut_as_planned(graph, plan, {})
        ranks_of: dict[int, set[int]] = {}
        for number in range(size):
            own = _selected(pieces, Share.of(parts, Ranks(number, size)))
            for owner in graph.owners[own.order].tolist():
                ranks_of.setdefault(owner, set()).add(number)
        assert all(len(found) == 1 for found in ranks_of.values())
        assert len(ranks_of) == people


def task_of(pieces: PartitionedGraph, kind: str, *, shared: bool = True, **more: Any) -> Task:
    model = make_model(kind, pieces.features.width, pieces.classes, hidden=5)
    return Task(model, plan_for(pieces.parts), SEEDS, 0, shared, more.get("short", False))


def as_sent(own: PartitionedGraph, task: Task, share: Share, sizes: Any) -> OwnParts:
    """A rank's parts, after they travelled."""
    message = _message(own, task, share, sizes)
    there = Message(message.tensors, message.words)
    arrived = Task.from_dict(message.words["task"])
    assert arrived == task
    masks = arrived.masks(there.tensors["sizes"].numpy(), share)
    return OwnParts(arrived, _graph_of(there, torch.device("cpu")), share, masks)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("kind", ["gcn", "mlp", "linear"])
@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_sums_over_ranks_are_those_of_one_process(size: int, kind: str, sparse: bool) -> None:
    graph = random_graph(230, 9, links=400, sparse=sparse)
    pieces = cut(graph, random_parts(230, PARTS, 0) // 2 * 2, PARTS)  # some large, some empty
    task = task_of(pieces, kind, short=kind == "linear")
    sizes = pieces.sizes.numpy()
    shares = [Share.of(PARTS, Ranks(number, size)) for number in range(size)]
    ranks = [as_sent(_selected(pieces, share), task, share, sizes) for share in shares]
    masks = SeededReplicas(SEEDS, DROPOUT.format(0))
    alone = StackGradients(
        task.model, pieces, task.plan, masks, short_residuals=task.short_residuals
    )
    parameters = task.model.initial(SEEDS)
    step = grid_of(task.plan).step
    for samples in SAMPLES:
        sums = alone.clipped_sum(parameters, samples)
        counted = sum(rank.clipped_sum(parameters, samples) for rank in ranks)
        assert isinstance(counted, torch.Tensor)
        assert counted.dtype == torch.int64
        assert torch.equal(counted.double() * step, torch.cat([s.reshape(-1) for s in sums]))


@pytest.mark.parametrize("sparse", [True, False])
def test_rows_on_disk_are_shared_like_rows_in_memory(sparse: bool) -> None:
    pieces = cut(random_graph(60, 9, sparse=sparse), random_parts(60, PARTS, 0), PARTS)
    on_disk = pieces.with_features(RowsOnDisk.of(pieces.features))
    for number in range(3):
        share = Share.of(PARTS, Ranks(number, 3))
        found, expected = (_selected(each, share).features for each in (on_disk, pieces))
        assert type(found) is type(expected)
        assert torch.equal(found.dense(), expected.dense())


@pytest.mark.parametrize("size", [1, 2, 9])
@pytest.mark.parametrize("samples", [None, [np.array([0, 4])], [np.array([3])]])
@pytest.mark.parametrize("sparse", [True, False])
def test_outlines_over_ranks_are_those_of_one_process(
    size: int, samples: Samples, sparse: bool
) -> None:
    pieces = cut(random_graph(60, 9, sparse=sparse), random_parts(60, PARTS, 0), PARTS)
    task, sizes = task_of(pieces, "linear"), pieces.sizes.numpy()
    shares = [Share.of(PARTS, Ranks(number, size)) for number in range(size)]
    ranks = [as_sent(_selected(pieces, share), task, share, sizes) for share in shares]
    counted = sum(rank.outline(samples) for rank in ranks)
    assert isinstance(counted, torch.Tensor)
    sums = clipped_outline(pieces, task.plan, samples)
    whole = torch.cat([tensor.reshape(-1) for tensor in sums])
    assert torch.equal(counted.double() * grid_of(task.plan).step, whole)


def test_a_rank_holds_its_own_documents_only() -> None:
    pieces = cut(random_graph(60, 9), random_parts(60, PARTS, 0), PARTS)
    task = task_of(pieces, "gcn", shared=False)
    seen: list[int] = []
    for number in range(3):
        share = Share.of(PARTS, Ranks(number, 3))
        message = _message(_selected(pieces, share), task, share, pieces.sizes.numpy())
        order = message.tensors["order"].tolist()
        assert all(
            len(tensor) <= len(order) + 1
            for name, tensor in message.tensors.items()
            if name in ("features.0", "matrix.0", "labels", "offsets", "sizes")
        )
        seen += order
    assert sorted(seen) == list(range(60))


def test_a_rank_of_another_version_computes_nothing() -> None:
    """It might sum on another grid than the one that was accounted for."""
    pieces = cut(random_graph(60, 9), random_parts(60, PARTS, 0), PARTS)
    share = Share.of(PARTS, Ranks(0, 2))
    tensors, words = _message(pieces, task_of(pieces, "gcn"), share, pieces.sizes.numpy())
    with pytest.raises(PrivacyContractError, match="same version"):
        _serve(Team(Ranks(1, 2)), Message(tensors, {**words, "version": "0.0.1"}))


def test_masks_of_a_run_that_may_be_released_are_every_ranks_own_secret() -> None:
    pieces = cut(random_graph(60, 9), random_parts(60, PARTS, 0), PARTS)
    task = task_of(pieces, "gcn", shared=False)
    share = Share.of(PARTS, Ranks(0, 2))
    sources = [task.masks(pieces.sizes.numpy(), share) for _ in range(2)]
    for source in sources:
        assert isinstance(source, RandomSource)
        assert source.releasable
    drawn = [source.uniform_bytes((40, 2, 5)) for source in sources]
    assert not np.array_equal(*drawn)
    # Nor does a rank learn how many documents others have.
    assert not len(_message(pieces, task, share, pieces.sizes.numpy()).tensors["sizes"])


@pytest.mark.parametrize("hidden", [5, 32])
def test_masks_do_not_depend_on_what_is_computed_together(hidden: int) -> None:
    """Parts one by one, all at once, or over ranks: each row has its own bytes of the step."""
    pieces = cut(random_graph(60, 9), random_parts(60, PARTS, 0), PARTS)
    masks, sizes = SeededReplicas(SEEDS, DROPOUT.format(0)), pieces.sizes.numpy()
    shares = [Share.of(PARTS, Ranks(number, 3)) for number in range(3)]
    task = task_of(pieces, "gcn")
    own = [task.masks(sizes, share) for share in shares]
    for samples in SAMPLES:
        used = range(PARTS) if samples is None else samples[0].tolist()
        whole = masks.uniform_bytes((int(sizes[list(used)].sum()), 2, hidden))
        pieces_of = []
        for share, source in zip(shares, own, strict=True):
            source.expect(samples)  # type: ignore[attr-defined]
            rows = sum(sizes[part] for part in used if share.first <= part < share.last)
            pieces_of.append(source.uniform_bytes((int(rows), 2, hidden)))
        assert np.array_equal(np.concatenate(pieces_of), whole)
