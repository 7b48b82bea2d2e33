"""Documents, what is known about them, and the edges between them.

Examples:
    >>> corpus = Corpus.from_texts(["an invoice", "a parcel"], ["a", "b"], edges=[(0, 1)])
    >>> corpus
    <Corpus 'texts': 2 documents, 1 edges, 2 classes>
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privgcn.data.problems import Problems
from privgcn.errors import DataError, one_line, shown
from privgcn.storage import Grown, edge_blocks, edges_among, unmap

if TYPE_CHECKING:
    import polars as pl

SplitOrigin = Literal["given", "random", "benchmark", "stratified"]

TRAIN, VALIDATION, TEST, OUTSIDE = 0, 1, 2, 3
"""Codes of ``Corpus.split``; ``OUTSIDE`` marks documents that no step uses."""

SPLIT_NAMES = ("train", "validation", "test", "outside")

NO_LABEL = -1
"""The label of a document that has none."""

_HELD_OUT = 0.1
_SMALLEST_SPLIT = 3
_AT_ONCE = 1 << 12


def random_split(
    count: int, seed: int, owners: NDArray[np.int64] | None = None
) -> NDArray[np.int8]:
    """80/10/10 into train, validation and test; all documents of an owner on one side.

    Guarantees:
        Seed and index decide. Neither text, labels and edges nor an owner's number of
        documents move the split, so it adds nothing to what the index set reveals.
    """
    units = count if owners is None else int(owners.max(initial=-1)) + 1
    of_unit = np.full(units, TRAIN, dtype=np.int8)
    if units >= _SMALLEST_SPLIT:
        order = np.random.default_rng([seed, 80_10_10]).permutation(units)
        held_out = max(1, round(units * _HELD_OUT))
        of_unit[order[:held_out]] = VALIDATION
        of_unit[order[held_out : 2 * held_out]] = TEST
    return of_unit if owners is None else of_unit[owners]


def owners_on_several_sides(
    owners: NDArray[np.int64], split: NDArray[np.int8]
) -> NDArray[np.int64]:
    """The owners with documents on more than one side of the split."""
    used = split != OUTSIDE
    sides = np.unique(owners[used] * len(SPLIT_NAMES) + split[used]) // len(SPLIT_NAMES)
    return np.flatnonzero(np.bincount(sides) > 1)


class Strings(Sequence[str]):
    """Strings as one run of UTF-8 bytes; one becomes a Python object when somebody asks for it.

    A selection shares the bytes of all, and has the numbers of its own ``rows``.
    """

    def __init__(
        self,
        data: NDArray[np.uint8],
        bounds: NDArray[np.int64],
        rows: NDArray[np.int64] | None = None,
    ) -> None:
        self.data, self.bounds, self.rows = data, bounds, rows

    @classmethod
    def of(cls, columns: Iterable[pl.Series]) -> Strings:
        """The strings of polars columns, one after the other; an empty one for null."""
        data, bounds, end = Grown(np.uint8), Grown(np.int64), 0
        bounds.append([0])
        for column in columns:
            for begin in range(0, len(column), _AT_ONCE):
                part = column[begin : begin + _AT_ONCE].fill_null("")
                ends = end + np.cumsum(part.str.len_bytes().to_numpy(), dtype=np.int64)
                end = int(ends[-1])
                bounds.append(ends)
                data.append(np.frombuffer(part.str.join("").item().encode(), np.uint8))
        return cls(np.asarray(data.array()), np.asarray(bounds.array()))

    def __len__(self) -> int:
        return len(self.bounds) - 1 if self.rows is None else len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            index = np.arange(*index.indices(len(self)))
        rows = index if self.rows is None else self.rows[index]
        if np.ndim(rows):
            return Strings(self.data, self.bounds, rows)
        rows = range(len(self.bounds) - 1)[rows]
        return self.data[self.bounds[rows] : self.bounds[rows + 1]].tobytes().decode()

    def __iter__(self) -> Iterator[str]:
        for begin in range(0, len(self), _AT_ONCE):
            rows = self[begin : begin + _AT_ONCE].rows
            ends = zip(self.bounds[rows].tolist(), self.bounds[rows + 1].tolist(), strict=True)
            for first, last in ends:
                yield self.data[first:last].tobytes().decode()
            unmap(self.data)
            unmap(self.bounds)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(map(str.__eq__, self, other))


class MappedRows:
    """Rows of a mapped file, which are read when somebody asks for some of them."""

    def __init__(self, array: NDArray[Any], rows: NDArray[np.int64]) -> None:
        self.array, self.rows = array, rows
        self.shape, self.dtype = (len(rows), *array.shape[1:]), array.dtype

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.array[self.rows[index]]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)


@dataclass(frozen=True)
class CorpusFacts:
    """Where a corpus comes from, as far as a privacy statement has to repeat it.

    Attributes:
        source: The name or folder, as the user gave it.
        classes_declared: The class set was not read off the labels.
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


