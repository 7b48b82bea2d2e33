"""Which documents a run was trained on, as keyed hashes for its owner alone.

A run folder holds the hashes together with their key: whoever can read both can ask whether a
document trained the model. So nobody but its owner can read a run folder, and neither a release
nor a saved model has them. Copies are found if they are exact, but for spaces: a text with
another word is another document.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
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
        hashes = _DocumentHashes(corpus, key)
        train, held_out = corpus.split == TRAIN, hashes.held_out
        contents = np.concatenate([hashes.texts[train], hashes.vectors[train]])
        return cls(
            key=np.frombuffer(key, np.uint8),
            ids=np.unique(hashes.ids[train]),
            contents=np.unique(contents[contents > 0]),
            owners=np.unique(hashes.owners[train] if unit == "person" else contents[:0]),
            validation=np.unique(held_out[corpus.split == VALIDATION]),
            test=np.unique(held_out[corpus.split == TEST]),
        )

    @classmethod
    def read(cls, stored: Stored) -> DocumentsSeen | None:
        """Those of a run; ``None`` for a release or a saved model.

        Raises:
            DataError: They cannot be read.
        """
        if SEEN not in stored.files:
            return None
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            arrays = load(stored.content(SEEN))
        except (SafetensorError, ValueError, KeyError) as error:
            raise _unreadable(stored, str(error)) from None
        for field in fields(cls):
            array = arrays.pop(field.name, None)
            kind = (np.uint8, 32) if field.name == "key" else (np.uint64, None)
            if array is None or array.ndim != 1 or array.dtype != kind[0]:
                raise _unreadable(stored, f"'{field.name}' is missing or of another type")
            if kind[1] not in (None, len(array)):
                raise _unreadable(stored, "the key must have 32 bytes")
        if arrays:
            raise _unreadable(stored, "there is more in it than hashes")
        return cls(**load(stored.content(SEEN)))

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
        hashes = _DocumentHashes(corpus, self.key.tobytes())
        copies = np.isin(hashes.texts, self.contents) | np.isin(hashes.vectors, self.contents)
        if not own:
            return copies
        named = np.isin(hashes.ids, self.ids) | np.isin(hashes.owners, self.owners)
        held_out = np.isin(hashes.held_out, np.concatenate([self.validation, self.test]))
        return np.asarray(named | (copies & ~held_out))

    def validated(self, corpus: Corpus) -> NDArray[np.bool_]:
        """Which documents of the run's own corpus were held out for validation."""
        hashes = _DocumentHashes(corpus, self.key.tobytes())
        return np.isin(hashes.held_out, self.validation)


class _DocumentHashes:
    """Keyed hashes of the documents of a corpus, one of each kind for each document."""

    def __init__(self, corpus: Corpus, key: bytes) -> None:
        self.key, rows = key, len(corpus)
        nothing: Iterable[bytes] = (b"" for _ in range(rows))
        texts = nothing if corpus.texts is None else map(_text_bytes, corpus.texts)
        vectors = nothing if corpus.vectors is None else vector_bytes(corpus.vectors)
        self.ids = self._hash(b"id", (str(name).encode() for name in corpus.ids), rows)
        self.texts = self._hash(b"text", texts, rows)
        self.vectors = self._hash(b"vector", vectors, rows)
        contents = np.stack([self.ids, self.texts, self.vectors], axis=1)
        self.held_out = self._hash(b"held out", (row.tobytes() for row in contents), rows)
        self.owners = np.zeros(rows, np.uint64)
        if corpus.owners is not None and corpus.owner_names is not None:
            names = (str(name).encode() for name in corpus.owner_names)
            self.owners = self._hash(b"owner", names, len(corpus.owner_names))[corpus.owners]

    def _hash(self, kind: bytes, contents: Iterable[bytes], count: int) -> Hashes:
        digests = (
            int.from_bytes(
                hashlib.blake2b(each, digest_size=8, key=self.key, person=kind).digest()
            )
            if each
            else 0
            for each in contents
        )
        return np.fromiter(digests, np.uint64, count)


def _text_bytes(text: str) -> bytes:
    """The text, whatever its spaces."""
    return " ".join(text.split()).encode("utf-8", "surrogatepass")


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


def _unreadable(stored: Stored, why: str) -> DataError:
    return DataError(f"The file {stored.folder / SEEN} cannot be read: {why}. Train again.")
