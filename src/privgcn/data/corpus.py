"""Documents, what is known about them, and the links between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from privgcn.data.frames import NO_LABEL as NO_LABEL
from privgcn.data.frames import (
    RESERVED,
    check_names,
    checked_ids,
    checked_owners,
    checked_texts,
    column,
    column_names,
    is_missing,
    label_codes,
    label_set,
    plain_list,
)
from privgcn.data.frames import codes as codes
from privgcn.data.links import canonical_edges as canonical_edges
from privgcn.data.links import link_ends
from privgcn.data.links import no_edges as no_edges
from privgcn.data.pyg import data_of, fields_of_data
from privgcn.data.scratch import LINKS_AT_ONCE, ChosenRows, each_stretch, let_go
from privgcn.data.splits import OUTSIDE as OUTSIDE
from privgcn.data.splits import SPLIT_NAMES as SPLIT_NAMES
from privgcn.data.splits import TEST as TEST
from privgcn.data.splits import TRAIN as TRAIN
from privgcn.data.splits import VALIDATION as VALIDATION
from privgcn.data.splits import random_split
from privgcn.errors import DataError, shown

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

SplitOrigin = Literal["given", "random", "benchmark", "stratified"]


@dataclass(frozen=True)
class CorpusFacts:
    """Where a corpus comes from, as far as a privacy statement has to repeat it.

    Attributes:
        source: The catalogue name or folder, as the user gave it.
        classes_declared: The class set was declared and not read off the labels.
        split_origin: ``given`` by the user, ``random`` from the seed, the ``benchmark``'s
            own, or ``stratified`` by label (and then not covered by a guarantee).
        synthetic: Made by this package; no real person wrote or is described in it.
        public_vectors: What the vectors are when they were published with the dataset.
        not_covered: Choices in the preparation that depended on the documents, in words.
    """

    source: str = ""
    classes_declared: bool = False
    split_origin: SplitOrigin = "given"
    synthetic: bool = False
    public_vectors: str | None = None
    not_covered: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReadReport:
    """What was read from the files of a corpus, in numbers, for its owner to look at.

    The numbers are as private as the documents: a privacy statement repeats none of them.

    Attributes:
        owners: How many owners; None where owners are unknown.
        links_read: Links in the file.
        links_kept: Different links between two documents.
        links_repeated: Links that were left out because the same link came before, in either
            direction.
        links_to_self: Links that were left out because they lead from a document to itself.
        unused_columns: Columns of the links that nothing uses.
        semicolons: Names of the CSV files whose fields are separated by semicolons.
    """

    documents: int
    owners: int | None
    classes: int
    links_read: int
    links_kept: int
    links_repeated: int = 0
    links_to_self: int = 0
    unused_columns: tuple[str, ...] = ()
    semicolons: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, corpus: Corpus, ends: npt.NDArray[np.int64], unused: tuple[str, ...] = ()
    ) -> ReadReport:
        """What a corpus kept of the links between the given rows."""
        kept, to_self = corpus.edges.shape[1], int((ends[0] == ends[1]).sum())
        return cls(
            documents=len(corpus),
            owners=None if corpus.owner_names is None else len(corpus.owner_names),
            classes=corpus.num_classes,
            links_read=ends.shape[1],
            links_kept=kept,
            links_repeated=ends.shape[1] - kept - to_self,
            links_to_self=to_self,
            unused_columns=unused,
        )

    def __str__(self) -> str:
        owners = "" if self.owners is None else f" of {self.owners:,} owners"
        left_out = {"repeated": self.links_repeated, "to themselves": self.links_to_self}
        told = ", ".join(f"{count:,} {why}" for why, count in left_out.items() if count)
        columns = ", ".join(f"'{name}'" for name in self.unused_columns)
        files = " and ".join(self.semicolons)
        return (
            f"Read {self.documents:,} documents{owners} in {self.classes:,} classes and "
            f"{self.links_kept:,} links"
            + (f"; left out {told}" if told else "")
            + (f"; of the links, nothing uses {columns}" if columns else "")
            + "."
            + (f" Semicolons separate {files}." if files else "")
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Corpus:
    """Documents with their links, labels, owners and split.

    A corpus never changes. ``train``, ``validation``, ``test`` and ``select`` give views: a
    view holds the chosen documents and only the links among them, and remembers in
    ``whole`` and ``rows`` where it was taken from.

    Attributes:
        name: The catalogue name, or the folder's own name.
        ids: One string for each document.
        texts: One text for each document, or None where ``vectors`` stand in.
        vectors: Float32 vectors in document order (dense, CSR or on disk), or None.
        labels: Index into ``classes``; -1 where a document has no label.
        classes: The class names.
        edges: ``[2, links]``, each undirected link once with the smaller row first.
        split: 0 train, 1 validation, 2 test, 3 outside.
        owners: Index into ``owner_names``, or None where owners are unknown.
        owner_names: The owners.
        columns: Further columns, as strings.
        facts: Where the corpus comes from.
        read_report: What was read from a user's folder; None for other corpora and views.
        whole: The corpus this view was taken from; None for a corpus that is no view.
        rows: The rows of ``whole`` that this view holds.
    """

    name: str
    ids: npt.NDArray[Any]
    labels: npt.NDArray[np.int64]
    classes: tuple[str, ...]
    edges: npt.NDArray[np.int64]
    split: npt.NDArray[np.int8]
    texts: tuple[str, ...] | None = None
    vectors: csr_matrix | npt.NDArray[np.float32] | ChosenRows | None = None
    owners: npt.NDArray[np.int64] | None = None
    owner_names: tuple[str, ...] | None = None
    columns: Mapping[str, npt.NDArray[Any]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    facts: CorpusFacts = field(default_factory=CorpusFacts)
    read_report: ReadReport | None = None
    whole: Corpus | None = field(default=None, repr=False)
    rows: npt.NDArray[np.int64] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        count = len(self.ids)
        lengths = {
            "labels": len(self.labels),
            "split": len(self.split),
            **{f"column {name!r}": len(values) for name, values in self.columns.items()},
        }
        if self.texts is not None:
            lengths["texts"] = len(self.texts)
        if self.vectors is not None:
            lengths["vectors"] = self.vectors.shape[0]
        if self.owners is not None:
            lengths["owners"] = len(self.owners)
        for part, length in lengths.items():
            if length != count:
                raise DataError(
                    f"The '{part}' of Corpus must have one entry for each of the {count} ids. "
                    f"Got {length}."
                )
        if self.texts is None and self.vectors is None:
            raise DataError("A Corpus must have 'texts' or 'vectors'. Got neither.")
        _check_edges(self.edges, count)
        if count and not -1 <= int(self.labels.min()) <= int(self.labels.max()) < len(
            self.classes
        ):
            raise DataError(
                "The 'labels' of Corpus must be -1 or an index into its "
                f"{len(self.classes)} classes. Got values from {self.labels.min()} to "
                f"{self.labels.max()}."
            )

    @classmethod
    def from_texts(
        cls,
        texts: Any,
        labels: Any = None,
        *,
        links: Any = None,
        owners: Any = None,
        ids: Any = None,
        classes: Sequence[Any] | None = None,
        seed: int = 0,
    ) -> Corpus:
        """Texts with their labels and links, split at random.

        Args:
            texts: One for each document.
            labels: One for each document, None or NaN where it has none.
            links: Pairs of ids (of rows where there are no ids), a frame with the columns
                ``source`` and ``target``, a square sparse matrix, or an ``edge_index``.
            owners: The person that each document belongs to.
            ids: One for each document; by default its row.
            classes: The class set, where it is public knowledge.
            seed: Of the random split.

        Raises:
            DataError: Something is missing or breaks a rule.

        Examples:
            >>> Corpus.from_texts(["an invoice", "a parcel"], ["a", "b"], links=[(0, 1)])
            <Corpus 'texts': 2 documents, 1 links, 2 classes>
        """
        given = {"text": texts, "label": labels, "owner": owners, "id": ids}
        frame = {name: values for name, values in given.items() if values is not None}
        made = cls.from_frame(frame, links=links, classes=classes, seed=seed)
        return replace(made, name="texts")

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        labels: Any = None,
        links: Any = None,
        owners: Any = None,
        classes: Sequence[Any] | None = None,
        seed: int = 0,
    ) -> Corpus:
        """The documents of a frame of pandas, polars, pyarrow or ``datasets``, or a mapping.

        Column ``text`` is needed; ``id``, ``label``, ``owner`` and ``split`` (train,
        validation or test) have a meaning, and others are kept. Without a ``split`` column
        the documents are split at random.

        Args:
            frame: The documents.
            labels: Instead of a column ``label``.
            links: As in ``from_texts``; ids are those of the column ``id``.
            owners: Instead of a column ``owner``.
            classes: The class set, where it is public knowledge.
            seed: Of the random split.

        Raises:
            DataError: Something is missing or breaks a rule.
        """
        names = column_names(frame)
        check_names(names)
        given = {"label": labels, "owner": owners}
        for name, values in given.items():
            if values is not None and name in names:
                raise DataError(
                    f"The '{name}' must be given once. Got a column and an argument. Leave "
                    "one of them out."
                )
        values = {name: column(frame, name) for name in names}
        values |= {
            name: plain_list(value) for name, value in given.items() if value is not None
        }
        texts = checked_texts(values["text"])
        ids = checked_ids(values["id"]) if "id" in values else None
        owner_codes, owner_names = checked_owners(values.get("owner", ()))
        if owner_codes is not None and len(owner_codes) != len(texts):
            # Before the split, which is drawn by owner.
            raise DataError(
                f"The 'owner' must be given for each of the {len(texts)} documents. Got "
                f"{len(owner_codes)}."
            )
        typed = label_set(values.get("label", ()), classes)
        ends = link_ends(links, len(texts), ids)
        split = (
            _given_split(values["split"])
            if "split" in values
            else random_split(len(texts), seed, owner_codes)
        )
        corpus = cls(
            name="frame",
            ids=np.array(ids or [str(row) for row in range(len(texts))], dtype=object),
            texts=texts,
            labels=label_codes(values.get("label", [None] * len(texts)), typed),
            classes=tuple(str(name) for name in typed.tolist()),
            edges=canonical_edges(ends[0], ends[1], len(texts)),
            split=split,
            owners=owner_codes,
            owner_names=owner_names,
            columns={
                name: np.array(["" if is_missing(v) else str(v) for v in kept], dtype=object)
                for name, kept in values.items()
                if name not in RESERVED
            },
            facts=CorpusFacts(
                classes_declared=classes is not None,
                split_origin="given" if "split" in values else "random",
            ),
        )
        return replace(corpus, read_report=ReadReport.of(corpus, ends))

    @classmethod
    def from_pyg(cls, data: Any) -> Corpus:
        """The documents of a PyTorch Geometric ``Data``.

        ``x`` are the vectors, ``text`` or ``raw_texts`` the texts, and the masks the split;
        without a ``train_mask`` every document trains. Links have no direction; doubles and
        self-loops are dropped. ``owners`` is one number for each document.

        Raises:
            DataError: Something is missing or breaks a rule.
        """
        return cls(name="pyg", **fields_of_data(data))

    def to_pyg(self) -> Any:
        """The same documents as a ``Data``: links in both directions, masks for the split.

        Raises:
            MissingExtraError: ``torch-geometric`` is not installed.
        """
        return data_of(self)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        kind = "synthetic " if self.facts.synthetic else ""
        return (
            f"<Corpus {self.name!r}: {len(self)} {kind}documents, {self.edges.shape[1]} links, "
            f"{self.num_classes} classes>"
        )

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return len(self.classes)

    @cached_property
    def train(self) -> Corpus:
        """The training documents and the links among them."""
        return self.select(self.split == TRAIN)

    @cached_property
    def validation(self) -> Corpus:
        """The validation documents and the links among them."""
        return self.select(self.split == VALIDATION)

    @cached_property
    def test(self) -> Corpus:
        """The test documents and the links among them."""
        return self.select(self.split == TEST)

    @cached_property
    def owners_cross_splits(self) -> bool:
        """Whether some owner has documents in more than one of train, validation and test."""
        if self.owners is None:
            return False
        used = self.split != OUTSIDE
        pairs = np.unique(np.stack([self.owners[used], self.split[used]]), axis=1)
        return bool(len(np.unique(pairs[0])) < pairs.shape[1])

    def select(self, rows: npt.ArrayLike) -> Corpus:
        """A view of some documents with the links among them, in the order of ``rows``.

        Args:
            rows: Row numbers, each at most once, or one boolean for each document.

        Raises:
            DataError: A row is out of range or given twice.
        """
        chosen = np.asarray(rows)
        if chosen.dtype == np.bool_:
            if chosen.shape != (len(self),):
                raise DataError(
                    "The 'rows' of Corpus.select must be row numbers or one boolean for each "
                    f"of the {len(self)} documents. Got {chosen.shape} booleans."
                )
            chosen = np.flatnonzero(chosen)
        chosen = chosen.astype(np.int64).reshape(-1)
        if len(chosen) and not 0 <= int(chosen.min()) <= int(chosen.max()) < len(self):
            raise DataError(
                f"The 'rows' of Corpus.select must be in 0..{len(self) - 1}. "
                f"Got values from {chosen.min()} to {chosen.max()}."
            )
        place = np.full(len(self), -1, dtype=np.int64)
        place[chosen] = np.arange(len(chosen), dtype=np.int64)
        if int((place >= 0).sum()) != len(chosen):
            raise DataError("The 'rows' of Corpus.select must not repeat. Got a row twice.")
        return replace(
            self,
            ids=self.ids[chosen],
            texts=None if self.texts is None else tuple(self.texts[row] for row in chosen),
            vectors=None if self.vectors is None else self.vectors[chosen],
            labels=self.labels[chosen],
            edges=_induced(self.edges, place),
            split=self.split[chosen],
            owners=None if self.owners is None else self.owners[chosen],
            columns={name: values[chosen] for name, values in self.columns.items()},
            read_report=None,
            whole=self if self.whole is None else self.whole,
            rows=chosen if self.rows is None else self.rows[chosen],
        )

    def check_trainable(self) -> None:
        """Refuses a corpus that nobody could train on.

        A format check for the moment a training run is set up: every training document
        needs a label, and there must be two classes to tell apart.

        Raises:
            DataError: Documents without label, or fewer than two classes.
        """
        where = f"The corpus '{self.facts.source or self.name}'"
        training = self.split == TRAIN
        if not training.any():
            raise DataError(
                f"{where} must have training documents. Got none. "
                "Set the 'split' of some documents to 'train'."
            )
        missing = np.flatnonzero(training & (self.labels == NO_LABEL))
        if len(missing):
            raise DataError(
                f"{where} must have a label for every training document. Document "
                f"'{self.ids[missing[0]]}' has none ({len(missing)} in all). Fill in the "
                "'label' column, or give those documents the split 'test'."
            )
        if self.num_classes < 2:
            raise DataError(
                f"{where} must have at least two classes. Got {list(self.classes)}. Add "
                "documents of another class, or declare the classes."
            )


def check_classes(classes: Sequence[str]) -> tuple[str, ...]:
    """The declared class set, once it is known to be one.

    Raises:
        DataError: Fewer than two classes, or one of them twice.
    """
    declared = tuple(str(name) for name in classes)
    if isinstance(classes, str) or len(declared) < 2 or len(set(declared)) != len(declared):
        raise DataError(
            f"The 'classes' must be at least two different names. Got {list(declared)}."
        )
    return declared


def _given_split(values: Sequence[Any]) -> npt.NDArray[np.int8]:
    allowed = SPLIT_NAMES[:3]
    for row, value in enumerate(values):
        if value not in allowed:
            raise DataError(
                f"The 'split' of a document must be one of {', '.join(allowed)}. Got "
                f"{shown(value)} in row {row}. Correct it, or leave the whole column out."
            )
    return codes(values, allowed).astype(np.int8)


def _induced(
    edges: npt.NDArray[np.int64], place: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    def moved(links: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        own = place[links]
        own = own[:, (own >= 0).all(axis=0)]
        return np.stack([own.min(axis=0), own.max(axis=0)])

    return each_stretch(edges, moved)


def _check_edges(edges: npt.NDArray[np.int64], count: int) -> None:
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise DataError(
            f"The 'edges' of Corpus must have the shape [2, links]. Got {edges.shape}."
        )
    sound = all(
        int(own.min()) >= 0 and int(own.max()) < count and bool((own[0] < own[1]).all())
        for own in np.split(edges, range(LINKS_AT_ONCE, edges.shape[1], LINKS_AT_ONCE), axis=1)
        if own.size
    )
    let_go(edges.ctypes.data)
    if not sound:
        raise DataError(
            f"The 'edges' of Corpus must be rows of its {count} documents, the smaller first. "
            "Use canonical_edges to make them so."
        )
