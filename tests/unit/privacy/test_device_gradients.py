"""Sums of a recorded step: those of ``StackGradients``, whatever is sampled beside."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from brute_force import joint_norm, plan_for, random_graph, replica_of
from privgcn.graph import DenseRows, TextGraph, cut, random_parts, rows
from privgcn.models import make_model
from privgcn.privacy.mechanism import clipping, device_gradients
from privgcn.privacy.mechanism.device_gradients import DeviceGradients, side_by_side
from privgcn.privacy.mechanism.part_gradients import StackGradients
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import PoissonParts
from privgcn.privacy.units import DOCUMENTS_EACH
from privgcn.randomness import DeviceReplicas

CLIP, PARTS = 0.05, 5
DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
        ],
    ),
]


@pytest.fixture(autouse=True)
def _parts_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clipping, "_MOST_IN_PAIRS", 6)


def dense_graph(documents: int = 43) -> TextGraph:
    torch.manual_seed(1)
    graph = random_graph(documents, 7, links=150, seed=2)
    return replace(graph, features=DenseRows(torch.randn(documents, 7)))


def plan_of_random_parts(documents: int) -> PrivacyPlan:
    facts = PartitionFacts(kind="random", parts=PARTS, seed=3)
    plan = plan_for(PARTS, CLIP)
    sampled = PoissonParts(PARTS, 1 / PARTS)
    return replace(plan, partition=facts, schedule=sampled, units=documents, unit="part")


def both(
    graph: TextGraph, kind: str, seeds: list[int], device: str = "cpu", dropout: float = 0.0
) -> tuple[StackGradients, DeviceGradients, list[Tensor]]:
    model = make_model(kind, 7, graph.classes, hidden=6, dropout=dropout)
    plan = plan_of_random_parts(len(graph))
    there = cut(graph.to(device), random_parts(len(graph), PARTS, 3), PARTS)
    masks = DeviceReplicas(seeds, "dropout", torch.device(device))
    return (
        StackGradients(model, there, plan, None),
        DeviceGradients(model, there, plan, masks),
        [parameter.to(device) for parameter in model.initial(seeds)],
    )


SAMPLES = [
    [[0], [1], [2]],
    [[0, 1, 2, 3, 4], [], [3]],
    [[], [], []],
    [[4], [4], [4]],
    [[0, 1, 2, 3, 4]] * 3,
]


@pytest.mark.parametrize("kind", ["gcn", "linear", "mlp"])
@pytest.mark.parametrize("sampled", SAMPLES)
@pytest.mark.parametrize("device", DEVICES)
def test_slots_give_the_same_sums_to_the_bit(
    kind: str, sampled: list[list[int]], device: str
) -> None:
    samples = [np.array(own, dtype=np.int64) for own in sampled]
    here, there, parameters = both(dense_graph(), kind, [1, 2, 3], device)
    assert side_by_side(there.plan)
    found = there.clipped_sum(parameters, samples)
    for one, other in zip(here.clipped_sum(parameters, samples), found, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("kind", ["gcn", "linear", "mlp"])
@pytest.mark.parametrize("device", DEVICES)
def test_a_part_adds_the_same_bits_whatever_is_sampled_beside_it(
    kind: str, device: str
) -> None:
    _, gradients, parameters = both(dense_graph(), kind, [1, 2, 3], device)
    nothing = np.array([], dtype=np.int64)
    for sampled in SAMPLES:
        samples = [np.array(own, dtype=np.int64) for own in sampled]
        together = gradients.clipped_sum(parameters, samples)
        apart = [torch.zeros_like(total) for total in together]
        for replica, own in enumerate(sampled):
            for part in own:
                alone = [nothing] * 3
                alone[replica] = np.array([part])
                for total, more in zip(
                    apart, gradients.clipped_sum(parameters, alone), strict=True
                ):
                    total += more
        for one, other in zip(together, apart, strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("kind", ["gcn", "linear", "mlp"])
@pytest.mark.parametrize("device", [DEVICES[1]])
def test_a_device_differs_from_the_cpu_by_float32_rounding_alone(
    kind: str, device: str
) -> None:
    """Exponentials and sums over links are rounded by the device's own rules."""
    samples = [np.array(own, dtype=np.int64) for own in SAMPLES[1]]
    here, _, parameters = both(dense_graph(), kind, [1, 2, 3])
    _, there, moved = both(dense_graph(), kind, [1, 2, 3], device)
    found = there.clipped_sum(moved, samples)
    for one, other in zip(here.clipped_sum(parameters, samples), found, strict=True):
        torch.testing.assert_close(one, other.cpu(), rtol=1e-5, atol=1e-6)


def test_parts_without_links_and_of_other_sizes_too() -> None:
    graph = dense_graph(41)
    alone = replace(graph, edges=graph.edges[:, :0])
    samples = [np.array([0, 4]), np.array([2])]
    for one in (graph, alone):
        here, there, parameters = both(one, "gcn", [1, 2])
        for a, b in zip(
            here.clipped_sum(parameters, samples),
            there.clipped_sum(parameters, samples),
            strict=True,
        ):
            assert torch.equal(a, b)


def test_a_part_that_is_not_finite_adds_zero_and_spoils_no_other() -> None:
    graph = dense_graph()
    rows = graph.features.dense().clone()
    document = 17
    rows[document] = torch.inf
    part = int(random_parts(len(graph), PARTS, 3)[document])
    other = (part + 1) % PARTS
    _, whole, parameters = both(graph, "gcn", [1, 2])
    _, spoilt, _ = both(replace(graph, features=DenseRows(rows)), "gcn", [1, 2])
    samples = [np.array([part]), np.array([other])]
    expected = whole.clipped_sum(parameters, samples)
    found = spoilt.clipped_sum(parameters, samples)
    assert joint_norm(replica_of(found, 0)) == 0.0
    assert joint_norm(replica_of(expected, 0)) > 0
    for one, two in zip(replica_of(expected, 1), replica_of(found, 1), strict=True):
        assert torch.equal(one, two)


