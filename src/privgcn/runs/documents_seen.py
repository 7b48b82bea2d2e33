"""Which documents a run was trained on, as keyed hashes for its owner alone.

A run folder holds the hashes together with their key: whoever can read both can ask whether a
document trained the model. So nobody but its owner can read a run folder, and neither a release
nor a saved model has them. Copies are found if they are exact, but for spaces, case and Unicode
form: a text with another word is another document.
"""

from __future__ import annotations

import hashlib
import secrets
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from privgcn.data import TEST, TRAIN, VALIDATION
from privgcn.errors import DataError
from privgcn.runs.folder import SEEN, Stored

if TYPE_CHECKING:
    from privgcn.data import Corpus

Hashes = NDArray[np.uint64]
"""Keyed hashes; 0 stands for nothing to hash."""

_ROWS = 4096


@dataclass(frozen=True, eq=False)
class DocumentsSeen:
    """Keyed hashes of the documents that a run has seen, sorted: their order says nothing.

    Attributes:
        key: Of all hashes; a new one for each run.
        ids: Of training documents.
        contents: Texts and vectors of training documents.
        owners: Of training documents, where the unit is a person.
        validation: Documents held out for validation, id and content together.
        test: Documents held out for the test, id and content together.
    """

    key: NDArray[np.uint8]
    ids: Hashes
    contents: Hashes
    owners: Hashes
    validation: Hashes
    test: Hashes

    @classmethod
    def of(cls, corpus: Corpus, unit: str | None) -> DocumentsSeen:
        """What a run on the training documents of a corpus has seen."""
        key = secrets.token_bytes(32)
        hashes = _hashes(corpus, key)
        train, held_out = corpus.split == TRAIN, hashes["held out"]
        contents = np.concatenate([hashes["text"][train], hashes["vector"][train]])
        return cls(
            key=np.frombuffer(key, np.uint8),
            ids=np.unique(hashes["id"][train]),
            contents=np.unique(contents[contents > 0]),
            owners=np.unique(hashes["owner"][train] if unit == "person" else contents[:0]),
            validation=np.unique(held_out[corpus.split == VALIDATION]),
            test=np.unique(held_out[corpus.split == TEST]),
        )

    @classmethod
    def read(cls, stored: Stored) -> DocumentsSeen | None:
        """Those of a run; ``None`` for a release or a saved model."""
        if SEEN not in stored.files:
            return None
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            seen = cls(**load(stored.content(SEEN)))
            key, *hashes = (getattr(seen, field.name) for field in fields(cls))
            if key.dtype != np.uint8 or key.shape != (32,):
                raise ValueError("the key must have 32 bytes")
            if any(array.dtype != np.uint64 or array.ndim != 1 for array in hashes):
                raise ValueError("there is more in it than hashes")
        except (SafetensorError, ValueError, TypeError, KeyError) as error:
            raise DataError(
                f"The file {stored.folder / SEEN} cannot be read: {error}. Train again."
            ) from None
        return seen

    def content(self) -> bytes:
        """The file."""
        from safetensors.numpy import save

        return bytes(save({field.name: getattr(self, field.name) for field in fields(self)}))

    def among(self, corpus: Corpus, *, own: bool) -> NDArray[np.bool_]:
        """Which documents trained the model, or are exact copies of one that did.

        Args:
            corpus: Any documents.
            own: Whether they come from the source that the run was trained on. There an id
                or a protected owner tells too, and a document that was held out is known as
                such even where it repeats a training document. Elsewhere ids may be the same
                by chance, and the content decides.
        """
        hashes = _hashes(corpus, self.key.tobytes())
        contents = np.stack([hashes["text"], hashes["vector"]])
        copies = np.asarray(np.isin(contents, self.contents).any(axis=0))
        if not own:
            return copies
        named = np.isin(hashes["id"], self.ids) | np.isin(hashes["owner"], self.owners)
        held_out = np.isin(hashes["held out"], np.concatenate([self.validation, self.test]))
        return np.asarray(named | (copies & ~held_out))

    def validated(self, corpus: Corpus) -> NDArray[np.bool_]:
        """Which documents of the run's own corpus were held out for validation."""
        return np.isin(_hashes(corpus, self.key.tobytes())["held out"], self.validation)


def _hashes(corpus: Corpus, key: bytes) -> dict[str, Hashes]:
    """Keyed hashes of the documents of a corpus: one of each kind for each document."""

    def hashed(kind: str, contents: Iterable[bytes], count: int = len(corpus)) -> Hashes:
        blake = partial(hashlib.blake2b, digest_size=8, key=key, person=kind.encode())
        digests = (int.from_bytes(blake(each).digest()) if each else 0 for each in contents)
        return np.fromiter(digests, np.uint64, count)

    nothing = np.zeros(len(corpus), np.uint64)
    # Whatever the spaces, case and Unicode form of a text.
    texts = (
        " ".join(unicodedata.normalize("NFKC", text).casefold().split())
        for text in corpus.texts or ()
    )
    hashes = {
        "id": hashed("id", (str(name).encode() for name in corpus.ids)),
        "text": nothing
        if corpus.texts is None
        else hashed("text", (text.encode("utf-8", "surrogatepass") for text in texts)),
        "vector": nothing
        if corpus.vector_length is None
        else hashed("vector", vector_bytes(corpus.vectors)),
    }
    contents = np.stack(list(hashes.values()), axis=1)
    hashes["held out"] = hashed("held out", (row.tobytes() for row in contents))
    hashes["owner"] = nothing
    if corpus.owners is not None and corpus.owner_names is not None:
        names = (str(name).encode() for name in corpus.owner_names)
        hashes["owner"] = hashed("owner", names, len(corpus.owner_names))[corpus.owners]
    return hashes


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
