"""Cora, CiteSeer and PubMed from the raw Planetoid files, with the paper's split.

The files are Python 2 pickles. A pickle can run any code, so a file is read only after its
checksum, and then by an unpickler that knows the five types these files hold.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from privgcn.corpus.card import DatasetCard, RawFile, read_checked
from privgcn.corpus.corpus import (
    TEST,
    TRAIN,
    VALIDATION,
    Corpus,
    CorpusFacts,
    canonical_edges,
)
from privgcn.errors import DataError

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_URL = "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data/"
_VALIDATION = 500

# Bytes and sha256 of each file: the last part of its name, as published.
_SUMS: dict[str, dict[str, tuple[int, str]]] = {
    "Cora": {
        "allx": (257_305, "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543"),
        "ally": (47_959, "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71"),
        "graph": (59_847, "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d"),
        "test.index": (
            5_000,
            "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
        ),
        "tx": (148_025, "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a"),
        "ty": (28_135, "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad"),
        "x": (22_119, "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab"),
        "y": (4_054, "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1"),
    },
    "CiteSeer": {
        "allx": (595_021, "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668"),
        "ally": (55_623, "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95"),
        "graph": (61_987, "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7"),
        "test.index": (
            5_000,
            "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
        ),
        "tx": (260_321, "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21"),
        "ty": (24_135, "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce"),
        "x": (31_087, "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6"),
        "y": (3_014, "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924"),
    },
    "PubMed": {
        "allx": (7_578_385, "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e"),
        "ally": (224_739, "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e"),
        "graph": (471_808, "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9"),
        "test.index": (
            6_000,
            "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
        ),
        "tx": (405_505, "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d"),
        "ty": (12_135, "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd"),
        "x": (23_172, "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33"),
        "y": (854, "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3"),
    },
}


@dataclass(frozen=True)
class _Recipe:
    """What differs between the three datasets."""

    folder: str
    classes: tuple[str, ...]
    vectors: str

    def file(self, part: str) -> RawFile:
        size, checksum = _SUMS[self.folder][part]
        name = f"ind.{self.folder.lower()}.{part}"
        return RawFile(f"planetoid/{self.folder}/raw/{name}", size, checksum, _URL + name)

    @property
    def files(self) -> tuple[RawFile, ...]:
        return tuple(self.file(part) for part in _SUMS[self.folder])


class _PlanetoidUnpickler(pickle.Unpickler):
    """Reads arrays, sparse matrices and adjacency lists, and refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("numpy.core.multiarray", "_reconstruct"):
            # numpy 2 moved the function; the files still carry its old address.
            return np.zeros(0).__reduce__()[0]
        if (module, name) in (("numpy", "ndarray"), ("numpy", "dtype")):
            return getattr(np, name)
        if (module, name) == ("scipy.sparse.csr", "csr_matrix"):
            from scipy.sparse import csr_matrix

            return csr_matrix
        if (module, name) == ("collections", "defaultdict"):
            from collections import defaultdict

            return defaultdict
        if (module, name) == ("__builtin__", "list"):
            return list
        raise DataError(
            f"A Planetoid file must hold numpy and scipy values only. Got {module}.{name}, "
            "which is not read because a pickle can run any code. Fetch the published file."
        )


def unpickle(data: bytes) -> Any:
    """The value of a Planetoid pickle.

    Raises:
        DataError: It holds a type that these files do not have, or it is cut.
    """
    try:
        return _PlanetoidUnpickler(io.BytesIO(data), encoding="latin1").load()
    except (pickle.UnpicklingError, EOFError, ValueError, IndexError, KeyError) as error:
        raise DataError(f"A Planetoid file can not be read: {error}.") from error