@dataclass(frozen=True, eq=False, kw_only=True)
class Corpus:
    """Documents with their edges, labels, owners and split.

    A corpus never changes. ``train``, ``validation``, ``test`` and ``select`` give views: a
    view holds the chosen documents and only the edges among them, and remembers in
    ``parent`` and ``rows`` where it was taken from.

    Attributes:
        texts: One for each document, or None where ``vectors`` stand in.
        vectors: Float32 vectors in document order (dense, CSR or a ``numpy.memmap``), or
            None. Those of a view of a memmap are ``MappedRows``: it stores none.
        labels: Index into ``classes``; -1 where a document has no label.
        edges: ``[2, m]``, each undirected edge once with the smaller row first; many lie in a
            mapped file.
        split: 0 train, 1 validation, 2 test, 3 outside.
        owners: Index into ``owner_names``, or None where owners are unknown.
        columns: Further columns, as strings.
        remarks: What the owner of the documents should know about how they were read; None for
            datasets that are known by name, and for views.
        parent: The corpus this view was taken from; None for a corpus that is no view.
        rows: The rows of ``parent`` that this view holds.
    """

    name: str
    ids: Sequence[str] | NDArray[Any]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    split: NDArray[np.int8]
    edges: NDArray[np.int64] = field(default_factory=lambda: np.zeros((2, 0), np.int64))
    texts: Sequence[str] | None = None
    vectors: Any = None
    owners: NDArray[np.int64] | None = None
    owner_names: Sequence[str] | None = None
    columns: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    facts: CorpusFacts = field(default_factory=CorpusFacts)
    remarks: tuple[str, ...] | None = None
    parent: Corpus | None = field(default=None, repr=False)
    rows: NDArray[np.int64] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        count, edges, labels = len(self.ids), self.edges, self.labels
        if self.texts is None and self.vectors is None:
            raise DataError("A Corpus must have 'texts' or 'vectors'. Got neither.")
        named = ("labels", "split", "texts", "vectors", "owners")
        for name, values in {**{n: getattr(self, n) for n in named}, **self.columns}.items():
            length = values.shape[0] if hasattr(values, "shape") else len(values or ())
            if values is not None and length != count:
                raise DataError(
                    f"The '{name}' of Corpus must have one entry for each of the {count} ids. "
                    f"Got {length}."
                )
        inside = edges.ndim == 2 and len(edges) == 2
        for source, target in edge_blocks(edges) if inside else ():
            inside &= (source.min() >= 0) & (source < target).all() & (target.max() < count)
        if not inside:
            raise DataError(
                f"The 'edges' of Corpus must be rows of its {count} documents in the shape "
                "[2, edges], the smaller first. Use canonical_edges to make them so."
            )
        if count and not -1 <= labels.min() <= labels.max() < len(self.classes):
            raise DataError(
                f"The 'labels' of Corpus must be -1 or an index into its {len(self.classes)} "
                f"classes. Got values from {labels.min()} to {labels.max()}."
            )

    @classmethod
    def from_texts(
        cls, texts: Any, labels: Any = None, *, ids: Any = None, **more: Any
    ) -> Corpus:
        """Texts with their labels and edges, split at random.

        Args:
            texts: One for each document.
            labels: Likewise, None or NaN where there is none.
            ids: Likewise; by default rows.
            more: ``edges``, ``owners``, ``classes`` and ``seed``, as in ``from_frame``.
        """
        frame = {"text": texts} if ids is None else {"text": texts, "id": ids}
        return replace(cls.from_frame(frame, labels=labels, **more), name="texts")

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        labels: Any = None,
        edges: Any = None,
        owners: Any = None,
        classes: Sequence[Any] | None = None,
        seed: int = 0,
    ) -> Corpus:
        """The documents of a frame of pandas, polars, pyarrow or ``datasets``, or a mapping.

        Column ``text`` is needed; ``id``, ``label``, ``owner`` and ``split`` (train,
        validation or test; else random, by the ``seed``) have a meaning, and others are stored.

        Args:
            frame: The documents.
            labels: Instead of a column ``label``.
            edges: Pairs of ids (of rows where there are no ids), a frame with the columns
                ``source`` and ``target``, a square sparse matrix, or an ``edge_index``.
            owners: The person that each document belongs to, instead of a column ``owner``.
            classes: The class set, where it is public knowledge.
            seed: Of a random split.
        """
        from privgcn.data.frames import columns_of, table_of_columns
        from privgcn.data.ingest import corpus_fields

        given = {"label": labels, "owner": owners}
        columns = columns_of(frame) | {n: v for n, v in given.items() if v is not None}
        with Problems() as problems:
            table = table_of_columns(columns, "The frame of documents")
            fields = corpus_fields(
                iter([table]), edges, problems, name="frame", classes=classes, seed=seed
            )
        return cls(**fields)

    @classmethod
    def from_pyg(cls, data: Any) -> Corpus:
        """The documents of a PyTorch Geometric ``Data``.

        ``x`` are the vectors, ``text`` or ``raw_texts`` the texts, and the masks the split;
        without a ``train_mask`` every document trains. Edges have no direction; repeated ones
        and self-loops are dropped. ``owners`` is one number or name for each document.
        """
        from privgcn.data.pyg import corpus_of_data

        return corpus_of_data(data)

    def to_pyg(self) -> Any:
        """The same documents as a ``Data``: edges in both directions, masks for the split."""
        from privgcn.data.pyg import data_of

        return data_of(self)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        kind = "synthetic " if self.facts.synthetic else ""
        return (
            f"<Corpus {self.name!r}: {len(self)} {kind}documents, {self.edges.shape[1]} edges, "
            f"{self.num_classes} classes>"
        )

    @property
    def sizes(self) -> dict[str, int | None]:
        """Numbers of documents, owners (None where they are unknown), classes and edges."""
        return {
            "documents": len(self),
            "owners": None if self.owner_names is None else len(self.owner_names),
            "classes": self.num_classes,
            "edges": self.edges.shape[1],
        }

    @property
    def summary(self) -> str:
        """What was read, in a line for the owner of the documents; as private as they are."""
        documents, owners, classes, edges = self.sizes.values()
        whose = "" if owners is None else f" of {owners:,} owners"
        what = f"{documents:,} documents{whose} in {classes:,} classes and {edges:,} edges"
        return one_line(" ".join([f"Read {what}.", *(self.remarks or ())]))

    @property
    def vector_length(self) -> int | None:
        """How many numbers a vector has; None without vectors."""
        return None if self.vectors is None else int(self.vectors.shape[1])

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return len(self.classes)

    @cached_property
    def train(self) -> Corpus:
        """The training documents and the edges among them."""
        return self.select(self.split == TRAIN)

    @cached_property
    def validation(self) -> Corpus:
        """The validation documents and the edges among them."""
        return self.select(self.split == VALIDATION)

    @cached_property
    def test(self) -> Corpus:
        """The test documents and the edges among them."""
        return self.select(self.split == TEST)

    @cached_property
    def owners_cross_splits(self) -> bool:
        """Whether an owner of these documents is on two sides of the split.

        The other documents of the owner are looked for in the parent corpus too: training on
        ``corpus.train`` does not hide that its owners wrote test documents.
        """
        if self.owners is None:
            return False
        owners, split = self.owners, self.split
        if self.parent is not None and self.parent.owners is not None:
            owners, split = self.parent.owners, self.parent.split.copy()
            split[self.rows] = self.split
        return bool(np.isin(owners_on_several_sides(owners, split), self.owners).any())

    def select(self, rows: ArrayLike) -> Corpus:
        """A view of some documents with the edges among them, in the order of ``rows``.

        These are row numbers, each at most once, or one boolean for each document.
        """
        everything = np.arange(len(self))
        chosen = everything[np.asarray(rows, dtype=None if np.size(rows) else np.int64)]
        position = np.full(len(self), -1)
        position[chosen] = everything[: len(chosen)]
        if (position[chosen] != everything[: len(chosen)]).any():
            raise ValueError("The 'rows' of Corpus.select must be different ones.")
        vectors = self.vectors
        if isinstance(vectors, MappedRows):
            vectors = MappedRows(vectors.array, vectors.rows[chosen])
        elif isinstance(vectors, np.memmap):
            vectors = MappedRows(vectors, chosen)
        elif vectors is not None:
            vectors = vectors[chosen]
        return replace(
            self,
            ids=_taken(self.ids, chosen),
            texts=None if self.texts is None else _taken(self.texts, chosen),
            vectors=vectors,
            labels=self.labels[chosen],
            edges=edges_among(self.edges, position),
            split=self.split[chosen],
            owners=None if self.owners is None else self.owners[chosen],
            columns={name: _taken(values, chosen) for name, values in self.columns.items()},
            remarks=None,
            parent=self if self.parent is None else self.parent,
            rows=chosen if self.rows is None else self.rows[chosen],
        )

    def with_split(self, codes: ArrayLike) -> Corpus:
        """The same documents with another split: a code for each of them, or one for all."""
        split = np.broadcast_to(np.asarray(codes, dtype=np.int8), len(self)).copy()
        return replace(self, split=split)

    def check_trainable(self) -> None:
        """Refuses a corpus without labelled training documents or a second class."""
        where = f"The corpus {shown(self.facts.source or self.name)}"
        with Problems() as problems:
            training_rules(where, self.labels, self.split, self.classes, problems)


def training_rules(
    name: str,
    labels: NDArray[np.int64],
    split: NDArray[np.int8],
    classes: Sequence[str],
    problems: Problems,
) -> None:
    """The first rule that nobody can train without."""
    training = split == TRAIN
    rules = (
        (training.any(), "training documents", "Set the 'split' of some to 'train'"),
        (
            (training & (labels != NO_LABEL)).any(),
            "a 'label' for training documents",
            "Fill in the labels, or name their column with --label",
        ),
        (
            len(classes) > 1,
            f"at least two classes. Got {list(classes)}",
            "Add documents of another class, or declare the classes",
        ),
    )
    for holds, rule, remedy in rules:
        if not holds:
            problems.add(f"{name} must have {rule}", remedy=remedy)
            return


def _taken(values: Any, rows: NDArray[np.int64]) -> Any:
    if isinstance(values, Strings | np.ndarray):
        return values[rows]
    return tuple(values[row] for row in rows)
