"""Bags of words over a vocabulary that is chosen from the texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from privgcn.errors import ConfigError
from privgcn.features.base import check_count, texts_of
from privgcn.features.words import saved_words, split_words, vocabulary
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
