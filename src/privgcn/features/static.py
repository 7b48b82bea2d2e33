"""The sum of public token vectors over a text: a thousand texts a second, offline.

The package ``wordllama`` carries a table of 32 000 token vectors, made to be added up, and
its tokenizer. Both files are read here; the package is not imported, because its own loader
asks the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from privgcn.features.base import Ready, unit_rows
from privgcn.features.packages import PackagedVectors, Weights

WORDLLAMA = Weights(
    "wordllama",
    "wordllama==0.4.0.post1",
    (
        (
            "weights/l2_supercat_256.safetensors",
            "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
        ),
        (
            "tokenizers/l2_supercat_tokenizer_config.json",
            "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
        ),
    ),
)


class StaticVectors(PackagedVectors):
    """Adds up public vectors over the tokens of a text; rows have length one.

    The row of an empty text is zero.
    """

    kind = "static"
    weights = WORDLLAMA
    width = 256

    @property
    def _what(self) -> str:
        return "token vectors 'wordllama l2_supercat_256'"

    def _encode(self, texts: Sequence[str], ready: Ready) -> npt.NDArray[np.float32]:
        from scipy.sparse import csr_matrix

        tokenizer, table = _loaded(*self.checked_files())
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


@cache
def _loaded(vectors: Path, words: Path) -> tuple[Any, npt.NDArray[np.float32]]:
    """The tokenizer and the table of its vectors."""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(words)), load_file(vectors)["embedding.weight"].astype("f4")
