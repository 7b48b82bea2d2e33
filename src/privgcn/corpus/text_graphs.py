"""Cora and CiteSeer with their raw titles and abstracts.

Both lie in the data folder as ``text_graphs/NAME/nodes.jsonl`` (``node``, ``label``,
``text``) and ``edges.csv`` (``source``, ``target`` as node numbers).
"""

from __future__ import annotations

import csv
import io
import json
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from privgcn.corpus.card import DatasetCard, RawFile, read_checked
from privgcn.corpus.corpus import (
    TEST,
    TRAIN,
    VALIDATION,
    Corpus,
    CorpusFacts,
    SplitOrigin,
    canonical_edges,
)
from privgcn.corpus.planetoid import CORA_CLASSES
from privgcn.corpus.splits import random_split

# Label names are inferred from class sizes and titles; the files hold numbers.
_CITESEER_CLASSES = ("Agents", "ML", "IR", "DB", "HCI", "AI")
_CORA_VALIDATION = slice(140, 640)
_CORA_TEST = slice(1708, 2708)

_FILES = {
    "cora": (
        RawFile(
            "text_graphs/cora/nodes.jsonl",
            3_181_084,
            "b89dcc8589e965d94b60a18507d4c0d327ef5d41fbecfb2c5dd339738cdf6452",
        ),
        RawFile(
            "text_graphs/cora/edges.csv",
            48_450,
            "138c0713f02c1d7c6510f0767f9c4cd5496c6d5e069e9fa938f41ce021d2ddc0",
        ),
    ),
    "citeseer": (
        RawFile(
            "text_graphs/citeseer/nodes.jsonl",
            3_384_556,
            "54051122e7f86e08f962212fce99e6d4d28df92aa659d7f7ee0e1cf4584c18cd",
        ),
        RawFile(
            "text_graphs/citeseer/edges.csv",
            40_053,
            "12eb94d865ab69d9abfc93efd6a125c116928ec94b06efaf3d637f0f91993280",
        ),
    ),
}


def _load(which: str, classes: tuple[str, ...], folder: Path, seed: int) -> Corpus:
    nodes_file, edges_file = _FILES[which]
    nodes = [json.loads(line) for line in read_checked(nodes_file, folder).splitlines()]
    links = list(csv.DictReader(io.StringIO(read_checked(edges_file, folder).decode())))
    count = len(nodes)
    split, origin = _split(which, count, seed)
    return Corpus(
        name=f"{which}-text",
        ids=np.arange(count).astype(str).astype(object),
        texts=tuple(node["text"] for node in nodes),
        labels=np.array([node["label"] for node in nodes], dtype=np.int64),
        classes=classes,
        edges=canonical_edges(
            [int(link["source"]) for link in links],
            [int(link["target"]) for link in links],
            count,
        ),
        split=split,
        facts=CorpusFacts(source=f"{which}-text", classes_declared=True, split_origin=origin),
    )


def _split(which: str, count: int, seed: int) -> tuple[npt.NDArray[np.int8], SplitOrigin]:
    """Cora keeps Planetoid's node order and so its split; CiteSeer is another node set."""
    if which == "citeseer":
        return random_split(count, seed), "random"
    split = np.full(count, TRAIN, dtype=np.int8)
    split[_CORA_VALIDATION] = VALIDATION
    split[_CORA_TEST] = TEST
    return split, "benchmark"


def _card(
    which: str, title: str, documents: int, links: int, classes: tuple[str, ...]
) -> DatasetCard:
    return DatasetCard(
        name=f"{which}-text",
        title=title,
        language="English",
        synthetic=False,
        licence="not stated",
        documents=documents,
        links=links,
        classes=len(classes),
        features="raw text: title and abstract",
        load=partial(_load, which, classes),
        files=_FILES[which],
        origin=f"converted from github.com/Chyu0401/CoT-Contrast, datasets/{which}.pt",
    )


CARDS = (
    _card("cora", "Cora with titles and abstracts", 2_708, 5_278, CORA_CLASSES),
    _card("citeseer", "CiteSeer with titles and abstracts", 3_186, 4_225, _CITESEER_CLASSES),
)
