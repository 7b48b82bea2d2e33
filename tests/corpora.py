"""Small corpora for tests: two classes in turn, no links, all documents for training."""

from __future__ import annotations

import numpy as np

from privgcn.data import Corpus, CorpusFacts
from privgcn.data.corpus import no_edges


def corpus_of(
    texts: tuple[str, ...] | None,
    vectors: np.ndarray | None = None,
    public_vectors: str | None = None,
) -> Corpus:
    """Documents with texts, with vectors, or with both."""
    count = len(vectors) if texts is None and vectors is not None else len(texts or ())
    return Corpus(
        name="small",
        ids=np.arange(count).astype(str).astype(object),
        texts=texts,
        vectors=vectors,
        labels=np.arange(count) % 2,
        classes=("a", "b"),
        edges=no_edges(),
        split=np.zeros(count, dtype=np.int8),
        facts=CorpusFacts(public_vectors=public_vectors),
    )


def of_texts(*texts: str) -> Corpus:
    """Documents with these texts."""
    return corpus_of(texts)
