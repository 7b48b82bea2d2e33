from __future__ import annotations

import ast
import inspect
import os
from types import ModuleType

import numpy as np
import pytest
import torch

from privgcn.errors import ConfigError
from privgcn.experiments.paper import emulation, released_mnist
from privgcn.experiments.paper.epsilons import moments_epsilon
from privgcn.experiments.paper.published import leaves
from privgcn.experiments.tasks import run_task
from privgcn.graph import DenseRows, TextGraph
from privgcn.models import make_model

POINT = {"dataset": "cora", "optimizer": "sgd", "epsilon": 2}


def _graph(documents: int = 40, seed: int = 0) -> TextGraph:
    draw = np.random.default_rng(seed)
    labels = torch.from_numpy(draw.integers(0, 2, documents))
    features = torch.from_numpy(draw.normal(size=(documents, 6))).float()
    features[:, 0] += 3 * labels
    pairs = torch.from_numpy(draw.integers(0, documents, (2, 60)))
    low, high = pairs.amin(0), pairs.amax(0)
    edges = torch.stack([low, high])[:, low != high].unique(dim=1)
    split = torch.from_numpy(draw.choice([0, 0, 1, 2], documents)).to(torch.int8)
    return TextGraph(DenseRows(features), edges, labels, 2, split)


def _settings(**changes: object) -> dict[str, object]:
    return {**emulation.resolve(dict(POINT)), "epochs": 5, "noise_multiplier": 0.0, **changes}


@pytest.mark.parametrize(
    ("optimizer", "epsilon", "parts", "noise"),
    [
        ("sgd", 2, 1, 112),
        ("adam", 2, 1, 56),
        ("sgd", 137, 1, 4),
        ("adam", 1, 10, 34.70),
        ("sgd", 1, 10, 69.34),
    ],
)
def test_the_noise_is_what_the_papers_accountant_asks_for(
    optimizer: str, epsilon: float, parts: int, noise: float
) -> None:
    point = {"dataset": "cora", "optimizer": optimizer, "epsilon": epsilon, "parts": parts}
    assert emulation.resolve(point)["noise_multiplier"] == pytest.approx(noise, abs=0.006)


def test_nothing_is_clipped() -> None:
    """A thousandfold loss scale moves the weights a thousandfold: no bound is in the way."""
    graph = _graph()
    with torch.no_grad():
        moved = []
        for scale in (1.0, 1000.0):
            large = TextGraph(
                DenseRows(graph.features.dense() * scale),
                graph.edges,
                graph.labels,
                graph.classes,
                graph.split,
            )
            scores = emulation._train(
                large, _settings(epochs=1, learning_rate=1.0, dropout=0.0), [0]
            )
            moved.append(float(scores.abs().max()))
    assert moved[1] > 1000 * moved[0]


def test_test_documents_take_part_in_training() -> None:
    """Changing a test document's text changes the trained scores of a training document."""
    graph = _graph()
    changed = graph.features.dense().clone()
    changed[graph.split == 2] += 5.0
    other = TextGraph(DenseRows(changed), graph.edges, graph.labels, 2, graph.split)
    far = _untouched_rows(graph)
    with torch.no_grad():
        first = emulation._train(graph, _settings(epochs=20, learning_rate=0.5), [0])
        second = emulation._train(other, _settings(epochs=20, learning_rate=0.5), [0])
    assert not torch.allclose(first[far], second[far])


def test_sound_clipping_bounds_a_step() -> None:
    graph = _graph()
    huge = TextGraph(
        DenseRows(graph.features.dense() * 1000), graph.edges, graph.labels, 2, graph.split
    )
    settings = _settings(epochs=1, learning_rate=1.0, dropout=0.0, hidden=4)
    with torch.no_grad():
        model = make_model("gcn", 6, 2, hidden=4, dropout=0.0)
        before = model.scores(model.initial([0]), huge.features, huge.propagation())
        free = emulation._train(huge, settings, [0])
        bound = emulation._train(huge, {**settings, "sound": ["clip"]}, [0])
    # Of norm 1 at most: it cannot move a score by more than about the size of a row.
    assert float((bound - before).abs().max()) < 0.1 * float((free - before).abs().max())


def test_clipping_takes_all_tensors_of_a_replica_together() -> None:
    weight = torch.zeros(3, 2, 2)
    weight[0, 0, 0], bias = 3.0, torch.tensor([[4.0, 0.0], [0.5, 0.0]])
    made = emulation._clipped([weight, bias])
    assert made[0][0, 0, 0] == pytest.approx(0.6)
    assert made[1].tolist() == [pytest.approx([0.8, 0.0]), [0.5, 0.0]]


def test_apart_and_cut_leave_fewer_links() -> None:
    graph = _graph()
    members = emulation._parts(graph, 3, torch.Generator().manual_seed(0))
    kept = {
        name: emulation._training_graph(graph, members, set(sound)).edges
        for name, sound in (("all", []), ("apart", ["apart"]), ("cut", ["apart", "cut"]))
    }
    assert kept["all"].shape[1] > kept["apart"].shape[1] > kept["cut"].shape[1] > 0
    assert bool((graph.split[kept["apart"]] == 0).all())
    part = {int(row): number for number, rows in enumerate(members) for row in rows}
    assert all(part[a] == part[b] for a, b in kept["cut"].T.tolist())


