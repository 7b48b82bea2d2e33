"""Documents, their labels and owners, and the edges between them."""

from privgcn.data.catalogue import load_corpus, resolved_source
from privgcn.data.corpus import NO_LABEL, OUTSIDE, TEST, TRAIN, VALIDATION, Corpus, CorpusFacts

__all__ = [
    "NO_LABEL",
    "OUTSIDE",
    "TEST",
    "TRAIN",
    "VALIDATION",
    "Corpus",
    "CorpusFacts",
    "load_corpus",
    "resolved_source",
]
