"""The mean of public word vectors over a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from privgcn.errors import ConfigError, DataError
from privgcn.features.base import bare_name, texts_of
from privgcn.features.word_table import GLOVE, fingerprint, look_up
from privgcn.features.words import saved_words, split_words
from privgcn.features.words import stop_words as stop_list

if TYPE_CHECKING:
    from privgcn.corpus import Corpus


class WordVectors:
    """Averages pre-trained vectors over the words of a text.

    Args:
        source: ``glove-6b-50d`` from its package, or a fastText ``.bin`` or ``.vec`` or a
            GloVe ``.txt`` file.
        stop_words: ``"english"`` leaves out words of a fixed list; or None.
        lowercase: Whether words are lower-cased first, as GloVe's are.
    """

    kind = "word-vectors"
    learns = False

    def __init__(
        self,
        *,
        source: str = GLOVE,
        stop_words: str | None = "english",
        lowercase: bool = True,
    ) -> None:
        self._left_out = stop_list(stop_words, self.kind)
        if not isinstance(lowercase, bool):
            raise ConfigError(
                f"The 'lowercase' of the features '{self.kind}' must be true or false. "
                f"Got {lowercase!r}."
            )
        self._source = source
        self._stop_words = stop_words
        self._lowercase = lowercase
        self._dimension = 0
        self._identity = ""

    @property
    def dimension(self) -> int:
        """Length of a word's vector."""
        return self._dimension

    @property
    def learned(self) -> str | None:
        """Nothing from these texts; what the vectors knew before is named."""
        name = bare_name(self._source)
        return (
            f"nothing from these texts; the word vectors '{name}' were trained "
            "elsewhere, and know these documents if they were part of what they were trained on"
        )

    def fit(self, corpus: Corpus) -> Self:
        """Finds the vectors; there is nothing to learn."""
        texts_of(corpus, self.kind)
        self._dimension = look_up(self._source, ())[1]
        self._identity = fingerprint(self._source)
        return self

    def transform(self, corpus: Corpus) -> npt.NDArray[np.float32]:
        """One dense row for each document; zero where no word is known.

        Raises:
            DataError: The vectors are not those that ``fit`` saw.
        """
        from scipy.sparse import csr_matrix

        # One code for each different word; the mean is then one sparse product.
        codes: dict[str, int] = {}
        columns: list[int] = []
        ends = [0]
        for text in texts_of(corpus, self.kind):
            for word in split_words(text, lowercase=self._lowercase):
                if word.lower() not in self._left_out:
                    columns.append(codes.setdefault(word, len(codes)))
            ends.append(len(columns))
        known, dimension = look_up(self._source, codes)
        if fingerprint(self._source) != self._identity:
            raise DataError(
                f"The word vectors '{self._source}' must be those used in training. The file "
                "has changed. Put the earlier one back, or train again."
            )
        table = np.zeros((len(codes), dimension), dtype=np.float32)
        is_known = np.zeros(len(codes), dtype=np.float32)
        for word, vector in known.items():
            table[codes[word]] = vector
            is_known[codes[word]] = 1
        counts = csr_matrix(
            (np.ones(len(columns), dtype=np.float32), columns, ends),
            shape=(len(ends) - 1, len(codes)),
        )
        found = np.maximum(counts @ is_known, 1)
        return np.asarray((counts @ table) / found[:, None], dtype=np.float32)

    def state(self) -> dict[str, Any]:
        """The options; the vectors themselves stay where they are."""
        return {
            "kind": self.kind,
            "source": self._source,
            "stop_words": self._stop_words,
            "left_out": sorted(self._left_out),
            "lowercase": self._lowercase,
            "dimension": self._dimension,
            "identity": self._identity,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The featurizer that ``state`` describes."""
        fitted = ("kind", "dimension", "identity", "left_out")
        made = cls(**{name: value for name, value in state.items() if name not in fitted})
        made._dimension = int(state["dimension"])
        made._identity = str(state["identity"])
        made._left_out = saved_words(state["left_out"])
        return made
