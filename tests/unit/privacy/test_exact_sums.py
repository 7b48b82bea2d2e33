"""Sums are exact: one part moves them by its own vector, and nothing else moves a bit.

Earlier engines added floats. How such a sum rounds depends on its order, on blocks, threads
and the method chosen, and documents made for it moved the rounding of others by up to 204 clip
norms. The same documents are thrown at the grid here.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from brute_force import plan_for, random_graph
from privgcn.graph import DenseRows, TextGraph, dense_rows, random_parts
from privgcn.graph.exact import GridRows, rows_on_grid
from privgcn.graph.parts import PartitionedGraph, cut
from privgcn.graph.sparse_rows import SparseRows
from privgcn.models import make_model
from privgcn.models.stack import LayerGradient, product
from privgcn.privacy.mechanism.centre import ROW, clipped_outline
from privgcn.privacy.mechanism.clipping import ClippedSums
from privgcn.privacy.mechanism.module_gradients import ModuleGradients
from privgcn.privacy.mechanism.noise_grid import Grid, grid_of
from privgcn.privacy.mechanism.part_gradients import StackGradients

CLIP = 0.01
HUGE = 2.0**24
LITTLE = 0.01
FEATURES = 4


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def rows_of(values: Tensor, *, dense: bool) -> DenseRows | SparseRows:
    return DenseRows(values) if dense else SparseRows.from_scipy(sp.csr_matrix(values.numpy()))


def owned(values: Tensor, owners: Tensor, *, dense: bool) -> PartitionedGraph:
    """Documents of class 0 without links, cut by owner; rows without words have no label."""
    graph = TextGraph(
        rows_of(values, dense=dense),
        torch.zeros(2, 0, dtype=torch.int64),
        torch.where(values.any(dim=1), 0, -1),
        2,
        torch.zeros(len(values), dtype=torch.int8),
        owners,
    )
    return cut(graph, owners, int(owners.max()) + 1)


def linear_sum(
    graph: PartitionedGraph,
    samples: Sequence[Any] | None = None,
    *,
    short: bool = False,
    noise: float = 1.0,
) -> Tensor:
    model = make_model("linear", graph.features.width, 2, hops=0, dropout=0.0)
    plan = plan_for(graph.parts, CLIP, noise)
    gradients = StackGradients(model, graph, plan, None, short_residuals=short)
    return gradients.clipped_sum(model.initial([0], zero=True), samples)[0]


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield
    torch.set_num_threads(before)


def equal(first: Sequence[Tensor], second: Sequence[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


# -- any order, any company -----------------------------------------------------------------


def layers(rows: int, replicas: int, features: DenseRows | SparseRows) -> list[LayerGradient]:
    first, second = torch.randn(rows, replicas, 6), torch.randn(rows, replicas, 3)
    hidden = torch.randn(rows, replicas, 5).relu() * 10 ** torch.randn(rows, 1, 1)
    return [LayerGradient(features, first, first), LayerGradient(hidden, second, second)]


def permuted(
    graph: PartitionedGraph, gradients: list[LayerGradient], order: Tensor, part_of: Tensor
) -> tuple[PartitionedGraph, list[LayerGradient]]:
    """The same rows in another order, each still in a part with the same others."""
    whole = replace(random_graph(len(graph), 1, links=0), features=graph.features)
    moved = cut(whole.induced(order), part_of[order], graph.parts)
    place = order[moved.order]
    return moved, [
        LayerGradient(
            g.inputs[place] if isinstance(g.inputs, Tensor) else moved.features,
            g.outputs[place],
            None if g.bias_rows is None else g.bias_rows[place],
        )
        for g in gradients
    ]


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("parts", [1, 3, 40, 300])
def test_sums_have_no_order(parts: int, dense: bool) -> None:
    values = torch.randn(300, 20) * (torch.rand(300, 20) < 0.3)
    source = replace(random_graph(300, 1, links=0), features=rows_of(values, dense=dense))
    part_of = random_parts(300, parts, 1)
    graph = cut(source, part_of, parts)
    part_of = part_of[graph.order]
    gradients = layers(300, 2, graph.features)
    grid = Grid.of(2.0, parts)
    expected = ClippedSums(graph, CLIP, grid).clipped_sum(gradients)
    assert all(float(t.abs().max()) > 0 for t in expected)
    for _ in range(8):
        moved, rows = permuted(graph, gradients, torch.randperm(300), part_of)
        assert equal(ClippedSums(moved, CLIP, grid).clipped_sum(rows), expected)
    with threads(2):
        assert equal(ClippedSums(graph, CLIP, grid).clipped_sum(gradients), expected)
    # Replicas alone.
    for replica in range(2):
        own = [
            LayerGradient(
                g.inputs[:, [replica]] if isinstance(g.inputs, Tensor) else g.inputs,
                g.outputs[:, [replica]],
                None if g.bias_rows is None else g.bias_rows[:, [replica]],
            )
            for g in gradients
        ]
        alone = ClippedSums(graph, CLIP, grid).clipped_sum(own)
        assert equal(alone, [tensor[..., [replica], :] for tensor in expected])
    # Chunks: some parts, then the others.
    some = torch.rand(parts, 2) < 0.5
    first = ClippedSums(graph, CLIP, grid).clipped_sum(gradients, included=some)
    rest = ClippedSums(graph, CLIP, grid).clipped_sum(gradients, included=~some)
    assert equal([a + b for a, b in zip(first, rest, strict=True)], expected)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("each", [4, 64, 80])
@pytest.mark.parametrize("height", [10.0, 1e5, 1e9])
def test_rows_that_cancel_leave_others_their_last_bit(
    height: float, each: int, dense: bool
) -> None:
    """What cancels is added before it does: it must not be larger than sums have room for."""
    rows = 3 * each
    inputs = torch.randn(rows, 6)
    inputs[1::2] = inputs[::2]
    outputs = height ** torch.rand(rows, 1, 1) * torch.randn(rows, 1, 3)
    outputs[1::2] = torch.randn(rows // 2, 1, 3) - outputs[::2]
    source = replace(random_graph(rows, 1, links=0), features=rows_of(inputs, dense=dense))
    graph = cut(source, torch.arange(rows) // each, 3)
    gradients = [LayerGradient(graph.features, outputs, outputs)]
    sums = ClippedSums(graph, CLIP, Grid.of(LITTLE, 3))
    shares = [
        sums.clipped_sum(gradients, included=torch.arange(3)[:, None] == part)
        for part in range(3)
    ]
    added = [torch.stack(tensors).sum(0) for tensors in zip(*shares, strict=True)]
    assert equal(sums.clipped_sum(gradients), added)
    assert all(float(tensor.abs().max()) > 0 for tensor in added)
    if each > 64:  # The vector of a large part is exact before it is clipped.
        for _ in range(4):
            order = torch.randperm(rows)
            moved, shuffled = permuted(graph, gradients, order, graph.part_of_row)
            assert equal(ClippedSums(moved, CLIP, sums.grid).clipped_sum(shuffled), added)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("noise_multiplier", [0.01, 1.0])
@pytest.mark.parametrize("each", [2, 16, 64, 100])
def test_rows_that_cancel_have_no_order(
    each: int, noise_multiplier: float, dense: bool
) -> None:
    """On the finest grid too: what cancels must fit before it does."""
    parts, half = 8, each // 2
    values = torch.rand(parts * each, 3) + 0.5
    values = values.view(parts, each, 3)
    values[:, half:] = values[:, :half]
    outputs = torch.rand(parts, each, 1, 2) * HUGE
    outputs[:, half:] = -outputs[:, :half]
    outputs[:, 0] += 64.0
    source = replace(
        random_graph(parts * each, 1, links=0),
        features=rows_of(values.view(-1, 3), dense=dense),
    )
    part_of = torch.arange(parts).repeat_interleave(each)
    graph = cut(source, part_of, parts)
    gradients = [LayerGradient(graph.features, outputs.view(-1, 1, 2), None)]
    grid = Grid.of(noise_multiplier, parts)
    expected = ClippedSums(graph, 1.0, grid).clipped_sum(gradients)
    for _ in range(8):
        moved, rows = permuted(graph, gradients, torch.randperm(len(graph)), part_of)
        assert equal(ClippedSums(moved, 1.0, grid).clipped_sum(rows), expected)


def test_dense_rows_may_be_doubled_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    values, owners = torch.randn(100, 7), torch.arange(100) // 2
    whole = linear_sum(owned(values, owners, dense=True))
    monkeypatch.setattr(dense_rows, "ROWS_AT_ONCE", 9)
    assert torch.equal(linear_sum(owned(values, owners, dense=True)), whole)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("parts", [1, 3, 40, 300])
def test_a_gpu_adds_up_to_the_same_bits(parts: int, dense: bool) -> None:
    values = torch.randn(300, 20) * (torch.rand(300, 20) < 0.3)
    source = replace(random_graph(300, 1, links=0), features=rows_of(values, dense=dense))
    here = cut(source, random_parts(300, parts, 1), parts)
    there = cut(source.to("cuda"), random_parts(300, parts, 1), parts)
    gradients = layers(300, 2, here.features)
    moved = [
        LayerGradient(
            g.inputs.cuda() if isinstance(g.inputs, Tensor) else there.features,
            g.outputs.cuda(),
            None if g.bias_rows is None else g.bias_rows.cuda(),
        )
        for g in gradients
    ]
    grid = Grid.of(2.0, parts)
    expected = ClippedSums(here, CLIP, grid).clipped_sum(gradients)
    found = ClippedSums(there, CLIP, grid).clipped_sum(moved)
    assert equal([tensor.cpu() for tensor in found], expected)


@pytest.mark.parametrize("width", [17, 50, 385])
@pytest.mark.parametrize("outputs", [3, 5, 16])
@pytest.mark.parametrize("replicas", [1, 3])
def test_a_rows_product_is_its_own(width: int, outputs: int, replicas: int) -> None:
    rows = DenseRows(torch.randn(33, width)).on_grid(12)
    weight = torch.randn(width, replicas, outputs)
    together = product(rows, weight, bits=12)
    torch.testing.assert_close(together.float(), product(rows, weight), rtol=1e-4, atol=1e-4)
    for begin in range(33):
        some = DenseRows(rows.values[begin:])
        assert torch.equal(product(some, weight, bits=12), together[begin:])
        one = DenseRows(rows.values[begin : begin + 1])
        assert torch.equal(product(one, weight, bits=12)[0], together[begin])
    for replica in range(replicas):
        alone = product(rows, weight[:, [replica]].contiguous(), bits=12)
        assert torch.equal(alone[:, 0], together[:, replica])


@pytest.mark.parametrize("width", [17, 385])
@pytest.mark.parametrize("replicas", [1, 3])
def test_a_hidden_rows_product_is_its_own(width: int, replicas: int) -> None:
    rows = rows_on_grid(torch.randn(33, replicas, width), 12)
    weight = torch.randn(width, replicas, 5)
    together = product(rows, weight)
    for begin in range(33):
        for own in (slice(begin, None), slice(begin, begin + 1)):
            some = GridRows(rows.values[own], rows.powers[own], 12)
            assert torch.equal(product(some, weight), together[own])


def test_a_product_that_cancels_has_no_order() -> None:
    rows = torch.randn(33, 40)
    rows[:, 1::2] = rows[:, ::2]
    weight = 2.0 ** (40 * torch.rand(40, 1, 1)) * torch.randn(40, 1, 5)
    weight[1::2] = torch.randn(20, 1, 5) - weight[::2]
    expected = product(DenseRows(rows).on_grid(12), weight, bits=12)
    for _ in range(8):
        order = torch.randperm(40)
        shuffled = DenseRows(rows[:, order].contiguous()).on_grid(12)
        assert torch.equal(product(shuffled, weight[order].contiguous(), bits=12), expected)


# -- other parts ------------------------------------------------------------------------------


def one_word(owners: int, first: int) -> tuple[Tensor, Tensor]:
    """Owners with one document of the same word each, but for the first one."""
    index = torch.cat([torch.zeros(first, dtype=torch.int64), torch.arange(1, owners)])
    values = torch.zeros(len(index), 16)
    values[:, 0] = 3.0
    return values, index


def cancelling(owners: int, first: int, each: int) -> tuple[Tensor, Tensor]:
    """Owners whose huge rows cancel; those of the first owner are empty."""
    others = torch.arange(1, owners).repeat_interleave(each)
    index = torch.cat([torch.zeros(first, dtype=torch.int64), others])
    values = torch.zeros(len(index), 4096)
    own = torch.zeros(each)
    own[0], own[1], own[2] = 1.0, HUGE, -HUGE
    values[first:, 0] = own.repeat(owners - 1)
    return values, index


@pytest.mark.parametrize("dense", [False, True])
# With little noise and many parts, how many there are decides the step.
@pytest.mark.parametrize("noise", [1.0, LITTLE])
@pytest.mark.parametrize(
    ("make", "counts", "owners"),
    [
        (one_word, (1, 2), 4096),
        # Around the number of documents above which an owner's gradient is multiplied out.
        (one_word, (64, 65), 200),
        (lambda owners, first: cancelling(owners, first, 3), (3, 80), 40),
        (lambda owners, first: cancelling(owners, first, 70), (3, 80), 4),
    ],
)
def test_nobody_else_moves_when_an_owner_writes_more(
    make: Callable[[int, int], tuple[Tensor, Tensor]],
    counts: tuple[int, int],
    owners: int,
    noise: float,
    dense: bool,
) -> None:
    graphs = [owned(*make(owners, count), dense=dense) for count in counts]
    others = [linear_sum(graph, [np.arange(1, owners)], noise=noise) for graph in graphs]
    assert torch.equal(*others)
    for graph, rest in zip(graphs, others, strict=True):
        own = linear_sum(graph, [np.array([0])], noise=noise)
        assert float(own.norm()) <= 1
        assert torch.equal(linear_sum(graph, noise=noise), rest + own)


@pytest.mark.parametrize("kind", ["linear", "mlp", "gcn"])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("loud", [1e-30, 1e6, 1e30, float("inf"), float("nan")])
@pytest.mark.parametrize(("parts", "each"), [(20, 3), (3, 70)])
def test_nobody_else_moves_when_a_document_is_loud(
    parts: int, each: int, loud: float, dense: bool, kind: str
) -> None:
    documents = parts * each
    quiet = torch.rand(documents, 8)
    noisy = quiet.clone()
    noisy[0] *= loud
    model = make_model(kind, 8, 3, hidden=5, hops=1, dropout=0.0)
    parameters = model.initial([0, 1])
    moves = []
    for values in (quiet, noisy):
        graph = TextGraph(
            rows_of(values, dense=dense),
            torch.tensor([[0, 1, 4], [1, 2, 5]]),
            torch.arange(documents) % 3,
            3,
            torch.zeros(documents, dtype=torch.int8),
        )
        pieces = cut(graph, torch.arange(documents) // each, parts)
        gradients = StackGradients(model, pieces, plan_for(parts, CLIP), None)
        whole = gradients.clipped_sum(parameters, None)
        own = gradients.clipped_sum(parameters, [np.array([0])] * 2)
        moves.append([a - b for a, b in zip(whole, own, strict=True)])
    assert equal(*moves)


def test_rows_that_cancel_inside_parts_move_no_other_part() -> None:
    """Ten thousand owners whose rows cancel: a float64 sum was off by more than its bound."""
    owners = 10_000
    index = torch.arange(owners).repeat_interleave(2)
    values = torch.zeros(2 * owners, FEATURES)
    values[:, 0] = 1 + 1e-3 * torch.rand(2 * owners)
    values[1::2, 0] *= -1
    values[1::2, 1] = 1e-4
    graph = owned(values, index, dense=True)
    whole = linear_sum(graph, short=True)
    rest = linear_sum(graph, [np.arange(1, owners)], short=True)
    own = linear_sum(graph, [np.array([0])], short=True)
    assert torch.equal(whole, rest + own)
    assert float(own.norm()) <= 1


def treacherous() -> Tensor:
    """Rows whose float32 running sum is moved by several clip norms by the first of them.

    Float32 spacing doubles at every power of two. The running sum with the first row sits
    above one where the sum without it sits below: small rows are then rounded to two spacings
    in one sum and to one in the other, and the gap doubles each time.
    """
    values, with_it, without = [1.0], np.float32(1), np.float32(0)
    for power in (10, 11, 12):
        while with_it < 2.0**power:
            values.append(1.0)
            with_it, without = with_it + np.float32(1), without + np.float32(1)
        small = np.float32(1.4 * 2.0 ** (power - 24))
        while without < 2.0**power:
            values.append(float(small))
            with_it, without = with_it + small, without + small
    assert with_it - without > 2.0, "they break a float32 sum"
    rows = torch.zeros(len(values), FEATURES)
    rows[:, 0] = torch.tensor(values)
    return rows


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("documents_a_part", [1, 2])
def test_no_document_moves_a_treacherous_sum_further(
    dense: bool, documents_a_part: int
) -> None:
    rows = CLIP * treacherous()
    without = rows.clone()
    without[0] = 0.0
    part_of = torch.arange(len(rows)) // documents_a_part
    sums = [linear_sum(owned(v, part_of, dense=dense), short=True) for v in (rows, without)]
    assert float((sums[0] - sums[1]).norm()) <= (1.0 if documents_a_part == 1 else 2.0)


@pytest.mark.parametrize("kind", ["linear", "mlp", "gcn"])
@pytest.mark.parametrize("sampled", [False, True])
def test_other_owners_do_not_even_round_differently(kind: str, sampled: bool) -> None:
    others = torch.randn(300, 50)
    owners = torch.randint(1, 120, (300,))
    owners[:119] = torch.arange(1, 120)
    model = make_model(kind, 50, 3, hidden=5, hops=1, dropout=0.0)
    parameters = model.initial([0])
    sums = []
    for first in (1, 2, 5, 100):
        silent = torch.zeros(first, dtype=torch.int64)
        graph = TextGraph(
            DenseRows(torch.cat([torch.zeros(first, 50), others])),
            torch.zeros(2, 0, dtype=torch.int64),
            torch.cat([silent - 1, torch.arange(300) % 3]),
            3,
            torch.zeros(first + 300, dtype=torch.int8),
        )
        cutting = cut(graph, torch.cat([silent, owners]), 120)
        gradients = StackGradients(model, cutting, plan_for(120, CLIP), None)
        sums.append(gradients.clipped_sum(parameters, [np.arange(120)] if sampled else None))
    assert all(equal(sums[0], other) for other in sums[1:])


@pytest.mark.parametrize("kind", ["linear", "mlp", "gcn"])
@pytest.mark.parametrize("dense", [False, True])
def test_the_only_link_of_all_moves_no_other_part(kind: str, dense: bool) -> None:
    """Without any link there is no matrix; nobody may see in their bits which it was."""
    features = rows_of(torch.randn(60, 50), dense=dense)
    model = make_model(kind, 50, 3, hidden=5, hops=1, dropout=0.0)
    parameters = model.initial([0, 1])
    rest = []
    for links in ([[0], [1]], [[], []]):
        graph = TextGraph(
            features,
            torch.tensor(links, dtype=torch.int64),
            torch.arange(60) % 3,
            3,
            torch.zeros(60, dtype=torch.int8),
        )
        # Little noise makes a fine grid: differences of a float32's last bit show on it.
        plan = plan_for(20, CLIP, LITTLE)
        gradients = StackGradients(model, cut(graph, torch.arange(60) // 3, 20), plan, None)
        whole = gradients.clipped_sum(parameters, None)
        own = gradients.clipped_sum(parameters, [np.array([0])] * 2)
        rest.append([a - b for a, b in zip(whole, own, strict=True)])
    assert equal(*rest)


@pytest.mark.parametrize("kind", ["linear", "mlp", "gcn"])
@pytest.mark.parametrize("dense", [False, True])
def test_parts_add_up_to_the_bit_however_they_are_sampled(kind: str, dense: bool) -> None:
    source = random_graph(220, 9, links=600, sparse=not dense)
    index = torch.cat([torch.zeros(150, dtype=torch.int64), torch.arange(70) % 12 + 1])
    graph = cut(source, index, 13)
    model = make_model(kind, 9, source.classes, hidden=5, hops=1, dropout=0.0)
    parameters = model.initial([0, 1])
    gradients = StackGradients(model, graph, plan_for(13, CLIP), None)
    alone = [gradients.clipped_sum(parameters, [np.array([p])] * 2) for p in range(13)]

    def added(parts: Sequence[int], number: int, replica: int) -> Tensor:
        vectors = [alone[part][number][..., replica, :] for part in parts]
        return torch.stack(vectors).sum(0)

    everything = [np.arange(13)] * 2
    some = [np.array([0, 2, 3, 5, 7, 11]), np.array([1, 0])]
    for samples in (None, everything, some):
        sums = gradients.clipped_sum(parameters, samples)
        for number, tensor in enumerate(sums):
            for replica, parts in enumerate(samples or everything):
                assert torch.equal(tensor[..., replica, :], added(parts, number, replica))


# -- the centre and modules ---------------------------------------------------------------


@pytest.mark.parametrize("owners", [100, 4000])
def test_nobody_else_moves_the_centre(owners: int) -> None:
    found = []
    for documents in (4096, 4097):
        graph = owned(*one_word(owners, documents - owners + 1), dense=True)
        plan = plan_for(owners, CLIP)
        found.append(clipped_outline(graph, plan, [np.arange(1, owners)]))
        whole, own = (clipped_outline(graph, plan, s) for s in (None, [np.array([0])]))
        for total, others, one in zip(whole, found[-1], own, strict=True):
            assert torch.equal(total, others + one)
        assert float(whole[0].norm()) == pytest.approx(ROW * owners, rel=1e-3)
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_the_centre_of_owners_is_the_sum_of_their_means() -> None:
    values, index = torch.randn(40, 6), torch.randint(0, 7, (40,))
    index[:7] = torch.arange(7)
    graph = owned(values, index, dense=True)
    directions = values.double() / values.double().norm(dim=1, keepdim=True)
    means = torch.stack([directions[index == owner].mean(0) for owner in range(7)])
    plan = plan_for(7, CLIP)
    found = clipped_outline(graph, plan, None)[0][:, 0] / ROW
    torch.testing.assert_close(found, means.sum(0), rtol=0, atol=7e-3)
    some = clipped_outline(graph, plan, [np.array([1, 4])])[0][:, 0] / ROW
    torch.testing.assert_close(some, means[1] + means[4], rtol=0, atol=2e-3)


def test_modules_add_up_on_the_grid() -> None:
    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(FEATURES, 2)

        def forward(self, rows: Tensor, links: Tensor) -> Tensor:
            return self.inner(rows)

    graph = owned(torch.randn(50, FEATURES), torch.arange(50) // 5, dense=True)
    plan = plan_for(10, CLIP)
    gradients = ModuleGradients(Plain(), graph, plan)
    sums = gradients.clipped_sum(gradients.initial(), None)
    shares = [gradients.clipped_sum(gradients.initial(), [np.array([p])]) for p in range(10)]
    for number, total in enumerate(sums):
        assert total.dtype == torch.float64
        steps = total / grid_of(plan).step
        assert torch.equal(steps, steps.round())
        assert torch.equal(total, torch.stack([share[number] for share in shares]).sum(0))
