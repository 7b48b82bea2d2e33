"""Bags of words over a vocabulary that is chosen from the texts, weighed or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from privgcn.errors import ConfigError, DataError
from privgcn.features.base import check_count, texts_of
from privgcn.features.words import saved_words, split_words
from privgcn.features.words import stop_words as stop_list

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from privgcn.corpus import Corpus
    from privgcn.features.base import Matrix


class BagOfWords:
    """One column for each word of the vocabulary.

    The vocabulary is every word whose number of occurrences in the texts lies in an
    interval; the paper takes [15, 15000] for Pokec.

    Args:
        min_count: Smallest number of occurrences of a word.
        max_count: Largest, or None.
        binary: Whether a row says that a word occurs, or how often.
        stop_words: ``"english"`` or None.
    """

    kind = "bow"
    learns = True

    def __init__(
        self,
        *,
        min_count: int = 5,
        max_count: int | None = None,
        binary: bool = True,
        stop_words: str | None = "english",
    ) -> None:
        check_count(self.kind, "min_count", min_count)
        check_count(self.kind, "max_count", max_count, low=min_count)
        if not isinstance(binary, bool):
            raise ConfigError(
                f"The 'binary' of the features '{self.kind}' must be true or false. "
                f"Got {binary!r}."
            )
        stop_list(stop_words, self.kind)
        self._options: dict[str, Any] = {
            "min_count": min_count,
            "max_count": max_count,
            "binary": binary,
            "stop_words": stop_words,
        }
        self._words: list[str] = []

    @property
    def dimension(self) -> int:
        """Number of words in the vocabulary."""
        return len(self._words)

    @property
    def learned(self) -> str | None:
        """The vocabulary."""
        upper = self._options["max_count"]
        return (
            f"a vocabulary of {self.dimension} words, chosen by how often they occur in the "
            f"training texts (at least {self._options['min_count']} times"
            + (f" and at most {upper})" if upper else ")")
        )

    def fit(self, corpus: Corpus) -> Self:
        """Chooses the vocabulary."""
        self._words = vocabulary(
            texts_of(corpus, self.kind),
            min_count=self._options["min_count"],
            max_count=self._options["max_count"],
            left_out=stop_list(self._options["stop_words"], self.kind),
            owner=self.kind,
        )
        return self

    def transform(self, corpus: Corpus) -> Matrix:
        """One sparse row for each document."""
        counts = self._counts(corpus)
        if self._options["binary"]:
            counts.data[:] = 1
        return counts

    def _counts(self, corpus: Corpus) -> csr_matrix:
        from sklearn.feature_extraction.text import CountVectorizer

        counter = CountVectorizer(
            analyzer=split_words, vocabulary=self._words, dtype=np.float32
        )
        return counter.transform(texts_of(corpus, self.kind)).tocsr()

    def state(self) -> dict[str, Any]:
        """The options and the vocabulary."""
        return {"kind": self.kind, **self._options, "words": self._words}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The featurizer that ``state`` describes."""
        options = {
            name: value for name, value in state.items() if name not in ("kind", "words", "idf")
        }
        made = cls(**options)
        saved_words(state["words"])
        made._words = state["words"]
        return made


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


def vocabulary(
    texts: Iterable[str],
    *,
    min_count: int,
    max_count: int | None,
    left_out: frozenset[str],
    owner: str,
) -> list[str]:
    """The words that occur between ``min_count`` and ``max_count`` times, in order.

    Raises:
        DataError: No word is left.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(split_words(text))
    words = sorted(
        word
        for word, count in counts.items()
        if count >= min_count
        and (max_count is None or count <= max_count)
        and word not in left_out
    )
    if not words:
        raise DataError(
            f"The features '{owner}' must find words that occur between {min_count} and "
            f"{max_count or 'any number of'} times. Got none. Widen the interval."
        )
    return words
