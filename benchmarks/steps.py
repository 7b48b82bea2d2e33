"""How fast a private step is, beside PyG, Opacus and our own non-private step.

All contestants take turns in one process, so that a busy machine slows all of them alike;
what counts are the ratios. Usage:

    PRIVGCN_DATA=... python benchmarks/steps.py [cora] [pubmed]
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import argparse
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout

from privgcn.config import TrainingSettings
from privgcn.corpus import load_corpus
from privgcn.graph import TextGraph, cut, links_within, random_parts
from privgcn.models import LayerStack, make_model
from privgcn.privacy.mechanism.part_gradients import StackGradients
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import AllParts
from privgcn.randomness import RandomSource
from privgcn.training.fit import PrivateTrainer
from privgcn.training.optimisers import Optimiser
from privgcn.training.plain import plain_gradient

warnings.simplefilter("ignore")
SGD = TrainingSettings(optimizer="sgd", learning_rate=0.01)
Step = Callable[[], None]


def plain_step(model: LayerStack, graph: TextGraph) -> Step:
    block = cut(graph, torch.zeros(len(graph), dtype=torch.int64), 1)
    optimiser = Optimiser(model.initial([0]), SGD)
    masks = RandomSource.reproducible(0, "benchmark")
    return lambda: optimiser.step(plain_gradient(model, optimiser.parameters, block, masks))


def private_step(model: LayerStack, graph: TextGraph, parts: int) -> Step:
    documents = len(graph)
    if parts == 1:
        kind, part_of = "single", torch.zeros(documents, dtype=torch.int64)
    elif parts == documents:
        kind, part_of = "each", torch.arange(documents)
    else:
        kind, part_of = "random", random_parts(documents, parts, 0)
    seed = 0 if kind == "random" else None
    plan = PrivacyPlan(
        unit="part",
        relation="remove",
        partition=PartitionFacts(kind=kind, parts=parts, seed=seed),
        schedule=AllParts(parts),
        clip_norm=1.0,
        noise_multiplier=4.0,
        steps=10**6,
        delta=1e-5,
        units=documents,
    )
    source = RandomSource.secret()
    gradients = StackGradients(model, cut(graph, part_of, parts), plan, RandomSource.secret())
    return PrivateTrainer(model.initial([0]), gradients, plan, SGD, source).step


def pyg_step(graph: TextGraph) -> Step:
    from torch_geometric.nn import GCNConv

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = GCNConv(graph.features.width, 32)
            self.second = GCNConv(32, graph.classes)

        def forward(self, x: Tensor, edges: Tensor) -> Tensor:
            hidden = dropout(self.first(x, edges).relu(), 0.5)
            return self.second(hidden, edges)

    data, net = graph.to_pyg(), Net()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01)

    def step() -> None:
        optimiser.zero_grad()
        cross_entropy(net(data.x, data.edge_index), data.y).backward()
        optimiser.step()

    return step


def opacus_step(graph: TextGraph, ghost: bool) -> Step:
    """Every document a part: the multilayer perceptron that Opacus can take."""
    from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizer
    from opacus.optimizers.optimizer_fast_gradient_clipping import (
        DPOptimizerFastGradientClipping,
    )
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    width, classes = graph.features.width, graph.classes
    net = nn.Sequential(
        nn.Linear(width, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, classes)
    )
    features, labels = graph.features.dense(), graph.labels
    shared = {"noise_multiplier": 4.0, "max_grad_norm": 1.0, "expected_batch_size": len(graph)}
    inner = torch.optim.SGD(net.parameters(), lr=0.01)
    if not ghost:
        wrapped = GradSampleModule(net)
        private = DPOptimizer(inner, **shared)

        def hooks() -> None:
            private.zero_grad()
            cross_entropy(wrapped(features), labels).backward()
            private.step()

        return hooks
    wrapped = GradSampleModuleFastGradientClipping(
        net, max_grad_norm=1.0, use_ghost_clipping=True
    )
    private = DPOptimizerFastGradientClipping(inner, **shared)
    loss = DPLossFastGradientClipping(wrapped, private, nn.CrossEntropyLoss())

    def ghosts() -> None:
        private.zero_grad()
        loss(wrapped(features), labels).backward()
        private.step()

    return ghosts


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield
    torch.set_num_threads(before)


def race(steps: dict[str, Step], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each contestant; they take turns."""
    for step in steps.values():
        step()
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            repeats = 1 if "Opacus hooks" in name else 5
            begun = time.perf_counter()
            for _ in range(repeats):
                step()
            times[name].append((time.perf_counter() - begun) * 1e3 / repeats)
    return times


