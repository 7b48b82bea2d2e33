"""Training of recipe ``auto`` over documents that do not fit into memory.

Features, labels and edges are generated in chunks and lie in a folder as .npy files. The
measurement is a process of its own, so that its peak of resident memory is its own: two
releases, the statistics and a step, of the linear model with every document a group.

Run: python benchmarks/beyond_memory.py [--documents 10000000] [--features 128] [--folder DIR]
     [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from measuring import in_own_process, line, write_json

CLASSES, AT_ONCE = 10, 1 << 18


def generate(folder: Path, documents: int, features: int) -> None:
    """Writes labels and rows, the rows in chunks."""
    rng = np.random.default_rng(documents)
    labels = rng.integers(0, CLASSES, documents)
    np.save(folder / "labels.npy", labels)
    means = rng.normal(size=(CLASSES, features)).astype(np.float32)
    shape, path = (documents, features), folder / "features.npy"
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    for begin in range(0, documents, AT_ONCE):
        own = labels[begin : begin + AT_ONCE]
        noise = rng.standard_normal((len(own), features), dtype=np.float32)
        rows[begin : begin + len(own)] = noise + 0.2 * means[own] + 0.5


def measure(folder: Path) -> dict[str, float]:
    """Two releases, in this process."""
    from privgcn.auto.train import train
    from privgcn.config import make_settings
    from privgcn.graph import DocumentGraph
    from privgcn.mechanism import Groups, RandomSource, Session
    from privgcn.privacy.plan import plan_for

    labels = np.load(folder / "labels.npy")
    graph = DocumentGraph(
        np.load(folder / "features.npy", mmap_mode="r"),
        np.zeros((2, 0), np.int64),
        labels,
        CLASSES,
        np.zeros(len(labels), np.int8),
    )
    changes = {"privacy.delta": 0.5 / len(labels), "training.epochs": 2}
    settings = make_settings(epsilon=1.0, changes=changes)
    assert settings.privacy is not None
    plan = plan_for(settings.privacy, len(labels), epochs=2, seed=0, columns={})
    begun, cpu = time.monotonic(), time.process_time()
    train(Session(plan, Groups.of_plan(plan, graph), RandomSource.secret()), settings)
    return {"wall": time.monotonic() - begun, "cpu": time.process_time() - cpu}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=10_000_000)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--folder", type=Path, help="where the files lie for a while")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure)))
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        generate(Path(folder), given.documents, given.features)
        took, text = in_own_process([__file__, "--measure", folder])
        row = {"documents": given.documents, "gigabytes": took["gigabytes"], **json.loads(text)}
        print(line(row))
        write_json(given.json, row)


if __name__ == "__main__":
    main()
