"""What steps and the paper's main table cost on one CUDA device, and how far from its limits.

    python benchmarks/device.py --json device.json
    python benchmarks/device.py --table1

For Cora and PubMed and 1, 5, 50 and 100 replicas: milliseconds of a recorded step, the bytes
that it must move, and the ratio of its time to what a plain copy of so many bytes takes. For
private steps also the float64 operations of their products, and the ratio to what one large
product of so many takes.
Without CUDA only the columns of the CPU are filled.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from measuring import line, write_json

from privgcn.config import Settings, make_settings
from privgcn.data import load_corpus
from privgcn.experiments.paper.table1 import experiment
from privgcn.experiments.results import Options
from privgcn.experiments.store import RecordStore
from privgcn.experiments.tasks import label
from privgcn.graph.textgraph import TextGraph
from privgcn.models import make_model
from privgcn.runs.train import Prepared
from privgcn.training.fit import _private_trainer
from privgcn.training.plain import train_plain
from privgcn.training.planning import make_plan
from privgcn.training.private import PrivateTrainer
from privgcn.training.recording import own_stream

KINDS: dict[str, dict[str, Any] | None] = {
    "one part": {"parts": 1, "unit": "graph", "sampling": "all"},
    "ten parts, all": {"parts": 10, "unit": "part", "sampling": "all"},
    "ten parts, sampled": {"parts": 10, "unit": "part", "sampling": "poisson"},
    "each a part": {"parts": "each", "unit": "document", "sampling": "all"},
    "not private": None,
}
ROUNDS = 5
HIDDEN = 32


def settings_of(kind: str, optimizer: str) -> Settings:
    """The paper's model, trained in one of the ways."""
    privacy = KINDS[kind]
    if privacy is None:
        return make_settings("plain", optimizer=optimizer)
    changes = {f"privacy.{name}": value for name, value in privacy.items()}
    changes |= {"privacy.noise_multiplier": 20.0, "privacy.reproducible": True}
    return make_settings("paper-full", optimizer=optimizer, changes=changes)


def median_ms(step: Any, device: torch.device, *, seconds: float) -> float:
    """Median over rounds of the milliseconds of a step."""

    def timed(count: int) -> float:
        begun = time.perf_counter()
        for _ in range(count):
            step()
        if device.type == "cuda":
            torch.cuda.current_stream().synchronize()
        return (time.perf_counter() - begun) / count

    once = timed(3)
    count = max(1, int(seconds / ROUNDS / max(once, 1e-5)))
    return 1000 * statistics.median(timed(count) for _ in range(ROUNDS))


def step_ms(
    graph: TextGraph, kind: str, optimizer: str, replicas: int, device: torch.device
) -> float:
    """Milliseconds of a step of this kind."""
    seconds = 0.6 if device.type == "cuda" else 1.0
    settings = settings_of(kind, optimizer)
    if settings.privacy is None:
        return plain_ms(graph, settings, replicas, device, seconds)
    with torch.no_grad(), own_stream(device):
        trainer = warm_trainer(graph, settings, replicas, device)
        return median_ms(trainer.step, device, seconds=seconds)


def warm_trainer(
    graph: TextGraph, settings: Settings, replicas: int, device: torch.device
) -> PrivateTrainer:
    """A private training that has begun."""
    model = make_model("gcn", graph.features.width, graph.classes)
    # The plan must have room for all steps that are timed.
    plan = make_plan(settings.privacy, graph, epochs=10**6, seed=0, columns={})
    seeds = list(range(replicas))
    nothing = {"checkpoint": None, "names": None, "team": None}
    trainer = _private_trainer(model, graph, plan, settings, seeds, device, {}, **nothing)
    for _ in range(40):
        trainer.step()
    return trainer


