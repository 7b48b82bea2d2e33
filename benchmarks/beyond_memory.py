"""Cut, propagation and one private epoch over documents that do not fit into memory.

Features, labels and links are generated in chunks and lie in a folder as .npy files. Each
measurement is a process of its own, so that its peak of resident memory is its own: the
paper's GCN in random parts, and the linear model of recipe ``auto`` with every document a part
(its epoch has two releases, the centre of the rows and a step).

Run: python benchmarks/beyond_memory.py [--documents 10000000] [--links 100000000]
     [--features 128] [--parts 100] [--folder DIR] [--json FILE] [--keep]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from measuring import in_own_process, line, write_json

CLASSES, AT_ONCE = 10, 1 << 20


def generate(folder: Path, documents: int, links: int, features: int) -> None:
    """Writes the files, the same bytes each time; does nothing where they are there."""
    if (folder / "done").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(documents)
    labels = rng.integers(0, CLASSES, documents)
    np.save(folder / "labels.npy", labels)
    centres = rng.normal(size=(CLASSES, features)).astype(np.float32)

    def create(name: str, shape: tuple[int, int], dtype: type) -> Any:
        path = folder / name
        return np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)

    rows = create("features.npy", (documents, features), np.float32)
    for begin in range(0, documents, AT_ONCE // 4):
        own = labels[begin : begin + AT_ONCE // 4]
        noise = rng.standard_normal((len(own), features), dtype=np.float32)
        rows[begin : begin + len(own)] = noise + 0.2 * centres[own] + 0.5
    edges = create("edges.npy", (2, links), np.int64)
    for begin in range(0, links, AT_ONCE):
        count = min(AT_ONCE, links - begin)
        low = rng.integers(0, documents - 1, count)
        edges[0, begin : begin + count] = low
        edges[1, begin : begin + count] = low + 1 + rng.integers(0, documents - 1 - low)
    del rows, edges
    (folder / "done").touch()


def measure(folder: Path, model: str, parts: int) -> dict[str, float]:
    """The stages of one model, in this process."""
    import torch

    from privgcn.config import make_settings
    from privgcn.data.scratch import ChosenRows, mapped_file
    from privgcn.graph.on_disk import RowsOnDisk
    from privgcn.graph.textgraph import TextGraph
    from privgcn.training.fit import fit

    labels = torch.from_numpy(np.load(folder / "labels.npy"))
    graph = TextGraph(
        RowsOnDisk.of(ChosenRows(mapped_file(folder / "features.npy"))).finite(),
        torch.from_numpy(mapped_file(folder / "edges.npy")),
        labels,
        CLASSES,
        torch.zeros(len(labels), dtype=torch.int8),
    )
    changes: dict[str, Any] = {"privacy.delta": 0.5 / len(labels), "privacy.reproducible": True}
    if model == "gcn":
        changes |= {"training.epochs": 1, "privacy.parts": parts, "privacy.sampling": "all"}
        settings = make_settings("paper-split", epsilon=1.0, changes=changes)
    else:
        settings = make_settings(epsilon=1.0, changes={**changes, "training.epochs": 2})
    begun, cpu = time.monotonic(), time.process_time()
    stages = {}

    def progress(done: int, of: int) -> None:
        stages[f"release {done} of {of} after"] = time.monotonic() - begun

    fit(graph, settings, progress=progress)
    return {
        "wall": time.monotonic() - begun,
        "cpu": time.process_time() - cpu,
        **stages,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", type=int, default=10_000_000)
    parser.add_argument("--links", type=int, default=100_000_000)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--parts", type=int, default=100)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", action="store_true", help="Keep the generated files.")
    parser.add_argument("--models", nargs="*", default=["gcn", "linear"])
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.folder, given.measure, given.parts)))
        return
    place = given.folder or Path(tempfile.mkdtemp())
    found = []
    try:
        generate(place, given.documents, given.links, given.features)
        for model in given.models:
            command = [__file__, "--measure", model, "--folder", str(place)]
            took, text = in_own_process([*command, "--parts", str(given.parts)])
            row = {"model": model, "documents": given.documents}
            found.append({**row, "gibibytes": took["gigabytes"], **json.loads(text)})
            print(line(found[-1]))
    finally:
        if not given.keep:
            shutil.rmtree(place)
    write_json(given.json, {"cores": os.cpu_count(), "runs": found})


if __name__ == "__main__":
    main()
