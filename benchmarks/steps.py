"""How fast a private step is, beside PyG's epoch and Opacus on the same data.

All contestants take turns in one process, so that a busy machine slows all of them alike; what
counts are the ratios.

    PRIVGCN_DATA=... python benchmarks/steps.py [cora citeseer pubmed] [--json FILE]
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import Step, in_own_process, machine_sentence, markdown, race, spread, write_json
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout

from privgcn.config import make_settings
from privgcn.data import TRAIN, load_corpus
from privgcn.graph import DocumentGraph, scaled_rows
from privgcn.mechanism import Groups, ModuleGradient, RandomSource, Session, SoftmaxGradient
from privgcn.privacy.plan import (
    PartitionFacts,
    PrivacyPlan,
    Schedule,
)
from privgcn.sgd.gcn import Network

warnings.simplefilter("ignore")
PYG = "PyG epoch, not private"
EACH = "ours, auto: each document a group"
HOOKS, GHOST = "Opacus hooks, each document", "Opacus ghost clipping, each document"


def session(graph: DocumentGraph, groups: int, *, sampled: bool = False) -> Session:
    """A session that answers for as long as the benchmark lasts."""
    documents = len(graph)
    kind = "single" if groups == 1 else "each" if groups == documents else "random"
    facts = PartitionFacts(kind=kind, groups=groups, seed=0 if kind == "random" else None)
    schedule = Schedule("poisson", groups, 1.0 / groups) if sampled else Schedule("all", groups)
    plan = PrivacyPlan(
        unit="part",
        relation="remove",
        partition=facts,
        schedule=schedule,
        clip_norm=1.0 if groups < documents else 0.25,
        noise_multiplier=100.0,
        steps=10**6,
        delta=1e-5,
        units=documents,
    )
    return Session(plan, Groups.of_plan(plan, graph), RandomSource.secret())


def auto_step(graph: DocumentGraph) -> Step:
    rows = replace(graph, features=scaled_rows(graph.features, "l2"))
    door = session(rows, len(graph))
    weights, bias = np.zeros((graph.width, graph.classes)), np.zeros(graph.classes)

    def step() -> None:
        nonlocal weights
        weights = weights - 0.01 * door.query(SoftmaxGradient(weights, bias))

    return step


def paper_step(graph: DocumentGraph, groups: int, *, sampled: bool = False) -> Step:
    network = Network([graph.width, 32, graph.classes], hops=1, dropout=0.5)
    door, question = session(graph, groups, sampled=sampled), None
    optimiser = torch.optim.SGD(network.parameters(), lr=0.01)
    question = ModuleGradient(network, network.inputs)

    def step() -> None:
        mean = torch.from_numpy(door.query(question)).float()
        begin = 0
        for parameter in network.parameters():
            piece = mean[begin : begin + parameter.numel()]
            parameter.grad, begin = piece.view_as(parameter), begin + parameter.numel()
        optimiser.step()

    return step


def tensors(graph: DocumentGraph) -> tuple[Tensor, Tensor]:
    features = graph.features if graph.dense else graph.features.toarray()
    return torch.from_numpy(np.asarray(features, np.float32)), torch.from_numpy(graph.labels)


def pyg_step(graph: DocumentGraph) -> Step:
    from torch_geometric.nn import GCNConv

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = GCNConv(graph.width, 32), GCNConv(32, graph.classes)

        def forward(self, x: Tensor, edges: Tensor) -> Tensor:
            return self.second(dropout(self.first(x, edges).relu(), 0.5), edges)

    net, (features, labels) = Net(), tensors(graph)
    edges = torch.from_numpy(np.concatenate([graph.edges, graph.edges[::-1]], axis=1))
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01)

    def step() -> None:
        optimiser.zero_grad()
        cross_entropy(net(features, edges), labels).backward()
        optimiser.step()

    return step


def opacus_step(graph: DocumentGraph, *, ghost: bool) -> Step:
    """Every document a group: the perceptron that Opacus can take."""
    from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizer
    from opacus.optimizers.optimizer_fast_gradient_clipping import (
        DPOptimizerFastGradientClipping,
    )
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    features, labels = tensors(graph)
    first, second = nn.Linear(graph.width, 32), nn.Linear(32, graph.classes)
    net = nn.Sequential(first, nn.ReLU(), nn.Dropout(0.5), second)
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
    clipping = GradSampleModuleFastGradientClipping(
        net, max_grad_norm=1.0, use_ghost_clipping=True
    )
    quick = DPOptimizerFastGradientClipping(inner, **shared)
    loss = DPLossFastGradientClipping(clipping, quick, nn.CrossEntropyLoss())

    def ghosts() -> None:
        quick.zero_grad()
        loss(clipping(features), labels).backward()
        quick.step()

    return ghosts


def contestants(name: str) -> tuple[int, dict[str, Callable[[], Step]]]:
    """How many training documents a dataset has, and who can take a step on them."""
    corpus = load_corpus(name)
    whole = DocumentGraph(
        corpus.vectors, corpus.edges, corpus.labels, corpus.num_classes, corpus.split
    )
    graph = whole.induced(np.flatnonzero(corpus.split == TRAIN))
    makers: dict[str, Callable[[], Step]] = {
        PYG: lambda: pyg_step(graph),
        EACH: lambda: auto_step(graph),
        "ours, paper's method, one subgraph": lambda: paper_step(graph, 1),
        "ours, ten subgraphs": lambda: paper_step(graph, 10),
        "ours, ten subgraphs, Poisson sampled": lambda: paper_step(graph, 10, sampled=True),
        "ours, a hundred subgraphs, Poisson sampled": lambda: paper_step(
            graph, 100, sampled=True
        ),
        GHOST: lambda: opacus_step(graph, ghost=True),
        HOOKS: lambda: opacus_step(graph, ghost=False),
    }
    return len(graph), makers


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield
    torch.set_num_threads(before)


def step_times(name: str, rounds: int) -> dict[str, Any]:
    """Times of all contestants on one dataset; each gets the better of one thread and all."""
    documents, makers = contestants(name)
    steps = {label: make() for label, make in makers.items()}
    best: dict[str, Any] = {}
    for threads in sorted({1, torch.get_num_threads()}):
        with torch_threads(threads):
            for label, times in race(steps, rounds).items():
                if label not in best or times["median"] < best[label]["median"]:
                    best[label] = {**times, "threads": threads}
    for label in steps:
        best[label]["of_pyg"] = best[label]["median"] / best[PYG]["median"]
    return {"documents": documents, "steps": best}


def start_up(rounds: int) -> dict[str, dict[str, float]]:
    """CPU seconds of commands that do little."""
    commands = {
        "--help": "--help",
        "account": "account --noise-multiplier 4 --steps 100 --json",
        "calibrate": "calibrate --epsilon 1 --steps 30 --json",
    }
    times = {}
    for name, words in commands.items():
        took = [in_own_process(["-m", "privgcn", *words.split()])[0] for _ in range(rounds)]
        times[name] = spread([one["cpu"] for one in took])
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("datasets", nargs="*", default=("cora", "citeseer", "pubmed"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    make_settings("plain")
    record: dict[str, Any] = {"machine": machine_sentence(), "start_up": start_up(3)}
    print(record["machine"])
    print(json.dumps(record["start_up"]))
    for name in asked.datasets:
        times = step_times(name, asked.rounds)
        record[name] = times
        rows = [
            [
                label,
                f"{one['median']:.2f} ({one['low']:.2f} to {one['high']:.2f})",
                str(one["threads"]),
                f"{one['of_pyg']:.2f}",
            ]
            for label, one in times["steps"].items()
        ]
        print(f"\n{name}, {times['documents']} training documents:\n")
        print(
            markdown(["step", "ms, median (quartiles)", "threads", "of PyG"], rows), flush=True
        )
        write_json(asked.json, record)


if __name__ == "__main__":
    main()