def plain_ms(
    graph: TextGraph, settings: Settings, replicas: int, device: torch.device, seconds: float
) -> float:
    """The same without privacy: the difference of a long and a short training."""
    model = make_model("gcn", graph.features.width, graph.classes)
    there, seeds = graph.to(device), list(range(replicas))

    def spent(epochs: int) -> float:
        begun = time.perf_counter()
        training = settings.training.model_copy(update={"epochs": epochs, "patience": 0})
        with own_stream(device):
            train_plain(model, there, training, seeds)
        return time.perf_counter() - begun

    spent(10)
    once = (spent(20) - spent(10)) / 10
    many = min(2000, max(10, int(seconds / ROUNDS / max(once, 1e-4))))
    return 1000 * statistics.median((spent(10 + many) - spent(10)) / many for _ in range(3))


def least_bytes(graph: TextGraph, kind: str, optimizer: str, replicas: int) -> int:
    """What a step must move through memory if everything else stayed in the chip.

    Stored features twice, hidden units written and read in both directions, weights read and
    written, their float64 sums written and read, and the two moments of Adam.
    """
    share, hidden, width = share_of(kind), HIDDEN, graph.features.width
    weights = (width + graph.classes) * hidden * replicas
    rows = 2 * 8 * graph.features.stored * (min(1.0, share * replicas))
    units = 4 * 4 * len(graph) * hidden * replicas * share
    sums = 16 if KINDS[kind] is not None else 8
    return int(rows + units + weights * (8 + sums + (16 if optimizer == "adam" else 0)))


def least_operations(graph: TextGraph, kind: str, replicas: int) -> int:
    """Float64 operations of a private step's products; features lie there without gaps.

    Two products with the features, and three with the hidden units.
    """
    rows = len(graph) * share_of(kind) * replicas
    return int(2 * rows * HIDDEN * (2 * graph.features.width + 3 * graph.classes))


def share_of(kind: str) -> float:
    """The share of the documents that a step reads, on average."""
    return 0.1 if kind == "ten parts, sampled" else 1.0


def product_rate() -> float:
    """Float64 operations per second of one large product on the device."""
    size = 8192
    one = torch.rand(size, size, dtype=torch.float64, device="cuda")
    target = torch.empty_like(one)
    ms = median_ms(lambda: torch.mm(one, one, out=target), torch.device("cuda"), seconds=0.5)
    return 2 * size**3 / ms * 1000


def measured(
    graph: TextGraph, kind: str, replicas: int, optimizer: str, limits: dict[str, Any]
) -> dict[str, Any]:
    """What a step must move and compute, and its time on the device beside those floors."""
    row: dict[str, Any] = {"kind": kind, "replicas": replicas}
    row["bytes"] = least_bytes(graph, kind, optimizer, replicas)
    if KINDS[kind] is not None:
        row["operations"] = least_operations(graph, kind, replicas)
    if "copy_bandwidth" not in limits:
        return row
    try:
        row["cuda_ms"] = step_ms(graph, kind, optimizer, replicas, torch.device("cuda"))
        row["ratio"] = row["cuda_ms"] / (row["bytes"] / limits["copy_bandwidth"] * 1000)
        if "operations" in row:
            floor = row["operations"] / limits["product_rate"] * 1000
            row["product_ratio"] = row["cuda_ms"] / floor
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {error}"[:300]
    torch.cuda.empty_cache()
    return row


