"""What a step over several machines is made of: one rank's compute, messages, noise.

    python benchmarks/ranks.py [--json FILE] [--latency 50e-6] [--gigabits 10]

Measured here: CPU seconds of one rank's sum against its documents (one thread, every document
a part, ten classes), the same for noise and optimiser on rank 0, and the bytes that two real
ranks send each other in a step. From these follows, on paper, the time of a step on up to 1000
machines; ``docs/performance.md`` has the formula.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import write_json
from torch import Tensor

from privgcn.config import TrainingSettings
from privgcn.graph import DenseRows, TextGraph, cut
from privgcn.graph.sparse_rows import SparseRows
from privgcn.models import make_model
from privgcn.privacy.mechanism.noise import noisy_mean
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import AllParts
from privgcn.randomness import RandomSource
from privgcn.training.optimisers import Optimiser
from privgcn.training.ranks import Ranks, Team
from privgcn.training.shared_parts import OwnParts, Share, SharedGradients, Task

CLASSES, WORDS = 10, 40
KINDS = {"hashed words": 4096, "encoded": 256}
DOCUMENTS = (4_000, 16_000, 64_000)
MACHINES = (1, 2, 4, 10, 30, 100, 300, 1000)
SIZES = (1_000_000, 10_000_000, 100_000_000)


def graph_of(kind: str, documents: int) -> TextGraph:
    rng, width = np.random.default_rng(0), KINDS[kind]
    if kind == "encoded":
        values = rng.standard_normal((documents, width), dtype=np.float32)
        rows: Any = DenseRows(torch.from_numpy(values))
    else:
        offsets = torch.arange(0, WORDS * documents + 1, WORDS)
        columns = torch.from_numpy(rng.integers(0, width, WORDS * documents))
        rows = SparseRows(offsets, columns, torch.full((len(columns),), WORDS**-0.5), width)
    labels = torch.from_numpy(rng.integers(0, CLASSES, documents))
    none = torch.empty((2, 0), dtype=torch.int64)
    return TextGraph(rows, none, labels, CLASSES, torch.zeros(documents, dtype=torch.int8))


def task_of(kind: str, parts: int) -> Task:
    plan = PrivacyPlan(
        unit="document",
        relation="remove",
        partition=PartitionFacts(kind="each", parts=parts),
        schedule=AllParts(parts),
        clip_norm=0.25,
        noise_multiplier=4.0,
        steps=30,
        delta=1e-9,
        units=parts,
    )
    return Task(make_model("linear", KINDS[kind], CLASSES, hops=0), plan, [0], 0, False, True)


def seconds(work: Callable[[], Any]) -> list[float]:
    """CPU seconds of some calls after a first one: other programs on the machine count less."""
    work()
    found = []
    for _ in range(7):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return found


def one_rank(kind: str, documents: int) -> dict[str, list[float]]:
    """Seconds of a rank's sum, and of noise and step on rank 0."""
    graph, task = graph_of(kind, documents), task_of(kind, documents)
    pieces = cut(graph, torch.arange(documents), documents)
    own = OwnParts(task, pieces, Share(0, documents), RandomSource.secret())
    optimiser = Optimiser(
        task.model.initial([0], zero=True), TrainingSettings(optimizer="sgd", learning_rate=1)
    )
    source = RandomSource.secret()

    def noise() -> None:
        sums = [torch.zeros_like(p, dtype=torch.float64) for p in optimiser.parameters]
        optimiser.step(noisy_mean(sums, task.plan, source))

    with torch.no_grad():
        return {
            "sum": seconds(lambda: own.clipped_sum(optimiser.parameters, None)),
            "noise": seconds(noise),
        }


class Counting(Team):
    """Counts what rank 0 broadcasts and what it adds up."""

    sent = added = 0

    def from_leader(self, tensor: Tensor) -> Tensor:
        """Counted."""
        self.sent += tensor.nbytes
        return super().from_leader(tensor)

    def sum_for_leader(self, tensor: Tensor) -> Tensor:
        """Counted."""
        self.added += tensor.nbytes
        return super().sum_for_leader(tensor)


def lead(kind: str) -> None:
    """Rank 0 of two: takes one step and prints its bytes."""
    task = task_of(kind, 100)
    pieces = cut(graph_of(kind, 100), torch.arange(100), 100)
    with Counting(Ranks(0, 2)) as team:
        gradients = SharedGradients(team, pieces, task, torch.device("cpu"))
        gradients.clipped_sum(task.model.initial([0], zero=True), None)
        print(json.dumps({"broadcast": team.sent, "sum": team.added}))
        gradients.close()


def messages(kind: str) -> dict[str, int]:
    """Bytes of a step, between two real processes."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    commands = ([__file__, "--lead", kind], ["-m", "privgcn", "train", "-"])
    processes = [
        subprocess.Popen(
            [sys.executable, *command],
            env={**os.environ, **shared, "RANK": str(rank)},
            stdout=subprocess.PIPE,
        )
        for rank, command in enumerate(commands)
    ]
    told = [process.communicate()[0] for process in processes]
    return dict(json.loads(told[0]))


def step_seconds(
    measured: dict[str, Any], documents: int, machines: int, latency: float, bandwidth: float
) -> float:
    """A step on paper: compute, a broadcast by a tree, a ring that adds, noise."""
    compute = measured["per_document"] * documents / machines + measured["noise"]
    if machines == 1:
        return compute
    tree = math.ceil(math.log2(machines)) * (latency + measured["broadcast"] / bandwidth)
    each = measured["sum_bytes"] / machines
    ring = (machines - 1) * (latency + each / bandwidth)
    gather = latency + (machines - 1) * each / bandwidth
    return float(compute + tree + ring + gather)


def measure(kind: str) -> dict[str, Any]:
    sums, noises = {}, []
    for documents in DOCUMENTS:
        times = one_rank(kind, documents)
        sums[documents] = times["sum"]
        noises += times["noise"]
        low, middle, high = np.quantile(times["sum"], [0.25, 0.5, 0.75]) * 1e3
        print(
            f"{kind:14} {documents:7,} documents: {middle:8.2f} ms ({low:.2f} - {high:.2f}), "
            f"{middle / documents * 1e6:.0f} ns each"
        )
    most = max(DOCUMENTS)
    sent = messages(kind)
    noise = float(np.median(noises))
    print(
        f"{kind:14} noise and step {noise * 1e3:.2f} ms; a step sends {sent['broadcast']:,} "
        f"bytes to each rank and adds up {sent['sum']:,}"
    )
    return {
        "per_document": float(np.median(sums[most])) / most,
        "noise": noise,
        "broadcast": sent["broadcast"],
        "sum_bytes": sent["sum"],
        "seconds": {documents: float(np.median(values)) for documents, values in sums.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--latency", type=float, default=50e-6, help="seconds of a message")
    parser.add_argument("--gigabits", type=float, default=10.0, help="per second and machine")
    parser.add_argument("--lead", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.lead:
        lead(chosen.lead)
        return
    measured = {kind: measure(kind) for kind in KINDS}
    bandwidth = chosen.gigabits * 1e9 / 8
    for kind, found in measured.items():
        print(f"\nOn paper, ms of a step, {kind}, by machines (rows: documents)")
        print(f"{'':>12}" + "".join(f"{machines:>9}" for machines in MACHINES))
        for documents in SIZES:
            times = [
                step_seconds(found, documents, machines, chosen.latency, bandwidth)
                for machines in MACHINES
            ]
            print(f"{documents:12,}" + "".join(f"{value * 1e3:9.1f}" for value in times))
    write_json(chosen.json, measured)


if __name__ == "__main__":
    main()
