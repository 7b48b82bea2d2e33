"""A bag of words without a vocabulary: every word hashes to a column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from privgcn.errors import ConfigError
from privgcn.features.base import check_count, texts_of
from privgcn.features.words import stop_words as stop_list

if TYPE_CHECKING:
    from privgcn.corpus import Corpus
    from privgcn.features.base import Matrix

DEFAULT_DIMENSION = 4096
"""On raw-text Cora more columns gain less than a point, fewer lose; noise grows with them."""


class HashingWords:
    """The default for text: nothing is learned, so nothing about the text leaks here.

    Each count enters as its logarithm and each text is scaled to length one, both looking
    at one document only. Words of a fixed public list are left out: they say nothing about
    the class and would fill most of a text's length. A word's sign comes from its hash as
    well, so that words which share a column cancel on average.

    Args:
        dimension: Number of columns.
        ngrams: Longest run of words that counts as one.
        stop_words: ``"english"`` or None.
    """

    kind = "hashing"
    learned = None

    def __init__(
        self,
        *,
        dimension: int = DEFAULT_DIMENSION,
        ngrams: int = 1,
        stop_words: str | None = "english",
    ) -> None:
        check_count(self.kind, "dimension", dimension, low=2)
        check_count(self.kind, "ngrams", ngrams)
        stop_list(stop_words, self.kind)
        if dimension > 2**31 - 1:
            raise ConfigError(
                f"The 'dimension' of the features 'hashing' must be below 2**31. "
                f"Got {dimension}."
            )
        self._dimension = dimension
        self._ngrams = ngrams
        self._stop_words = stop_words

    @property
    def dimension(self) -> int:
        """Number of columns."""
        return self._dimension

    def fit(self, corpus: Corpus) -> Self:
        """Checks that there are texts; there is nothing to learn."""
        texts_of(corpus, self.kind)
        return self

    def transform(self, corpus: Corpus) -> Matrix:
        """One sparse row of length one for each document."""
        from sklearn.feature_extraction.text import HashingVectorizer
        from sklearn.preprocessing import normalize

        hasher = HashingVectorizer(
            n_features=self._dimension,
            ngram_range=(1, self._ngrams),
            stop_words=self._stop_words,
            alternate_sign=True,
            norm=None,
            dtype=np.float32,
        )
        counts = hasher.transform(texts_of(corpus, self.kind)).tocsr()
        counts.eliminate_zeros()
        counts.data = np.sign(counts.data) * np.log1p(np.abs(counts.data))
        return normalize(counts, copy=False)

    def state(self) -> dict[str, Any]:
        """The options; there is nothing else."""
        return {
            "kind": self.kind,
            "dimension": self._dimension,
            "ngrams": self._ngrams,
            "stop_words": self._stop_words,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The featurizer that ``state`` describes."""
        return cls(**{name: value for name, value in state.items() if name != "kind"})