def _load(recipe: _Recipe, folder: Path, seed: int) -> Corpus:
    """Assembles one dataset; ``seed`` is not used because the benchmark fixes the split."""
    part = {name: read_checked(recipe.file(name), folder) for name in _SUMS[recipe.folder]}
    test = np.array(part["test.index"].split(), dtype=np.int64)
    known, trained = unpickle(part["allx"]), unpickle(part["y"]).shape[0]
    count = int(test.max()) + 1
    vectors = _assemble(known, unpickle(part["tx"]), test, count)
    one_hot = np.zeros((count, len(recipe.classes)), dtype=np.int64)
    one_hot[: known.shape[0]] = unpickle(part["ally"])
    one_hot[test] = unpickle(part["ty"])
    name = recipe.folder.lower()
    return Corpus(
        name=name,
        ids=np.arange(count).astype(str).astype(object),
        vectors=vectors,
        # CiteSeer: 15 documents are in the graph but in no feature file. They have zero
        # vectors and, as everywhere in the literature, count as class 0 of the training set.
        labels=one_hot.argmax(axis=1).astype(np.int64),
        classes=recipe.classes,
        edges=_edges(unpickle(part["graph"]), count),
        split=_paper_split(count, trained, test),
        facts=CorpusFacts(
            source=name,
            classes_declared=True,
            split_origin="benchmark",
            public_vectors=recipe.vectors,
        ),
    )


def _paper_split(
    count: int, public_training: int, test: npt.NDArray[np.int64]
) -> npt.NDArray[np.int8]:
    """Training documents are all those outside the benchmark's validation and test sets."""
    split = np.full(count, TRAIN, dtype=np.int8)
    split[public_training : public_training + _VALIDATION] = VALIDATION
    split[test] = TEST
    return split


def _assemble(
    known: csr_matrix, tested: csr_matrix, test: npt.NDArray[np.int64], count: int
) -> csr_matrix:
    """Vectors in document order; a test document without a row gets a zero vector."""
    from scipy.sparse import csr_matrix, vstack

    stacked = vstack([known, tested, csr_matrix((1, known.shape[1]))]).tocsr()
    row_of = np.full(count, stacked.shape[0] - 1, dtype=np.int64)
    row_of[: known.shape[0]] = np.arange(known.shape[0])
    row_of[test] = known.shape[0] + np.arange(len(test))
    return csr_matrix(stacked[row_of], dtype=np.float32)


def _edges(graph: dict[int, list[int]], count: int) -> npt.NDArray[np.int64]:
    lengths = np.fromiter((len(linked) for linked in graph.values()), dtype=np.int64)
    source = np.repeat(np.fromiter(graph, dtype=np.int64), lengths)
    target = np.fromiter(
        (other for linked in graph.values() for other in linked), dtype=np.int64
    )
    return canonical_edges(source, target, count)


CORA_CLASSES = (
    "Theory",
    "Reinforcement_Learning",
    "Genetic_Algorithms",
    "Neural_Networks",
    "Probabilistic_Methods",
    "Case_Based",
    "Rule_Learning",
)
_BINARY = "binary bag of words published with the dataset, its vocabulary chosen from all of it"
_TFIDF = "tf-idf published with the dataset, its vocabulary and idf computed from all of it"

_RECIPES = (
    (
        _Recipe("Cora", CORA_CLASSES, _BINARY),
        ("Machine learning papers and their citations", 2_708, 5_278, "1433 binary words"),
    ),
    (
        # The files hold numbers only; the class sizes identify the names.
        _Recipe("CiteSeer", ("AI", "ML", "IR", "DB", "Agents", "HCI"), _BINARY),
        ("Computer science papers and their citations", 3_327, 4_552, "3703 binary words"),
    ),
    (
        _Recipe("PubMed", ("Experimental", "Type_1", "Type_2"), _TFIDF),
        ("Diabetes papers and their citations", 19_717, 44_324, "500 tf-idf words"),
    ),
)

CARDS = tuple(
    DatasetCard(
        name=recipe.folder.lower(),
        title=title,
        language="English",
        synthetic=False,
        licence="MIT (Planetoid repository)",
        documents=documents,
        links=links,
        classes=len(recipe.classes),
        features=features,
        load=partial(_load, recipe),
        files=recipe.files,
        origin="github.com/kimiyoung/planetoid, folder data",
    )
    for recipe, (title, documents, links, features) in _RECIPES
)
