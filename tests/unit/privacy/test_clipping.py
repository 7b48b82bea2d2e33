"""A part's gradient leaves with norm at most C, whatever it was, and hurts no other part."""

import math

import pytest
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from brute_force import FINE, joint_norm, random_graph, relative_error
from privgcn.graph import DenseRows, PartitionedGraph, cut, rows_of
from privgcn.graph.exact import powers_above, upper_sums
from privgcn.models import make_model
from privgcn.models.stack import LayerGradient, loss_gradient
from privgcn.privacy.mechanism import clipping
from privgcn.privacy.mechanism.clipping import (
    ClippedSums,
    _joint_norms,
    _row_squares,
    clipped_parts,
    clipped_vector,
)
from privgcn.privacy.mechanism.noise_grid import Grid
from privgcn.privacy.mechanism.pairs import RowPairs

SIZES = (1, 3, 70)
"""Documents of a part: its norm is a product, comes from pairs, or from its gradient."""


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def parted(sizes: list[int], rows: Tensor, *, sparse: bool = False) -> PartitionedGraph:
    """Parts of the given sizes without links, with the given feature rows."""
    features = rows_of(csr_matrix(rows.numpy())) if sparse else DenseRows(rows)
    offsets = torch.tensor([0, *sizes]).cumsum(0)
    labels = torch.zeros(len(rows), dtype=torch.int64)
    return PartitionedGraph(features, None, labels, 2, offsets, torch.arange(len(rows)))


def two_layers(
    graph: PartitionedGraph, scale: float = 1.0, *, seed: int = 0
) -> list[LayerGradient]:
    """Gradient rows of two layers with biases, two replicas."""
    generator = torch.Generator().manual_seed(seed)
    rows = len(graph)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    first, second = draw(rows, 2, 3) * scale, draw(rows, 2, 4) * scale
    hidden = draw(rows, 2, 3).relu()
    return [LayerGradient(graph.features, first, first), LayerGradient(hidden, second, second)]


def of_rows(gradients: list[LayerGradient], begin: int, end: int) -> list[Tensor]:
    """Float64 gradient of the part made of rows ``begin`` to ``end``."""
    tensors = []
    for inputs, outputs, bias in gradients:
        given = inputs if isinstance(inputs, Tensor) else inputs.dense()[:, None]
        taken = given[begin:end].double().expand(-1, outputs.shape[1], -1)
        tensors.append(torch.einsum("nri,nro->iro", taken, outputs[begin:end].double()))
        if bias is not None:
            tensors.append(bias[begin:end].double().sum(0))
    return tensors


def norms(tensors: list[Tensor]) -> list[float]:
    return [
        joint_norm([tensor[..., replica, :] for tensor in tensors])
        for replica in range(tensors[0].shape[-2])
    ]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_ten_clip_norms_leave_as_one_jointly_over_all_tensors(size: int, sparse: bool) -> None:
    graph = parted([size], torch.randn(size, 5), sparse=sparse)
    gradients = two_layers(graph)
    for replica, before in enumerate(norms(of_rows(gradients, 0, size))):
        sums = ClippedSums(graph, before / 10, FINE).clipped_sum(gradients)
        assert norms(sums)[replica] == pytest.approx(1.0, rel=1e-4)
        assert norms(sums)[replica] <= 1.0
        # One scale for everything: no tensor was clipped apart from the others.
        ratios = [
            joint_norm([after[..., replica, :]]) / joint_norm([exact[..., replica, :]])
            for after, exact in zip(sums, of_rows(gradients, 0, size), strict=True)
        ]
        assert ratios == pytest.approx([1 / before] * 4, rel=1e-4)


@pytest.mark.parametrize("size", SIZES)
def test_a_gradient_below_the_bound_stays_as_it_is(size: int) -> None:
    graph = parted([size], torch.randn(size, 5))
    gradients = two_layers(graph)
    expected = of_rows(gradients, 0, size)
    bound = 2 * max(norms(expected))
    sums = ClippedSums(graph, bound, FINE).clipped_sum(gradients)
    assert relative_error(sums, [tensor / bound for tensor in expected]) < 1e-5


@pytest.mark.parametrize("size", SIZES)
def test_zero_gradients_stay_zero(size: int) -> None:
    graph = parted([size] * 4, torch.randn(4 * size, 5))
    sums = ClippedSums(graph, 1.0, FINE).clipped_sum(two_layers(graph, 0.0))
    assert norms(sums) == [0.0, 0.0]


