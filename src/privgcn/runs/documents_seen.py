"""Which documents a run was trained on, as keyed hashes for its owner alone.

Whoever can read hashes and key can ask whether a document trained the model: neither a release
nor a saved model has them. Copies are found if exact, but for spaces, case and Unicode form.
"""

from __future__ import annotations

import hashlib
import secrets
import unicodedata
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save
from scipy.sparse import csr_array, issparse

from privgcn.data import OUTSIDE, TEST, TRAIN, VALIDATION
from privgcn.errors import DataError
from privgcn.runs.folder import SEEN

if TYPE_CHECKING:
    from privgcn.data import Corpus

# Keyed hashes; 0 stands for nothing to hash.
Hashes = NDArray[np.uint64]

_ROWS = 4096


class DocumentsSeen(NamedTuple):
    """Keyed hashes of the documents that a run has seen, sorted: their order says nothing.

    The key is new for each run. Of training documents there are ids, texts and vectors, each
    kind hashed in its own way; of the others id and content together.
    """

    key: NDArray[np.uint8]
    training: Hashes
    validation: Hashes
    test: Hashes

    @classmethod
    def of(cls, corpus: Corpus) -> DocumentsSeen:
        """What a run on the training documents of a corpus has seen."""
        key = secrets.token_bytes(32)
        hashes = _hashes(corpus, key)
        held_out = hashes.pop("held out")
        training = np.concatenate([each[corpus.split == TRAIN] for each in hashes.values()])
        return cls(
            key=np.frombuffer(key, np.uint8),
            training=np.unique(training[training > 0]),
            validation=np.unique(held_out[corpus.split == VALIDATION]),
            test=np.unique(held_out[corpus.split == TEST]),
        )

    @classmethod
    def read(cls, content: bytes, folder: Path) -> DocumentsSeen:
        """Those of a run folder."""
        try:
            seen = cls(**load(content))
            if seen.key.nbytes != 32:
                raise ValueError("the key must have 32 bytes")
        except (SafetensorError, ValueError, TypeError, KeyError) as error:
            raise DataError(
                f"The file {folder / SEEN} cannot be read: {error}. Train again."
            ) from None
        return seen

    def content(self) -> bytes:
        """The file."""
        return bytes(save(self._asdict()))

    def roles(self, corpus: Corpus, *, own: bool) -> NDArray[np.int8]:
        """What each document was to the run, as a split; ``OUTSIDE`` where it is new.

        Training documents are those that trained the model, and exact copies of one that did.
        Among the run's ``own`` documents an id tells too, and one that was held out is known as
        such even where it repeats a training document. Elsewhere ids may be the same by
        chance, and the content decides.
        """
        hashes = _hashes(corpus, self.key.tobytes())
        trained = {kind: np.isin(each, self.training) for kind, each in hashes.items()}
        roles = np.full(len(corpus), OUTSIDE, np.int8)
        if own:
            roles[np.isin(hashes["held out"], self.test)] = TEST
            roles[np.isin(hashes["held out"], self.validation)] = VALIDATION
        roles[(trained["text"] | trained["vector"]) & (roles == OUTSIDE)] = TRAIN
        if own:
            roles[trained["id"]] = TRAIN
        return roles


def _hashes(corpus: Corpus, key: bytes) -> dict[str, Hashes]:
    def hashed(kind: str, contents: Iterable[bytes]) -> Hashes:
        blake = partial(hashlib.blake2b, digest_size=8, key=key, person=kind.encode())
        digests = (int.from_bytes(blake(each).digest()) if each else 0 for each in contents)
        return np.fromiter(digests, np.uint64)

    def normalised(text: str) -> bytes:
        plain = unicodedata.normalize("NFKC", text).casefold()
        return " ".join(plain.split()).encode("utf-8", "surrogatepass")

    documents = len(corpus)
    texts = repeat("", documents) if corpus.texts is None else corpus.texts
    vectors = corpus.vectors
    hashes = {
        "id": hashed("id", (str(name).encode() for name in corpus.ids)),
        "text": hashed("text", map(normalised, texts)),
        "vector": hashed(
            "vector", repeat(b"", documents) if vectors is None else vector_bytes(vectors)
        ),
    }
    rows = np.stack(list(hashes.values()), axis=1)
    return {**hashes, "held out": hashed("held out", (row.tobytes() for row in rows))}


def vector_bytes(vectors: Any) -> Iterator[bytes]:
    """The numbers of each row that are not zero, however a matrix came to hold them."""
    for begin in range(0, vectors.shape[0], _ROWS):
        block = vectors[begin : begin + _ROWS]
        rows = csr_array(block if issparse(block) else np.asarray(block))
        rows.sum_duplicates()
        rows.eliminate_zeros()
        rows.sort_indices()
        columns, values = rows.indices.astype(np.int64), rows.data.astype(np.float32)
        for first, last in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
            yield columns[first:last].tobytes() + values[first:last].tobytes()
