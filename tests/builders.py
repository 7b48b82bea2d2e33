"""Small corpora, graphs, plans and run folders that tests of every package share.

Nothing heavy is imported before a function is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

WORDS = {
    "billing": ["invoice", "payment", "refund", "charge", "bank"],
    "delivery": ["parcel", "courier", "lost", "late", "address"],
    "account": ["password", "login", "email", "locked", "profile"],
}
HASHING = {"features.kind": "hashing", "features.options": {"dimension": 64}}


def small_texts(documents: int = 60, *, seed: int = 0) -> tuple[list[str], list[str]]:
    """Short texts and their labels; each label has words of its own."""
    rng = np.random.default_rng(seed)
    labels = [list(WORDS)[row % len(WORDS)] for row in range(documents)]
    texts = [
        " ".join([*rng.choice(WORDS[label], 4), *rng.choice(["the", "a", "is", "my"], 3)])
        + f" {row}"
        for row, label in enumerate(labels)
    ]
    return texts, labels


def small_frame(
    documents: int = 60, *, seed: int = 0, owners: int | None = None, split: bool = True
) -> dict[str, list[Any]]:
    """A frame of documents, the first two thirds of which train (with their owners)."""
    texts, labels = small_texts(documents, seed=seed)
    frame: dict[str, list[Any]] = {
        "id": [f"d{row}" for row in range(documents)],
        "text": texts,
        "label": labels,
    }
    train = documents * 2 // 3
    if owners is not None:
        # Owners of training documents and owners of the others are different people.
        frame["owner"] = [
            f"{'a' if row < train else 'b'}{row % owners}" for row in range(documents)
        ]
    if split:
        frame["split"] = [
            "train" if row < train else "validation" if row % 3 == 0 else "test"
            for row in range(documents)
        ]
    return frame


def small_edges(documents: int = 60, *, seed: int = 0) -> list[tuple[str, str]]:
    """Edges, most of them between documents of one label."""
    rng = np.random.default_rng(seed)
    pairs = [(row, row + len(WORDS)) for row in range(documents - len(WORDS))]
    pairs += [(int(a), int(b)) for a, b in rng.integers(documents, size=(documents // 6, 2))]
    return [(f"d{a}", f"d{b}") for a, b in pairs if a != b]


def small_corpus(documents: int = 60, *, seed: int = 0, owners: int | None = None) -> Any:
    """A ``Corpus`` of texts with edges, a split and, on request, owners."""
    from privgcn.data import Corpus

    return Corpus.from_frame(
        small_frame(documents, seed=seed, owners=owners),
        edges=small_edges(documents, seed=seed),
        classes=list(WORDS),
    )


def write_corpus(folder: Path, frame: Mapping[str, list[Any]], edges: Any = ()) -> Path:
    """The same as a folder of files."""
    import json

    folder.mkdir(parents=True, exist_ok=True)
    rows = [dict(zip(frame, row, strict=True)) for row in zip(*frame.values(), strict=True)]
    lines = [json.dumps(row) for row in rows]
    (folder / "documents.jsonl").write_text("\n".join(lines) + "\n")
    if len(edges):
        pairs = [f"{source},{target}" for source, target in edges]
        (folder / "edges.csv").write_text("\n".join(["source,target", *pairs]) + "\n")
    return folder


def corpus_folder(folder: Path, documents: int = 60, *, owners: int | None = None) -> Path:
    """``small_corpus`` as a folder on disk."""
    return write_corpus(folder, small_frame(documents, owners=owners), small_edges(documents))


def small_settings(
    recipe: str | None = None, *, epsilon: float | None = 4.0, **changes: Any
) -> Any:
    """Settings of a small run with hashing features; ``training__epochs=3`` changes one."""
    from privgcn.config import make_settings

    dotted = {name.replace("__", "."): value for name, value in changes.items()}
    if epsilon is not None:
        dotted = {"privacy.delta": 1e-3, **dotted}
    return make_settings(recipe, epsilon=epsilon, changes={**HASHING, **dotted})


def small_graph(
    documents: int = 30, *, features: int = 8, classes: int = 3, seed: int = 0
) -> Any:
    """A ``DocumentGraph`` of random unit rows, all of whose documents train."""
    from privgcn.graph import DocumentGraph, scaled_rows

    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(documents, features)).astype(np.float32)
    ends = rng.integers(documents, size=(2, 2 * documents))
    edges = np.unique(np.sort(ends[:, ends[0] != ends[1]], axis=0), axis=1)
    return DocumentGraph(
        features=scaled_rows(rows, "l2"),
        edges=edges.astype(np.int64),
        labels=np.arange(documents) % classes,
        classes=classes,
        split=np.zeros(documents, np.int8),
    )


def trained(corpus: Any = None, settings: Any = None) -> Any:
    """A small private run."""
    from privgcn.runs.prepare import prepare
    from privgcn.runs.train import train

    corpus = small_corpus() if corpus is None else corpus
    return train(prepare(corpus, small_settings() if settings is None else settings))


def run_folder(folder: Path, corpus: Any = None, settings: Any = None) -> Path:
    """A small run on disk; its report is one word."""
    from privgcn.runs.run import write_run

    write_run(folder, trained(corpus, settings), lambda *_: "<html></html>")
    return folder


def two_class_corpus(*, worded: bool = True, **changes: Any) -> Any:
    """Two classes in turn: 60 documents train, 30 validate, 30 test; chains of edges.

    Args:
        worded: Whether documents have texts; else they have vectors of six numbers.
        changes: Other fields of ``Corpus``.
    """
    from privgcn.data import Corpus

    number = np.arange(120)
    labels = number % 2
    vectors = np.random.default_rng(0).normal(size=(120, 6)).astype(np.float32)
    vectors[:, 0] += 3.0 * (2 * labels - 1)
    words = ("pulse pressure valve beat", "rash itch cream spot")
    fields: dict[str, Any] = {
        "name": "small",
        "ids": number.astype(str),
        "texts": tuple(f"{words[i % 2]} letter {i % 7}" for i in number) if worded else None,
        "vectors": None if worded else vectors,
        "labels": labels.astype(np.int64),
        "classes": ("heart", "skin"),
        "edges": np.stack([number[:-4], number[4:]]),
        "split": np.select([number % 4 < 2, number % 4 == 2], [0, 1], 2).astype(np.int8),
    }
    return Corpus(**{**fields, **changes})


def reseal(folder: Path, changes: Mapping[str, str | bytes | None]) -> None:
    """Replaces or removes files of a run, and writes a manifest that fits them."""
    from privgcn.runs.folder import read_folder, write_folder

    kind, files = read_folder(folder)
    present = {n: content for n, content in {**files, **changes}.items() if content is not None}
    write_folder(folder, kind, present, overwrite=True)
