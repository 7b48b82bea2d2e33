"""Part gradients: right, clipped, and each from its own part alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from brute_force import (
    FINE,
    clipped_sum,
    joint_norm,
    plan_for,
    random_graph,
    relative_error,
    replica_of,
)
from privgcn.graph import DenseRows, TextGraph, cut, random_parts
from privgcn.models import make_model
from privgcn.privacy.mechanism import part_gradients
from privgcn.privacy.mechanism.noise_grid import Grid
from privgcn.privacy.mechanism.part_gradients import StackGradients
from privgcn.randomness import RandomSource, SeededReplicas

CLIP = 0.05


def sources(
    graph: TextGraph, part_of: Tensor, kind: str = "gcn", **options: Any
) -> tuple[StackGradients, list[Tensor]]:
    model = make_model(kind, graph.features.width, graph.classes, hidden=6, dropout=0.0)
    pieces = cut(graph, part_of, int(part_of.max()) + 1)
    plan = plan_for(pieces.parts, CLIP)
    return StackGradients(model, pieces, plan, None, **options), model.initial([3, 4])


def in_clips(tensors: list[Tensor]) -> list[Tensor]:
    return [tensor / CLIP for tensor in tensors]


@pytest.fixture
def _fine_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Grid, "of", lambda noise_multiplier, parts: FINE)


@pytest.mark.usefixtures("_fine_grid")
@pytest.mark.parametrize("kind", ["gcn", "linear", "mlp"])
@pytest.mark.parametrize("parts", [1, 2, 9, 50])
def test_each_replica_sums_its_own_sample(kind: str, parts: int) -> None:
    graph = random_graph(50, 9, seed=parts, links=120)
    part_of = random_parts(50, parts, 1)
    gradients, parameters = sources(graph, part_of, kind)
    rng = np.random.default_rng(parts)
    samples = [np.flatnonzero(rng.random(parts) < 0.6) for _ in range(2)]
    for drawn in (None, samples):
        sums = gradients.clipped_sum(parameters, drawn)
        for replica in range(2):
            expected = clipped_sum(
                gradients.model,
                replica_of(parameters, replica),
                graph,
                part_of,
                CLIP,
                None if drawn is None else drawn[replica],
            )
            assert relative_error(replica_of(sums, replica), in_clips(expected)) < 1e-4


@pytest.mark.parametrize("kind", ["gcn", "linear"])
@pytest.mark.parametrize("parts", [1, 9, 90])
def test_replicas_of_many_documents_come_one_after_another(
    kind: str, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = random_graph(90, 9, seed=parts, links=120)
    model = make_model(kind, 9, graph.classes, hidden=6, dropout=0.5)
    seeds, rows, at_once = [3, 4, 5], StackGradients._rows, []

    def watched(*arguments: Any) -> Any:
        at_once.append(arguments[2][0].shape[-2])
        return rows(*arguments)

    monkeypatch.setattr(StackGradients, "_rows", watched)
    sums = []
    for many in (parts, parts + 1):
        monkeypatch.setattr(part_gradients, "_FILL_A_CACHE", many)
        pieces = cut(graph, random_parts(90, parts, 1), parts)
        masks = SeededReplicas(seeds, "masks")
        gradients = StackGradients(model, pieces, plan_for(parts, CLIP), masks)
        # The second time with masks that come after the first ones.
        sums.append([gradients.clipped_sum(model.initial(seeds), None) for _ in range(2)])
    assert at_once == [1] * 6 + [3] * 2
    for alone, together in zip(*sums, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))


def test_no_sampled_part_gives_zero() -> None:
    gradients, parameters = sources(random_graph(), random_parts(40, 4, 0))
    nothing = [np.array([], dtype=np.int64)] * 2
    assert joint_norm(gradients.clipped_sum(parameters, nothing)) == 0.0
    one_only = [np.array([2]), nothing[0]]
    sums = gradients.clipped_sum(parameters, one_only)
    assert joint_norm(replica_of(sums, 0)) > 0
    assert joint_norm(replica_of(sums, 1)) == 0.0


def test_sampled_parts_without_documents_give_zero() -> None:
    graph = random_graph(10, 7, links=30)
    gradients, parameters = sources(graph, torch.arange(10) // 5 * 3, "gcn")
    empty = [np.array([1, 2])] * 2
    assert all(float(t.abs().max()) == 0 for t in gradients.clipped_sum(parameters, empty))


def changed(graph: TextGraph, document: int, what: str) -> TextGraph:
    """The graph with another text, label or other links of one document."""
    if what == "text":
        rows = graph.features.dense().clone()
        rows[document] = 100 * torch.randn(rows.shape[1])
        return replace(graph, features=DenseRows(rows))
    if what == "nonsense":
        rows = graph.features.dense().clone()
        rows[document] = torch.nan
        return replace(graph, features=DenseRows(rows))
    if "label" in what:
        labels = graph.labels.clone()
        others = {"no label": -1, "unknown label": graph.classes + 1}
        labels[document] = others.get(what, (int(labels[document]) + 1) % graph.classes)
        return replace(graph, labels=labels)
    kept = graph.edges[:, (graph.edges != document).all(0)]
    if what == "no links":
        return replace(graph, edges=kept)
    others = torch.tensor([other for other in range(len(graph)) if other != document])
    mine = torch.stack([others.clamp(max=document), others.clamp(min=document)])
    return replace(graph, edges=torch.cat([kept, mine], dim=1))


@pytest.mark.parametrize(
    "what",
    ["text", "nonsense", "label", "no label", "unknown label", "no links", "linked to all"],
)
@pytest.mark.parametrize("kind", ["gcn", "linear"])
@pytest.mark.parametrize("parts", [3, 12, 48])
def test_one_document_moves_only_its_own_part(kind: str, parts: int, what: str) -> None:
    torch.manual_seed(0)
    graph = replace(
        random_graph(48, 7, links=150, seed=2), features=DenseRows(torch.randn(48, 7))
    )
    part_of = random_parts(48, parts, 5)
    document = 17
    before, parameters = sources(graph, part_of, kind)
    after, _ = sources(changed(graph, document, what), part_of, kind)
    for part in range(parts):
        sample = [np.array([part])] * 2
        first = before.clipped_sum(parameters, sample)
        second = after.clipped_sum(parameters, sample)
        if part != int(part_of[document]):
            for one, other in zip(first, second, strict=True):
                assert torch.equal(one, other), "another part's gradient must be bit-identical"
    # The whole sum moves by what the one part moves, and by no more than the table says.
    own = [np.array([int(part_of[document])])] * 2
    moves = []
    for sample in (None, own):
        sums = [g.clipped_sum(parameters, sample) for g in (before, after)]
        moves.append([a - b for a, b in zip(*sums, strict=True)])
    for replica in range(2):
        whole, part_alone = (replica_of(move, replica) for move in moves)
        assert joint_norm(whole) <= 2
        assert all(torch.equal(a, b) for a, b in zip(whole, part_alone, strict=True))


@pytest.mark.parametrize("parts", [1, 4, 40])
def test_short_residuals_are_clipped_too(parts: int) -> None:
    graph = random_graph(40, 7, seed=8)
    part_of = random_parts(40, parts, 0)
    plain, parameters = sources(graph, part_of, "linear")
    unit, _ = sources(graph, part_of, "linear", short_residuals=True)
    for part in range(parts):
        sample = [np.array([part])] * 2
        for replica in range(2):
            lifted = replica_of(unit.clipped_sum(parameters, sample), replica)
            assert joint_norm(lifted) <= 1
    sums = [g.clipped_sum(parameters, None) for g in (plain, unit)]
    assert relative_error(*sums) > 1e-3 or parts == 40


def test_dropout_changes_the_gradient_and_not_the_bound() -> None:
    graph = random_graph(40, 7, seed=8)
    model = make_model("gcn", 7, 4, hidden=6, dropout=0.5)
    parameters = model.initial([3])
    pieces = cut(graph, random_parts(40, 5, 0), 5)
    draws = []
    for seed in (1, 1, 2):
        masks = RandomSource.reproducible(seed, "test")
        gradients = StackGradients(model, pieces, plan_for(5, CLIP), masks)
        draws.append(gradients.clipped_sum(parameters, None))
        for part in range(5):
            one = gradients.clipped_sum(parameters, [np.array([part])])
            assert joint_norm(one) <= 1
    assert relative_error(draws[0], draws[1]) == 0.0
    assert relative_error(draws[0], draws[2]) > 1e-3


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("_fine_grid")
@pytest.mark.parametrize("kind", ["mlp", "linear"])
@pytest.mark.parametrize("sparse", [True, False])
def test_equal_to_opacus_where_every_part_is_one_document(kind: str, sparse: bool) -> None:
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    graph = random_graph(30, 8, seed=4, links=0, sparse=sparse, unlabelled=0.0)
    gradients, parameters = sources(graph, torch.arange(30), kind)
    weights = replica_of(parameters, 0)
    sizes = [(layer.inputs, layer.outputs) for layer in gradients.model.layers]
    modules: list[torch.nn.Module] = []
    step = 2 if gradients.model.bias else 1
    for number, (inputs, outputs) in enumerate(sizes):
        linear = torch.nn.Linear(inputs, outputs, bias=gradients.model.bias)
        with torch.no_grad():
            linear.weight.copy_(weights[number * step].T)
            if gradients.model.bias:
                linear.bias.copy_(weights[number * step + 1])
        modules += [linear, torch.nn.ReLU()]
    module = GradSampleModule(torch.nn.Sequential(*modules[:-1]), loss_reduction="sum")
    inner = torch.optim.SGD(module.parameters(), lr=1.0)
    optimizer = DPOptimizer(
        inner, noise_multiplier=0.0, max_grad_norm=CLIP, expected_batch_size=1
    )
    scores = module(graph.features.dense())
    torch.nn.functional.cross_entropy(scores, graph.labels, reduction="sum").backward()
    optimizer.clip_and_accumulate()
    expected = [parameter.summed_grad for parameter in module.parameters()]
    expected = [tensor.T if tensor.dim() == 2 else tensor for tensor in expected]
    found = replica_of(gradients.clipped_sum(parameters, None), 0)
    assert relative_error(found, in_clips(expected)) < 1e-5


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", ["gcn", "linear", "mlp"])
@pytest.mark.parametrize("parts", [1, 2, 9, 50])
@pytest.mark.parametrize("sparse", [True, False])
def test_a_gpu_gives_the_same_sums(kind: str, parts: int, sparse: bool) -> None:
    graph = random_graph(50, 9, seed=parts, links=120, sparse=sparse)
    part_of = random_parts(50, parts, 1)
    here, parameters = sources(graph, part_of, kind)
    there, _ = sources(graph.to("cuda"), part_of, kind)
    moved = [parameter.cuda() for parameter in parameters]
    for samples in (None, [np.array([0]), np.array([], dtype=np.int64)]):
        found = [tensor.cpu() for tensor in there.clipped_sum(moved, samples)]
        assert relative_error(found, here.clipped_sum(parameters, samples)) < 1e-4
