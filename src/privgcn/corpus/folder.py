"""A user's own documents: one folder, two files, no programming.

The folder holds ``documents.jsonl``, ``.csv`` or ``.parquet`` (columns ``id`` and ``text``;
optional ``label``, ``split``, ``owner`` and any others), optionally ``edges.csv`` or
``.parquet`` (``source``, ``target``) and optionally ``features.npy`` with one row for each
document, which may stand in for the texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from privgcn.corpus.corpus import (
    NO_LABEL,
    SPLIT_NAMES,
    TRAIN,
    Corpus,
    CorpusFacts,
    canonical_edges,
    no_edges,
)
from privgcn.corpus.labels import check_classes, codes
from privgcn.corpus.splits import random_split
from privgcn.corpus.tables import Column, Table, read_documents, read_frame
from privgcn.errors import DataError

_RESERVED = ("id", "text", "label", "split", "owner")
_USER_SPLITS = SPLIT_NAMES[:3]


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
    table = read_documents(_one_of(folder, "documents", (".jsonl", ".csv", ".parquet")))
    vectors = _vectors(folder / "features.npy", len(table))
    ids = _ids(table)
    owners, owner_names = _owners(table, ids)
    if "split" in table.columns:
        split = _split(table, ids)
    else:
        split = random_split(len(table), seed, owners)
    names, labels = _labels(table, ids, classes)
    if require_labels and "label" in table.columns:
        _check_labels(table, ids, names, labels, split)
    return Corpus(
        name=folder.resolve().name,
        ids=np.array(ids, dtype=object),
        texts=_texts(table, ids, optional=vectors is not None),
        vectors=vectors,
        labels=labels,
        classes=names,
        edges=_edges(folder, table, ids),
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
    )


def _one_of(folder: Path, stem: str, suffixes: tuple[str, ...]) -> Path:
    found = [path for suffix in suffixes if (path := folder / (stem + suffix)).is_file()]
    if len(found) == 1:
        return found[0]
    names = ", ".join(stem + suffix for suffix in suffixes)
    if found:
        raise DataError(
            f"The folder {folder} must have one of {names}. Got "
            f"{' and '.join(path.name for path in found)}. Remove all but one."
        )
    raise DataError(f"The folder {folder} must have one of {names}. Got none. Add one of them.")


def _required(table: Table, name: str) -> Column:
    if name not in table.columns:
        raise DataError(
            f"The file {table.path} must have a column '{name}'. Got "
            f"{', '.join(repr(column) for column in table.columns)}. Rename or add the column."
        )
    return table.columns[name]


def _ids(table: Table) -> list[str]:
    first: dict[str, str] = {}
    for place, value in zip(table.places, _required(table, "id"), strict=True):
        if value is None:
            raise DataError(
                f"The 'id' of a document must not be empty. It is in {place} of {table.path}. "
                "Give every document an id."
            )
        if value in first:
            raise DataError(
                f"The 'id' of a document must be its own. Got '{value}' in {first[value]} and "
                f"again in {place} of {table.path}. Rename or remove one of them."
            )
        first[value] = place
    return list(first)


def _texts(table: Table, ids: list[str], *, optional: bool) -> tuple[str, ...] | None:
    if optional and "text" not in table.columns:
        return None
    texts = []
    for row, value in enumerate(_required(table, "text")):
        if not optional and (value is None or not value.strip()):
            raise DataError(
                f"The 'text' of a document must not be empty. It is for '{ids[row]}' in "
                f"{table.places[row]} of {table.path}. Give it a text or remove the document."
            )
        texts.append(value or "")
    return tuple(texts)


def _owners(
    table: Table, ids: list[str]
) -> tuple[npt.NDArray[np.int64] | None, tuple[str, ...] | None]:
    values = table.columns.get("owner")
    if values is None or all(value is None for value in values):
        return None, None
    if None in values:
        row = values.index(None)
        raise DataError(
            f"The 'owner' must be given for all documents or for none. '{ids[row]}' in "
            f"{table.places[row]} of {table.path} has none. Name its owner; a document of "
            "nobody else can be its own owner."
        )
    # The order of first appearance, which reveals no more than the order of the documents.
    names = tuple(dict.fromkeys(value for value in values if value is not None))
    return codes(values, names), names


def _split(table: Table, ids: list[str]) -> npt.NDArray[np.int8]:
    values = table.columns["split"]
    for row, value in enumerate(values):
        if value not in _USER_SPLITS:
            raise DataError(
                f"The 'split' of a document must be one of {', '.join(_USER_SPLITS)}. Got "
                f"{value!r} for '{ids[row]}' in {table.places[row]} of {table.path}. Correct "
                "it, or remove the whole column for a random split."
            )
    return codes(values, _USER_SPLITS).astype(np.int8)


def _labels(
    table: Table, ids: list[str], classes: Sequence[str] | None
) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    values = table.columns.get("label", [None] * len(table))
    if classes is None:
        names = tuple(sorted({value for value in values if value is not None}))
        return names, codes(values, names, NO_LABEL)
    names = check_classes(classes)
    known = set(names)
    for row, value in enumerate(values):
        if value is not None and value not in known:
            raise DataError(
                f"The 'label' of a document must be one of the declared classes "
                f"{list(names)}. Got '{value}' for '{ids[row]}' in {table.places[row]} of "
                f"{table.path}. Correct the label or declare the class."
            )
    return names, codes(values, names, NO_LABEL)


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
            f"The 'label' of a training document must not be empty. It is for '{ids[row]}' in "
            f"{table.places[row]} of {table.path} ({len(gaps)} in all). Fill it in, or add a "
            "'split' column that puts unlabelled documents in test."
        )
    if len(names) < 2:
        raise DataError(
            f"The 'label' column of {table.path} must have at least two classes. Got only "
            f"'{names[0]}'. Add documents of another class, or declare the classes."
        )


def _vectors(path: Path, count: int) -> npt.NDArray[np.float32] | None:
    if not path.is_file():
        return None
    try:
        # Mapped, so that a header that promises more than the file holds costs nothing.
        with np.errstate(over="raise"):
            array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError, ArithmeticError) as error:
        raise DataError(
            f"The file {path} must be a numeric array saved by numpy.save. It can not be read "
            f"({error}). It may have been cut: save it again, with a dtype like float32."
        ) from error
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind not in "fiub":
        got = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else "an archive"
        raise DataError(
            f"The file {path} must hold a two-dimensional numeric array. Got {got}."
        )
    if array.shape[0] != count or array.shape[1] == 0:
        raise DataError(
            f"The file {path} must have one row of numbers for each of the {count} documents, "
            f"in their order. Got the shape {array.shape}. Save it again from the same files."
        )
    with np.errstate(over="ignore"):
        vectors = np.ascontiguousarray(array, dtype=np.float32)
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise DataError(
            f"The file {path} must hold finite numbers that fit float32. Row {bad[0]} (counted "
            "from 0) does not. Replace NaN and infinity before saving."
        )
    return vectors


def _edges(folder: Path, table: Table, ids: list[str]) -> npt.NDArray[np.int64]:
    if not any((folder / f"edges{suffix}").is_file() for suffix in (".csv", ".parquet")):
        return no_edges()
    import polars as pl

    path = _one_of(folder, "edges", (".csv", ".parquet"))
    frame = read_frame(path).rename(str.strip)
    for name in ("source", "target"):
        if name not in frame.columns:
            raise DataError(
                f"The file {path} must have the columns 'source' and 'target'. Got "
                f"{', '.join(repr(column) for column in frame.columns)}. Rename or add one."
            )
    place = pl.DataFrame({"id": ids, "row": np.arange(len(ids), dtype=np.int64)})
    ends = []
    for name in ("source", "target"):
        asked = frame.select(pl.col(name).cast(pl.String).alias("id"))
        found = asked.join(place, on="id", how="left", maintain_order="left")
        if found["row"].null_count():
            row = int(found["row"].is_null().arg_max() or 0)
            value = found["id"][row]
            rule = (
                f"must be the id of a document in {table.path.name}. Got '{value}'"
                if value is not None
                else "must not be empty"
            )
            raise DataError(
                f"The '{name}' of a link {rule} in {_edge_place(path, row)} of {path}. "
                "Remove the link or add the document; a last line may have been cut."
            )
        ends.append(found["row"].to_numpy())
    return canonical_edges(ends[0], ends[1], len(ids))


def _edge_place(path: Path, row: int) -> str:
    return f"line {row + 2}" if path.suffix == ".csv" else f"row {row + 1}"
