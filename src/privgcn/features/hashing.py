"""A bag of words without a vocabulary: every word hashes to a column."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from privgcn.errors import ConfigError
from privgcn.features.base import check_count, texts_of
from privgcn.features.words import saved_words
from privgcn.features.words import stop_words as stop_list

if TYPE_CHECKING:
    from privgcn.corpus import Corpus
    from privgcn.features.base import Matrix

DEFAULT_DIMENSION = 4096
"""On raw-text Cora, text alone, without noise: 16384 gain half a point, 2048 lose over one."""

DEFAULT_PREFIX = 6
"""One to four points at epsilon 1 on the validation sets of raw-text Cora and CiteSeer."""

_WORD = re.compile(r"\b\w\w+\b")


class HashingWords:
    """The default for text: nothing is learned, so nothing about the text leaks here.

    Each count enters as its logarithm and each text is scaled to length one, both looking
    at one document only. Words of a fixed public list are left out: they say nothing about
    the class and would fill most of a text's length. Words are cut to their first letters,
    which joins the forms of a word without a dictionary of any language: noise then hides
    fewer of them. A word's sign comes from its hash as well, so that words which share a
    column cancel on average.

    Args:
        dimension: Number of columns.
        ngrams: Longest run of words that counts as one.
        prefix: How many letters of a word count, or None for all.
        stop_words: ``"english"`` or None.
    """

    kind = "hashing"
    learns = False
    learned = None

    def __init__(
        self,
        *,
        dimension: int = DEFAULT_DIMENSION,
        ngrams: int = 1,
        prefix: int | None = DEFAULT_PREFIX,
        stop_words: str | None = "english",
    ) -> None:
        check_count(self.kind, "dimension", dimension, low=2)
        check_count(self.kind, "ngrams", ngrams)
        check_count(self.kind, "prefix", prefix)
        self._left_out = stop_list(stop_words, self.kind)
        if dimension > 2**31 - 1:
            raise ConfigError(
                f"The 'dimension' of the features 'hashing' must be below 2**31. "
                f"Got {dimension}."
            )
        self._dimension = dimension
        self._ngrams = ngrams
        self._prefix = prefix
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
            analyzer=self._analyzer(),
            alternate_sign=True,
            norm=None,
            dtype=np.float32,
        )
        counts = hasher.transform(texts_of(corpus, self.kind)).tocsr()
        counts.eliminate_zeros()
        counts.data = np.sign(counts.data) * np.log1p(np.abs(counts.data))
        return normalize(counts, copy=False)

    def _analyzer(self) -> Callable[[str], list[str]]:
        left_out = self._left_out

        def analyse(text: str) -> list[str]:
            words = [
                word[: self._prefix]
                for word in _WORD.findall(text.lower())
                if word not in left_out
            ]
            runs = (
                " ".join(words[start : start + size])
                for size in range(2, min(self._ngrams, len(words)) + 1)
                for start in range(len(words) - size + 1)
            )
            return [*words, *runs]

        return analyse

    def state(self) -> dict[str, Any]:
        """The options, and the stop words as they are today."""
        return {
            "kind": self.kind,
            "dimension": self._dimension,
            "ngrams": self._ngrams,
            "prefix": self._prefix,
            "stop_words": self._stop_words,
            "left_out": sorted(self._left_out),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The featurizer that ``state`` describes."""
        fitted = ("kind", "left_out")
        made = cls(**{name: value for name, value in state.items() if name not in fitted})
        made._left_out = saved_words(state["left_out"])
        return made
