"""Corpora that have nothing but what feature kinds read."""

from __future__ import annotations

from typing import Any

import numpy as np

from privgcn.data import Corpus, CorpusFacts


def documents(count: int, **fields: Any) -> Corpus:
    """So many documents, which have neither labels nor edges."""
    return Corpus(
        name="small",
        ids=tuple(map(str, range(count))),
        labels=np.full(count, -1),
        classes=(),
        split=np.zeros(count, dtype=np.int8),
        **fields,
    )


def of_texts(*texts: str) -> Corpus:
    """Documents with these texts."""
    return documents(len(texts), texts=texts)


def of_vectors(vectors: np.ndarray, public: str | None = None) -> Corpus:
    """Documents with these vectors."""
    return documents(len(vectors), vectors=vectors, facts=CorpusFacts(public_vectors=public))
