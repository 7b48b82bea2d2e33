"""MNIST from its idx files: images as vectors, no links."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from privgcn.corpus.card import DatasetCard, RawFile, read_checked
from privgcn.corpus.corpus import TEST, TRAIN, Corpus, CorpusFacts, no_edges
from privgcn.errors import DataError

_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_BYTE = 0x08


def _file(name: str, size: int, checksum: str) -> RawFile:
    return RawFile(f"mnist/MNIST/raw/{name}", size, checksum, _URL + name)


_TRAIN_IMAGES = _file(
    "train-images-idx3-ubyte.gz",
    9_912_422,
    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
)
_TRAIN_LABELS = _file(
    "train-labels-idx1-ubyte.gz",
    28_881,
    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
)
_TEST_IMAGES = _file(
    "t10k-images-idx3-ubyte.gz",
    1_648_877,
    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
)
_TEST_LABELS = _file(
    "t10k-labels-idx1-ubyte.gz",
    4_542,
    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
)


def read_idx(data: bytes, name: str) -> npt.NDArray[np.uint8]:
    """The array of bytes in a gzipped idx file.

    Raises:
        DataError: The file is cut or of another format.
    """
    try:
        plain = gzip.decompress(data)
        zero, kind, dimensions = struct.unpack_from(">HBB", plain)
        shape = struct.unpack_from(f">{dimensions}I", plain, 4)
        if zero or kind != _BYTE:
            raise ValueError("it does not hold bytes")
        return np.frombuffer(plain, dtype=np.uint8, offset=4 + 4 * dimensions).reshape(shape)
    except (EOFError, OSError, zlib.error, struct.error, ValueError) as error:
        raise DataError(
            f"The file {name} must be a complete idx file. It can not be read ({error}). "
            "It may have been cut: fetch it again."
        ) from error


def _load(folder: Path, seed: int) -> Corpus:
    """Reads the four files; ``seed`` is not used because the benchmark fixes the split."""
    images, labels = [], []
    for pictures, digits in ((_TRAIN_IMAGES, _TRAIN_LABELS), (_TEST_IMAGES, _TEST_LABELS)):
        images.append(read_idx(read_checked(pictures, folder), pictures.path))
        labels.append(read_idx(read_checked(digits, folder), digits.path))
    sizes = [len(part) for part in labels]
    vectors = np.concatenate([part.reshape(len(part), -1) for part in images])
    return Corpus(
        name="mnist",
        ids=np.arange(sum(sizes)).astype(str).astype(object),
        vectors=vectors.astype(np.float32) / np.float32(255),
        labels=np.concatenate(labels).astype(np.int64),
        classes=tuple("0123456789"),
        edges=no_edges(),
        split=np.repeat(np.array([TRAIN, TEST], dtype=np.int8), sizes),
        facts=CorpusFacts(
            source="mnist",
            classes_declared=True,
            split_origin="benchmark",
            public_vectors="pixels between 0 and 1",
        ),
    )


CARD = DatasetCard(
    name="mnist",
    title="Handwritten digits as vectors, without links",
    language="none",
    synthetic=False,
    licence="not stated",
    documents=70_000,
    links=0,
    classes=10,
    features="784 pixels",
    load=_load,
    files=(_TRAIN_IMAGES, _TRAIN_LABELS, _TEST_IMAGES, _TEST_LABELS),
    origin="yann.lecun.com/exdb/mnist",
)
