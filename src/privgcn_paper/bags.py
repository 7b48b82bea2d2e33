"""Bags of the words of a vocabulary that is chosen from the training texts.

The paper describes the users of Pokec by such bags. They learn: a vocabulary, and its weights,
are read off protected texts, no epsilon counts them, and a statement says so.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from privgcn.errors import DataError
from privgcn.features.base import FITTED, Featurizer, texts_of
from privgcn.features.words import Count, Language, stop_list

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from privgcn.data import Corpus

_PUNCTUATION = re.compile(r"[^\w\s]|_")


def _different(words: list[str]) -> list[str]:
    if len(set(words)) != len(words):
        raise ValueError("words should differ from each other")
    return words


Vocabulary = Annotated[list[str], AfterValidator(_different)]


def split_words(text: str, *, lowercase: bool = True) -> list[str]:
    """Words between white space, lower-cased, punctuation removed, as the paper does it."""
    return _PUNCTUATION.sub("", text.lower() if lowercase else text).split()


class BagOfWords(Featurizer):
    """Which words of a vocabulary a text holds; the paper takes [15, 15000] for Pokec.

    The vocabulary has each word whose number of occurrences in the training texts lies in an
    interval.

    Args:
        min_count: Smallest number of occurrences of a word.
        max_count: Largest, or None.
        stop_words: ``"english"``, or None (``"none"`` in a file).
    """

    kind = "bow"
    learns = True
    _binary: ClassVar[bool] = True

    min_count: Count = 5
    max_count: Count | None = None
    stop_words: Language = "english"
    words: Annotated[Vocabulary, FITTED] = Field(default_factory=list)

    @property
    def dimension(self) -> int:
        """Number of words in the vocabulary."""
        return len(self.words)

    @property
    def learned(self) -> str:
        """The vocabulary."""
        return (
            f"a vocabulary of {self.dimension} words, chosen by how often they occur in the "
            f"training texts (at least {self.min_count} times"
            + (f" and at most {self.max_count})" if self.max_count else ")")
        )

    def fit(self, corpus: Corpus) -> Self:
        """Chooses the vocabulary."""
        texts = texts_of(corpus, self.kind)
        totals = Counter(word for text in texts for word in split_words(text))
        most = self.max_count or float("inf")
        chosen = {word for word, total in totals.items() if self.min_count <= total <= most}
        self.words = sorted(chosen.difference(stop_list(self.stop_words)))
        if not self.words:
            raise DataError(
                f"The features '{self.kind}' must find words that occur between "
                f"{self.min_count} and {self.max_count or 'any number of'} times. Got none. "
                "Widen the interval."
            )
        return self

    def transform(self, corpus: Corpus) -> csr_matrix:
        """One sparse row for each document."""
        from sklearn.feature_extraction.text import CountVectorizer

        counter = CountVectorizer(
            analyzer=split_words, vocabulary=self.words, binary=self._binary, dtype=np.float32
        )
        counts = counter.transform(texts_of(corpus, self.kind)).tocsr()
        counts.sort_indices()
        return counts


class TfIdf(BagOfWords):
    """Logarithmic counts times inverse document frequencies, each text scaled to length one."""

    kind = "tfidf"
    _binary: ClassVar[bool] = False

    idf: Annotated[list[float], FITTED] = Field(default_factory=list)

    @model_validator(mode="after")
    def _a_weight_for_each_word(self) -> Self:
        if len(self.idf) != self.dimension:
            raise DataError("The weights of saved features must be one number for each word.")
        return self

    @property
    def learned(self) -> str:
        """The vocabulary and in how many texts each word occurs."""
        return f"{super().learned}, and in how many training texts each of them occurs"

    def fit(self, corpus: Corpus) -> Self:
        """Chooses the vocabulary and counts in how many texts each word occurs."""
        from sklearn.feature_extraction.text import TfidfTransformer

        counts = BagOfWords.transform(super().fit(corpus), corpus).astype(np.float64)
        self.idf = TfidfTransformer().fit(counts).idf_.astype(np.float32).tolist()
        return self

    def transform(self, corpus: Corpus) -> csr_matrix:
        """One sparse row of length one for each document."""
        from sklearn.feature_extraction.text import TfidfTransformer

        weigher = TfidfTransformer(sublinear_tf=True)
        weigher.idf_ = np.array(self.idf, dtype=np.float32)
        return weigher.transform(super().transform(corpus), copy=False)
