"""The sum of public token vectors over a text: a thousand texts a second, offline.

The package ``wordllama`` carries a table of 32 000 token vectors, made to be added up, and
its tokenizer. Both files are read here; the package is not imported, because its own loader
asks the network.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from privgcn.errors import DataError
from privgcn.features.base import (
    PublicVectors,
    Told,
    checksum_of,
    chunks,
    package_folder,
    read_weights,
    unit_rows,
)

_CHUNK = 4096


class StaticVectors(PublicVectors):
    """Adds up public vectors over the tokens of a text; rows have length one.

    The row of an empty text is zero.
    """

    kind = "static"
    _package: ClassVar[str] = "wordllama"
    _loaded: tuple[Any, npt.NDArray[np.float32]] | None = None

    @property
    def _what(self) -> str:
        return "token vectors 'wordllama l2_supercat_256'"

    def __getstate__(self) -> dict[Any, Any]:
        """Copies and pickles hold no vectors: who uses them reads them again."""
        state = super().__getstate__()
        private = state.get("__pydantic_private__") or {}
        return {**state, "__pydantic_private__": {**private, "_loaded": None}}

    def _encode(self, texts: Sequence[str], told: Told) -> npt.NDArray[np.float32]:
        from scipy.sparse import csr_matrix

        tokenizer, table = self._load()
        out = np.zeros((len(texts), table.shape[1]), dtype=np.float32)
        begin = 0
        for chunk in chunks(texts, _CHUNK):
            valid = [text.encode("utf-8", "replace").decode() for text in chunk]
            tokens = tokenizer.encode_batch_fast(valid, add_special_tokens=False)
            codes = [row.ids for row in tokens]
            ends = np.cumsum([0, *map(len, codes)])
            columns = np.fromiter(chain.from_iterable(codes), np.int32, ends[-1])
            counts = csr_matrix(
                (np.ones(ends[-1], dtype=np.float32), columns, ends),
                shape=(len(codes), len(table)),
            )
            counts.sum_duplicates()
            # As in hashing: a token that occurs ten times says less than ten tokens.
            counts.data = np.log1p(counts.data)
            out[begin : begin + len(chunk)] = unit_rows(counts @ table)
            begin += len(chunk)
            told(len(chunk))
        return out

    def _files(self) -> tuple[Path, Path]:
        folder = package_folder(self._package, "wordllama", self.kind)
        return (
            folder / "weights" / "l2_supercat_256.safetensors",
            folder / "tokenizers" / "l2_supercat_tokenizer_config.json",
        )

    def _checksum(self) -> str:
        digest = hashlib.sha256()
        for path in self._files():
            if not path.is_file():
                raise DataError(
                    f"The package '{self._package}' must hold {path}. The file is missing. "
                    "Install the package again."
                )
            digest.update(checksum_of(path))
        return digest.hexdigest()

    def _width(self) -> int:
        return int(self._load()[1].shape[1])

    def _load(self) -> tuple[Any, npt.NDArray[np.float32]]:
        if self._loaded is None:
            from tokenizers import Tokenizer

            vectors, words = self._files()
            try:
                tokenizer: Any = Tokenizer.from_file(str(words))
            except Exception as error:  # tokenizers raises nothing narrower
                raise DataError(
                    f"The file {words} must hold a tokenizer. It cannot be read ({error})."
                ) from error
            table = read_weights(vectors, "numpy").get("embedding.weight")
            if (
                table is None
                or table.ndim != 2
                or table.dtype.kind != "f"
                or len(table) < tokenizer.get_vocab_size()
                or not np.isfinite(table).all()
            ):
                raise DataError(
                    f"The file {vectors} must hold one finite vector for each of the "
                    f"{tokenizer.get_vocab_size()} tokens. It does not. Install the package "
                    f"'{self._package}' again."
                )
            self._loaded = tokenizer, table.astype(np.float32)
        return self._loaded
