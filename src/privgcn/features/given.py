"""Vectors that came with the documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from privgcn.errors import DataError

if TYPE_CHECKING:
    from privgcn.corpus import Corpus
    from privgcn.features.base import Matrix


class GivenVectors:
    """Uses ``Corpus.vectors`` as they are.

    Where the vectors come from is outside this package's sight, so ``learned`` always names
    them: a vocabulary, an idf or a tuned encoder may carry private text.
    """

    kind = "given"
    learns = True

    def __init__(self) -> None:
        self._dimension = 0
        self._learned = ""

    @property
    def dimension(self) -> int:
        """Length of a row."""
        return self._dimension

    @property
    def learned(self) -> str | None:
        """Always something: nobody here saw how the vectors were made."""
        return self._learned

    def fit(self, corpus: Corpus) -> Self:
        """Remembers the length of the vectors and what is known about them."""
        self._dimension = _vectors(corpus).shape[1]
        published = corpus.facts.public_vectors
        self._learned = (
            f"the vectors themselves: {published}"
            if published
            else "the vectors themselves: they came with the documents, and what they learned "
            "from them is unknown"
        )
        return self

    def transform(self, corpus: Corpus) -> Matrix:
        """The vectors of the corpus.

        Raises:
            DataError: It has none, or of another length than the fitted ones.
        """
        vectors = _vectors(corpus)
        if vectors.shape[1] != self._dimension:
            raise DataError(
                f"The vectors of the corpus '{corpus.name}' must have {self._dimension} "
                f"numbers, as in training. Got {vectors.shape[1]}. Make them the same way."
            )
        return vectors

    def state(self) -> dict[str, Any]:
        """The length and the note."""
        return {"kind": self.kind, "dimension": self._dimension, "learned": self._learned}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The featurizer that ``state`` describes."""
        made = cls()
        made._dimension = int(state["dimension"])
        made._learned = str(state["learned"])
        return made


def _vectors(corpus: Corpus) -> Matrix:
    if corpus.vectors is None:
        raise DataError(
            f"The features 'given' need vectors. The corpus '{corpus.name}' has texts only. "
            "Add features.npy to the folder, or use the features 'hashing'."
        )
    return corpus.vectors