def peak_memory(step: Step) -> int:
    """Bytes that PyTorch's allocator holds at most during a step, beyond what was there."""
    from torch.profiler import ProfilerActivity, profile

    step()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        step()
    held = most = 0
    for event in sorted(seen.profiler.kineto_results.events(), key=lambda e: e.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


def benchmark(name: str, rounds: int) -> None:
    train = load_corpus(name).train
    graph = TextGraph.from_corpus(train, train.vectors)
    gcn = make_model("gcn", graph.features.width, graph.classes)
    mlp = make_model("mlp", graph.features.width, graph.classes)
    steps = {
        "PyG GCN, not private": pyg_step(graph),
        "ours, not private": plain_step(gcn, graph),
        "ours, private, one part": private_step(gcn, graph, 1),
        "ours, private, ten parts": private_step(gcn, graph, 10),
        "ours, private, each": private_step(mlp, graph, len(graph)),
        "Opacus ghost, each": opacus_step(graph, ghost=True),
        "Opacus hooks, each": opacus_step(graph, ghost=False),
    }
    # Small steps are fastest on one thread (training sets that by itself), large ones on all:
    # every contestant gets the better of the two.
    times: dict[str, list[float]] = {}
    for threads in {1, torch.get_num_threads()}:
        with torch_threads(threads):
            for label, values in race(steps, rounds).items():
                if label not in times or np.median(values) < np.median(times[label]):
                    times[label] = values
    middle = {name: float(np.median(values)) for name, values in times.items()}
    print(
        f"\n{name}: {len(graph)} training documents, "
        f"better of 1 and {torch.get_num_threads()} threads"
    )
    print(f"{'step':28} {'median ms':>10} {'quartiles':>16} {'/PyG':>7} {'/ours plain':>11}")
    for label, values in times.items():
        low, high = np.quantile(values, [0.25, 0.75])
        pyg, plain = middle["PyG GCN, not private"], middle["ours, not private"]
        ratio = f"{middle[label] / pyg:7.2f} {middle[label] / plain:11.2f}"
        print(f"{label:28} {middle[label]:10.2f} {low:7.2f} - {high:6.2f} {ratio}")
    ours = middle["ours, private, each"]
    print(f"Opacus hooks / ours: {middle['Opacus hooks, each'] / ours:.0f}x")
    print(f"Opacus ghost / ours: {middle['Opacus ghost, each'] / ours:.1f}x")
    memory = {n: peak_memory(steps[n]) for n in ("ours, private, each", "Opacus hooks, each")}
    mine, theirs = memory.values()
    print(
        f"step memory: ours {mine / 1e6:.1f} MB, Opacus hooks {theirs / 1e6:.1f} MB, "
        f"{theirs / max(mine, 1):.0f}x"
    )


def benchmark_cut() -> None:
    documents, links = 1_000_000, 10_000_000
    edges = torch.randint(0, documents, (2, links))
    times = []
    tracemalloc.start()
    for _ in range(5):
        begun = time.perf_counter()
        kept = links_within(edges, random_parts(documents, 10, 0))
        times.append(time.perf_counter() - begun)
    tracemalloc.stop()
    print(
        f"\ncut of {documents:,} documents and {links:,} links into ten parts: "
        f"median {np.median(times):.2f} s ({min(times):.2f} - {max(times):.2f}), "
        f"{kept.shape[1]:,} links kept"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("datasets", nargs="*", default=["cora", "pubmed"])
    parser.add_argument("--rounds", type=int, default=7)
    chosen = parser.parse_args()
    for name in chosen.datasets:
        benchmark(name, chosen.rounds)
    benchmark_cut()


if __name__ == "__main__":
    main()
