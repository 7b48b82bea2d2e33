"""MNIST from its idx files: images as vectors, no edges."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from privgcn.data.corpus import TEST, TRAIN, Corpus, CorpusFacts
from privgcn.errors import DataError
from privgcn_paper.datasets.raw import PublishedDataset

_BYTE = 0x08


def read_idx(data: bytes, name: str) -> NDArray[np.uint8]:
    """The array of bytes in a gzipped idx file."""
    try:
        plain = gzip.decompress(data)
        zero, kind, dimensions = struct.unpack_from(">HBB", plain)
        shape = struct.unpack_from(f">{dimensions}I", plain, 4)
        if zero or kind != _BYTE:
            raise ValueError("it does not hold bytes")
        return np.frombuffer(plain, dtype=np.uint8, offset=4 + 4 * dimensions).reshape(shape)
    except (EOFError, OSError, zlib.error, struct.error, ValueError) as error:
        raise DataError(
            f"The file {name} must be a complete idx file. It cannot be read ({error}). "
            "It may have been cut: fetch it again."
        ) from error


def load(card: PublishedDataset, folder: Path, seed: int) -> Corpus:
    """Reads the four files; ``seed`` is not used because the benchmark fixes the split."""
    parts = [read_idx(file.read(folder), file.path) for file in card.files]
    images, labels = parts[::2], parts[1::2]
    sizes = [len(part) for part in labels]
    vectors = np.concatenate([part.reshape(len(part), -1) for part in images])
    return Corpus(
        name="mnist",
        ids=np.arange(sum(sizes)).astype(str).astype(object),
        vectors=vectors.astype(np.float32) / np.float32(255),
        labels=np.concatenate(labels).astype(np.int64),
        classes=tuple("0123456789"),
        split=np.repeat(np.array([TRAIN, TEST], dtype=np.int8), sizes),
        facts=CorpusFacts(
            source="mnist",
            classes_declared=True,
            split_origin="benchmark",
            public_vectors="pixels between 0 and 1",
        ),
    )
