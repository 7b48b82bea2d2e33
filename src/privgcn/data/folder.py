"""A user's own documents: one folder, two files, no programming.

The folder holds ``documents.jsonl``, ``.csv``, ``.tsv`` or ``.parquet`` (columns ``id`` and
``text``; optional ``label``, ``split``, ``owner`` and any others), optionally ``edges`` in one
of the same formats (``source``, ``target``), or ``edges.npy`` with two rows of document numbers
counted from 0, and optionally ``features.npy`` with one row for
each document, which may stand in for the texts.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from privgcn import progress
from privgcn.data.corpus import (
    NO_LABEL,
    SPLIT_NAMES,
    TRAIN,
    Corpus,
    CorpusFacts,
    ReadReport,
    canonical_edges,
    check_classes,
    codes,
)
from privgcn.data.scratch import (
    LINKS_AT_ONCE,
    ChosenRows,
    as_float32,
    canonical_on_disk,
    let_go,
    mapped_file,
)
from privgcn.data.splits import random_split
from privgcn.data.tables import (
    FORMATS,
    Column,
    Table,
    read_documents,
    read_links,
    separator_hint,
)
from privgcn.errors import DataError, reason, shown
from privgcn.files import check_regular

_RESERVED = ("id", "text", "label", "split", "owner")
_ENDS = ("source", "target")
_OTHER_NAMES = ("edge", "link", "links")
_WEIGHTS = ("weight", "weights")
_USER_SPLITS = SPLIT_NAMES[:3]
_NO_VALUE = ("nan", "null", "<na>", "n/a", "nat")
_MOST_VECTOR_BYTES = 64 << 30
# Numbers of a file that are taken into memory; those of larger files stay on disk.
_MOST_IN_MEMORY = 1 << 24


def load_folder(
    folder: Path,
    *,
    classes: Sequence[str] | None = None,
    seed: int = 0,
    require_labels: bool = True,
) -> Corpus:
    """Loads a folder of documents.

    Args:
        folder: Where the files are.
        classes: The class set, where it is public; read off the labels otherwise.
        seed: Of the random split, used when there is no ``split`` column.
        require_labels: Whether gaps in the ``label`` column and a single class are errors.

    Raises:
        DataError: A file breaks a rule.
    """
    path = _one_of(folder, "documents", FORMATS)
    if path is None:
        names = ", ".join("documents" + suffix for suffix in FORMATS)
        raise DataError(f"The folder {folder} must have one of {names}. Got none. Add one.")
    table = read_documents(path)
    _check_names(path, table.columns, _RESERVED)
    vectors = _vectors(_one_of(folder, "features", (".npy",)), len(table))
    ids = _ids(table)
    owners, owner_names = _owners(table, ids)
    if "split" in table.columns:
        split = _split(table, ids)
    else:
        split = random_split(len(table), seed, owners)
    names_of_classes, labels = _labels(table, ids, classes)
    if require_labels and "label" in table.columns:
        _check_labels(table, ids, names_of_classes, labels, split)
    links = _one_of(folder, "edges", (*FORMATS, ".npy"), _OTHER_NAMES)
    progress.begin("reading links")
    ends, unused, links_semicolons = _links(links, table, ids)
    if ends.size > _MOST_IN_MEMORY:
        edges = canonical_on_disk(ends, len(ids))
    else:
        edges = canonical_edges(ends[0], ends[1], len(ids))
    to_self = int((ends[0] == ends[1]).sum())
    let_go(ends.ctypes.data)
    return Corpus(
        name=folder.resolve().name,
        ids=np.array(ids, dtype=object),
        texts=_texts(table, ids, optional=vectors is not None),
        vectors=vectors,
        labels=labels,
        classes=names_of_classes,
        edges=edges,
        split=split,
        owners=owners,
        owner_names=owner_names,
        columns={
            name: np.array([value or "" for value in values], dtype=object)
            for name, values in table.columns.items()
            if name not in _RESERVED
        },
        facts=CorpusFacts(
            source=str(folder),
            classes_declared=classes is not None,
            split_origin="given" if "split" in table.columns else "random",
        ),
        read_report=ReadReport(
            documents=len(ids),
            owners=None if owner_names is None else len(owner_names),
            classes=len(names_of_classes),
            links_read=ends.shape[1],
            links_kept=edges.shape[1],
            links_repeated=ends.shape[1] - edges.shape[1] - to_self,
            links_to_self=to_self,
            unused_columns=unused,
            semicolons=tuple(
                file.name
                for file, found in ((path, table.semicolons), (links, links_semicolons))
                if file is not None and found
            ),
        ),
    )


def _one_of(
    folder: Path, stem: str, suffixes: tuple[str, ...], others: tuple[str, ...] = ()
) -> Path | None:
    """The file of that name; in no known format, or by another name, it is not ignored."""
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError as error:
        raise DataError(f"The folder {folder} cannot be read: {error.strerror}.") from error
    near = [name for name in names if name.partition(".")[0].casefold() == stem]
    allowed = [stem + suffix for suffix in suffixes]
    found = [name for name in near if name in allowed]
    if len(found) == 1:
        return folder / found[0]
    for name in names:
        bare, _, ending = name.partition(".")
        if not near and bare.casefold() in others and f".{ending.casefold()}" in suffixes:
            raise DataError(
                f"The folder {folder} must call this file {stem}.{ending}. Got {shown(name)}. "
                "Rename it, or move it away if it holds something else."
            )
    if near:
        raise DataError(
            f"The folder {folder} must have one of {', '.join(allowed)}. Got "
            f"{' and '.join(shown(name) for name in (found or near)[:5])}. Remove all but one, "
            "or write it again in one of these formats."
        )
    return None


def _check_names(path: Path, columns: Iterable[str], known: Iterable[str]) -> None:
    """A column that is nearly one of ours would be ignored, so it is refused."""
    columns = list(columns)
    wrong = {
        column: name
        for column in columns
        if (name := column.strip().casefold()) in known and name not in columns
    }
    if wrong:
        renamed = ", ".join(f"{shown(column)} to '{name}'" for column, name in wrong.items())
        raise DataError(
            f"The file {path} must write its column names in lower case and without spaces. "
            f"Rename {renamed}."
        )


def _required(table: Table, name: str) -> Column:
    if name not in table.columns:
        raise DataError(_no_column(table.path, list(table.columns), f"a column '{name}'"))
    return table.columns[name]


def _no_column(path: Path, columns: list[str], wanted: str) -> str:
    got = ", ".join(shown(column) for column in columns[:20])
    hint = separator_hint(path, columns) or " Rename or add the column."
    return f"The file {path} must have {wanted}. Got {got}.{hint}"


def _ids(table: Table) -> list[str]:
    first: dict[str, int] = {}
    for row, value in enumerate(_required(table, "id")):
        if value is None:
            raise DataError(
                f"The 'id' of a document must not be empty. It is in {table.place(row)}. Give "
                "every document an id."
            )
        if value in first:
            raise DataError(
                f"The 'id' of a document must be its own. Got {shown(value)} in line "
                f"{table.lines[first[value]]} and again in {table.place(row)}. Rename or "
                "remove one of them."
            )
        first[value] = row
    return list(first)


def _texts(table: Table, ids: list[str], *, optional: bool) -> tuple[str, ...] | None:
    if optional and "text" not in table.columns:
        return None
    texts = tuple(value or "" for value in _required(table, "text"))
    empty = [row for row, text in enumerate(texts) if not text.strip()]
    if empty and not optional:
        raise DataError(
            f"The 'text' of a document must not be empty. That of {shown(ids[empty[0]])} in "
            f"{table.place(empty[0])} is ({len(empty)} in all). Give it a text or remove the "
            "document."
        )
    return texts


def _owners(
    table: Table, ids: list[str]
) -> tuple[npt.NDArray[np.int64] | None, tuple[str, ...] | None]:
    values = table.columns.get("owner")
    if values is None or all(value is None for value in values):
        return None, None
    if None in values:
        row = values.index(None)
        raise DataError(
            f"The 'owner' must be given for all documents or for none. {shown(ids[row])} in "
            f"{table.place(row)} has none ({values.count(None)} in all). Name its owner; a "
            "document of nobody else can be its own owner."
        )
    # By name: an order of appearance would follow how many documents owners have, and splits
    # and parts are drawn by these numbers.
    names = tuple(sorted({value for value in values if value is not None}))
    return codes(values, names), names


def _split(table: Table, ids: list[str]) -> npt.NDArray[np.int8]:
    values = table.columns["split"]
    for row, value in enumerate(values):
        if value not in _USER_SPLITS:
            raise DataError(
                f"The 'split' of a document must be one of {', '.join(_USER_SPLITS)}, in lower "
                f"case and without spaces. Got {shown(value or '')} for {shown(ids[row])} in "
                f"{table.place(row)}. Correct it, or remove the whole column for a random "
                "split."
            )
    return codes(values, _USER_SPLITS).astype(np.int8)


def _labels(
    table: Table, ids: list[str], classes: Sequence[str] | None
) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    values = table.columns.get("label", [None] * len(table))
    if classes is None:
        names = tuple(sorted({value for value in values if value is not None}))
        for name in names:
            bare = name.strip()
            if bare.casefold() in _NO_VALUE or (bare != name and bare in names):
                row = values.index(name)
                reads = (
                    "reads like a missing value: leave it empty"
                    if bare.casefold() in _NO_VALUE
                    else f"differs from '{bare}' only by spaces: remove them"
                )
                raise DataError(
                    f"The 'label' {shown(name)} of {shown(ids[row])} in {table.place(row)} "
                    f"{reads}. If it is a class of its own, declare the classes."
                )
        return names, codes(values, names)
    names = check_classes(classes)
    known = {*names, None}
    for row, value in enumerate(values):
        if value not in known:
            raise DataError(
                f"The 'label' of a document must be one of the declared classes "
                f"{list(names)}. Got {shown(value)} for {shown(ids[row])} in "
                f"{table.place(row)}. Correct the label or declare the class."
            )
    return names, codes(values, names)


def _check_labels(
    table: Table,
    ids: list[str],
    names: tuple[str, ...],
    labels: npt.NDArray[np.int64],
    split: npt.NDArray[np.int8],
) -> None:
    """Gaps and a single class, as far as the folder says that it is for training."""
    if not names:
        return
    # A random split may send any document to training, whatever this seed does.
    needed = split == TRAIN if "split" in table.columns else np.ones(len(table), dtype=bool)
    gaps = np.flatnonzero(needed & (labels == NO_LABEL))
    if len(gaps):
        row = int(gaps[0])
        raise DataError(
            f"The 'label' of a training document must not be empty. That of {shown(ids[row])} "
            f"in {table.place(row)} is ({len(gaps)} in all). Fill it in, or add a 'split' "
            "column that puts unlabelled documents in test."
        )
    if len(names) < 2:
        raise DataError(
            f"The 'label' column of {table.path} must have at least two classes. Got only "
            f"{shown(names[0])}. Add documents of another class, or declare the classes."
        )


def _vectors(path: Path | None, count: int) -> npt.NDArray[np.float32] | ChosenRows | None:
    if path is None:
        return None
    array = _array(path, "fiub")
    if array.shape[0] != count or array.shape[1] == 0:
        raise DataError(
            f"The file {path} must have one row of numbers for each of the {count} documents, "
            f"in their order. Got the shape {array.shape}. Save it again from the same files."
        )
    vectors = as_float32(array)
    begin = 0
    for rows in vectors.pieces():
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if len(bad):
            raise DataError(
                f"The file {path} must hold finite numbers that fit float32. Row "
                f"{begin + bad[0]} (counted from 0) does not. Replace NaN and infinity before "
                "saving."
            )
        begin += len(rows)
    return vectors if array.size > _MOST_IN_MEMORY else np.array(vectors)


def _array(path: Path, kinds: str) -> npt.NDArray[Any]:
    """A table of numbers, mapped: a header that promises too much costs nothing."""
    check_regular(path, most=_MOST_VECTOR_BYTES)
    try:
        with warnings.catch_warnings(), np.errstate(over="raise"):
            warnings.simplefilter("ignore")
            array = mapped_file(path)
    # A header is Python source: numpy passes on whatever its parser says of a broken one.
    except Exception as error:
        raise DataError(
            f"The file {path} must be a numeric array saved by numpy.save. It cannot be read "
            f"({reason(error)}). It may have been cut: save it again, as float32."
        ) from error
    if array.ndim != 2 or array.dtype.kind not in kinds:
        raise DataError(
            f"The file {path} must hold a two-dimensional numeric array. Got "
            f"{shown(array.dtype)} {shown(array.shape)}."
        )
    return array


def _links(
    path: Path | None, table: Table, ids: list[str]
) -> tuple[npt.NDArray[np.int64], tuple[str, ...], bool]:
    """The rows that each link joins, as they stand in the file.

    Beside them, the unused columns and whether semicolons separate the fields.
    """
    if path is None:
        return np.zeros((2, 0), dtype=np.int64), (), False
    if path.suffix == ".npy":
        return _numbered_links(path, len(ids)), (), False
    import polars as pl

    frame, semicolons = read_links(path)
    _check_names(path, frame.columns, (*_ENDS, *_WEIGHTS))
    if not set(_ENDS) <= set(frame.columns):
        raise DataError(_no_column(path, frame.columns, "the columns 'source' and 'target'"))
    for name in _WEIGHTS:
        if name in frame.columns:
            raise DataError(
                f"The links in {path} must have no weights: every link counts the same. Got a "
                f"column '{name}'. Remove it, and the links that are too weak to count."
            )
    place = pl.DataFrame({"id": ids, "row": np.arange(len(ids), dtype=np.int64)})
    ends = []
    for name in _ENDS:
        asked = frame.select(pl.col(name).alias("id"))
        found = asked.join(place, on="id", how="left", maintain_order="left")
        if found["row"].null_count():
            row = int(found["row"].is_null().arg_max() or 0)
            raise DataError(_unknown_end(path, table, ids, name, row, found["id"][row]))
        ends.append(found["row"].to_numpy())
    unused = tuple(name for name in frame.columns if name not in _ENDS)
    return np.stack(ends), unused, semicolons


def _numbered_links(path: Path, count: int) -> npt.NDArray[np.int64]:
    """Links by the numbers of their documents, counted from 0."""
    links = _array(path, "iu")
    if len(links) != 2:
        raise DataError(
            f"The file {path} must have two rows, source and target of each link. Got the "
            f"shape {links.shape}. Save it again, turned."
        )
    for own in np.split(links, range(LINKS_AT_ONCE, links.shape[1], LINKS_AT_ONCE), axis=1):
        if own.size and not 0 <= int(own.min()) <= int(own.max()) < count:
            raise DataError(
                f"The file {path} must hold numbers of documents, from 0 to {count - 1}. Got "
                f"values from {own.min()} to {own.max()}. Count documents from 0."
            )
        let_go(links.ctypes.data)
    return links


def _unknown_end(
    path: Path, table: Table, ids: list[str], name: str, row: int, value: str | None
) -> str:
    place = f"row {row + 1}" if path.suffix in (".parquet", ".jsonl") else f"line {row + 2}"
    if value is None:
        rule, remedy = "must not be empty", "Remove the link"
    else:
        rule = f"must be the id of a document in {table.path.name}. Got {shown(value)}"
        near = {document.strip(): document for document in ids}.get(
            value.strip().removesuffix(".0")
        )
        remedy = (
            "Remove the link or add the document"
            if near is None
            else f"Did you mean {shown(near)}? Write ids the same way in both files"
        )
    return (
        f"The '{name}' of a link {rule} in {place} of {path}. {remedy}; a last line may have "
        "been cut."
    )
