"""What scikit-learn adds to the ways into a corpus: vectors, labels and targets as ``y``.

What somebody hands to the classifier is told by its form: texts, a frame, a ``Corpus``, a
PyTorch Geometric ``Data``, or vectors. The rules for documents are those of ``privgcn.data``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from privgcn.data import NO_LABEL, TEST, TRAIN, VALIDATION, Corpus
from privgcn.data.documents import label_set
from privgcn.data.frames import columns_of, is_frame, plain_list
from privgcn.data.pyg import is_pyg
from privgcn.errors import ConfigError

if TYPE_CHECKING:
    from scipy.sparse import sparray, spmatrix


class Frame(Protocol):
    """Named columns: of pandas, polars, pyarrow or ``datasets``."""

    def __getitem__(self, name: Any, /) -> Any:
        """A column."""


class GraphData(Protocol):
    """A ``Data`` of PyTorch Geometric."""

    edge_index: Any
    num_nodes: Any


Documents: TypeAlias = (
    "Sequence[str] | Mapping[str, Any] | Frame | Corpus | GraphData | NDArray[Any] | "
    "spmatrix | sparray"
)
"""What a classifier takes for documents; an example of each is in ``GraphClassifier.fit``."""


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
    """
    corpus = _made_already(X, y=y, edges=edges, owners=owners, classes=classes)
    if corpus is not None and corpus is X:
        return corpus.with_split(TRAIN), np.asarray(corpus.classes)
    if corpus is not None:
        typed = np.arange(corpus.num_classes)
    else:
        columns, vectors = _as_frame(X), None
        labels = (columns or {}).get("label") if y is None else y
        if labels is None:
            raise ConfigError(
                "GraphClassifier requires y to be passed, but the target y is None: give "
                "labels, or a frame with a column 'label'."
            )
        if columns is None:
            vectors, y = validate_data(estimator, X, y, accept_sparse="csr")
            labels = y
        typed = label_set([v for v in plain_list(labels) if v is not None], classes)
        if classes is None and len(typed):
            check_classification_targets(typed)
        if len(typed) < 2:
            raise ConfigError(
                f"GraphClassifier needs at least two classes. Got {len(typed)} class: "
                f"{typed.tolist()}. Add documents of another class, or declare the classes."
            )
        given = {"labels": y, "edges": edges, "owners": owners, "classes": classes}
        corpus = _corpus(columns, vectors, **given)
        if corpus.facts.split_origin == "random":
            return corpus.with_split(TRAIN), typed
    return corpus.select(np.isin(corpus.split, (TRAIN, VALIDATION))), typed


def documents_in(estimator: BaseEstimator, X: Any, *, edges: Any = None) -> Corpus:
    """Documents to predict; their labels, if they have any, are not read."""
    corpus = _made_already(X, edges=edges)
    if corpus is not None:
        return corpus
    columns, vectors = _as_frame(X), None
    if columns is None:
        vectors = validate_data(estimator, X, reset=False, accept_sparse="csr")
    else:
        columns = {n: v for n, v in columns.items() if n not in ("label", "split", "owner")}
    return _corpus(columns, vectors, edges=edges)


def truth_beside(X: Any, y: Any, classes: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
    """What a score is computed on, and the labels of that: None where there is none.

    Of a ``Data`` with a ``test_mask``, only the test documents count.
    """
    corpus = _made_already(X, y=y)
    if corpus is not None:
        if corpus is not X and bool((corpus.split == TEST).any()):
            corpus = corpus.test
        names = np.asarray([*classes.tolist(), None], dtype=object)
        return corpus, names[np.where(corpus.labels < len(classes), corpus.labels, NO_LABEL)]
    if y is None and is_frame(X):
        y = columns_of(X).get("label")
    if y is None:
        raise ConfigError("Scoring needs labels: give y, or a frame with a column 'label'.")
    return X, np.asarray(plain_list(y), dtype=object)


def _made_already(X: Any, **given: Any) -> Corpus | None:
    """A ``Corpus``, or a ``Data`` as one: it has its own labels, edges and owners."""
    if not (isinstance(X, Corpus) or is_pyg(X)):
        return None
    for name, value in given.items():
        if value is not None:
            raise ConfigError(
                f"The '{name}' of GraphClassifier must be left out beside a Corpus or a Data, "
                "which has its own. Change the documents instead."
            )
    return X if isinstance(X, Corpus) else Corpus.from_pyg(X)


def _corpus(columns: Mapping[str, Any] | None, vectors: Any, **given: Any) -> Corpus:
    """The documents of a frame, or as many as there are vectors."""
    if columns is not None:
        return Corpus.from_frame(columns, **given)
    corpus = Corpus.from_frame({"text": ["-"] * vectors.shape[0]}, **given)
    with np.errstate(over="ignore"):
        # Too large for float32 becomes infinite, and such a row counts as empty.
        return replace(corpus, texts=None, vectors=vectors.astype(np.float32))


def _as_frame(X: Any) -> dict[str, Any] | None:
    """The columns of documents; None where these are vectors."""
    if isinstance(X, str):
        raise ConfigError(
            "Documents must be a list of texts. Got a single text. Put it in a list; for a "
            "folder or a dataset, give load_corpus of it."
        )
    if is_frame(X):
        columns = columns_of(X)
        worded = "text" in columns or isinstance(X, Mapping)
        heads = (plain_list(values[:100]) for values in columns.values())
        if worded or any(isinstance(value, str) for head in heads for value in head):
            return columns
        return None
    if hasattr(X, "tocsr") or hasattr(X, "detach") or not hasattr(X, "__len__"):
        return None
    # An array of rows of numbers has rows, not texts, in it. The first text may be missing.
    flat = X.ndim == 1 if hasattr(X, "ndim") else True
    texts = flat and any(isinstance(value, str) for value in islice(X, 100))
    return {"text": X} if texts or (flat and len(X) == 0) else None
