"""What people wrote and how it is linked."""

from privgcn.data.catalogue import load_corpus
from privgcn.data.corpus import Corpus, CorpusFacts, ReadReport

__all__ = ["Corpus", "CorpusFacts", "ReadReport", "load_corpus"]
