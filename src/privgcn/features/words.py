"""Bags of words: over a vocabulary that is chosen from the texts, or hashed without one."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from privgcn.errors import DataError
from privgcn.features.base import FITTED, Featurizer, in_chunks, texts_of

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from privgcn.data import Corpus

DEFAULT_DIMENSION = 4096
"""On raw-text Cora, text alone, without noise: 16384 gain half a point, 2048 lose over one."""

DEFAULT_PREFIX = 6
"""One to four points at epsilon 1 on the validation sets of raw-text Cora and CiteSeer."""

_CHUNK = 4096
_PUNCTUATION = re.compile(r"[^\w\s]|_")
_WORD = re.compile(r"\w\w+")


def split_words(text: str, *, lowercase: bool = True) -> list[str]:
    """Words between white space, lower-cased, punctuation removed, as the paper does it."""
    return _PUNCTUATION.sub("", text.lower() if lowercase else text).split()


def _different(words: list[str]) -> list[str]:
    if len(set(words)) != len(words):
        raise ValueError("words should differ from each other")
    return words


Count = Annotated[int, Field(ge=1)]
Words = Annotated[list[str], AfterValidator(_different)]
# Settings files have no null, so that "none" says it there.
Language = Annotated[
    Literal["english", None], BeforeValidator(lambda value: None if value == "none" else value)
]


def stop_list(language: Language) -> list[str]:
    """A fixed, public list of words to leave out."""
    if language is None:
        return []
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return sorted(ENGLISH_STOP_WORDS)


class WithoutStopWords(Featurizer):
    """Leaves out a list of words, and keeps the list as it was in training.

    Args:
        stop_words: ``"english"``, or None (``"none"`` in a file).
    """

    stop_words: Language = "english"
    left_out: Annotated[Words, FITTED] = Field(
        default_factory=lambda options: stop_list(options["stop_words"])
    )


class HashingWords(WithoutStopWords):
    """Nothing is learned, so nothing about the texts leaks here.

    Each count enters as its logarithm and each text is scaled to length one, both looking
    at one document only. Words of a fixed public list are left out: they would fill most of a
    text's length. Words are cut to their first letters, which joins the forms of a word
    without a dictionary of any language. A word's sign comes from its hash as well, so that
    words which share a column cancel on average.

    Args:
        dimension: Number of columns.
        prefix: How many letters of a word count, or None for all.
    """

    kind = "hashing"
    learns = False

    dimension: int = Field(DEFAULT_DIMENSION, ge=2, lt=2**31)
    prefix: Count | None = DEFAULT_PREFIX

    @property
    def learned(self) -> None:
        """Nothing."""

    def transform(self, corpus: Corpus) -> csr_matrix:
        """One sparse row of length one for each document.

        Guarantees:
            A row depends on its own text alone, to the bit.
        """
        from scipy.sparse import csr_matrix, vstack
        from sklearn.feature_extraction.text import HashingVectorizer
        from sklearn.preprocessing import normalize

        texts = texts_of(corpus, self.kind)
        left_out = frozenset(self.left_out)

        def tokens(text: str) -> list[str]:
            return [w[: self.prefix] for w in _WORD.findall(text.lower()) if w not in left_out]

        hasher = HashingVectorizer(
            n_features=self.dimension, analyzer=tokens, norm=None, dtype=np.float32
        )
        # By chunks, so that memory holds no single words.
        rows = [csr_matrix((0, self.dimension), dtype=np.float32)]
        for _, chunk in in_chunks(texts, _CHUNK):
            counts = hasher.transform(chunk)
            counts.eliminate_zeros()  # of words that cancelled
            counts.data = np.sign(counts.data) * np.log1p(np.abs(counts.data))
            rows.append(normalize(counts, copy=False))
        return vstack(rows, format="csr")


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
    words: Annotated[Words, FITTED] = Field(default_factory=list)

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
