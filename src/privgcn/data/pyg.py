"""Exchange with PyTorch Geometric: its ``Data`` as a corpus, and back.

torch and the library are imported when something is made with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privgcn.data.corpus import NO_LABEL, OUTSIDE, TRAIN, Corpus, CorpusFacts
from privgcn.data.edges import refuse_weights
from privgcn.data.frames import table_of_columns
from privgcn.data.ingest import corpus_fields
from privgcn.data.problems import Problems
from privgcn.data.table import RESERVED
from privgcn.errors import DataError, MissingExtraError

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

MASKS = ("train_mask", "val_mask", "test_mask")
"""In the order of the split's codes."""

_TEXTS = ("text", "texts", "raw_texts")
_WEIGHTS = ("edge_weight", "edge_attr")


def is_pyg(value: Any) -> bool:
    """Whether a value is a ``Data``, by its parts."""
    return hasattr(value, "edge_index") and hasattr(value, "num_nodes")


def corpus_of_data(data: Any) -> Corpus:
    """The documents of a ``Data``; see ``Corpus.from_pyg``."""
    texts = next((list(data[name]) for name in _TEXTS if name in data), None)
    vectors = None if data.x is None else _vectors(data.x)
    if (vectors is None and texts is None) or data.edge_index is None:
        raise DataError(
            "A Data must have 'edge_index', and 'x' or 'text'. Got "
            f"{', '.join(sorted(data.keys())) or 'nothing'}."
        )
    weights = [f"'{name}'" for name in _WEIGHTS if name in data and data[name] is not None]
    count = len(texts or ()) if vectors is None else int(vectors.shape[0])
    labels = np.full(count, NO_LABEL) if data.y is None else _array(data.y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or labels.dtype.kind not in "iub":
        raise DataError(
            "The 'y' of a Data must have one class number for each document. Got "
            f"{labels.dtype} of shape {list(labels.shape)}. Several labels for one document "
            "are not supported."
        )
    owners = next((data[name] for name in ("owners", "owner") if name in data), None)
    columns = {
        "id": np.arange(count),
        "text": texts,
        "owner": None if owners is None else _array(owners),
    }
    given = {name: values for name, values in columns.items() if values is not None}
    with Problems() as problems:
        refuse_weights(weights, "A Data", problems)
        table = table_of_columns(given, "The Data")
        fields = corpus_fields(
            iter([table]), data.edge_index, problems, name="pyg", required=(), vectors=vectors
        )
    fields["labels"], fields["split"] = labels.astype(np.int64), _split(data, count)
    # A class that no document has keeps its number.
    fields["classes"] = tuple(map(str, range(int(labels.max(initial=NO_LABEL)) + 1)))
    return Corpus(**{**fields, "facts": CorpusFacts(), "remarks": None})


def _split(data: Any, count: int) -> NDArray[Any]:
    """The split that the masks say."""
    masks = {name: data[name] for name in MASKS if name in data and data[name] is not None}
    split = np.full(count, OUTSIDE if "train_mask" in masks else TRAIN, dtype=np.int8)
    taken = np.zeros(count, dtype=bool)
    for name, values in masks.items() if "train_mask" in masks else ():
        mask = _array(values).astype(bool)
        if mask.shape != (count,):
            raise DataError(
                f"The '{name}' of a Data must have one boolean for each of the {count} "
                f"documents. Got the shape {list(mask.shape)}: choose one of its columns."
            )
        if bool((taken & mask).any()):
            raise DataError(
                f"The masks of a Data must not overlap. The '{name}' has a document of "
                "another mask."
            )
        taken |= mask
        split[mask] = MASKS.index(name)
    return split


def data_of(corpus: Corpus) -> Any:
    """The ``Data`` of a corpus: edges in both directions, masks for the split."""
    try:
        import torch
        from torch_geometric.data import Data
    except ImportError:
        raise MissingExtraError("Corpus.to_pyg", "graph") from None

    vectors = corpus.vectors
    if vectors is not None:
        dense = vectors.toarray() if hasattr(vectors, "toarray") else vectors
        vectors = torch.as_tensor(np.asarray(dense, dtype=np.float32))
    edges = torch.as_tensor(corpus.edges)
    data = Data(
        x=vectors,
        edge_index=torch.cat([edges, edges.flip(0)], dim=1),
        y=torch.as_tensor(corpus.labels),
        num_nodes=len(corpus.ids),
    )
    for code, name in enumerate(MASKS):
        data[name] = torch.as_tensor(corpus.split == code)
    if corpus.texts is not None:
        data.text = list(corpus.texts)
    if corpus.owners is not None:
        data.owners = torch.as_tensor(corpus.owners)
    for name, values in corpus.columns.items():
        if name not in data and name not in RESERVED:
            data[name] = list(values)
    return data


def _array(values: Any) -> NDArray[Any]:
    return np.asarray(values.detach().cpu().numpy() if hasattr(values, "detach") else values)


def _vectors(x: Any) -> csr_matrix | NDArray[np.float32]:
    if getattr(x, "is_sparse", False) or str(getattr(x, "layout", "")) == "torch.sparse_csr":
        from scipy.sparse import csr_matrix

        entries = x.to_sparse_coo().coalesce()
        return csr_matrix(
            (_array(entries.values()).astype(np.float32), _array(entries.indices())),
            shape=tuple(x.shape),
        )
    return _array(x).astype(np.float32)
