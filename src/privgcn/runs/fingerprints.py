"""Which documents a run was trained on, as keyed fingerprints for its owner alone.

A run folder holds the fingerprints together with their key: whoever has it can ask whether a
document trained the model. So they are never part of a release or of a saved model.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from scipy.sparse import csr_matrix

from privgcn.data import Corpus
from privgcn.data.corpus import TEST, TRAIN, VALIDATION
from privgcn.data.scratch import ChosenRows
from privgcn.errors import DataError
from privgcn.runs.folder import TRAINED, Stored

_BYTES = 16
Fingerprints = frozenset[Annotated[str, Field(pattern=f"^[0-9a-f]{{{2 * _BYTES}}}$")]]


class Trained(BaseModel):
    """Fingerprints of the documents that a run has seen.

    Attributes:
        key: Of all fingerprints; drawn anew for each run.
        ids: Of training documents.
        contents: Texts and vectors of training documents.
        owners: Of training documents, where the unit is a person.
        validation: Documents held out for validation, id and content together.
        test: Documents held out for the test, id and content together.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: Literal[1] = 1
    key: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    ids: Fingerprints
    contents: Fingerprints
    owners: Fingerprints
    validation: Fingerprints
    test: Fingerprints

    @classmethod
    def of(cls, corpus: Corpus, unit: str | None) -> Trained:
        """What a run on the training documents of a corpus has seen."""
        key = secrets.token_hex(32)
        whole = _Marks(corpus, key)
        train = np.flatnonzero(corpus.split == TRAIN)
        return cls(
            key=key,
            ids=whole.ids(train),
            contents=frozenset(mark for row in train.tolist() for mark in whole.contents(row)),
            owners=whole.owners(train) if unit == "person" else frozenset(),
            validation=whole.held_out(np.flatnonzero(corpus.split == VALIDATION)),
            test=whole.held_out(np.flatnonzero(corpus.split == TEST)),
        )

    @classmethod
    def read(cls, stored: Stored) -> Trained | None:
        """The fingerprints of a run; ``None`` for a release or a saved model.

        Raises:
            DataError: They cannot be read.
        """
        if TRAINED not in stored.files:
            return None
        try:
            # The JSON mode of pydantic reads lists as sets, and is as strict otherwise.
            return cls.model_validate_json(stored.content(TRAINED))
        except ValidationError as error:
            rule = error.errors()[0]["msg"]
            raise DataError(
                f"The file {stored.folder / TRAINED} cannot be read: {rule}. Train again."
            ) from None

    def to_json(self) -> str:
        """One JSON object; the order of the fingerprints says nothing."""
        record = self.model_dump()
        sets = {name: sorted(v) for name, v in record.items() if isinstance(v, frozenset)}
        return json.dumps({**record, **sets}) + "\n"

    def seen(self, corpus: Corpus, *, own: bool) -> npt.NDArray[np.bool_]:
        """Which documents trained the model.

        Args:
            corpus: Any documents.
            own: Whether they come from the place that the run was trained on. There an id
                or a protected owner tells too, and a document that was held out is known as
                such even where it repeats a training document. Elsewhere ids may be the same
                by chance, and the content decides.
        """
        marks = _Marks(corpus, self.key)
        held_out = self.validation | self.test
        found = np.zeros(len(corpus), dtype=bool)
        for row in range(len(corpus)):
            same = any(mark in self.contents for mark in marks.contents(row))
            if own:
                known = marks.held_out([row]) <= held_out
                named = marks.ids([row]) <= self.ids or (
                    bool(self.owners) and marks.owners([row]) <= self.owners
                )
                same = named or (same and not known)
            found[row] = same
        return found

    def validated(self, corpus: Corpus) -> npt.NDArray[np.bool_]:
        """Which documents of the run's own corpus were held out for validation."""
        marks = _Marks(corpus, self.key)
        rows = range(len(corpus))
        return np.array([marks.held_out([row]) <= self.validation for row in rows], dtype=bool)


class _Marks:
    """Keyed fingerprints of the documents of a corpus."""

    def __init__(self, corpus: Corpus, key: str) -> None:
        self.corpus, self.key = corpus, bytes.fromhex(key)
        vectors = corpus.vectors
        self._on_disk = vectors if isinstance(vectors, ChosenRows) else None
        in_memory = vectors is not None and self._on_disk is None
        self._vectors = csr_matrix(vectors) if in_memory else None
        if self._vectors is not None:
            # The same bytes however a matrix came to hold its numbers.
            self._vectors.sum_duplicates()
            self._vectors.eliminate_zeros()
            self._vectors.sort_indices()

    def ids(self, rows: Iterable[int]) -> frozenset[str]:
        return frozenset(self._mark("id", str(self.corpus.ids[row]).encode()) for row in rows)

    def owners(self, rows: Iterable[int]) -> frozenset[str]:
        owners, names = self.corpus.owners, self.corpus.owner_names
        if owners is None or names is None:
            return frozenset({"no owner"})
        return frozenset(self._mark("owner", names[owners[row]].encode()) for row in rows)

    def contents(self, row: int) -> list[str]:
        """Of the text, whatever its spaces, and of the vector; nothing where both are empty."""
        found = []
        text = "" if self.corpus.texts is None else " ".join(self.corpus.texts[row].split())
        if text:
            found.append(self._mark("text", text.encode("utf-8", "surrogatepass")))
        columns: npt.NDArray[Any] = np.empty(0)
        values: npt.NDArray[Any] = columns
        if self._on_disk is not None:
            values = self._on_disk.row(row)
            columns = np.flatnonzero(values)
            values = values[columns]
        elif self._vectors is not None:
            begin, end = self._vectors.indptr[row : row + 2]
            columns, values = self._vectors.indices[begin:end], self._vectors.data[begin:end]
        if len(columns):
            vector = columns.astype(np.int64).tobytes() + values.astype(np.float32).tobytes()
            found.append(self._mark("vector", vector))
        return found

    def held_out(self, rows: Iterable[int]) -> frozenset[str]:
        return frozenset(
            self._mark("held", "\0".join([str(self.corpus.ids[r]), *self.contents(r)]).encode())
            for r in rows
        )

    def _mark(self, kind: str, content: bytes) -> str:
        message = kind.encode() + b"\0" + content
        return hmac.digest(self.key, message, "sha256")[:_BYTES].hex()
