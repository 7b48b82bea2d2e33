"""The mean of public word vectors over a text, as the paper takes fastText's for Pokec.

Vectors come from a text file: fastText's ``.vec`` or GloVe's ``.txt``, also gzipped.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from privgcn.errors import DataError, DataNotAvailableError
from privgcn.features.base import LOCAL, PublicVectors, bare_name, in_folder
from privgcn.features.words import Language, WithoutStopWords
from privgcn.files import data_folder
from privgcn_paper.bags import split_words

if TYPE_CHECKING:
    pass

SLOVAK = "cc.sk.300.vec.gz"
"""The Slovak fastText vectors of Grave et al. (2018), as published."""

_SAMPLE = 1 << 20
_LONGEST_LINE = 1 << 20
_MOST_NUMBERS = 10_000

Vectors = dict[str, npt.NDArray[np.float32]]


class WordVectors(PublicVectors, WithoutStopWords):
    """Averages pre-trained vectors over the words of a text; zero where none is known.

    Args:
        source: A ``.vec`` or ``.txt`` file, also gzipped: its path, or its name in
            ``word-vectors`` of the data folder.
        lowercase: Whether words are lower-cased first, as GloVe's are.
    """

    kind = "word-vectors"
    # The file is read once for each chunk.
    _chunk: ClassVar[int] = 1 << 16

    source: Annotated[str, LOCAL] = ""
    lowercase: bool = True

    @property
    def _what(self) -> str:
        return f"word vectors '{bare_name(self.source)}'"

    def model_post_init(self, context: Any) -> None:
        """Where the user says that the file lies."""
        self._path = Path(self.source)

    def _file(self) -> Path:
        if self._path is not None:
            return find_vectors(str(self._path))
        home = data_folder() / "word-vectors"
        path = in_folder(self.source, home)
        if path is None:
            raise DataNotAvailableError(
                f"The word vectors '{self.source}' of this model must be on this machine. They "
                f"are not. Give the path of the file, or put it into {home}."
            )
        return path

    def _width(self) -> int:
        return look_up(self._file(), ())[1]

    def _encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        left_out = frozenset(self.left_out)
        words = [
            [
                word
                for word in split_words(text, lowercase=self.lowercase)
                if word.lower() not in left_out
            ]
            for text in texts
        ]
        known, dimension = look_up(self._file(), {word for own in words for word in own})
        rows = np.zeros((len(texts), dimension), dtype=np.float32)
        for row, own in zip(rows, words, strict=True):
            found = [known[word] for word in own if word in known]
            if found:
                row[:] = np.mean(found, axis=0)
        return rows

    def _checksum(self) -> str:
        """What tells one file of word vectors from another without reading all of it."""
        path = self._file()
        with path.open("rb") as stream:
            first = stream.read(_SAMPLE)
            stream.seek(max(0, path.stat().st_size - _SAMPLE))
            last = stream.read(_SAMPLE)
        return f"{path.stat().st_size} {hashlib.sha256(first + last).hexdigest()}"


class FastText(WordVectors):
    """As in the paper: fastText's vectors of the language, here Slovak; every word counts."""

    kind = "fasttext"

    source: Annotated[str, LOCAL] = SLOVAK
    stop_words: Language = None


def find_vectors(source: str) -> Path:
    """The file that the user named: its path, or its name in the data folder."""
    path, stored = Path(source).expanduser(), data_folder() / "word-vectors" / source
    for file in (path, stored):
        if file.is_file():
            return file
    raise DataNotAvailableError(
        f"The word vectors '{source}' are not on this machine: neither {path} nor {stored} is "
        "there. Give the path of a fastText .vec file or of a GloVe .txt file as the option "
        "'source'."
    )


def look_up(path: Path, words: Collection[str]) -> tuple[Vectors, int]:
    """The vectors of those ``words`` that are known, and their dimension.

    Only the asked-for words are stored: the files have millions.
    """
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
                    if not header and b"\0" in line:
                        raise ValueError("it is no text; take the .vec file of the model")
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
