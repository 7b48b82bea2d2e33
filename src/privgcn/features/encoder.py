"""Runs a Hugging Face encoder over texts: the mean of its last layer over the tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from privgcn.errors import DataError, DataNotAvailableError, MissingExtraError

if TYPE_CHECKING:
    import torch

_BATCH_CPU = 8
_BATCH_GPU = 64
_LENGTH_STEP = 16
_IGNORED_SUFFIXES = (".md", ".h5", ".msgpack", ".onnx", ".ot", ".gitattributes")


class Encoder:
    """A frozen encoder with its tokenizer, on the GPU where there is one.

    Args:
        model: A local folder, or a name on the Hugging Face hub.
        max_length: Tokens beyond it are cut; None takes what the encoder can hold.

    Raises:
        MissingExtraError: ``transformers`` is not installed.
        DataNotAvailableError: The model is neither local nor to be had from a hub.
    """

    def __init__(self, model: str, max_length: int | None = None) -> None:
        import torch

        self.folder = find_model(model)
        self._tokenizer, self._model = _load(self.folder)
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._model.eval().to(self._device)
        self.dimension = int(self._model.config.hidden_size)
        most = _longest(self._model.config, self._tokenizer)
        self.max_length = most if max_length is None else min(max_length, most)
        self._pad = self._tokenizer.pad_token_id or 0

    def encode(
        self, texts: list[str], advance: Callable[[int], None] | None = None
    ) -> npt.NDArray[np.float32]:
        """One vector for each text.

        Guarantees:
            A text's vector has the same bits whatever other texts there are. Matrix products
            round a row by the shape of its batch, so all batches of a length have one shape,
            and a text's own length alone says which that is.
        """
        import torch

        tokens = self._tokenizer(
            texts,
            truncation=True,
            max_length=self.max_length,
            return_attention_mask=False,
            return_token_type_ids=False,
        )["input_ids"]
        lengths = np.array([_padded(len(row), self.max_length) for row in tokens], dtype=int)
        out = np.empty((len(texts), self.dimension), dtype=np.float32)
        size = _BATCH_CPU if self._device.type == "cpu" else _BATCH_GPU
        with torch.inference_mode():
            for length in np.unique(lengths)[::-1].tolist():
                order = np.flatnonzero(lengths == length)
                for start in range(0, len(order), size):
                    rows = order[start : start + size]
                    batch = [tokens[row] for row in rows]
                    out[rows] = self._mean(batch, (size, length))[: len(rows)].cpu().numpy()
                    if advance is not None:
                        advance(len(rows))
        return out

    def _mean(self, tokens: list[list[int]], shape: tuple[int, int]) -> torch.Tensor:
        import torch

        ids = torch.full(shape, self._pad, dtype=torch.long)
        mask = torch.zeros(shape, dtype=torch.long)
        for row, codes in enumerate(tokens):
            ids[row, : len(codes)] = torch.tensor(codes, dtype=torch.long)
            mask[row, : len(codes)] = 1
        # Rows that fill up the batch see one token: nothing to see is no number.
        mask[len(tokens) :, 0] = 1
        ids, mask = ids.to(self._device), mask.to(self._device)
        hidden = self._model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
        weight = mask.unsqueeze(-1).to(hidden.dtype)
        mean: torch.Tensor = (hidden * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1)
        return mean


def _padded(length: int, most: int) -> int:
    """The length to which a text of so many tokens is padded."""
    return min(max(1, -(-length // _LENGTH_STEP)) * _LENGTH_STEP, most)


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


def _load(folder: Path) -> tuple[Any, Any]:
    try:
        from transformers import AutoModel, AutoTokenizer
    except ImportError:
        raise MissingExtraError("The features 'transformer'", "text") from None
    from transformers import utils

    logging: Any = utils.logging
    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        model = AutoModel.from_pretrained(str(folder), local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(
            f"The folder {folder} must hold a Hugging Face encoder with its tokenizer. It "
            f"cannot be loaded: {str(error).strip().splitlines()[0]}"
        ) from error
    finally:
        if bars:
            logging.enable_progress_bar()
    return tokenizer, model


def _longest(config: Any, tokenizer: Any) -> int:
    """How many tokens fit; tokenizers without a limit report an absurd number."""
    places = int(getattr(config, "max_position_embeddings", 512))
    return min(places, int(tokenizer.model_max_length))
