"""Reddit: posts of September 2014, joined where one user commented on both.

From the GraphSAGE files in PyTorch Geometric's raw layout to a tenth of the posts with the
paper's sizes, in which every class keeps its fraction. The paper says that its tenth is a few
days of the month; the files hold no dates. The published arrays take two gigabytes of memory,
once.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privgcn.data.catalogue import load_corpus
from privgcn.data.corpus import SPLIT_NAMES, TEST, TRAIN, VALIDATION, Corpus
from privgcn.data.edges import canonical_edges
from privgcn_paper.datasets.prepared import prepared_folder, reading
from privgcn_paper.datasets.raw import PublishedDataset

# Posts in the published files, and in the paper's sample of them.
_PUBLISHED = {TRAIN: 153_431, VALIDATION: 23_831, TEST: 55_703}
_PAPER = {TRAIN: 15_252, VALIDATION: 2_383, TEST: 5_643}
_CLASSES = 41


def prepare(data: Path, graph: Path, seed: int, out: Path) -> None:
    """Writes the sample that ``seed`` gives as documents, vectors and edges into a folder."""
    with reading(data), data.open("rb") as file, np.load(file) as arrays:
        labels = _whole_numbers(arrays, "label", 0, _CLASSES)
        split = _whole_numbers(arrays, "node_types", 1, 4) - 1
        features = arrays["feature"]
        if not len(labels) == len(split) == len(features) or features.ndim != 2:
            raise ValueError("it has not one label, split and vector for each post")
        rows = class_preserving_sample(labels, split, seed)
        vectors = features[rows].astype(np.float32)
        if not np.isfinite(vectors).all():
            raise ValueError("a vector is not finite")
    position = np.full(len(labels), -1, dtype=np.int32)
    position[rows] = np.arange(len(rows))
    with reading(graph), graph.open("rb") as file, np.load(file) as arrays:
        ends = [
            position[_whole_numbers(arrays, name, 0, len(labels))] for name in ("row", "col")
        ]
        chosen = (ends[0] >= 0) & (ends[1] >= 0)
    edges = canonical_edges(ends[0][chosen], ends[1][chosen], len(rows))
    ids = rows.astype(str).astype(object)
    pl.DataFrame(
        {
            "id": ids.tolist(),
            "label": [f"community-{code:02d}" for code in labels[rows]],
            "split": [SPLIT_NAMES[code] for code in split[rows]],
        }
    ).write_parquet(out / "documents.parquet")
    pl.DataFrame(
        {"source": ids[edges[0]].tolist(), "target": ids[edges[1]].tolist()}
    ).write_parquet(out / "edges.parquet")
    np.save(out / "features.npy", vectors)


def _whole_numbers(arrays: Any, name: str, low: int, end: int) -> NDArray[Any]:
    values: NDArray[Any] = arrays[name]
    if values.ndim != 1 or values.dtype.kind not in "iu" or not len(values):
        raise ValueError(f"'{name}' is {values.dtype} of shape {values.shape}")
    if not low <= values.min() <= values.max() < end:
        raise ValueError(f"'{name}' is not from {low} to {end - 1}")
    return values


def class_preserving_sample(
    labels: NDArray[np.int64], split: NDArray[np.int64], seed: int
) -> NDArray[np.int64]:
    """Rows of about a tenth of the posts; within each split every class keeps its fraction.

    On the published files the three splits have exactly the paper's sizes.
    """
    from sklearn.model_selection import train_test_split

    chosen = []
    for code, published in _PUBLISHED.items():
        rows = np.flatnonzero(split == code)
        size = round(len(rows) * _PAPER[code] / published)
        own, _ = train_test_split(
            rows, train_size=size, stratify=labels[rows], random_state=seed
        )
        chosen.append(own)
    return np.sort(np.concatenate(chosen))


def load(card: PublishedDataset, folder: Path, seed: int) -> Corpus:
    """Reads the prepared sample, which has its own split and seed."""
    raw = [folder / file.path for file in card.files]
    # The sample is the dataset: the user's seed must not make another one.
    made = prepared_folder("reddit", raw, "a tenth", partial(prepare, raw[0], raw[1], 0))
    corpus = load_corpus(made, classes=[f"community-{code:02d}" for code in range(_CLASSES)])
    facts = replace(
        corpus.facts,
        source="reddit",
        split_origin="stratified",
        public_vectors="GloVe averages published with the dataset",
        not_covered=("which posts are in the corpus: each class keeps its fraction",),
    )
    return replace(corpus, name="reddit", facts=facts)
