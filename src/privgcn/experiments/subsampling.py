"""Which documents a run has: all, a share of every class, or another split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from privgcn.data import Corpus, load_corpus
from privgcn.data.corpus import TEST, TRAIN
from privgcn.errors import ConfigError, DataError, shown
from privgcn.runs.train import with_split

_NOT_COVERED = "which training documents are used: the same share of every class was drawn"


def with_fraction(corpus: Corpus, fraction: float, seed: int) -> Corpus:
    """The corpus with a share of its training documents; the others are gone, links too.

    As in the paper's released code, the share is the same in every class; the paper itself
    speaks of random nodes. That reads the labels, so no guarantee covers the choice; the facts
    of the corpus say so.
    """
    if not 0.0 < fraction <= 1.0:
        raise ConfigError(f"The 'fraction' of the data must be in (0, 1]. Got {fraction}.")
    if fraction == 1.0:
        return corpus
    draw = np.random.default_rng(seed)
    keep = corpus.split != TRAIN
    for number in range(corpus.num_classes):
        members = np.flatnonzero((corpus.labels == number) & (corpus.split == TRAIN))
        # Rounding first: 0.3 of 10 documents must be 3, not 2.9999999999999996.
        count = int(np.floor(round(len(members) * fraction, 6)))
        keep[draw.permutation(members)[:count]] = True
    facts = replace(corpus.facts, not_covered=(*corpus.facts.not_covered, _NOT_COVERED))
    return replace(corpus.select(keep), facts=facts, whole=None, rows=None)


def with_random_split(corpus: Corpus, shares: Sequence[float]) -> Corpus:
    """The corpus split anew: shares of training and validation documents, the rest test."""
    if len(shares) != 2 or min(shares) < 0.0 or sum(shares) >= 1.0:
        raise ConfigError(
            "The 'split' of the data must be two shares, of training and validation "
            f"documents, that leave some for tests. Got {list(shares)}."
        )
    ends = np.cumsum(shares) * len(corpus)
    split = np.empty(len(corpus), dtype=np.int8)
    order = np.random.default_rng(0).permutation(len(corpus))
    split[order] = (np.arange(len(corpus))[:, None] >= ends).sum(axis=1)
    return with_split(corpus, split)


@lru_cache(maxsize=4)
def corpus_for_runs(dataset: str, fraction: float, split: tuple[float, ...] = ()) -> Corpus:
    """The documents of a run; a worker process loads each dataset once."""
    corpus = load_corpus(dataset)
    if split:
        corpus = with_random_split(corpus, split)
    if not (corpus.split == TEST).any():
        raise DataError(
            f"The dataset {shown(dataset)} must have test documents to be scored on. Got none. "
            "Give the grid a 'split', such as split = [[0.6, 0.2]]."
        )
    return with_fraction(corpus, fraction, seed=0)
