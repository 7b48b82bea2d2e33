"""Frozen transformer encoders: the mean of the last layer over the tokens of a text."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from privgcn import progress
from privgcn.errors import DataError, DataNotAvailableError, MissingExtraError
from privgcn.features.base import PublicVectors, bare_name, unit_rows
from privgcn.features.cache import VectorCache, default_cache

if TYPE_CHECKING:
    import torch

# Tokens in a batch: more leave the processor's cache.
_BATCH_CPU = 512
_BATCH_GPU = 16_384
_LENGTH_STEP = 16
_IGNORED_SUFFIXES = (".md", ".h5", ".msgpack", ".onnx", ".ot", ".gitattributes")

Codes = list[list[int]]
Forward = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]


class FrozenEncoder(PublicVectors):
    """The mean of an encoder's last layer over the tokens of a text.

    Args:
        average: ``"text"`` encodes a document at once; ``"lines"`` encodes each of its
            lines and averages over them, as the paper does with Pokec's columns.
        max_length: Tokens beyond it are cut; None takes what the encoder was made for.
        cache_dir: Where vectors are kept; default the user cache folder.
    """

    _unit_length: ClassVar[bool] = False

    average: Literal["text", "lines"] = "text"
    max_length: Annotated[int, Field(ge=3)] | None = None
    cache_dir: str | None = None
    _encoder: Encoder | None = None

    @property
    @abstractmethod
    def _name(self) -> str: ...

    @abstractmethod
    def _folder(self) -> Path: ...

    @abstractmethod
    def _load(self) -> Encoder: ...

    @property
    def _what(self) -> str:
        return f"frozen encoder '{self._name}'"

    @property
    def _vector_key(self) -> str:
        """Everything that can change a vector."""
        return f"{self.identity} mean alone {self.max_length} {self._unit_length}"

    def _checksum(self) -> str:
        return identity_of(self._folder())

    def _encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """One dense row for each text, encoding only texts that are not cached."""
        texts = [text.encode("utf-8", "replace").decode() for text in texts]
        if self.average == "text":
            return self._cached(list(texts))
        lines = [[line for line in text.split("\n") if line.strip()] or [""] for text in texts]
        flat = self._cached([line for part in lines for line in part])
        sizes = np.array([len(part) for part in lines])
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        sums = np.add.reduceat(flat, starts, axis=0) if len(lines) else flat
        return np.asarray(sums / sizes[:, None], dtype=np.float32)

    def _cached(self, texts: list[str]) -> npt.NDArray[np.float32]:
        folder = Path(self.cache_dir).expanduser() if self.cache_dir else default_cache()
        cache = VectorCache(folder, self._vector_key, self.dimension)
        total, done = len(set(texts)), 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            progress.advance(done, total)

        def encode(batch: list[str]) -> npt.NDArray[np.float32]:
            if self._encoder is None:
                self._encoder = self._load()
            rows = self._encoder.encode(batch, advance)
            return unit_rows(rows) if self._unit_length else rows

        def reached(count: int) -> None:
            nonlocal done
            done = count
            progress.advance(done, total)

        return cache.vectors(texts, encode, reached)


class TransformerFeatures(FrozenEncoder):
    """Any encoder of Hugging Face.

    Args:
        model: A local folder or a name on the hub. The paper takes multilingual BERT.
    """

    kind = "transformer"

    model: str = "bert-base-multilingual-cased"

    @property
    def _name(self) -> str:
        return bare_name(self.model)

    def _folder(self) -> Path:
        return find_model(self.model)

    def _width(self) -> int:
        config = _hugging_face().AutoConfig
        found = config.from_pretrained(str(self._folder()), local_files_only=True)
        return int(found.hidden_size)

    def _load(self) -> Encoder:
        return hugging_face_encoder(self._folder(), self.max_length)


class Encoder:
    """Runs a model over texts in batches, on the GPU where there is one.

    Args:
        tokenize: Texts to token codes, none longer than ``longest``.
        load: Makes the model on a device: codes and a mask to its last layer.
        width: Of the last layer.
        longest: Most tokens of a text.
        pad: The code that fills a row up.
    """

    def __init__(
        self,
        tokenize: Callable[[list[str]], Codes],
        load: Callable[[torch.device], Forward],
        *,
        width: int,
        longest: int,
        pad: int = 0,
    ) -> None:
        import torch

        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._tokenize, self._forward = tokenize, load(self._device)
        self._width, self._longest, self._pad = width, longest, pad

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Copies and pickles of features hold none: who uses them loads it again."""
        return type(None), ()

    def encode(
        self, texts: list[str], advance: Callable[[int], None]
    ) -> npt.NDArray[np.float32]:
        """One vector for each text.

        Guarantees:
            A text's vector has the same bits whatever other texts there are. Matrix products
            round a row by the shape of its batch, so all batches of a length have one shape,
            and a text's own length alone says which that is.
        """
        import torch

        tokens = self._tokenize(texts)
        steps = np.array([max(1, -(-len(row) // _LENGTH_STEP)) for row in tokens], dtype=int)
        lengths = np.minimum(steps * _LENGTH_STEP, self._longest)
        out = np.empty((len(texts), self._width), dtype=np.float32)
        budget = _BATCH_CPU if self._device.type == "cpu" else _BATCH_GPU
        with torch.inference_mode():
            for length in np.unique(lengths)[::-1].tolist():
                size = max(1, budget // length)
                order = np.flatnonzero(lengths == length)
                for start in range(0, len(order), size):
                    rows = order[start : start + size]
                    batch = [tokens[row] for row in rows]
                    out[rows] = self._mean(batch, (size, length))[: len(rows)].cpu().numpy()
                    advance(len(rows))
        return out

    def _mean(self, tokens: Codes, shape: tuple[int, int]) -> torch.Tensor:
        import torch

        codes = torch.full(shape, self._pad, dtype=torch.long)
        mask = torch.zeros(shape, dtype=torch.bool)
        for row, own in enumerate(tokens):
            codes[row, : len(own)] = torch.tensor(own, dtype=torch.long)
            mask[row, : len(own)] = True
        # Rows that fill up the batch see one token: nothing to see is no number.
        mask[len(tokens) :, 0] = True
        codes, mask = codes.to(self._device), mask.to(self._device)
        hidden = self._forward(codes, mask).float()
        weight = mask.unsqueeze(-1).to(hidden.dtype)
        mean: torch.Tensor = (hidden * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1)
        return mean


def hugging_face_encoder(folder: Path, max_length: int | None) -> Encoder:
    """The encoder in a Hugging Face folder.

    Raises:
        MissingExtraError: ``transformers`` is not installed.
        DataError: The folder does not hold an encoder with its tokenizer.
    """
    transformers = _hugging_face()
    logging: Any = transformers.utils.logging
    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            str(folder), local_files_only=True
        )
        model = transformers.AutoModel.from_pretrained(str(folder), local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(
            f"The folder {folder} must hold a Hugging Face encoder with its tokenizer. It "
            f"cannot be loaded: {str(error).strip().splitlines()[0]}"
        ) from error
    finally:
        if bars:
            logging.enable_progress_bar()
    # Tokenizers without a limit report an absurd number.
    places = int(getattr(model.config, "max_position_embeddings", 512))
    longest = min(places, int(tokenizer.model_max_length), max_length or places)

    def tokenize(texts: list[str]) -> Codes:
        found: Codes = tokenizer(texts, truncation=True, max_length=longest)["input_ids"]
        return found

    def load(device: torch.device) -> Forward:
        model.eval().to(device)
        return lambda codes, mask: (
            model(input_ids=codes, attention_mask=mask.long()).last_hidden_state
        )

    return Encoder(
        tokenize,
        load,
        width=int(model.config.hidden_size),
        longest=longest,
        pad=tokenizer.pad_token_id or 0,
    )


def find_model(model: str) -> Path:
    """The local folder of a model: the given one, or the hub's copy of it.

    Raises:
        MissingExtraError: ``transformers`` is not installed.
        DataNotAvailableError: There is no such folder and no hub answers.
    """
    folder = Path(model).expanduser()
    if (folder / "config.json").is_file():
        return folder
    if folder.is_dir():
        raise DataError(
            f"The folder {folder} must hold a Hugging Face model. Got no config.json in it."
        )
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise MissingExtraError("The features 'transformer'", "text") from None
    wanted = ["*.json", "*.txt", "*.model", "*.safetensors"]
    with suppress(OSError, ValueError):
        return Path(snapshot_download(model, allow_patterns=wanted, local_files_only=True))
    try:
        return Path(snapshot_download(model, allow_patterns=wanted))
    except (OSError, ValueError, RuntimeError) as error:
        raise DataNotAvailableError(
            f"The encoder '{model}' is not on this machine, and no hub could give it "
            f"({type(error).__name__}). On a machine with a connection run: hf download "
            f"{model} --local-dir {Path(model).name}; copy that folder here and give its "
            "path as the option 'model'. Or use the features 'minilm', which need no hub."
        ) from error


def identity_of(folder: Path) -> str:
    """A checksum of everything in a model folder that can change a vector."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if not path.is_file() or path.suffix in _IGNORED_SUFFIXES or path.name[0] == ".":
            continue
        digest.update(path.name.encode() + b"\0")
        with path.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def _hugging_face() -> Any:
    try:
        import transformers
    except ImportError:
        raise MissingExtraError("The features 'transformer'", "text") from None
    return transformers
