"""The mean of public word vectors over a text, as the paper takes fastText's for Pokec.

Vectors come from a text file of fastText (``.vec``) or GloVe (``.txt``), or from a ``.bin``
model of fastText, which is read without fastText. That format is fastText's own (version 12):
settings, dictionary, and one float matrix with a row for each word and each bucket of character
n-grams. A word's vector is the mean of its own row and the rows of its n-grams; an unknown word
has its n-grams only. The matrix, which can have gigabytes, is mapped and never loaded.
"""

from __future__ import annotations

import gzip
import hashlib
import mmap
import struct
import zlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from privgcn.data.download import data_folder
from privgcn.errors import DataError, DataNotAvailableError
from privgcn.features.base import (
    FITTED,
    LOCAL,
    PublicVectors,
    Ready,
    bare_name,
    in_folder,
)
from privgcn.features.words import Language, WithoutStopWords, split_words

if TYPE_CHECKING:
    from privgcn.data import Corpus

SLOVAK = "cc.sk.300.bin"
"""The Slovak fastText model of Grave et al. (2018)."""

_SAMPLE = 1 << 20
_LONGEST_LINE = 1 << 20
_MOST_NUMBERS = 10_000

_MAGIC = 793_712_314
_VERSION = 12
_SETTINGS = struct.Struct("<12id")
_DICTIONARY = struct.Struct("<iiiqq")
_ENTRY = struct.Struct("<qb")
_END_OF_SENTENCE = "</s>"

Vectors = dict[str, npt.NDArray[np.float32]]


class WordVectors(PublicVectors, WithoutStopWords):
    """Averages pre-trained vectors over the words of a text; zero where none is known.

    Args:
        source: A fastText ``.bin`` or ``.vec`` or a GloVe ``.txt`` file: its path, or its name
            in ``word-vectors`` of the data folder.
        lowercase: Whether words are lower-cased first, as GloVe's are.
    """

    kind = "word-vectors"
    # The file is read once for each chunk.
    _chunk: ClassVar[int] = 1 << 16

    source: Annotated[str, LOCAL] = ""
    lowercase: bool = True
    name: Annotated[str, FITTED] = ""

    @property
    def _what(self) -> str:
        return f"word vectors '{self.name or Path(self.source).name}'"

    def fit(self, corpus: Corpus) -> Self:
        """Looks the file up; there is nothing to learn."""
        if not self._stored:
            self.name = Path(bare_name(self.source)).name
        return super().fit(corpus)

    def _file(self) -> Path:
        """The file of vectors."""
        if self._path is not None:
            return find_vectors(str(self._path))
        if not self._stored:
            return find_vectors(self.source)
        home = data_folder() / "word-vectors"
        path = in_folder(self.name, home)
        if path is None:
            raise DataNotAvailableError(
                f"The word vectors '{self.name}' of this model must be on this machine. They "
                f"are not. Give the path of the file, or put it into {home}."
            )
        return path

    def _width(self) -> int:
        return look_up(self._file(), ())[1]

    def _encode(self, texts: Sequence[str], ready: Ready) -> npt.NDArray[np.float32]:
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
        known, dimension = look_up(self._file(), codes)
        table = np.zeros((len(codes), dimension), dtype=np.float32)
        is_known = np.zeros(len(codes), dtype=np.float32)
        for word, vector in known.items():
            table[codes[word]] = vector
            is_known[codes[word]] = 1
        # Words stay in the order of their text, so that sums round as in any other company.
        counts = csr_matrix(
            (np.ones(len(columns), dtype=np.float32), columns, ends),
            shape=(len(ends) - 1, len(codes)),
        )
        most = np.maximum(counts @ is_known, 1)
        ready(len(texts))
        return np.asarray((counts @ table) / most[:, None], dtype=np.float32)

    def _checksum(self) -> str:
        """What tells one file of word vectors from another without reading all of it."""
        path = self._file()
        with path.open("rb") as stream:
            first = stream.read(_SAMPLE)
            stream.seek(max(0, path.stat().st_size - _SAMPLE))
            last = stream.read(_SAMPLE)
        return f"{path.stat().st_size} {hashlib.sha256(first + last).hexdigest()}"


class FastText(WordVectors):
    """As in the paper: fastText's model of the language, here Slovak, and every word counts.

    Args:
        source: As above.
        stop_words: As above.
    """

    kind = "fasttext"

    source: Annotated[str, LOCAL] = SLOVAK
    stop_words: Language = None


def look_up(path: Path, words: Collection[str]) -> tuple[Vectors, int]:
    """The vectors of those ``words`` that are known, and their dimension.

    Only the asked-for words are stored: the files have millions.

    Args:
        path: A file: fastText ``.bin``, or text as fastText (``.vec``) and GloVe (``.txt``)
            write it, also gzipped.
        words: What to look up.

    Raises:
        DataError: The file is corrupt.
    """
    if path.suffix == ".bin":
        model = FastTextModel(path)
        vectors = {word: model.vector(word) for word in words}
        return {word: row for word, row in vectors.items() if row is not None}, model.dimension
    return _from_text(path, words)


def find_vectors(source: str) -> Path:
    """The file that the user named: its path, or its name in the data folder.

    Raises:
        DataNotAvailableError: There is no such file.
    """
    path, stored = Path(source).expanduser(), data_folder() / "word-vectors" / source
    for file in (path, stored):
        if file.is_file():
            return file
    raise DataNotAvailableError(
        f"The word vectors '{source}' are not on this machine: neither {path} nor {stored} is "
        "there. Give the path of a fastText .bin or .vec file or of a GloVe .txt file as the "
        "option 'source'."
    )


