"""What people wrote and how it is linked."""

from privgcn.corpus.corpus import Corpus, CorpusFacts
from privgcn.corpus.load import load_corpus

__all__ = ["Corpus", "CorpusFacts", "load_corpus"]
