"""Whatever people hand to the classifier, as a corpus.

A list of texts, a frame of documents, vectors, a ``Corpus`` or a PyTorch Geometric ``Data``:
what it is, is told by its form. pandas, polars and PyTorch Geometric are not imported here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from privgcn.data import Corpus
from privgcn.data.corpus import NO_LABEL, TEST, TRAIN, VALIDATION, no_edges
from privgcn.data.frames import column, column_names, is_frame, label_set, raw_column
from privgcn.data.links import canonical_edges, link_ends
from privgcn.data.pyg import is_pyg
from privgcn.errors import ConfigError
from privgcn.runs.train import with_split

_OF_WORDS = ("object", "str", "utf8", "categ", "large")


def training_documents(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    *,
    links: Any,
    owners: Any,
    classes: Sequence[Any] | None,
) -> tuple[Corpus, npt.NDArray[Any]]:
    """What the classifier trains on, and the class labels with their own type.

    All documents train, unless a ``split`` column or masks say otherwise: then those for
    training do, and those for validation may stop a run without privacy.

    Raises:
        ConfigError: Labels are missing, or given twice.
        DataError: The documents break a rule.
    """
    if isinstance(X, Corpus):
        given = {"y": y, "links": links, "owners": owners, "classes": classes}
        _refuse(given, "a Corpus, which has its own")
        return with_split(X, TRAIN), np.asarray(X.classes)
    if is_pyg(X):
        given = {"y": y, "links": links, "owners": owners, "classes": classes}
        _refuse(given, "a Data, which has its own")
        corpus = Corpus.from_pyg(X)
        kept = corpus.select(np.isin(corpus.split, (TRAIN, VALIDATION)))
        return kept, np.arange(corpus.num_classes)
    documents = _as_frame(X)
    if documents is None:
        return _of_vectors(estimator, X, y, links, owners, classes)
    labels = y if y is not None else _column(documents, "label")
    if labels is None:
        raise ConfigError(
            "GraphClassifier requires y to be passed, but the target y is None: give labels, "
            "or a frame with a column 'label'."
        )
    typed = label_set(labels, classes)
    if classes is None and len(typed):
        check_classification_targets(typed)
    corpus = Corpus.from_frame(documents, labels=y, links=links, owners=owners, classes=classes)
    if corpus.facts.split_origin == "random":
        return with_split(corpus, TRAIN), typed
    return corpus.select(np.isin(corpus.split, (TRAIN, VALIDATION))), typed


def documents_in(estimator: BaseEstimator, X: Any, *, links: Any = None) -> Corpus:
    """Documents to predict; their labels, if they have any, are not read."""
    if isinstance(X, Corpus) or is_pyg(X):
        _refuse({"links": links}, "a Corpus or a Data, which has its own")
        return X if isinstance(X, Corpus) else Corpus.from_pyg(X)
    documents = _as_frame(X)
    if documents is not None:
        names = [n for n in column_names(documents) if n not in ("label", "split", "owner")]
        return Corpus.from_frame({name: documents[name] for name in names}, links=links)
    vectors = validate_data(estimator, X, reset=False, accept_sparse="csr")
    return _with_links(corpus_of_arrays(vectors, None, ("", "")), links)


def truth_beside(X: Any, y: Any, classes: npt.NDArray[Any]) -> tuple[Any, npt.NDArray[Any]]:
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


def corpus_of_arrays(
    vectors: Any, labels: Any, classes: Sequence[Any] | npt.NDArray[Any]
) -> Corpus:
    """A corpus of training documents with the given vectors and no links.

    Args:
        vectors: ``[documents, features]``, dense or sparse.
        labels: One of ``classes`` for each document, or ``None``.
        classes: The sorted class labels.
    """
    documents = vectors.shape[0]
    codes = np.full(documents, NO_LABEL, dtype=np.int64)
    if labels is not None:
        codes = np.searchsorted(np.asarray(classes), labels).astype(np.int64)
    with np.errstate(over="ignore"):
        # Too large for float32 becomes infinite, and such a row counts as empty.
        rows = vectors.astype(np.float32)
    return Corpus(
        name="arrays",
        ids=np.arange(documents).astype(str),
        vectors=rows,
        labels=codes,
        classes=tuple(str(name) for name in classes),
        edges=no_edges(),
        split=np.zeros(documents, dtype=np.int8),
    )


def _of_vectors(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    links: Any,
    owners: Any,
    classes: Sequence[Any] | None,
) -> tuple[Corpus, npt.NDArray[Any]]:
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
    corpus = _with_links(corpus_of_arrays(X, y, typed), links)
    if owners is not None:
        names, owner_of = np.unique(np.asarray(owners).astype(str), return_inverse=True)
        corpus = replace(corpus, owners=owner_of, owner_names=tuple(names.tolist()))
    if classes is not None:
        corpus = replace(corpus, facts=replace(corpus.facts, classes_declared=True))
    return corpus, typed


def _with_links(corpus: Corpus, links: Any) -> Corpus:
    ends = link_ends(links, len(corpus), None)
    return replace(corpus, edges=canonical_edges(ends[0], ends[1], len(corpus)))


def _as_frame(X: Any) -> Any:
    """Documents as a frame; None where these are vectors."""
    if isinstance(X, str):
        raise ConfigError(
            "Documents must be a list of texts. Got a single text. Put it in a list; for a "
            "folder or a dataset, give load_corpus of it."
        )
    if is_frame(X):
        names = column_names(X)
        words = (
            "text" in names or isinstance(X, Mapping) or any(_has_words(X, n) for n in names)
        )
        return X if words else None
    if hasattr(X, "tocsr") or hasattr(X, "detach") or not hasattr(X, "__len__"):
        return None
    flat = X.ndim == 1 if hasattr(X, "ndim") else True
    # An array of rows of numbers has rows, not texts, in it.
    return {"text": X} if flat and (len(X) == 0 or isinstance(_first(X), str)) else None


def _has_words(frame: Any, name: str) -> bool:
    dtype = str(getattr(raw_column(frame, name), "dtype", "object")).lower()
    return dtype.startswith(_OF_WORDS) and any(
        isinstance(value, str) for value in column(frame, name)[:100]
    )


def _first(values: Any) -> Any:
    return next(iter(values))


def _column(frame: Any, name: str) -> list[Any] | None:
    return column(frame, name) if name in column_names(frame) else None


def _refuse(given: Mapping[str, Any], owner: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise ConfigError(
                f"The '{name}' of GraphClassifier must be left out beside {owner}. Change the "
                "documents instead."
            )
