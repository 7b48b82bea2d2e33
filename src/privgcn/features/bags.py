"""Bags of words: over a vocabulary that is chosen from the texts, or hashed without one."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from privgcn.errors import ConfigError, DataError
from privgcn.features.base import FITTED, Featurizer, texts_of
from privgcn.progress import counted

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from privgcn.data import Corpus
    from privgcn.features.base import Matrix

DEFAULT_DIMENSION = 4096
"""On raw-text Cora, text alone, without noise: 16384 gain half a point, 2048 lose over one."""

DEFAULT_PREFIX = 6
"""One to four points at epsilon 1 on the validation sets of raw-text Cora and CiteSeer."""

_MOST_FOUND = 1 << 20
_PUNCTUATION = re.compile(r"[^\w\s]|_")
_WORD = re.compile(r"\w+")
_ASCII_SPACES = {
    code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) == "_")
}


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


def _words(text: str) -> list[str]:
    """Runs of letters, digits and underscores, lower-cased."""
    if text.isascii():  # the same, three times faster
        return text.lower().translate(_ASCII_SPACES).split()
    return _WORD.findall(text.lower())


class _Found(dict[str, Any]):
    """What a function says of each word, asked once: most words of a text were seen before."""

    def __init__(self, function: Callable[[str], Any]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, word: str) -> Any:
        if len(self) >= _MOST_FOUND:
            self.clear()
        self[word] = found = self._function(word)
        return found


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
    """

    kind = "hashing"
    learns = False

    dimension: int = Field(DEFAULT_DIMENSION, ge=2, lt=2**31)
    ngrams: Count = 1
    prefix: Count | None = DEFAULT_PREFIX

    @property
    def learned(self) -> None:
        """Nothing."""

    def fit(self, corpus: Corpus) -> Self:
        """Checks that there are texts; there is nothing to learn."""
        texts_of(corpus, self.kind)
        return self

    def transform(self, corpus: Corpus) -> Matrix:
        """One sparse row of length one for each document."""
        from scipy.sparse import csr_matrix
        from sklearn.preprocessing import normalize
        from sklearn.utils import murmurhash3_32

        left_out = frozenset(self.left_out)
        short = _Found(
            lambda word: "" if len(word) < 2 or word in left_out else word[: self.prefix]
        )

        def column_of(token: str) -> int:
            # As scikit-learn hashes; a negative sign is the complement.
            hashed = murmurhash3_32(token.encode("utf-8", "surrogatepass"))
            column = int(abs(hashed) % self.dimension)
            return column if hashed >= 0 else ~column

        columns = _Found(column_of)
        signed, ends = array("i"), array("q", [0])
        for text in counted(texts_of(corpus, self.kind)):
            words = list(filter(None, map(short.__getitem__, _words(text))))
            signed.extend(map(columns.__getitem__, words))
            for size in range(2, min(self.ngrams, len(words)) + 1):
                runs = (words[at : at + size] for at in range(len(words) - size + 1))
                signed.extend(columns[" ".join(run)] for run in runs)
            ends.append(len(signed))
        found = np.frombuffer(signed, dtype=np.int32) if signed else np.empty(0, np.int32)
        counts = csr_matrix(
            (
                np.where(found < 0, np.float32(-1), np.float32(1)),
                np.where(found < 0, ~found, found),
                np.frombuffer(ends, dtype=np.int64),
            ),
            shape=(len(ends) - 1, self.dimension),
        )
        counts.sum_duplicates()
        counts.eliminate_zeros()
        counts.data = np.sign(counts.data) * np.log1p(np.abs(counts.data))
        return normalize(counts, copy=False)


class _Vocabulary(Featurizer):
    """One column for each word whose number of occurrences in the texts lies in an interval.

    Args:
        min_count: Smallest number of occurrences of a word.
        max_count: Largest, or None.
        stop_words: ``"english"``, or None (``"none"`` in a file).
    """

    learns = True

    min_count: Count = 5
    max_count: Count | None = None
    stop_words: Language = "english"
    words: Annotated[Words, FITTED] = Field(default_factory=list)

    @model_validator(mode="after")
    def _an_interval(self) -> Self:
        if self.max_count is not None and self.max_count < self.min_count:
            raise ConfigError(
                f"The 'max_count' of the features '{self.kind}' must be at least "
                f"{self.min_count}, its 'min_count'. Got {self.max_count}."
            )
        return self

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
        """Chooses the vocabulary.

        Raises:
            DataError: No word is left.
        """
        counts: Counter[str] = Counter()
        for text in texts_of(corpus, self.kind):
            counts.update(split_words(text))
        most = counts.total() if self.max_count is None else self.max_count
        kept = {word for word, count in counts.items() if self.min_count <= count <= most}
        self.words = sorted(kept.difference(stop_list(self.stop_words)))
        if not self.words:
            raise DataError(
                f"The features '{self.kind}' must find words that occur between "
                f"{self.min_count} and {self.max_count or 'any number of'} times. Got none. "
                "Widen the interval."
            )
        return self

    def _counts(self, corpus: Corpus) -> csr_matrix:
        from sklearn.feature_extraction.text import CountVectorizer

        counter = CountVectorizer(analyzer=split_words, vocabulary=self.words, dtype=np.float32)
        return counter.transform(texts_of(corpus, self.kind)).tocsr()


class BagOfWords(_Vocabulary):
    """Which words of the vocabulary a text holds; the paper takes [15, 15000] for Pokec.

    Args:
        binary: Whether a row says that a word occurs, or how often.
    """

    kind = "bow"

    binary: bool = True

    def transform(self, corpus: Corpus) -> Matrix:
        """One sparse row for each document."""
        counts = self._counts(corpus)
        if self.binary:
            counts.data[:] = 1
        return counts


class TfIdf(_Vocabulary):
    """Logarithmic counts times inverse document frequencies, each text scaled to length one."""

    kind = "tfidf"

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
        super().fit(corpus)
        counts = self._counts(corpus)
        holding = np.bincount(counts.indices, minlength=self.dimension)
        # Smoothed, as if one more text held every word once.
        idf = np.log((1 + len(corpus)) / (1 + holding)) + 1
        self.idf = idf.astype(np.float32).tolist()
        return self

    def transform(self, corpus: Corpus) -> Matrix:
        """One sparse row of length one for each document."""
        from sklearn.preprocessing import normalize

        counts = self._counts(corpus)
        weights = np.array(self.idf, dtype=np.float32)
        counts.data = (1 + np.log(counts.data)) * weights[counts.indices]
        return normalize(counts, copy=False)