def _from_text(path: Path, words: Collection[str]) -> tuple[Vectors, int]:
    wanted = {word.encode("utf-8", "replace"): word for word in words}
    vectors: Vectors = {}
    dimension = number = 0
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rb") as stream:
            # Lines of bounded length: a small gzip file can hold one of many gigabytes.
            for number, line in enumerate(iter(lambda: stream.readline(_LONGEST_LINE), b""), 1):
                if len(line) == _LONGEST_LINE:
                    raise ValueError(f"a line has at most {_LONGEST_LINE - 1} bytes")
                if number == 1:
                    fields = line.split()
                    header = len(fields) == 2 and all(field.isdigit() for field in fields)
                    dimension = int(fields[1]) if header else len(fields) - 1
                    if dimension > _MOST_NUMBERS:
                        raise ValueError(f"vectors have at most {_MOST_NUMBERS} numbers")
                    if not wanted:
                        break
                    if header:
                        continue
                word = line[: line.find(b" ")]
                if word not in wanted:
                    continue
                # Vectors are split from the right: some GloVe words hold spaces.
                fields = line.rstrip().rsplit(b" ", dimension)
                if len(fields) != dimension + 1:
                    raise ValueError(f"{len(fields) - 1} numbers instead of {dimension}")
                if fields[0] == word:
                    vectors.setdefault(wanted[word], np.array(fields[1:], dtype=np.float32))
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"The file {path} must hold a word and its numbers on each line. Line {number} "
            f"does not ({error}). The file may have been cut: copy it again."
        ) from error
    if dimension < 1:
        raise DataError(f"The file {path} must hold word vectors. Got none.")
    return vectors, dimension


class FastTextModel:
    """Vectors of words, known or not.

    Args:
        path: A ``.bin`` file.

    Raises:
        DataError: The file is cut, of another format, or quantised.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with path.open("rb") as stream:
                data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
                self._read(data)
        except OSError as error:
            raise DataError(f"The file {path} cannot be read: {error.strerror}.") from error
        except (struct.error, ValueError, IndexError) as error:
            raise DataError(
                f"The file {path} must be a complete fastText model. It cannot be read "
                f"({error}). It may have been cut: copy it again."
            ) from error

    def _read(self, data: Any) -> None:
        magic, version = struct.unpack_from("<ii", data, 0)
        if magic != _MAGIC or version != _VERSION:
            raise DataError(
                f"The file {self._path} must be a fastText model of version {_VERSION}. Got "
                "another format. Use a .bin file of fastText, or a text file named .vec."
            )
        settings = _SETTINGS.unpack_from(data, 8)
        self.dimension, self._buckets = settings[0], settings[8]
        self._shortest, self._longest = settings[9], settings[10]
        at = 8 + _SETTINGS.size
        size, self._words, _, _, pruned = _DICTIONARY.unpack_from(data, at)
        at += _DICTIONARY.size
        self._rows: dict[str, int] = {}
        for row in range(size):
            end = data.find(b"\0", at)
            if end < 0:
                raise ValueError("the dictionary is not complete")
            word = data[at:end].decode("utf-8", "replace")
            at = end + 1 + _ENTRY.size
            if row < self._words:
                self._rows[word] = row
        if pruned >= 0 or data[at]:
            raise DataError(
                f"The file {self._path} must not be quantised. Got a quantised model. Use the "
                ".bin file instead of the .ftz file."
            )
        height, width = struct.unpack_from("<qq", data, at + 1)
        at += 17
        if not 1 <= self.dimension <= _MOST_NUMBERS:
            raise ValueError(f"vectors have 1 to {_MOST_NUMBERS} numbers")
        if (
            width != self.dimension
            or self._words < 0
            or height < self._words + max(0, self._buckets)
            or height * width * 4 > len(data) - at
        ):
            raise ValueError("the matrix is not complete")
        flat = np.frombuffer(data, dtype="<f4", count=height * width, offset=at)
        self._matrix = flat.reshape(height, width)

    def vector(self, word: str) -> npt.NDArray[np.float32] | None:
        """The vector of a word; None for a word without any known n-gram."""
        rows = [] if word not in self._rows else [self._rows[word]]
        if word != _END_OF_SENTENCE and self._buckets > 0:
            # The length of an n-gram counts characters, the hash takes bytes.
            whole = f"<{word}>"
            grams = (
                whole[start : start + size]
                for start in range(len(whole))
                for size in range(max(1, self._shortest), self._longest + 1)
                if start + size <= len(whole)
            )
            codes = (fnv_hash(gram.encode()) for gram in grams if gram not in ("<", ">"))
            rows += [self._words + code % self._buckets for code in codes]
        if not rows:
            return None
        return np.asarray(self._matrix[rows].mean(axis=0, dtype=np.float32))


def fnv_hash(data: bytes) -> int:
    """The 32-bit FNV-1a of fastText: its bytes are signed, so those above 127 set high bits."""
    value = 2_166_136_261
    for byte in data:
        value ^= byte if byte < 128 else 0xFFFFFF00 | byte
        value = (value * 16_777_619) & 0xFFFFFFFF
    return value
