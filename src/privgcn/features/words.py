"""Bags of words that are hashed, so that nothing is learned from the texts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from privgcn.features.base import FITTED, Featurizer, in_chunks, texts_of
from privgcn.storage import GrownRows

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from privgcn.data import Corpus

_CHUNK = 4096
_WORD = re.compile(r"\w\w+")


Count = Annotated[int, Field(ge=1)]
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
    """Leaves out ``stop_words``, and keeps the list of them as it was in training."""

    stop_words: Language = "english"
    left_out: Annotated[list[str], FITTED] = Field(
        default_factory=lambda options: stop_list(options["stop_words"])
    )


class HashingWords(WithoutStopWords):
    """Counts of hashed words, of which nothing is learned.

    Each count enters as its logarithm and each text is scaled to length one. Words of a fixed
    public list are left out, the others cut to their first letters, which joins the forms of a
    word. A sign from its hash makes words that share a column cancel on average.

    Args:
        dimension: Number of columns. Without noise, on the texts of raw-text Cora, 16384 gain
            half a point and 2048 lose over one.
        prefix: How many letters of a word count, or None for all. Six gain one to four points
            at epsilon 1 on the validation sets of raw-text Cora and CiteSeer.
    """

    kind = "hashing"
    learns = False

    dimension: int = Field(4096, ge=2, lt=2**31)
    prefix: Count | None = 6

    @property
    def learned(self) -> None:
        """Nothing."""

    def transform(self, corpus: Corpus) -> csr_matrix:
        """One sparse row of length one for each document.

        Guarantees:
            A row depends on its own text alone, to the bit.
        """
        from scipy.sparse import csr_matrix
        from sklearn.feature_extraction.text import HashingVectorizer
        from sklearn.preprocessing import normalize

        left_out = frozenset(self.left_out)

        def tokens(text: str) -> list[str]:
            return [w[: self.prefix] for w in _WORD.findall(text.lower()) if w not in left_out]

        hasher = HashingVectorizer(
            n_features=self.dimension, analyzer=tokens, norm=None, dtype=np.float32
        )
        made = GrownRows()
        made.append(csr_matrix((0, self.dimension), dtype=np.float32))
        # By chunks, so that memory holds no single words.
        for _, chunk in in_chunks(texts_of(corpus, self.kind), _CHUNK):
            counts = hasher.transform(chunk)
            counts.eliminate_zeros()  # of words that cancelled
            counts.data = np.sign(counts.data) * np.log1p(np.abs(counts.data))
            made.append(normalize(counts, copy=False))
        return csr_matrix(made.rows())
