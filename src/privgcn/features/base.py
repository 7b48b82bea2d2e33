"""What every way from text to numbers has in common."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

from privgcn.errors import ConfigError, DataError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from scipy.sparse import csr_matrix

    from privgcn.corpus import Corpus

    Matrix: TypeAlias = csr_matrix | npt.NDArray[np.float32]


class Featurizer(Protocol):
    """Turns the documents of a corpus into float32 rows, sparse where they are sparse.

    Rows are not scaled to one length here; that is the recipe's choice.

    Attributes:
        kind: The name in the registry.
        dimension: Length of a row, known after ``fit``.
        learns: Whether something read off protected documents stays in the featurizer, so
            that releasing it releases that too.
        learned: What a privacy statement has to repeat as not covered, in words: what was
            read off the documents, or what a public encoder may have seen before; None
            when there is nothing to say.
    """

    kind: str
    learns: bool

    @property
    def dimension(self) -> int:
        """Length of a row."""
        ...

    @property
    def learned(self) -> str | None:
        """What was read off private data, in words."""
        ...

    def fit(self, corpus: Corpus) -> Self:
        """Learns from the documents what this kind has to learn."""
        ...

    def transform(self, corpus: Corpus) -> Matrix:
        """One row for each document."""
        ...

    def state(self) -> dict[str, Any]:
        """Everything needed to transform again, as JSON."""
        ...

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The featurizer that ``state`` describes."""
        ...


def texts_of(corpus: Corpus, kind: str) -> tuple[str, ...]:
    """The texts of a corpus.

    Raises:
        DataError: The corpus has vectors only.
    """
    if corpus.texts is None:
        raise DataError(
            f"The features '{kind}' need texts. The corpus '{corpus.name}' has vectors only. "
            "Use the features 'given'."
        )
    return corpus.texts


def check_count(owner: str, name: str, value: int | None, low: int = 1) -> None:
    """Refuses an option that must be a whole number of at least ``low``.

    Raises:
        ConfigError: It is not.
    """
    if value is not None and (
        not isinstance(value, int) or isinstance(value, bool) or value < low
    ):
        raise ConfigError(
            f"The '{name}' of the features '{owner}' must be a whole number of at least {low}. "
            f"Got {value!r}."
        )


def bare_name(place: str) -> str:
    """The name of a file or folder without where it lies; names of a hub stay as they are."""
    path = Path(place).expanduser()
    return path.name if path.is_absolute() or path.exists() else place
