"""How many documents an owner has moves that owner's vector and nobody else's."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from brute_force import random_graph
from privgcn.errors import PrivacyContractError
from privgcn.graph import DenseRows, TextGraph
from privgcn.graph.partition import PartitionedGraph, cut
from privgcn.graph.row_products import times_each
from privgcn.graph.rows import SparseRows
from privgcn.models import make_model
from privgcn.privacy.centre import clipped_row_means
from privgcn.privacy.clipping import ClippedSums
from privgcn.privacy.pairs import padded_groups
from privgcn.privacy.part_gradients import StackGradients
from privgcn.privacy.separate_sums import SeparateSums

CLIP = 0.01
HUGE = 2.0**24


def owned(values: Tensor, owners: Tensor, *, dense: bool) -> PartitionedGraph:
    """Documents of class 0 without links, cut by owner."""
    rows = DenseRows(values) if dense else sparse(values)
    count = len(values)
    graph = TextGraph(
        rows,
        torch.zeros(2, 0, dtype=torch.int64),
        torch.zeros(count, dtype=torch.int64),
        2,
        torch.zeros(count, dtype=torch.int8),
        owners,
    )
    return cut(graph, owners, int(owners.max()) + 1, sizes_public=False)


def sparse(values: Tensor) -> SparseRows:
    from scipy.sparse import csr_matrix

    return SparseRows.from_scipy(csr_matrix(values.numpy()))


def linear_sum(graph: PartitionedGraph, samples: Sequence[np.ndarray] | None = None) -> Tensor:
    model = make_model("linear", graph.features.width, 2, hidden=4, hops=0, dropout=0.0)
    gradients = StackGradients(model, graph, CLIP, None)
    return gradients.clipped_sum(model.initial([0], zero=True), samples)[0]


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
@pytest.mark.parametrize(
    ("make", "counts", "owners"),
    [
        # One document each would let "rows" and blocks be chosen, a second one forbids both.
        (one_word, (1, 2), 5000),
        # Around the number of documents above which sums are taken in blocks.
        (one_word, (96, 97), 4001),
        # Around the number above which an owner's gradient is multiplied out.
        (one_word, (32, 33), 200),
        (lambda owners, first: cancelling(owners, first, 3), (3, 40), 40),
    ],
)
def test_nobody_else_moves_when_an_owner_writes_more(
    make: Callable[[int, int], tuple[Tensor, Tensor]],
    counts: tuple[int, int],
    owners: int,
    dense: bool,
) -> None:
    sums = [linear_sum(owned(*make(owners, count), dense=dense)) for count in counts]
    assert float((sums[0] - sums[1]).norm()) <= 2 * CLIP * (1 + 1e-6)
    assert float(sums[0].norm()) > CLIP, "the others add up to more than one owner"


def test_nobody_else_moves_in_a_sampled_step() -> None:
    samples = [np.arange(0, 50, 2)]
    sums = [
        linear_sum(owned(*cancelling(50, first, 32), dense=False), samples)
        for first in (31, 32)
    ]
    assert float((sums[0] - sums[1]).norm()) <= 2 * CLIP * (1 + 1e-6)
    assert float(sums[0].norm()) > 0


def public(graph: PartitionedGraph) -> PartitionedGraph:
    return replace(graph, sizes_public=True)


def test_who_is_sampled_moves_nobody_else() -> None:
    """Amplification needs one clip norm between a sample with and one without a part."""
    # A large part without words joins parts of a few rows that cancel.
    values, index = cancelling(61, 200, 3)
    graph = public(owned(values, index, dense=False))
    some, more = (linear_sum(graph, [np.arange(first, 61)]) for first in (1, 0))
    assert float((some - more).norm()) <= CLIP * (1 + 1e-6)
    # One document more than are added up without blocks.
    graph = public(owned(*one_word(5000, 1), dense=False))
    some, more = (linear_sum(graph, [np.arange(first, 4097)]) for first in (1, 0))
    assert float((some - more).norm()) <= CLIP * (1 + 1e-6)
    # From parts that are taken one by one to parts that are gathered.
    values, index = cancelling(10, 20, 20)
    graph = public(owned(values, index, dense=False))
    some, more = (linear_sum(graph, [np.arange(first, 5)]) for first in (1, 0))
    assert float((some - more).norm()) <= CLIP * (1 + 1e-6)


@pytest.mark.parametrize("width", [17, 50, 385])
@pytest.mark.parametrize("outputs", [3, 5, 16])
def test_a_rows_product_is_its_own(width: int, outputs: int) -> None:
    rows, table = torch.randn(33, width), torch.randn(width, outputs)
    together = times_each(rows, table)
    torch.testing.assert_close(together, rows @ table, rtol=1e-4, atol=1e-4)
    for begin in range(33):
        assert torch.equal(times_each(rows[begin:], table), together[begin:])
        assert torch.equal(times_each(rows[begin : begin + 1], table)[0], together[begin])
    assert times_each(rows[:0], table).shape == (0, outputs)


def test_a_part_is_padded_by_its_own_size() -> None:
    def widths(sizes: list[int]) -> list[int]:
        index = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
        graph = owned(torch.ones(len(index), 4), index, dense=True)
        widths = {int(p): rows.shape[1] for rows, parts in padded_groups(graph) for p in parts}
        return [widths[part] for part in range(len(sizes))]

    assert widths([1, 2, 3, 5, 9]) == [1, 2, 4, 8, 16]
    assert widths([1, 2, 4, 8, 16]) == [1, 2, 4, 8, 16]


@pytest.mark.parametrize("kind", ["linear", "mlp", "gcn"])
@pytest.mark.parametrize("sampled", [False, True])
def test_other_owners_do_not_even_round_differently(kind: str, sampled: bool) -> None:
    random = torch.Generator().manual_seed(1)
    others = torch.randn(300, 50, generator=random)
    owners = torch.randint(1, 120, (300,), generator=random)
    owners[:119] = torch.arange(1, 120)
    model = make_model(kind, 50, 3, hidden=5, hops=1, dropout=0.0)
    parameters = model.initial([0])
    sums = []
    for first in (1, 2, 5):
        silent = torch.zeros(first, dtype=torch.int64)
        graph = TextGraph(
            DenseRows(torch.cat([torch.zeros(first, 50), others])),
            torch.zeros(2, 0, dtype=torch.int64),
            torch.cat([silent - 1, torch.arange(300) % 3]),
            3,
            torch.zeros(first + 300, dtype=torch.int8),
        )
        cutting = cut(graph, torch.cat([silent, owners]), 120, sizes_public=False)
        gradients = StackGradients(model, cutting, CLIP, None)
        samples = [np.arange(0, 120)] if sampled else None
        sums.append(gradients.clipped_sum(parameters, samples))
    for other in sums[1:]:
        for one, two in zip(sums[0], other, strict=True):
            torch.testing.assert_close(one, two, rtol=0.0, atol=1e-12 * CLIP)


@pytest.mark.parametrize("owners", [1000, 4000])
@pytest.mark.parametrize("sampled", [False, True])
def test_nobody_else_moves_the_centre(owners: int, sampled: bool) -> None:
    samples = [np.arange(owners)] if sampled else None
    sums = []
    for documents in (4096, 4097):
        values, index = one_word(owners, documents - owners + 1)
        sums.append(clipped_row_means(owned(values, index, dense=True), CLIP, samples))
    assert float((sums[0] - sums[1]).norm()) <= 2 * CLIP * (1 + 1e-6)
    assert float(sums[0].norm()) == pytest.approx(owners * CLIP, rel=1e-5)


def test_the_centre_of_owners_is_the_sum_of_their_means() -> None:
    random = torch.Generator().manual_seed(3)
    values = torch.randn(40, 6, generator=random)
    index = torch.randint(0, 7, (40,), generator=random)
    index[:7] = torch.arange(7)
    graph = owned(values, index, dense=True)
    directions = values.double() / values.double().norm(dim=1, keepdim=True)
    means = torch.stack([directions[index == owner].mean(0) for owner in range(7)])
    expected = CLIP * means.sum(0)
    found = clipped_row_means(graph, CLIP, None)[:, 0]
    torch.testing.assert_close(found, expected, rtol=2e-6, atol=1e-9)
    some = clipped_row_means(graph, CLIP, [np.array([1, 4])])[:, 0]
    torch.testing.assert_close(some, CLIP * (means[1] + means[4]), rtol=2e-6, atol=1e-9)


@pytest.mark.parametrize("kind", ["linear", "gcn"])
def test_large_and_small_owners_add_up_as_one_by_one(kind: str) -> None:
    source = random_graph(120, 9, links=300, sparse=False)
    index = torch.cat([torch.zeros(50, dtype=torch.int64), torch.arange(70) % 12 + 1])
    graph = cut(source, index, 13, sizes_public=False)
    model = make_model(kind, 9, source.classes, hidden=5, hops=1, dropout=0.0)
    parameters = model.initial([0, 1])
    together = StackGradients(model, graph, CLIP, None).clipped_sum(parameters, None)
    alone = [
        StackGradients(model, graph, CLIP, None).clipped_sum(parameters, [np.array([p])] * 2)
        for p in range(13)
    ]
    for number, tensor in enumerate(together):
        expected = torch.stack([sums[number] for sums in alone]).sum(0)
        torch.testing.assert_close(tensor, expected, rtol=1e-5, atol=1e-7)
    some = StackGradients(model, graph, CLIP, None)
    chosen = [np.array([0, 2, 3, 5, 7, 11]), np.array([1, 0])]
    sampled = some.clipped_sum(parameters, chosen)
    for number, tensor in enumerate(sampled):
        for replica, parts in enumerate(chosen):
            expected = torch.stack([alone[p][number][..., replica, :] for p in parts]).sum(0)
            torch.testing.assert_close(tensor[..., replica, :], expected, rtol=1e-5, atol=1e-7)


def test_private_sizes_choose_no_method_for_all() -> None:
    graph = owned(*one_word(5, 2), dense=True)
    assert not graph.select(torch.tensor([0, 1])).sizes_public
    assert not graph.with_features(graph.features).sizes_public
    model = make_model("linear", 16, 2, hidden=4, hops=0, dropout=0.0)
    gradients = StackGradients(model, graph, CLIP, None)
    assert isinstance(gradients._everything, SeparateSums)
    with pytest.raises(PrivacyContractError, match="sizes of these parts are private"):
        ClippedSums(graph, CLIP).clipped_sum([])
