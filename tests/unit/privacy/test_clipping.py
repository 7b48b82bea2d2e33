"""A part's gradient leaves with norm at most C, whatever it was, and hurts no other part."""

import math

import pytest
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from brute_force import joint_norm, random_graph, relative_error
from privgcn.errors import ConfigError
from privgcn.graph import DenseRows, PartitionedGraph, cut, rows_of
from privgcn.models import make_model
from privgcn.models.stack import LayerGradient, loss_gradient
from privgcn.privacy.clipping import ClippedSums, Method
from privgcn.privacy.scales import clip_scales

METHODS: tuple[Method, ...] = ("rows", "pairs", "direct")


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


def size_for(method: Method) -> int:
    return 1 if method == "rows" else 3


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_ten_clip_norms_leave_as_one_jointly_over_all_tensors(
    method: Method, sparse: bool
) -> None:
    size = size_for(method)
    graph = parted([size], torch.randn(size, 5), sparse=sparse)
    gradients = two_layers(graph)
    for replica, before in enumerate(norms(of_rows(gradients, 0, size))):
        sums = ClippedSums(graph, before / 10).clipped_sum(gradients, method=method)
        assert norms(sums)[replica] == pytest.approx(before / 10, rel=2e-6)
        assert norms(sums)[replica] <= before / 10
        # One scale for everything: no tensor was clipped apart from the others.
        ratios = [
            joint_norm([after[..., replica, :]]) / joint_norm([exact[..., replica, :]])
            for after, exact in zip(sums, of_rows(gradients, 0, size), strict=True)
        ]
        assert ratios == pytest.approx([0.1] * 4, rel=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_a_gradient_below_the_bound_stays_as_it_is(method: Method) -> None:
    size = size_for(method)
    graph = parted([size], torch.randn(size, 5))
    gradients = two_layers(graph)
    expected = of_rows(gradients, 0, size)
    sums = ClippedSums(graph, 2 * max(norms(expected))).clipped_sum(gradients, method=method)
    assert relative_error(sums, expected) < 1e-6


@pytest.mark.parametrize("method", METHODS)
def test_zero_gradients_stay_zero(method: Method) -> None:
    size = size_for(method)
    graph = parted([size] * 4, torch.randn(4 * size, 5))
    sums = ClippedSums(graph, 1.0).clipped_sum(two_layers(graph, 0.0), method=method)
    assert norms(sums) == [0.0, 0.0]


@pytest.mark.parametrize("clip_norm", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("huge", [1e15, 1e30, 1e35, 3e38])
@pytest.mark.parametrize("method", METHODS)
def test_huge_rows_are_bounded_and_leave_the_others_alone(
    method: Method, huge: float, clip_norm: float
) -> None:
    size = size_for(method)
    rows = torch.randn(3 * size, 5)
    quiet = ClippedSums(parted([size] * 2, rows[: 2 * size]), clip_norm)
    alone = quiet.clipped_sum(two_layers(quiet.graph), method=method)
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
        sums = ClippedSums(graph, clip_norm).clipped_sum(wild, method=method)
        share = [a - b for a, b in zip(sums, alone, strict=True)]
        assert max(norms(share)) <= clip_norm * (1 + 1e-5)


@pytest.mark.parametrize("where", ["features", "hidden", "outputs", "bias"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("method", METHODS)
def test_a_part_that_is_not_finite_counts_as_zero(
    method: Method, bad: float, where: str
) -> None:
    size = size_for(method)
    rows = torch.randn(4 * size, 5)
    clean = parted([size] * 4, rows)
    gradients = two_layers(clean)
    everyone = torch.ones(4, 2, dtype=torch.bool)
    everyone[1] = False
    expected = ClippedSums(clean, 0.5).clipped_sum(gradients, included=everyone, method=method)
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
    sums = ClippedSums(graph, 0.5).clipped_sum(poisoned, method=method)
    for found, wanted in zip(sums, expected, strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("included", [None, torch.tensor([[True, False]] * 6)])
@pytest.mark.parametrize("method", METHODS)
def test_replicas_are_dropped_apart(method: Method, included: Tensor | None) -> None:
    size = size_for(method)
    graph = parted([size] * 6, torch.randn(6 * size, 5))
    gradients = two_layers(graph)
    clean = ClippedSums(graph, 0.5).clipped_sum(gradients, included=included, method=method)
    gradients[1].outputs[:, 1] = math.nan
    sums = ClippedSums(graph, 0.5).clipped_sum(gradients, included=included, method=method)
    assert norms(sums)[1] == 0.0
    for found, wanted in zip(sums, clean, strict=True):
        assert torch.equal(found[..., 0, :], wanted[..., 0, :])


@pytest.mark.parametrize("size", [2, 16, 64])
@pytest.mark.parametrize("height", [1e3, 1e6, 1e9, 1e15])
@pytest.mark.parametrize("method", ["pairs", "direct"])
def test_huge_rows_that_cancel_do_not_slip_through(
    method: Method, height: float, size: int
) -> None:
    # Rows come in pairs z, z with output gradients d and -d plus a little: everything
    # large cancels, and norms from float32 pairs would be rounding, often zero.
    generator = torch.Generator().manual_seed(size)
    half = torch.randn(size // 2, 5, generator=generator) * height
    outputs = torch.randn(size // 2, 1, 3, generator=generator)
    rest = 1e-6 * torch.randn(size // 2, 1, 3, generator=generator)
    rows, rest = torch.cat([half, half]), torch.cat([outputs, rest - outputs])
    graph = parted([size], rows)
    gradient = LayerGradient(graph.features, rest, rest)
    assert max(norms(ClippedSums(graph, 1.0).clipped_sum([gradient], method=method))) <= 1.0


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
    sums = ClippedSums(graph, 1.0).clipped_sum(
        [LayerGradient(graph.features, ends[:, None], None)], method="pairs"
    )
    assert 0.9 < joint_norm(sums) <= 1.0


def test_scales_are_zero_for_what_no_scale_can_tame() -> None:
    wild = torch.tensor([math.nan, math.inf, 1e37, 3.0, 0.1, 0.0], dtype=torch.float64)
    scales = clip_scales(wild, 1.0, 1e-6)
    assert scales.tolist() == pytest.approx([0.0, 0.0, 0.0, 1 / 3, 1.0, 1.0], rel=2e-6)


@pytest.mark.parametrize("clip_norm", [0.0, -1.0, math.nan])
def test_a_bound_must_be_positive(clip_norm: float) -> None:
    with pytest.raises(ConfigError, match="clip_norm"):
        ClippedSums(parted([1], torch.ones(1, 2)), clip_norm)


@pytest.mark.parametrize("kind", ["gcn", "linear", "mlp"])
def test_all_methods_agree(kind: str) -> None:
    graph = random_graph(48, 10, seed=3)
    for parts in (1, 5, 48):
        pieces = cut(graph, torch.arange(48) % parts, parts)
        model = make_model(kind, 10, 4, hidden=6, dropout=0.0)
        parameters = model.initial([1, 2])
        tape = model.forward(parameters, pieces.features, pieces.matrix)
        rows = loss_gradient(tape.scores, pieces.labels, pieces.loss_weights)
        gradients = model.backward(parameters, tape, rows, pieces.matrix, dropped=False)
        sums = ClippedSums(pieces, 0.1)
        direct = sums.clipped_sum(gradients, method="direct")
        assert relative_error(sums.clipped_sum(gradients, method="pairs"), direct) < 1e-5
        assert relative_error(sums.clipped_sum(gradients), direct) < 1e-5
        if parts == 48:
            assert relative_error(sums.clipped_sum(gradients, method="rows"), direct) < 1e-5


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
        for method in ("pairs", "direct"):
            results.append(ClippedSums(pieces, 0.1).clipped_sum(gradients, method=method))
    for other in results[1:]:
        assert relative_error(other, results[0]) < 1e-6


def test_the_cheapest_method_depends_on_sizes_only() -> None:
    first, second = random_graph(60, 8, seed=1), random_graph(60, 8, seed=2, links=5)
    for parts in (1, 3, 30, 60):
        chosen = set()
        for graph in (first, second):
            pieces = cut(graph, torch.arange(60) % parts, parts)
            gradients = two_layers(pieces)
            chosen.add(ClippedSums(pieces, 1.0)._cheapest(gradients))
        assert len(chosen) == 1