def test_the_links_of_another_part_move_no_bit() -> None:
    """Parts are filled up to the links of the largest, which no row must see."""
    graph = dense_graph(40)
    part_of = random_parts(40, PARTS, 3)
    own, other = (torch.nonzero(part_of == part)[:, 0] for part in (0, 1))
    model = make_model("gcn", 7, graph.classes, hidden=6, dropout=0.0)
    parameters = model.initial([1])
    weight = parameters[0][:, 0].double()
    # Before its ReLU the last document of the part is minus infinity in every hidden unit.
    down = torch.linalg.lstsq(weight.T, -torch.ones(6, 1, dtype=torch.float64)).solution[:, 0]
    rows = graph.features.dense().clone()
    rows[own[-1]] = (down / down.abs().max() * 1.6e38).float()
    parameters[0] *= 64
    plan = plan_of_random_parts(40)
    few = torch.stack([own[:1], own[1:2]])
    many = torch.cat([few, torch.stack([other[:4], other[4:8]])], dim=1)
    found = []
    for edges in (few, many):
        there = replace(graph, features=DenseRows(rows), edges=edges)
        pieces = cut(there, part_of, PARTS)
        assert int(pieces.sizes.max()) == int(pieces.sizes[0])
        sums = DeviceGradients(model, pieces, plan, None).clipped_sum(
            parameters, [np.array([0])]
        )
        found.append(sums)
    assert joint_norm(found[0]) > 0.9
    for one, two in zip(*found, strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("hidden", [32, 64, 130])
@pytest.mark.parametrize("device", DEVICES)
def test_how_many_slots_there_are_moves_no_bit(hidden: int, device: str) -> None:
    graph, seeds = dense_graph(), list(range(20))
    model = make_model("gcn", 7, graph.classes, hidden=hidden, dropout=0.0)
    there = cut(graph.to(device), random_parts(len(graph), PARTS, 3), PARTS)
    gradients = DeviceGradients(model, there, plan_of_random_parts(len(graph)), None)
    parameters = [parameter.to(device) for parameter in model.initial(seeds)]
    alone = [np.array([2]), *[np.array([], dtype=np.int64)] * 19]
    beside = [np.array([2]), *[np.array([0, 1, 3])] * 19]
    one, two = (gradients.clipped_sum(parameters, samples) for samples in (alone, beside))
    for first, second in zip(replica_of(one, 0), replica_of(two, 0), strict=True):
        assert torch.equal(first, second)


def test_with_dropout_a_seed_samples_and_drops_as_if_alone() -> None:
    own = np.array([1, 3])
    beside = [np.array([0, 1, 2, 3, 4]), own, np.array([], dtype=np.int64)]
    graph = dense_graph()
    _, three, weights = both(graph, "gcn", [7, 8, 9], dropout=0.5)
    _, alone, own_weights = both(graph, "gcn", [8], dropout=0.5)
    for _ in range(3):
        found = replica_of(three.clipped_sum(weights, beside), 1)
        expected = replica_of(alone.clipped_sum(own_weights, [own]), 0)
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(one, other)
    again = replica_of(alone.clipped_sum(own_weights, [own]), 0)
    assert not torch.equal(again[0], expected[0]), "every step has masks of its own"


@pytest.mark.parametrize("kind", ["gcn", "linear", "mlp"])
@pytest.mark.parametrize("sampled", SAMPLES)
@pytest.mark.parametrize("device", DEVICES)
def test_a_few_small_parts_are_multiplied_out_too(
    kind: str, sampled: list[list[int]], device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CPU takes their norms from pairs of rows, so both round in their own ways."""
    monkeypatch.setattr(clipping, "_MOST_IN_PAIRS", 64)
    samples = [np.array(own, dtype=np.int64) for own in sampled]
    here, there, parameters = both(dense_graph(), kind, [1, 2, 3], device)
    assert side_by_side(there.plan)
    found = there.clipped_sum(parameters, samples)
    for replica, own in enumerate(sampled):
        assert joint_norm(replica_of(found, replica)) <= len(own)
    for one, other in zip(here.clipped_sum(parameters, samples), found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_many_small_parts_are_sampled_by_a_mask(
    monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    monkeypatch.setattr(clipping, "_MOST_IN_PAIRS", 64)
    monkeypatch.setattr(device_gradients, "_FEW_SAMPLED", 0)
    here, there, parameters = both(dense_graph(), "gcn", [1, 2], device)
    assert not side_by_side(there.plan)
    samples = [np.array([0, 4]), np.array([2])]
    found = there.clipped_sum(parameters, samples)
    for one, other in zip(here.clipped_sum(parameters, samples), found, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("units", [10, 1000])
def test_how_many_documents_people_have_does_not_choose_the_arithmetic(
    units: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dense and sparse rows round in their own ways, so a public number must choose."""
    monkeypatch.setattr(rows, "_MOST_CELLS", 100 * 7 * DOCUMENTS_EACH)
    graph = random_graph(43, 7, links=150, seed=2)
    facts = PartitionFacts(kind="random", parts=PARTS, by="owner", seed=3)
    plan = replace(plan_of_random_parts(units), partition=facts, unit="person")
    model = make_model("linear", 7, graph.classes)
    for documents in (43, 20):
        fewer = graph.induced(torch.arange(documents))
        there = cut(fewer, random_parts(documents, PARTS, 3), PARTS)
        gradients = DeviceGradients(model, there, plan, None)
        assert gradients.graph.features.is_dense == (units == 10)
