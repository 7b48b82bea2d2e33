"""Corpora that have nothing but what feature kinds read."""

from __future__ import annotations

import numpy as np

from privgcn.data import Corpus, CorpusFacts


def documents(count, **fields):
    """So many documents, which have neither labels nor edges."""
    ids, labels = tuple(map(str, range(count))), np.full(count, -1)
    split = np.zeros(count, dtype=np.int8)
    return Corpus(name="small", ids=ids, labels=labels, classes=(), split=split, **fields)


def of_texts(*texts):
    return documents(len(texts), texts=texts)


def of_vectors(vectors, public=None):
    return documents(len(vectors), vectors=vectors, facts=CorpusFacts(public_vectors=public))
