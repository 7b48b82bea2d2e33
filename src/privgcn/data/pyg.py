"""Exchange with PyTorch Geometric: its ``Data`` as a corpus, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privgcn.data.corpus import NO_LABEL, OUTSIDE, TRAIN, Corpus, CorpusFacts
from privgcn.errors import DataError, MissingExtraError

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

MASKS = ("train_mask", "val_mask", "test_mask")
"""In the order of the split's codes."""

_TEXTS = ("text", "texts", "raw_texts")
_OWNERS = ("owners", "owner")
_WEIGHTS = ("edge_weight", "edge_attr")


def is_pyg(value: Any) -> bool:
    """Whether a value is a ``Data``, by its parts."""
    return hasattr(value, "edge_index") and hasattr(value, "num_nodes")


def corpus_of_data(data: Any) -> Corpus:
    """The documents of a ``Data``; see ``Corpus.from_pyg``."""
    texts, owners = _first(data, _TEXTS), _first(data, _OWNERS)
    vectors = None if data.x is None else _vectors(data.x)
    if (vectors is None and texts is None) or data.edge_index is None:
        raise DataError(
            "A Data must have 'edge_index', and 'x' or 'text'. Got "
            f"{', '.join(sorted(data.keys())) or 'nothing'}."
        )
    count = len(texts) if vectors is None else int(vectors.shape[0])
    labels = np.full(count, NO_LABEL) if data.y is None else _array(data.y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or labels.dtype.kind not in "iub":
        raise DataError(
            "The 'y' of a Data must have one class number for each document. Got "
            f"{labels.dtype} of shape {list(labels.shape)}. Several labels for one document "
            "are not supported."
        )
    if _first(data, _WEIGHTS) is not None:
        raise DataError(
            "A Data must give edges no weights: every edge counts the same. Remove "
            f"{' and '.join(_WEIGHTS)}, and the edges that are too weak to count."
        )
    # Where vectors stand in for texts, the frame has to have some.
    frame = {"text": ["-"] * count if texts is None else list(texts)}
    own = None if owners is None else _array(owners)
    corpus = Corpus.from_frame(frame, edges=data.edge_index, owners=own)
    return replace(
        corpus,
        name="pyg",
        texts=None if texts is None else corpus.texts,
        vectors=vectors,
        labels=labels.astype(np.int64),
        # A class that no document has keeps its number.
        classes=tuple(map(str, range(int(labels.max(initial=NO_LABEL)) + 1))),
        split=_split(data, count),
        facts=CorpusFacts(),
        remarks=None,
    )


def _first(data: Any, names: Sequence[str]) -> Any:
    return next((data[n] for n in names if n in data and data[n] is not None), None)


def _split(data: Any, count: int) -> NDArray[np.int8]:
    if _first(data, MASKS[:1]) is None:
        return np.full(count, TRAIN, dtype=np.int8)
    split = np.full(count, OUTSIDE, dtype=np.int8)
    for code, name in enumerate(MASKS):
        values = _first(data, [name])
        mask = np.zeros(count, bool) if values is None else _array(values).astype(bool)
        if mask.shape != (count,):
            raise DataError(
                f"The '{name}' of a Data must have one boolean for each of the {count} "
                f"documents. Got the shape {list(mask.shape)}: choose one of its columns."
            )
        if (split[mask] != OUTSIDE).any():
            raise DataError(
                f"The masks of a Data must not overlap. The '{name}' has a document of "
                "another mask."
            )
        split[mask] = code
    return split


def data_of(corpus: Corpus) -> Any:
    """The ``Data`` of a corpus: edges in both directions, masks for the split."""
    try:
        import torch
        from torch_geometric.data import Data
    except ImportError:
        raise MissingExtraError("Corpus.to_pyg", "graph") from None

    x = corpus.vectors
    if x is not None:
        dense = x.toarray() if hasattr(x, "toarray") else x
        x = torch.as_tensor(np.asarray(dense, dtype=np.float32))
    edges = torch.as_tensor(np.concatenate([corpus.edges, corpus.edges[::-1]], axis=1))
    data = Data(x=x, edge_index=edges, y=torch.as_tensor(corpus.labels), num_nodes=len(corpus))
    for code, name in enumerate(MASKS):
        data[name] = torch.as_tensor(corpus.split == code)
    if corpus.texts is not None:
        data.text = list(corpus.texts)
    if corpus.owners is not None:
        data.owners = torch.as_tensor(corpus.owners)
    return data


def _array(values: Any) -> NDArray[Any]:
    return np.asarray(values.detach().cpu().numpy() if hasattr(values, "detach") else values)


def _vectors(x: Any) -> csr_matrix | NDArray[np.float32]:
    if "sparse" in str(getattr(x, "layout", "")):
        from scipy.sparse import csr_matrix

        entries = x.to_sparse_coo().coalesce()
        return csr_matrix(
            (_array(entries.values()).astype(np.float32), _array(entries.indices())),
            shape=tuple(x.shape),
        )
    return _array(x).astype(np.float32)
