"""Reddit: posts of September 2014, joined where one user commented on both.

From the GraphSAGE files in PyTorch Geometric's raw layout to a tenth of the posts with the
paper's sizes, in which every class keeps its fraction. The paper says that its tenth is a few
days of the month; the files hold no dates. The archives are read in pieces: of 114 million
edges only those among the chosen posts stay in memory.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from privgcn.data.catalogue import DatasetCard
from privgcn.data.corpus import SPLIT_NAMES, TEST, TRAIN, VALIDATION, Corpus
from privgcn.data.edges import canonical_edges
from privgcn.data.ingest import load_folder
from privgcn.errors import DataError
from privgcn_paper.datasets.dumps import NpzStream, open_npz
from privgcn_paper.datasets.prepared import prepared_folder

# Posts in the published files, and in the paper's sample of them.
_PUBLISHED = {TRAIN: 153_431, VALIDATION: 23_831, TEST: 55_703}
_PAPER = {TRAIN: 15_252, VALIDATION: 2_383, TEST: 5_643}
_CLASSES = 41
_ROWS = 8_192
_EDGES = 4 << 20


def prepare(data: Path, graph: Path, seed: int, out: Path) -> None:
    """Writes the sample that ``seed`` gives as documents, vectors and edges into a folder.

    Raises:
        DataError: An archive is broken.
    """
    import polars as pl

    with open_npz(data) as arrays:
        labels = arrays.array("label").astype(np.int64)
        kinds = arrays.array("node_types").astype(np.int64)
        _check(data, labels, kinds)
        rows = class_preserving_sample(labels, kinds - 1, seed)
        vectors = _take_rows(data, arrays, rows, len(labels))
    position = np.full(len(labels), -1, dtype=np.int32)
    position[rows] = np.arange(len(rows))
    edges = _edges(graph, position)
    splits = np.array(SPLIT_NAMES, dtype=object)[kinds[rows] - 1]
    pl.DataFrame(
        {
            "id": rows.astype(str).tolist(),
            "label": [f"community-{code:02d}" for code in labels[rows]],
            "split": splits.tolist(),
        }
    ).write_parquet(out / "documents.parquet")
    ids = rows.astype(str).astype(object)
    pl.DataFrame(
        {"source": ids[edges[0]].tolist(), "target": ids[edges[1]].tolist()}
    ).write_parquet(out / "edges.parquet")
    np.save(out / "features.npy", vectors)


def class_preserving_sample(
    labels: NDArray[np.int64], split: NDArray[np.int64], seed: int
) -> NDArray[np.int64]:
    """Rows of about a tenth of the posts; within each split every class keeps its fraction.

    On the published files the three splits have exactly the paper's sizes.
    """
    random = np.random.default_rng([seed, 10])
    chosen = []
    for code, published in _PUBLISHED.items():
        rows = np.flatnonzero(split == code)
        target = round(len(rows) * _PAPER[code] / published)
        counts = np.bincount(labels[rows], minlength=int(labels.max()) + 1)
        quotas = _apportion(counts, target)
        # Within a shuffled split, the first rows of each class up to its quota.
        shuffled = random.permutation(rows)
        order = np.argsort(labels[shuffled], kind="stable")
        starts = np.cumsum(counts) - counts
        rank = np.arange(len(rows)) - np.repeat(starts, counts)
        chosen.append(shuffled[order][rank < np.repeat(quotas, counts)])
    return np.sort(np.concatenate(chosen))


def _apportion(counts: NDArray[np.int64], target: int) -> NDArray[np.int64]:
    """Parts of ``target`` in proportion to ``counts``, by largest remainders."""
    exact = counts * (target / max(1, int(counts.sum())))
    quotas: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    missing = target - int(quotas.sum())
    quotas[np.argsort(quotas - exact, kind="stable")[:missing]] += 1
    return quotas


def _check(path: Path, labels: NDArray[np.int64], kinds: NDArray[np.int64]) -> None:
    if len(labels) != len(kinds) or len(labels) == 0:
        raise DataError(
            f"The file {path} must have a label and a split for each post. Got {len(labels)} "
            f"labels and {len(kinds)} splits."
        )
    for name, values, low, high in (
        ("node_types", kinds, 1, 3),
        ("label", labels, 0, _CLASSES - 1),
    ):
        if values.min() < low or values.max() > high:
            raise DataError(
                f"The '{name}' of {path} must be from {low} to {high}. Got values from "
                f"{values.min()} to {values.max()}."
            )


def _take_rows(
    path: Path, arrays: NpzStream, rows: NDArray[np.int64], count: int
) -> NDArray[np.float32]:
    taken = []
    start = 0
    for piece in arrays.pieces("feature", _ROWS, "f"):
        here = rows[np.searchsorted(rows, start) : np.searchsorted(rows, start + len(piece))]
        taken.append(piece[here - start].astype(np.float32))
        start += len(piece)
    if start != count:
        raise DataError(
            f"The file {path} must have a vector for each of its {count} posts. Got {start}."
        )
    vectors = np.concatenate(taken)
    if vectors.ndim != 2 or not np.isfinite(vectors).all():
        raise DataError(f"The 'feature' of {path} must be a matrix of finite numbers.")
    return vectors


def _edges(path: Path, position: NDArray[np.int32]) -> NDArray[np.int64]:
    """Edges among the chosen posts, made undirected."""
    ends = []
    with ExitStack() as stack:
        # Two handles, because an archive hands out one array at a time in order.
        first, second = (stack.enter_context(open_npz(path)) for _ in range(2))
        rows = stack.enter_context(closing(first.pieces("row", _EDGES)))
        cols = stack.enter_context(closing(second.pieces("col", _EDGES)))
        for row, col in zip_longest(rows, cols):
            if row is None or col is None or len(row) != len(col):
                raise DataError(
                    f"The 'row' and 'col' of {path} must have one length. Got two. Get the "
                    "published file again."
                )
            for name, values in (("row", row), ("col", col)):
                if values.min() < 0 or values.max() >= len(position):
                    raise DataError(
                        f"The '{name}' of {path} must be posts from 0 to {len(position) - 1}. "
                        f"Got values from {values.min()} to {values.max()}."
                    )
            source, target = position[row], position[col]
            keep = (source >= 0) & (target >= 0)
            ends.append(np.stack([source[keep], target[keep]]))
    if not ends:
        raise DataError(f"The file {path} must hold edges. Got none.")
    source, target = np.concatenate(ends, axis=1)
    return canonical_edges(source, target, int(position.max()) + 1)


def load(card: DatasetCard, folder: Path, seed: int) -> Corpus:
    """Reads the prepared sample, which has its own split and seed."""
    raw = [folder / file.path for file in card.files]
    # The sample is the dataset: the user's seed must not make another one.
    made = prepared_folder("reddit", raw, "a tenth", partial(prepare, raw[0], raw[1], 0))
    corpus = load_folder(made, classes=[f"community-{code:02d}" for code in range(_CLASSES)])
    facts = replace(
        corpus.facts,
        source="reddit",
        split_origin="stratified",
        public_vectors="GloVe averages published with the dataset",
        not_covered=("which posts are in the corpus: each class keeps its fraction",),
    )
    return replace(corpus, name="reddit", facts=facts)
