"""Bags of words in which rare words weigh more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from privgcn.errors import DataError
from privgcn.features.bow import BagOfWords

if TYPE_CHECKING:
    from privgcn.corpus import Corpus
    from privgcn.features.base import Matrix


class TfIdf(BagOfWords):
    """Logarithmic counts times inverse document frequencies, each text scaled to length one.

    Args:
        min_count: Smallest number of occurrences of a word.
        max_count: Largest, or None.
        stop_words: ``"english"`` or None.
    """

    kind = "tfidf"

    def __init__(
        self,
        *,
        min_count: int = 5,
        max_count: int | None = None,
        stop_words: str | None = "english",
    ) -> None:
        super().__init__(
            min_count=min_count, max_count=max_count, binary=False, stop_words=stop_words
        )
        self._idf: npt.NDArray[np.float32] = np.zeros(0, dtype=np.float32)

    @property
    def learned(self) -> str | None:
        """The vocabulary and in how many texts each word occurs."""
        return f"{super().learned}, and in how many training texts each of them occurs"

    def fit(self, corpus: Corpus) -> Self:
        """Chooses the vocabulary and counts in how many texts each word occurs."""
        super().fit(corpus)
        counts = self._counts(corpus)
        holding = np.bincount(counts.indices, minlength=self.dimension)
        # Smoothed, as if one more text held every word once.
        self._idf = (np.log((1 + len(corpus)) / (1 + holding)) + 1).astype(np.float32)
        return self

    def transform(self, corpus: Corpus) -> Matrix:
        """One sparse row of length one for each document."""
        from sklearn.preprocessing import normalize

        counts = self._counts(corpus)
        counts.data = (1 + np.log(counts.data)) * self._idf[counts.indices]
        return normalize(counts, copy=False)

    def state(self) -> dict[str, Any]:
        """The options, the vocabulary and the weights."""
        options = {name: value for name, value in super().state().items() if name != "binary"}
        return {**options, "idf": [float(weight) for weight in self._idf]}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The featurizer that ``state`` describes."""
        made = super().from_state(state)
        made._idf = np.array(state["idf"], dtype=np.float32)
        if made._idf.shape != (made.dimension,) or not np.isfinite(made._idf).all():
            raise DataError("The weights of saved features must be one number for each word.")
        return made