@pytest.mark.parametrize("clip_norm", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("huge", [1e15, 1e30, 1e35, 3e38])
@pytest.mark.parametrize("size", SIZES)
def test_huge_rows_are_bounded_and_leave_the_others_alone(
    size: int, huge: float, clip_norm: float
) -> None:
    rows = torch.randn(3 * size, 5)
    quiet = ClippedSums(parted([size] * 2, rows[: 2 * size]), clip_norm, FINE)
    alone = quiet.clipped_sum(two_layers(quiet.graph))
    rows[2 * size :] = huge
    graph = parted([size] * 3, rows)
    for factor in (1.0, 1e-30, 1e30):
        wild = [LayerGradient(*g) for g in two_layers(graph)]
        calm = two_layers(quiet.graph)
        for loud, soft in zip(wild, calm, strict=True):
            loud.outputs[: 2 * size] = soft.outputs
            if isinstance(loud.inputs, Tensor) and isinstance(soft.inputs, Tensor):
                loud.inputs[: 2 * size] = soft.inputs
            loud.outputs[2 * size :] *= factor
        sums = ClippedSums(graph, clip_norm, FINE).clipped_sum(wild)
        share = [a - b for a, b in zip(sums, alone, strict=True)]
        assert max(norms(share)) <= 1.0


@pytest.mark.parametrize("where", ["features", "hidden", "outputs", "bias"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("size", SIZES)
def test_a_part_that_is_not_finite_counts_as_zero(size: int, bad: float, where: str) -> None:
    rows = torch.randn(4 * size, 5)
    clean = parted([size] * 4, rows)
    gradients = two_layers(clean)
    everyone = torch.ones(4, 2, dtype=torch.bool)
    everyone[1] = False
    expected = ClippedSums(clean, 0.5, FINE).clipped_sum(gradients, included=everyone)
    spoiled = rows.clone()
    if where == "features":
        spoiled[size, 2] = bad
    graph = parted([size] * 4, spoiled)
    poisoned = []
    for inputs, outputs, bias in gradients:
        outputs = outputs.clone()
        bias = outputs if bias is None or where != "bias" else bias.clone()
        if isinstance(inputs, Tensor):
            inputs = inputs.clone()
            if where == "hidden":
                inputs[size, :, 0] = bad
        else:
            inputs = graph.features
        if where == "outputs":
            outputs[size, :, 1] = bad
        if where == "bias":
            bias[size, :, 1] = bad
        poisoned.append(LayerGradient(inputs, outputs, bias))
    sums = ClippedSums(graph, 0.5, FINE).clipped_sum(poisoned)
    for found, wanted in zip(sums, expected, strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("included", [None, torch.tensor([[True, False]] * 6)])
@pytest.mark.parametrize("size", SIZES)
def test_replicas_are_dropped_apart(size: int, included: Tensor | None) -> None:
    graph = parted([size] * 6, torch.randn(6 * size, 5))
    gradients = two_layers(graph)
    clean = ClippedSums(graph, 0.5, FINE).clipped_sum(gradients, included=included)
    gradients[1].outputs[:, 1] = math.nan
    sums = ClippedSums(graph, 0.5, FINE).clipped_sum(gradients, included=included)
    assert norms(sums)[1] == 0.0
    for found, wanted in zip(sums, clean, strict=True):
        assert torch.equal(found[..., 0, :], wanted[..., 0, :])


@pytest.mark.parametrize("size", [2, 16, 64, 80])
@pytest.mark.parametrize("height", [1e3, 1e6, 1e9, 1e15])
def test_huge_rows_that_cancel_do_not_slip_through(height: float, size: int) -> None:
    # Rows come in pairs z, z with output gradients d and -d plus a little: everything
    # large cancels, and norms from float32 pairs would be rounding, often zero.
    generator = torch.Generator().manual_seed(size)
    half = torch.randn(size // 2, 5, generator=generator) * height
    outputs = torch.randn(size // 2, 1, 3, generator=generator)
    rest = 1e-6 * torch.randn(size // 2, 1, 3, generator=generator)
    rows, rest = torch.cat([half, half]), torch.cat([outputs, rest - outputs])
    graph = parted([size], rows)
    gradient = LayerGradient(graph.features, rest, rest)
    assert max(norms(ClippedSums(graph, 1.0, FINE).clipped_sum([gradient]))) <= 1.0


def test_float32_pairs_would_let_ten_clip_norms_through() -> None:
    """The danger is real: this is what the float64 norms above are for."""
    generator = torch.Generator().manual_seed(1)
    half = torch.randn(8, 5, generator=generator) * 1e6
    outputs = torch.randn(8, 3, generator=generator)
    rest = 1e-5 * torch.randn(8, 3, generator=generator)
    rows, ends = torch.cat([half, half]), torch.cat([outputs, rest - outputs])
    pairs = ((rows @ rows.T) * (ends @ ends.T)).sum().clamp(min=0).sqrt()
    truth = (rows.double().T @ ends.double()).norm()
    assert truth > 10
    assert float(pairs) < 1.0, "float32 pairs would clip nothing here"
    graph = parted([16], rows)
    sums = ClippedSums(graph, 1.0, FINE).clipped_sum(
        [LayerGradient(graph.features, ends[:, None], None)]
    )
    assert joint_norm(sums) <= 1.0


@pytest.mark.parametrize("size", [2, 64, 80])
@pytest.mark.parametrize(
    ("clip", "inputs", "outputs"), [(1e-6, 1e27, 1e-32), (0.01, 2e36, 5e-39)]
)
def test_rows_below_the_usual_range_count_beside_inputs_above_it(
    clip: float, inputs: float, outputs: float, size: int
) -> None:
    """Residuals can be as small as float32 allows, and features as large."""
    graph = parted([size], torch.full((size, 1), inputs))
    rows = torch.tensor([1.7, 1.3]).mul(outputs).expand(size, 1, 2).contiguous()
    gradient = LayerGradient(graph.features, rows, rows)
    assert 0.9 < joint_norm(ClippedSums(graph, clip, FINE).clipped_sum([gradient])) <= 1.0


def test_rows_that_cancel_lie_on_the_finest_grid() -> None:
    grid, graph = Grid.of(1e-6, 1), parted([2], torch.zeros(2, 1))
    for number in range(100):
        rows = torch.tensor([[[-24.38997 - 0.001 * number]], [[22.90896]]])
        gradient = LayerGradient(graph.features, rows, rows)
        for found in ClippedSums(graph, 1.0, grid).clipped_sum([gradient]):
            assert torch.equal(found, (found / grid.step).round() * grid.step)


@pytest.mark.parametrize("empty", [1, 16, 100])
def test_empty_rows_that_fill_up_a_part_move_no_bit(empty: int) -> None:
    """The row is just below a power of two, where rounding up more coarsely would reach it."""
    inputs = torch.ones(16, 1, 1, dtype=torch.float64)
    outputs = torch.zeros(16, 1, 3, dtype=torch.float64)
    outputs[0, 0] = torch.tensor([0.6 - 1e-13, 0.8 - 1e-13, 1e-13])
    outputs[0] *= (1 - 2.0**-48) / outputs[0].norm()
    found = []
    for more in (0, empty):
        rows = [torch.cat([t, torch.zeros(more, *t.shape[1:])]) for t in (inputs, outputs)]
        found.append(clipped_parts([LayerGradient(*rows, None)], 100.0, Grid(52, 12), 10_000))
    assert torch.equal(*[one for (one,) in found])
    for terms in (None, 10_000):
        lengths = [outputs.norm(dim=-1), torch.cat([outputs, outputs[1:2]]).norm(dim=-1)]
        units = {float(powers_above(upper_sums(own, terms))) for own in lengths}
        assert len(units) == (2 if terms is None else 1), "the danger is real"


@pytest.mark.parametrize("width", [1, 32, 33, 64, 100, 2000])
def test_the_norm_of_a_row_does_not_depend_on_the_rows_beside_it(width: int) -> None:
    rows = torch.randn(40, width, dtype=torch.float64)
    found = _row_squares(rows)
    torch.testing.assert_close(found, rows.square().sum(-1))
    for count in (1, 4, 16):
        assert torch.equal(_row_squares(rows[:count].clone()), found[:count])


@pytest.mark.parametrize("wild", [math.nan, math.inf, 1e300])
def test_a_vector_that_no_scale_can_tame_is_zero(wild: float) -> None:
    vector = [torch.tensor([[0.5, wild]]), torch.tensor([[[1.0, 2.0]]])]
    vector = [tensor.double() for tensor in vector]
    assert [tensor.any().item() for tensor in clipped_vector(vector, 1.0, FINE)] == [False] * 2


def test_a_vector_lies_on_the_grid_and_is_no_longer() -> None:
    vector = [3 * torch.randn(1, 5), torch.randn(4, 1, 6)]
    found = clipped_vector(vector, 0.5, Grid(20, 10))
    assert 0.99 < joint_norm(found) <= 1.0
    assert all(torch.equal(t * 2.0**20, (t * 2.0**20).round()) for t in found)


@pytest.mark.parametrize("kind", ["gcn", "linear", "mlp"])
def test_all_ways_to_a_norm_agree(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(48, 10, seed=3)
    for parts in (1, 5, 48):
        pieces = cut(graph, torch.arange(48) % parts, parts)
        model = make_model(kind, 10, 4, hidden=6, dropout=0.0)
        parameters = model.initial([1, 2])
        tape = model.forward(parameters, pieces.features, pieces.matrix)
        rows = loss_gradient(tape.scores, pieces.labels, pieces.loss_weights)
        gradients = model.backward(parameters, tape, rows, pieces.matrix, dropped=False)
        found = []
        for most in (0, 64):
            monkeypatch.setattr(clipping, "_MOST_IN_PAIRS", most)
            found.append(ClippedSums(pieces, 0.1, FINE).clipped_sum(gradients))
        assert relative_error(*found) < 1e-4


def test_empty_parts_add_nothing() -> None:
    graph = random_graph(20, 6, seed=5)
    part_of = torch.arange(20) % 3 * 2  # parts 1 and 3 are empty
    model = make_model("gcn", 6, 4, hidden=5, dropout=0.0)
    parameters = model.initial([0])
    results = []
    for assignment, parts in ((part_of, 6), (part_of // 2, 3)):
        pieces = cut(graph, assignment, parts)
        tape = model.forward(parameters, pieces.features, pieces.matrix)
        rows = loss_gradient(tape.scores, pieces.labels, pieces.loss_weights)
        gradients = model.backward(parameters, tape, rows, pieces.matrix, dropped=False)
        results.append(ClippedSums(pieces, 0.1, FINE).clipped_sum(gradients))
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


def test_rounding_a_long_vector_to_a_coarse_grid_is_paid_for() -> None:
    """Equal entries all round up together, over however many rows they lie."""
    grid = Grid(8, 4)
    for rows in range(700, 1024):
        (found,) = clipped_vector([torch.full((rows, 1, 4), 5.0)], 1.0, grid)
        assert 0 < float(found.norm()) <= 1


def test_how_many_threads_add_up_a_norm_moves_no_bit() -> None:
    vectors = [[torch.randn(1, 100_003, 1, 3), torch.randn(1, 1, 3)] for _ in range(8)]
    before, found = torch.get_num_threads(), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found.append(torch.cat([_joint_norms(vector) for vector in vectors]))
    torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_inner_products_of_pairs_keep_what_float32_would_lose() -> None:
    rows = torch.tensor([[1.0, 2.0**-13], [1.0, 2.0**-13]])[:, None]
    pairs = RowPairs.of(parted([2], rows[:, 0]), 64)
    assert pairs.products(rows).tolist() == [[1.0 + 2.0**-26]]


@pytest.mark.parametrize("sparse", [False, True])
def test_parts_multiplied_out_together_are_those_multiplied_out_alone(
    sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [65, 3, 90, 200, 1, 70, 66]
    graph = parted(sizes, torch.randn(sum(sizes), 5), sparse=sparse)
    gradients = two_layers(graph)
    included = torch.rand(len(sizes), 2) < 0.7
    found = []
    for most in (1, 1 << 20):
        monkeypatch.setattr(clipping, "_AT_ONCE", most)
        found.append(ClippedSums(graph, 0.1, FINE).clipped_sum(gradients, included=included))
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_digits_that_pairs_leave_out_are_paid_for() -> None:
    """Two equal rows just below a power of two: cut to their grid they would be shorter."""
    width = 2048
    outputs = torch.full((2, 1, width), 1.0) + 1e-6
    graph = parted([2], torch.ones(2, 1))
    (found,) = ClippedSums(graph, 1.0, Grid(50, 2)).clipped_sum(
        [LayerGradient(graph.features, outputs, None)]
    )
    assert 0.999 < float(found.norm()) <= 1.0
