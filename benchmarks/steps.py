"""How fast a private step is, beside PyG, Opacus, vmap and our own non-private step.

All contestants take turns in one process, so that a busy machine slows all of them alike;
what counts are the ratios. Peak memory is measured in a process for each. Last come whole
runs: the command a user types, from raw files to a private model with scores. Usage:

    PRIVGCN_DATA=... python benchmarks/steps.py [cora citeseer pubmed reddit-like]
        [--quick] [--json FILE] [--page docs/performance.md]
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import argparse
import json
import resource
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from measuring import (
    Step,
    in_own_process,
    machine,
    machine_sentence,
    markdown,
    race,
    spread,
    write_json,
    write_section,
)
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout

from privgcn.config import TrainingSettings
from privgcn.data import load_corpus
from privgcn.graph import TextGraph, cut, normalised, random_parts
from privgcn.models import LayerStack, make_model
from privgcn.privacy.mechanism.part_gradients import StackGradients
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import AllParts, PoissonParts
from privgcn.randomness import RandomSource
from privgcn.training.optimisers import Optimiser
from privgcn.training.plain import plain_gradient
from privgcn.training.private import PrivateTrainer

warnings.simplefilter("ignore")
SGD = TrainingSettings(optimizer="sgd", learning_rate=0.01)
DATASETS = ("cora", "citeseer", "pubmed", "reddit-like")
PYG = "PyG epoch, not private"
PLAIN = "ours, not private"
EACH = "ours, each document a part"
FIVE = "ours, one part, five seeds"
HOOKS, GHOST, VMAP = "Opacus hooks, each", "Opacus ghost, each", "torch.func.vmap, each"
# Whose peak memory is measured, each in a process of its own.
WEIGHED = (PYG, PLAIN, EACH, GHOST, HOOKS, VMAP)
# Whole runs, and commands that only start.
RUNS = ("auto", "paper-full", "paper-split")


def plain_step(model: LayerStack, graph: TextGraph) -> Step:
    block = cut(graph, torch.zeros(len(graph), dtype=torch.int64), 1)
    optimiser = Optimiser(model.initial([0]), SGD)
    masks = RandomSource.reproducible(0, "benchmark")
    return lambda: optimiser.step(plain_gradient(model, optimiser.parameters, block, masks))


def private_step(
    model: LayerStack,
    graph: TextGraph,
    parts: int,
    *,
    seeds: int = 1,
    sampled: bool = False,
    short_residuals: bool = False,
) -> Step:
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
        schedule=PoissonParts(parts, 1.0 / parts) if sampled else AllParts(parts),
        clip_norm=1.0,
        noise_multiplier=4.0,
        steps=10**6,
        delta=1e-5,
        units=documents,
    )
    gradients = StackGradients(
        model,
        cut(graph, part_of, parts),
        plan,
        RandomSource.secret(),
        short_residuals=short_residuals,
    )
    first = model.initial(list(range(seeds)))
    trainer = PrivateTrainer(first, gradients, plan, SGD, RandomSource.secret())

    def step() -> None:
        with torch.no_grad():
            trainer.step()

    return step


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


def perceptron(graph: TextGraph) -> nn.Module:
    first, second = nn.Linear(graph.features.width, 32), nn.Linear(32, graph.classes)
    return nn.Sequential(first, nn.ReLU(), nn.Dropout(0.5), second)


def opacus_step(graph: TextGraph, ghost: bool) -> Step:
    """Every document a part: the multilayer perceptron that Opacus can take."""
    from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizer
    from opacus.optimizers.optimizer_fast_gradient_clipping import (
        DPOptimizerFastGradientClipping,
    )
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    net = perceptron(graph)
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


def vmap_step(graph: TextGraph) -> Step:
    """Every document a part, with gradients of all documents side by side."""
    from torch.func import functional_call, grad, vmap

    net = perceptron(graph)
    features, labels = graph.features.dense(), graph.labels
    weights = {name: value.detach() for name, value in net.named_parameters()}

    def loss(weights: dict[str, Tensor], row: Tensor, label: Tensor) -> Tensor:
        return cross_entropy(functional_call(net, weights, (row[None],)), label[None])

    each = vmap(grad(loss), in_dims=(None, 0, 0), randomness="different")

    def step() -> None:
        gradients = each(weights, features, labels)
        squares = sum(g.flatten(1).square().sum(1) for g in gradients.values())
        scales = (1.0 / squares.sqrt()).clamp(max=1.0)
        for name, gradient in gradients.items():
            total = torch.einsum("n,n...->...", scales, gradient)
            noise = 4.0 * torch.randn_like(total)
            weights[name].sub_(total.add_(noise), alpha=0.01 / len(graph))

    return step


def contestants(name: str) -> tuple[int, dict[str, Callable[[], Step]]]:
    """How many training documents a dataset has, and who can take a step on them."""
    train = load_corpus(name).train
    graph = TextGraph.from_corpus(train, train.vectors)
    documents, width, classes = len(graph), graph.features.width, graph.classes
    gcn, mlp = make_model("gcn", width, classes), make_model("mlp", width, classes)
    linear = make_model("linear", width, classes, hops=0, dropout=0.0)
    short = replace(graph, features=normalised(graph.features, "l2"))
    return documents, {
        PYG: lambda: pyg_step(graph),
        PLAIN: lambda: plain_step(gcn, graph),
        "ours, one part (paper-full)": lambda: private_step(gcn, graph, 1),
        "ours, ten parts": lambda: private_step(gcn, graph, 10),
        "ours, ten parts, sampled (paper-split)": lambda: private_step(
            gcn, graph, 10, sampled=True
        ),
        "ours, a hundred parts": lambda: private_step(gcn, graph, 100),
        EACH: lambda: private_step(mlp, graph, documents),
        "ours, auto": lambda: private_step(linear, short, documents, short_residuals=True),
        FIVE: lambda: private_step(gcn, graph, 1, seeds=5),
        "ours, each, five seeds": lambda: private_step(mlp, graph, documents, seeds=5),
        GHOST: lambda: opacus_step(graph, ghost=True),
        HOOKS: lambda: opacus_step(graph, ghost=False),
        VMAP: lambda: vmap_step(graph),
    }


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield
    torch.set_num_threads(before)


def peak_megabytes(name: str, label: str) -> None:
    """Prints what two steps add to the peak of a process that has loaded the data."""
    _, makers = contestants(name)
    step = makers[label]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step()
    step()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps((after - before) / 1024))


def step_times(name: str, rounds: int, *, quick: bool) -> dict[str, Any]:
    """Times, ratios and peak memory of all contestants on one dataset."""
    documents, makers = contestants(name)
    left_out = {HOOKS, VMAP} if quick else set()
    steps = {label: make() for label, make in makers.items() if label not in left_out}
    # Small steps are fastest on one thread (training sets that by itself), large ones on all:
    # every contestant gets the better of the two.
    best: dict[str, Any] = {}
    for threads in sorted({1, torch.get_num_threads()}):
        with torch_threads(threads):
            for label, found in race(steps, rounds).items():
                if label not in best or found["median"] < best[label]["median"]:
                    best[label] = {**found, "threads": threads}
    for label in steps:
        if label in WEIGHED and not quick:
            command = [__file__, "--memory", name, label]
            best[label]["megabytes"] = json.loads(in_own_process(command)[1])
        best[label]["of_pyg"] = best[label]["median"] / best[PYG]["median"]
    each = best[EACH]["median"]
    over = {who: best[who]["median"] / each for who in (GHOST, HOOKS, VMAP) if who in best}
    return {"documents": documents, "steps": best, "times_ours_each": over}


def whole_runs(name: str, *, quick: bool) -> dict[str, dict[str, Any]]:
    """From raw files to a private model with scores and a report, each in its own process."""
    found: dict[str, dict[str, Any]] = {}
    for recipe in RUNS[:1] if quick else RUNS:
        with tempfile.TemporaryDirectory() as out:
            words = f"train {name} --epsilon 1 --recipe {recipe} --json --out {out}/run"
            took, text = in_own_process(["-m", "privgcn", *words.split()])
        scores = json.loads(text)["scores"]
        found[recipe] = took | {mode: row["micro_f1"] for mode, row in scores.items()}
    return found


def start_up(rounds: int) -> dict[str, dict[str, float]]:
    """Seconds of commands that do little."""
    commands = {
        "--help": "--help",
        "account": "account --noise-multiplier 4 --steps 100 --json",
    }
    found = {}
    for name, words in commands.items():
        took = [in_own_process(["-m", "privgcn", *words.split()])[0] for _ in range(rounds)]
        found[name] = spread([one["wall"] for one in took])
    return found


def told(record: dict[str, Any]) -> str:
    """The record as Markdown."""
    pieces = [f"Machine: {machine_sentence(record['machine'])}"]
    for name, found in record["datasets"].items():
        rows = [
            [
                label,
                f"{one['median']:.2f} ({one['low']:.2f} to {one['high']:.2f})",
                str(one["threads"]),
                f"{one['of_pyg']:.2f}",
                f"{one['megabytes']:.0f}" if "megabytes" in one else "",
            ]
            for label, one in found["steps"].items()
        ]
        pieces.append(f"{name}, {found['documents']} training documents:")
        columns = ["step", "ms, median (quartiles)", "threads", "of PyG", "peak MB"]
        pieces.append(markdown(columns, rows))
        words = ", ".join(f"{who} {v:.1f}" for who, v in found["times_ours_each"].items())
        pieces.append(f"Times of ours with each document a part: {words}.")
    rows = [
        [
            name,
            recipe,
            f"{one['wall']:.1f}",
            f"{one['cpu']:.1f}",
            f"{one['gigabytes']:.2f}",
            ", ".join(f"{one[mode]:.3f}" for mode in ("alone", "own-graph", "full-graph")),
        ]
        for name, found in record["datasets"].items()
        for recipe, one in found["runs"].items()
    ]
    columns = ["dataset", "recipe", "s", "CPU s", "peak GB", "micro F1: alone, own, full"]
    started = ", ".join(f"{n} {v['median']:.2f} s" for n, v in record["start_up"].items())
    pieces += [
        f"Start-up: {started}.",
        "From raw files to a finished private model:",
        markdown(columns, rows),
    ]
    return "\n\n".join(pieces)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("datasets", nargs="*", default=DATASETS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="no hooks, vmap and memory")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--memory", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.memory is not None:
        return peak_megabytes(*asked.memory)
    record: dict[str, Any] = {"machine": machine(), "start_up": start_up(3), "datasets": {}}
    for name in asked.datasets:
        record["datasets"][name] = {
            **step_times(name, 3 if asked.quick else asked.rounds, quick=asked.quick),
            "runs": whole_runs(name, quick=asked.quick),
        }
        write_json(asked.json, record)
    text = told(record)
    print(text)
    if asked.page is not None:
        write_section(asked.page, "steps", text)
    return None


if __name__ == "__main__":
    main()
