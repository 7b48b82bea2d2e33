"""What people wrote and how it is linked."""

from privgcn.corpus.catalogue import load_corpus
from privgcn.corpus.corpus import Corpus, CorpusFacts, ReadReport

__all__ = ["Corpus", "CorpusFacts", "ReadReport", "load_corpus"]
