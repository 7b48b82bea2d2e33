"""The sum of public token vectors over a text: a thousand texts a second, offline.

The package ``wordllama`` carries a table of 32 000 token vectors, made to be added up, and
its tokenizer. Both files are read here; the package is not imported, because its own loader
asks the network.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
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
    package_folder,
    read_weights,
    unit_rows,
)


class StaticVectors(PublicVectors):
    """Adds up public vectors over the tokens of a text; rows have length one.

    The row of an empty text is zero.
    """

    kind = "static"
    _package: ClassVar[str] = "wordllama"

    @property
    def _what(self) -> str:
        return "token vectors 'wordllama l2_supercat_256'"

    def _encode(self, texts: Sequence[str], told: Told) -> npt.NDArray[np.float32]:
        from scipy.sparse import csr_matrix

        tokenizer, table = _loaded(*self._files(), self._checksum())
        valid = [text.encode("utf-8", "replace").decode() for text in texts]
        tokens = tokenizer.encode_batch_fast(valid, add_special_tokens=False)
        codes = [row.ids for row in tokens]
        ends = np.cumsum([0, *map(len, codes)])
        columns = np.fromiter(chain.from_iterable(codes), np.int32, ends[-1])
        counts = csr_matrix(
            (np.ones(ends[-1], dtype=np.float32), columns, ends), shape=(len(codes), len(table))
        )
        counts.sum_duplicates()
        # As in hashing: a token that occurs ten times says less than ten tokens.
        counts.data = np.log1p(counts.data)
        return unit_rows(counts @ table)

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
        return int(_loaded(*self._files(), self._checksum())[1].shape[1])


@lru_cache(maxsize=1)
def _loaded(vectors: Path, words: Path, checksum: str) -> tuple[Any, npt.NDArray[np.float32]]:
    """The tokenizer and the table of its vectors, as long as the files do not change."""
    from tokenizers import Tokenizer

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
            f"{tokenizer.get_vocab_size()} tokens. It does not. Install its package again."
        )
    return tokenizer, table.astype(np.float32)
