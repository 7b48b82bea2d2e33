"""What every way from text to numbers has in common.

A featurizer is a model of its options and of what ``fit`` learned: its state, which a model
file carries. Nothing in it is obeyed as a file, folder or address: what lies on this machine is
named by whoever calls, or looked up by name and recognised by its checksum.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, PlainSerializer, ValidationError

from privgcn import progress
from privgcn.errors import ConfigError, DataError, refusal, shown
from privgcn.features import bert
from privgcn.features.packages import Weights
from privgcn.files import array_on_disk

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from privgcn.data import Corpus

    Matrix: TypeAlias = csr_matrix | npt.NDArray[np.float32]


def bare_name(source: str) -> str:
    """The name of a file or folder without where it lies; names of a hub stay as they are."""
    path = Path(source).expanduser()
    return path.name if path.is_absolute() or path.exists() else source


#: Marks a field that ``fit`` fills; every other field is an option.
FITTED = "fitted"
#: Marks an option that says where something lies on this machine: a state has its bare name.
LOCAL = PlainSerializer(bare_name)
#: Bytes of dense rows from which on they are kept in a file instead of in memory.
ON_DISK = 1 << 29
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


class Featurizer(BaseModel, ABC):
    """Turns the documents of a corpus into float32 rows, sparse where they are sparse.

    Rows are not scaled to one length here; that is the recipe's choice.

    Attributes:
        kind: The name in the registry.
        learns: Whether something read off protected documents stays in the featurizer.
        learned: What a privacy statement has to repeat as not covered, in words, or None.
    """

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    kind: ClassVar[str]
    learns: ClassVar[bool]

    # Where the encoder lies, as whoever calls says it; None: it is looked up by its name.
    _path: Path | None = None

    if TYPE_CHECKING:  # a field or a property, as the kind has it

        @property
        def dimension(self) -> int:
            """Length of a row, known after ``fit``."""

        @property
        def learned(self) -> str | None:
            """What is not covered."""

    def fit(self, corpus: Corpus) -> Self:
        """Learns from the documents what this kind has to learn; nothing, unless it says so."""
        texts_of(corpus, self.kind)
        return self

    @abstractmethod
    def transform(self, corpus: Corpus) -> Matrix:
        """One row for each document."""

    @classmethod
    def with_options(cls, options: Mapping[str, Any]) -> Self:
        """A featurizer that is not fitted yet."""
        known = [n for n, field in cls.model_fields.items() if FITTED not in field.metadata]
        if unknown := options.keys() - known:
            rest = f"Its options are {', '.join(known)}." if known else "It has none."
            raise ConfigError(
                f"The features '{cls.kind}' have no option '{min(unknown)}'. {rest}"
            )
        return cls._validated(dict(options))

    def state(self) -> dict[str, Any]:
        """Everything needed to transform again, as JSON, without where things lie."""
        return {"kind": self.kind, **self.model_dump()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], path: Path | None = None) -> Self:
        """The featurizer that ``state`` describes; no default fills a gap."""
        fields = ["kind", *(n for n, own in cls.model_fields.items() if not own.exclude)]
        if odd := state.keys() ^ set(fields):
            raise DataError(
                f"Saved features '{cls.kind}' must have exactly the fields "
                f"{', '.join(fields)}: none says where a file lies. They differ in "
                f"{shown(min(odd))}. Do not use this model unless you trust who made it."
            )
        made = cls._validated({name: state[name] for name in fields[1:]})
        made._path = path
        return made

    @classmethod
    def _validated(cls, values: dict[str, Any]) -> Self:
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise refusal(error, f"the features '{cls.kind}'") from None


class PublicVectors(Featurizer):
    """Vectors or an encoder that were trained elsewhere and stay as they are.

    Their ``identity`` is a checksum. Where a Python package has their files, the ``weights``,
    their name is ``what``.
    """

    learns = False
    what: ClassVar[str]
    weights: ClassVar[Weights]
    width: ClassVar[int]
    # Texts that are encoded at once, which is what a stopped run loses; more on a GPU.
    _chunk: ClassVar[int] = 512
    _by_device: ClassVar[bool] = False

    dimension: Annotated[int, FITTED] = 0
    identity: Annotated[str, FITTED] = ""

    @property
    def learned(self) -> str | None:
        """What the vectors may know from elsewhere."""
        return (
            f"nothing from these texts; the {self._what}, trained elsewhere, may know these "
            "documents if they were part of what it was trained on"
        )

    def fit(self, corpus: Corpus) -> Self:
        """Looks the vectors up; there is nothing to learn."""
        self.identity, self.dimension = self._checksum(), self._width()
        return super().fit(corpus)

    def transform(self, corpus: Corpus) -> npt.NDArray[np.float32]:
        """One dense row for each document; many are kept on disk.

        Guarantees:
            A row depends on its own text alone, to the bit.
        """
        texts = texts_of(corpus, self.kind)
        if self._checksum() != self.identity:
            raise DataError(
                f"The {self._what} must be as used in training. The files have changed. Put "
                "the earlier ones back, or train again."
            )
        shape = len(texts), self.dimension
        made = np.empty if 4 * len(texts) * self.dimension < ON_DISK else array_on_disk
        rows: npt.NDArray[np.float32] = made(shape, np.float32)
        at_once = self._chunk * (8 if self._by_device and bert.kernel()[0] == "cuda" else 1)
        for begin, chunk in in_chunks(texts, at_once):
            rows[begin : begin + len(chunk)] = self._encode(chunk)
        return rows

    def names_encoded(self, names: Sequence[str]) -> npt.NDArray[np.float32]:
        """One row for each name of a class, whose words may be joined by signs."""
        words = [" ".join(re.findall(r"[^\W_]+", name)) for name in names]
        return self._encode(words)

    @property
    def _what(self) -> str:
        return self.what

    def _checksum(self) -> str:
        return self.weights.checksum()

    def _width(self) -> int:
        return self.width

    @abstractmethod
    def _encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]: ...


class GivenVectors(Featurizer):
    """Takes ``Corpus.vectors``; what made them, say a vocabulary, may carry private text."""

    kind = "given"
    learns = True

    dimension: Annotated[int, FITTED] = 0
    learned: Annotated[str, FITTED] = ""

    def fit(self, corpus: Corpus) -> Self:
        """Remembers the length of the vectors and what is known about them."""
        if corpus.vector_length is None:
            raise DataError(
                f"The features 'given' need vectors. The corpus '{corpus.name}' has texts "
                "only. Add features.npy to the folder, or use the features 'hashing'."
            )
        self.dimension = corpus.vector_length
        self.learned = "the vectors themselves: " + (
            corpus.facts.public_vectors
            or "they came with the documents, and what they learned from them is unknown"
        )
        return self

    def transform(self, corpus: Corpus) -> Matrix:
        """The vectors of the corpus."""
        if corpus.vector_length != self.dimension:
            raise DataError(
                f"The vectors of the corpus '{corpus.name}' must have {self.dimension} "
                f"numbers, as in training. Got {corpus.vector_length or 'no vectors'}. Make "
                "them the same way."
            )
        vectors: Matrix = corpus.vectors
        return vectors


def texts_of(corpus: Corpus, kind: str) -> Sequence[str]:
    """The texts of a corpus, which features of this kind need."""
    if corpus.texts is None:
        raise DataError(
            f"The features '{kind}' need texts. The corpus '{corpus.name}' has vectors only. "
            "Use the features 'given'."
        )
    return corpus.texts


def in_chunks(texts: Sequence[str], size: int) -> Iterator[tuple[int, list[str]]]:
    """Lists of ``size`` texts and where each begins; says how much is done."""
    for begin in range(0, len(texts), size):
        yield begin, list(texts[begin : begin + size])
        progress.advance(min(begin + size, len(texts)), len(texts))


def in_folder(name: str, folder: Path) -> Path | None:
    """Where the folder has something of this name; never anything outside it."""
    there = _HUB_NAME.fullmatch(name) and (folder / name).exists()
    return folder / name if there else None
