"""Plain arrays as a corpus: documents without links, as scikit-learn hands them over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from privgcn.corpus import Corpus
from privgcn.corpus.corpus import NO_LABEL


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
        edges=np.empty((2, 0), dtype=np.int64),
        split=np.zeros(documents, dtype=np.int8),
    )