def test_samples_are_of_any_size() -> None:
    drawn = emulation._sampled(torch.arange(10), torch.Generator().manual_seed(0))
    assert len(drawn) == 10
    assert len({len(sample) for sample in drawn}) > 1


@pytest.mark.parametrize("sound", [[], ["dropout"], ["clip", "dropout"]])
def test_one_part_is_in_every_sample(sound: list[str]) -> None:
    """Of one part, samples change nothing; gradients of a step do not pile up."""
    settings = _settings(noise_multiplier=0.5, learning_rate=0.1)
    with torch.no_grad():
        visited = emulation._train(_graph(), {**settings, "sound": sound}, (0, 1))
        sampled = emulation._train(
            _graph(), {**settings, "sound": [*sound, "sampling"]}, (0, 1)
        )
    torch.testing.assert_close(visited, sampled)


def test_what_is_sound_is_part_of_the_run_and_its_name() -> None:
    settings = emulation.resolve({**POINT, "sound": ["dropout", "clip"]})
    assert settings["sound"] == ["clip", "dropout"]
    assert "but clip and dropout sound" in emulation.label(settings)
    with pytest.raises(ConfigError, match=r"some of clip, apart.*Got clipping"):
        emulation.resolve({**POINT, "sound": ["clipping"]})


def _untouched_rows(graph: TextGraph) -> torch.Tensor:
    """Training documents more than two links away from every test document."""
    near = graph.split == 2
    for _ in range(2):
        grown = near.clone()
        grown[graph.edges[1][near[graph.edges[0]]]] = True
        grown[graph.edges[0][near[graph.edges[1]]]] = True
        near = grown
    rows = ~near & (graph.split == 0)
    assert bool(rows.any())
    return rows


def test_a_seed_is_the_same_whatever_trains_beside_it_once_dropout_is_off() -> None:
    settings = _settings(noise_multiplier=1.0, dropout=0.0, learning_rate=0.1)
    with torch.no_grad():
        both = emulation._train(_graph(), settings, [3, 4])
        alone = emulation._train(_graph(), settings, [3])
    assert torch.allclose(both[:, :1], alone, atol=1e-4)


def test_patience_stops_each_seed_on_its_own() -> None:
    weights = [torch.arange(4.0).view(1, 2, 2).clone()]
    stopper = emulation.Stopper(1, weights)
    stopper.look(torch.tensor([0.7, 0.7]))
    assert not stopper.all_stopped()
    stopper.look(torch.tensor([0.8, 0.7]))
    assert not stopper.all_stopped(), "only the first seed got worse"
    weights[0].zero_()
    stopper.look(torch.tensor([0.7, 0.7]))
    assert not stopper.all_stopped()
    assert stopper.result()[0].tolist() == [[[0.0, 1.0], [0.0, 0.0]]]
    assert stopper.epochs.tolist() == [2, 3]


def test_losses_are_the_mean_cross_entropy_of_each_seed() -> None:
    scores = torch.randn(5, 3, 4, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 1, 2, 3, 0])
    expected = [torch.nn.functional.cross_entropy(scores[:, n], labels) for n in range(3)]
    torch.testing.assert_close(emulation.losses_of(scores, labels), torch.stack(expected))


@pytest.mark.parametrize("module", [emulation, released_mnist])
def test_it_can_not_make_a_statement(module: ModuleType) -> None:
    """The module knows nothing of plans, statements or the estimator that makes them."""
    tree = ast.parse(inspect.getsource(module))
    imported = {
        name
        for node in ast.walk(tree)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    }
    forbidden = ("plan", "statement", "classifier", "release", "private", "clipping", "claims")
    assert not [name for name in imported if name.split(".")[-1] in forbidden]


def test_axes_are_checked() -> None:
    with pytest.raises(ConfigError, match="grid of the released code's runs"):
        emulation.resolve({"dataset": "cora", "optimizer": "sgd"})


def test_epsilon_1_on_the_full_graph_is_within_the_papers_accountant() -> None:
    """The paper calls it impossible; the noise for it is twice that of epsilon 2."""
    noise = emulation.resolve({**POINT, "epsilon": 1})["noise_multiplier"]
    assert noise == pytest.approx(220, abs=5)
    assert moments_epsilon(noise, 2000) == pytest.approx(1.0, abs=0.01)
    assert moments_epsilon(250, 2000) == pytest.approx(0.87, abs=0.005)


@pytest.mark.dataset
def test_adam_as_released_gives_the_published_cora_score() -> None:
    if not os.environ.get("PRIVGCN_DATA"):
        pytest.skip("set PRIVGCN_DATA to the folder of raw datasets")
    settings = emulation.resolve({**POINT, "optimizer": "adam"})
    results = run_task(emulation.KIND, settings, (0, 1))
    mean = np.mean([result["scores"]["full-graph"]["micro_f1"] for result in results])
    assert abs(mean - leaves()["table1.cora.dp_full_eps2.adam"]) <= 0.05
    assert all(result["private"] is False and "privacy" not in result for result in results)


@pytest.mark.parametrize("parts", [1, 3])
def test_a_seed_gives_the_same_scores_whatever_trains_beside_it(parts: int) -> None:
    settings = _settings(parts=parts, noise_multiplier=0.5)
    with torch.no_grad():
        alone = emulation._train(_graph(), settings, (5,))
        beside = emulation._train(_graph(), settings, (4, 5))
    torch.testing.assert_close(alone[:, 0], beside[:, 1], rtol=1e-4, atol=1e-4)
