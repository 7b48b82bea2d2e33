"""Cora, CiteSeer and PubMed from the raw Planetoid files, with the paper's split.

The files are Python 2 pickles. A pickle can run any code, so a file is read only after its
checksum, and then by an unpickler that knows the five types these files hold.
"""

from __future__ import annotations

import io
import pickle
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privgcn.data.corpus import TEST, TRAIN, VALIDATION, Corpus, CorpusFacts
from privgcn.data.edges import canonical_edges
from privgcn.errors import DataError, reason, shown
from privgcn_paper.datasets.raw import PublishedDataset

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_VALIDATION = 500

CORA_CLASSES = (
    *("Theory", "Reinforcement_Learning", "Genetic_Algorithms", "Neural_Networks"),
    *("Probabilistic_Methods", "Case_Based", "Rule_Learning"),
)
_CLASSES = {
    "cora": CORA_CLASSES,
    # The files hold numbers only; the class sizes identify the names.
    "citeseer": ("AI", "ML", "IR", "DB", "Agents", "HCI"),
    "pubmed": ("Experimental", "Type_1", "Type_2"),
}
_BINARY = "binary bag of words published with the dataset, its vocabulary chosen from all of it"
_TFIDF = "tf-idf published with the dataset, its vocabulary and idf computed from all of it"


class _PlanetoidUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        from scipy.sparse import csr_matrix

        known = {
            # numpy 2 moved the function; the files still carry its old address.
            "numpy.core.multiarray._reconstruct": np.zeros(0).__reduce__()[0],
            "numpy.ndarray": np.ndarray,
            "numpy.dtype": np.dtype,
            "scipy.sparse.csr.csr_matrix": csr_matrix,
            "collections.defaultdict": defaultdict,
            "__builtin__.list": list,
        }
        if f"{module}.{name}" in known:
            return known[f"{module}.{name}"]
        raise DataError(
            "A Planetoid file must hold numpy and scipy values only. Got "
            f"{shown(f'{module}.{name}')}, "
            "which is not read because a pickle can run any code. Fetch the published file."
        )


def unpickle(data: bytes) -> Any:
    """The value of a Planetoid pickle."""
    try:
        return _PlanetoidUnpickler(io.BytesIO(data), encoding="latin1").load()
    except DataError:
        raise
    # A broken pickle calls what it knows with anything, which may then say anything.
    except Exception as error:
        raise DataError(f"A Planetoid file cannot be read: {reason(error)}.") from error


def load(card: PublishedDataset, folder: Path, seed: int) -> Corpus:
    """Assembles one dataset; ``seed`` is not used because the benchmark fixes the split."""
    name, classes = card.name, _CLASSES[card.name]
    part = {file.path.partition(f"ind.{name}.")[2]: file.read(folder) for file in card.files}
    test = np.array(part["test.index"].split(), dtype=np.int64)
    known, trained = unpickle(part["allx"]), unpickle(part["y"]).shape[0]
    count = int(test.max()) + 1
    vectors = _assemble(known, unpickle(part["tx"]), test, count)
    one_hot = np.zeros((count, len(classes)), dtype=np.int64)
    one_hot[: known.shape[0]] = unpickle(part["ally"])
    one_hot[test] = unpickle(part["ty"])
    # Training documents are all those outside the benchmark's validation and test sets.
    split = np.full(count, TRAIN, dtype=np.int8)
    split[trained : trained + _VALIDATION] = VALIDATION
    split[test] = TEST
    return Corpus(
        name=name,
        ids=np.arange(count).astype(str).astype(object),
        vectors=vectors,
        # CiteSeer: 15 documents are in the graph but in no feature file. They have zero
        # vectors and, as everywhere in the literature, count as class 0 of the training set.
        labels=one_hot.argmax(axis=1).astype(np.int64),
        classes=classes,
        edges=_edges(unpickle(part["graph"]), count),
        split=split,
        facts=CorpusFacts(
            source=name,
            classes_declared=True,
            split_origin="benchmark",
            public_vectors=_TFIDF if name == "pubmed" else _BINARY,
        ),
    )


def _assemble(
    known: csr_matrix, tested: csr_matrix, test: NDArray[np.int64], count: int
) -> csr_matrix:
    """Vectors in document order; a test document without a row gets a zero vector."""
    from scipy.sparse import csr_matrix, vstack

    stacked = vstack([known, tested, csr_matrix((1, known.shape[1]))]).tocsr()
    row_of = np.full(count, stacked.shape[0] - 1, dtype=np.int64)
    row_of[: known.shape[0]] = np.arange(known.shape[0])
    row_of[test] = known.shape[0] + np.arange(len(test))
    return csr_matrix(stacked[row_of], dtype=np.float32)


def _edges(graph: dict[int, list[int]], count: int) -> NDArray[np.int64]:
    lengths = np.fromiter((len(others) for others in graph.values()), dtype=np.int64)
    source = np.repeat(np.fromiter(graph, dtype=np.int64), lengths)
    target = np.fromiter(
        (other for others in graph.values() for other in others), dtype=np.int64
    )
    return canonical_edges(source, target, count)
