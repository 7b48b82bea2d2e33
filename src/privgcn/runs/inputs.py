"""Whatever people hand to the classifier, as a corpus.

A list of texts, a frame of documents, vectors, a ``Corpus`` or a PyTorch Geometric ``Data``:
what it is, is told by its form. The rules for documents are those of ``privgcn.data``; pandas,
polars and PyTorch Geometric are not imported here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from privgcn.data import NO_LABEL, TEST, TRAIN, VALIDATION, Corpus, CorpusFacts
from privgcn.data.documents import label_set
from privgcn.data.ingest import (
    column_names,
    is_frame,
    is_missing,
    plain_list,
    raw_column,
)
from privgcn.data.pyg import is_pyg
from privgcn.errors import ConfigError

_OF_WORDS = ("object", "str", "utf8", "categ", "large")


def training_documents(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    *,
    edges: Any,
    owners: Any,
    classes: Sequence[Any] | None,
) -> tuple[Corpus, NDArray[Any]]:
    """What the classifier trains on, and the class labels with their own type.

    All documents train, unless a ``split`` column or masks say otherwise: then those for
    training do, and those for validation may stop a run without privacy.

    Raises:
        ConfigError: Labels are missing, or given twice.
        DataError: The documents break a rule.
    """
    given = {"y": y, "edges": edges, "owners": owners, "classes": classes}
    if isinstance(X, Corpus):
        _refuse(given, "a Corpus, which has its own")
        return X.with_split(TRAIN), np.asarray(X.classes)
    if is_pyg(X):
        _refuse(given, "a Data, which has its own")
        corpus = Corpus.from_pyg(X)
        return _used_in_training(corpus), np.arange(corpus.num_classes)
    documents = _as_frame(X)
    if documents is None:
        return _of_vectors(estimator, X, y, edges, owners, classes)
    labels = y if y is not None else _column(documents, "label")
    if labels is None:
        raise ConfigError(
            "GraphClassifier requires y to be passed, but the target y is None: give labels, "
            "or a frame with a column 'label'."
        )
    typed = label_set([v for v in plain_list(labels) if not is_missing(v)], classes)
    if classes is None and len(typed):
        check_classification_targets(typed)
    corpus = Corpus.from_frame(documents, labels=y, edges=edges, owners=owners, classes=classes)
    if corpus.facts.split_origin == "random":
        return corpus.with_split(TRAIN), typed
    return _used_in_training(corpus), typed


def documents_in(estimator: BaseEstimator, X: Any, *, edges: Any = None) -> Corpus:
    """Documents to predict; their labels, if they have any, are not read."""
    if isinstance(X, Corpus) or is_pyg(X):
        _refuse({"edges": edges}, "a Corpus or a Data, which has its own")
        return X if isinstance(X, Corpus) else Corpus.from_pyg(X)
    documents = _as_frame(X)
    if documents is not None:
        names = [n for n in column_names(documents) if n not in ("label", "split", "owner")]
        columns = {name: raw_column(documents, name) for name in names}
        return Corpus.from_frame(columns, edges=edges)
    vectors = validate_data(estimator, X, reset=False, accept_sparse="csr")
    return _corpus_of(vectors, edges, None)


def truth_beside(X: Any, y: Any, classes: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
    """What a score is computed on, and the labels of that: None where there is none.

    Of a ``Data`` with a ``test_mask``, and of a frame with a ``split`` column, only the test
    documents count.
    """
    if is_pyg(X):
        X = Corpus.from_pyg(X)
        if bool((X.split == TEST).any()):
            X = X.test
    if isinstance(X, Corpus):
        _refuse({"y": y}, "a Corpus or a Data, which has its own")
        names = np.asarray([*classes.tolist(), None], dtype=object)
        return X, names[np.where(X.labels < len(classes), X.labels, NO_LABEL)]
    if y is None and is_frame(X):
        y = _column(X, "label")
    if y is None:
        raise ConfigError("Scoring needs labels: give y, or a frame with a column 'label'.")
    return X, np.asarray(y if isinstance(y, np.ndarray) else list(y), dtype=object)


def _of_vectors(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    edges: Any,
    owners: Any,
    classes: Sequence[Any] | None,
) -> tuple[Corpus, NDArray[Any]]:
    if y is None:
        raise ValueError(
            "GraphClassifier requires y to be passed, but the target y is None: "
            "give a Corpus, or vectors and labels."
        )
    X, y = validate_data(estimator, X, y, accept_sparse="csr")
    check_classification_targets(y)
    typed = np.unique(y) if classes is None else np.unique(np.asarray(list(classes)))
    if len(typed) < 2:
        raise ValueError(
            "GraphClassifier needs at least two classes to tell apart. "
            f"Got {len(typed)} class: {typed}."
        )
    unknown = np.setdiff1d(y, typed)
    if len(unknown):
        raise ConfigError(
            f"The labels must be among the declared classes {typed.tolist()}. "
            f"Got {unknown[0]!r}."
        )
    corpus = replace(
        _corpus_of(X, edges, owners),
        labels=np.searchsorted(typed, y).astype(np.int64),
        classes=tuple(str(name) for name in typed),
        facts=CorpusFacts(classes_declared=classes is not None),
    )
    return corpus, typed


def _corpus_of(vectors: Any, edges: Any, owners: Any) -> Corpus:
    """Vectors without labels, all for training, with edges and owners by the usual rules."""
    corpus = Corpus.from_texts(["-"] * vectors.shape[0], edges=edges, owners=owners)
    with np.errstate(over="ignore"):
        # Too large for float32 becomes infinite, and such a row counts as empty.
        rows = vectors.astype(np.float32)
    return replace(
        corpus.with_split(TRAIN),
        name="arrays",
        texts=None,
        vectors=rows,
        classes=("", ""),
        facts=CorpusFacts(),
        read_report=None,
    )


def _used_in_training(corpus: Corpus) -> Corpus:
    return corpus.select(np.isin(corpus.split, (TRAIN, VALIDATION)))


def _as_frame(X: Any) -> Any:
    """Documents as a frame; None where these are vectors."""
    if isinstance(X, str):
        raise ConfigError(
            "Documents must be a list of texts. Got a single text. Put it in a list; for a "
            "folder or a dataset, give load_corpus of it."
        )
    if is_frame(X):
        names = column_names(X)
        words = "text" in names or isinstance(X, Mapping)
        return X if words or any(_has_words(raw_column(X, name)) for name in names) else None
    if hasattr(X, "tocsr") or hasattr(X, "detach") or not hasattr(X, "__len__"):
        return None
    flat = X.ndim == 1 if hasattr(X, "ndim") else True
    # An array of rows of numbers has rows, not texts, in it.
    return {"text": X} if flat and (len(X) == 0 or isinstance(next(iter(X)), str)) else None


def _has_words(column: Any) -> bool:
    dtype = str(getattr(column, "dtype", "object")).lower()
    return dtype.startswith(_OF_WORDS) and any(
        isinstance(value, str) for value in plain_list(column)[:100]
    )


def _column(frame: Any, name: str) -> list[Any] | None:
    return plain_list(raw_column(frame, name)) if name in column_names(frame) else None


def _refuse(given: Mapping[str, Any], owner: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise ConfigError(
                f"The '{name}' of GraphClassifier must be left out beside {owner}. Change the "
                "documents instead."
            )
