"""Cora and CiteSeer with their raw titles and abstracts.

Both lie in the data folder as ``text_graphs/NAME/nodes.jsonl`` (``node``, ``label``,
``text``) and ``edges.csv`` (``source``, ``target`` as node numbers).
"""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np

from privgcn.data.corpus import (
    TEST,
    TRAIN,
    VALIDATION,
    Corpus,
    CorpusFacts,
    SplitOrigin,
    random_split,
)
from privgcn.data.edges import canonical_edges
from privgcn_paper.datasets.planetoid import CORA_CLASSES
from privgcn_paper.datasets.raw import PublishedDataset

# Label names are inferred from class sizes and titles; the files hold numbers.
_CLASSES = {
    "cora-text": CORA_CLASSES,
    "citeseer-text": ("Agents", "ML", "IR", "DB", "HCI", "AI"),
}
_CORA_VALIDATION = slice(140, 640)
_CORA_TEST = slice(1708, 2708)


def load(card: PublishedDataset, folder: Path, seed: int) -> Corpus:
    """Reads both files; ``seed`` is used where the benchmark fixes no split."""
    nodes_file, edges_file = (file.read(folder) for file in card.files)
    nodes = [json.loads(line) for line in nodes_file.splitlines()]
    edges = np.loadtxt(io.BytesIO(edges_file), dtype=np.int64, delimiter=",", skiprows=1)
    # Cora keeps Planetoid's node order and so its split; CiteSeer is another node set.
    origin: SplitOrigin = "random"
    split = random_split(len(nodes), seed)
    if card.name == "cora-text":
        origin, split = "benchmark", np.full(len(nodes), TRAIN, dtype=np.int8)
        split[_CORA_VALIDATION], split[_CORA_TEST] = VALIDATION, TEST
    return Corpus(
        name=card.name,
        ids=np.arange(len(nodes)).astype(str).astype(object),
        texts=tuple(node["text"] for node in nodes),
        labels=np.array([node["label"] for node in nodes], dtype=np.int64),
        classes=_CLASSES[card.name],
        edges=canonical_edges(edges[:, 0], edges[:, 1], len(nodes)),
        split=split,
        facts=CorpusFacts(source=card.name, classes_declared=True, split_origin=origin),
    )