def copy_bandwidth() -> float:
    """Bytes per second, read and written, of a plain copy on the device."""
    source = torch.empty(2**30, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    moved = 2 * source.numel() * 4
    ms = median_ms(lambda: target.copy_(source), torch.device("cuda"), seconds=0.5)
    return moved / ms * 1000


def kernels(graph: TextGraph, kind: str, replicas: int) -> list[str]:
    """The kernels of a step that take the most time, with their microseconds."""
    from torch.profiler import ProfilerActivity, profile

    settings, device = settings_of(kind, "sgd"), torch.device("cuda")
    if settings.privacy is None:
        return []
    with torch.no_grad(), own_stream(device):
        trainer = warm_trainer(graph, settings, replicas, device)
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as found:
            for _ in range(20):
                trainer.step()
            torch.cuda.synchronize()
    events = sorted(found.key_averages(), key=lambda e: -e.self_device_time_total)
    count, busy = sum(e.count for e in events), sum(e.self_device_time_total for e in events)
    lines = [f"{count / 20:.0f} kernels, {busy / 20:.0f} us busy"]
    return lines + [
        f"{e.self_device_time_total / 20:8.1f} us {e.count / 20:6.1f}x {e.key[:90]}"
        for e in events[:12]
    ]


def table1(device: str) -> dict[str, Any]:
    """Wall time of the paper's main table, start-up included."""
    datasets = "cora,citeseer,pubmed"
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        command = [sys.executable, "-m", "privgcn", "reproduce", "table1", "--json"]
        command += ["--device", device, "--datasets", datasets, "--out", f"{folder}/table1"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - begun
        if not done.stdout.strip():
            return {"seconds": seconds, "error": done.stderr[-3000:]}
        record = json.loads(done.stdout)
        with RecordStore(Path(folder) / "table1") as store:
            seconds_of = store.seconds()
    options = Options(tuple(datasets.split(",")), tuple(range(5)))
    tasks = [p for t in experiment(options) for p in t.on(device).pieces()]
    spent = {
        f"{label(task.kind, task.settings, task.seeds)} on {task.device}": seconds_of[task.key]
        for task in tasks
        if task.key in seconds_of
    }
    tables = [table for table in record["tables"]["table1"] if "layout" not in str(table)[:80]]
    keys = ("runs", "done", "failed", "seconds", "training_seconds", "failures")
    return {
        "device": device,
        "wall_seconds": round(seconds, 1),
        **{key: record[key] for key in keys},
        "tasks": spent,
        "tables": tables[:2],
    }


def main() -> None:
    """Measures, prints a table, and writes all figures where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", default="cora,pubmed")
    parser.add_argument("--replicas", default="1,5,50,100")
    parser.add_argument("--optimizer", default="sgd")
    parser.add_argument("--cpu", action="store_true", help="also on the CPU, few replicas")
    parser.add_argument("--kernels", action="store_true", help="the longest kernels of a step")
    parser.add_argument("--table1", help="run table1 there: auto, cpu or cuda")
    parser.add_argument("--skip-steps", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found: dict[str, Any] = {"torch": torch.__version__, "threads": torch.get_num_threads()}
    if torch.cuda.is_available():
        found["device"] = torch.cuda.get_device_name()
        found["copy_bandwidth"] = copy_bandwidth()
        found["product_rate"] = product_rate()
        torch.cuda.empty_cache()
        print(
            f"{found['device']}: copy {found['copy_bandwidth'] / 1e12:.2f} TB/s, "
            f"float64 product {found['product_rate'] / 1e12:.1f} TFLOPS",
            flush=True,
        )
    steps: list[dict[str, Any]] = []
    for name in [] if given.skip_steps else given.datasets.split(","):
        corpus = load_corpus(name)
        graph = Prepared.of(corpus, settings_of("one part", "sgd")).train
        for kind in KINDS:
            for replicas in map(int, given.replicas.split(",")):
                row = measured(graph, kind, replicas, given.optimizer, found)
                if given.cpu and replicas <= 5:
                    # Seeds that sample share no pass there.
                    alone = replicas if "sampled" in kind else 1
                    cpu = torch.device("cpu")
                    ms = step_ms(graph, kind, given.optimizer, replicas // alone, cpu)
                    row["cpu_ms"] = ms * alone
                steps.append({"dataset": name, **row})
                print(line(steps[-1]), flush=True)
            if given.kernels and "copy_bandwidth" in found:
                print("\n".join(kernels(graph, kind, replicas)), flush=True)
    found["steps"] = steps
    write_json(given.json, found)
    if given.table1:
        found["table1"] = table1(given.table1)
        shown = {k: v for k, v in found["table1"].items() if k != "tables"}
        print(json.dumps(shown, indent=1), flush=True)
        write_json(given.json, found)


if __name__ == "__main__":
    main()
