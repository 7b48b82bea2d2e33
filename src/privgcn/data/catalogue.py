"""One way to every corpus: a dataset that is known by name, or a user's folder.

The package brings ``clinic``; entry points of the group ``privgcn.datasets`` name the
:class:`DatasetCard` of each further one.

Examples:
    >>> from privgcn.data import load_corpus
    >>> load_corpus("clinic").facts.synthetic
    True
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from privgcn import progress
from privgcn.data.corpus import Corpus
from privgcn.data.problems import Problems
from privgcn.errors import DataError, DataNotAvailableError, shown
from privgcn.files import data_folder

_GROUP = "privgcn.datasets"


@dataclass(frozen=True)
class DatasetCard:
    """A dataset that is known by name, which the user types.

    Attributes:
        loader: Reads it, given this card, a data folder and a seed.
        title: What it is, in a few words; says so when it is synthetic.
        features: What the documents come as.
        edges: How many undirected edges; None where it is known only after loading.
        encodings: Options of the feature kinds with which the literature encodes its texts;
            the first kind is the usual one. Empty where vectors come with the documents.
    """

    name: str
    loader: Callable[[Any, Path, int], Corpus]
    title: str
    language: str
    licence: str
    documents: int
    classes: int
    features: str
    edges: int | None = None
    encodings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def load(self, folder: Path, seed: int) -> Corpus:
        """Reads the dataset; ``seed`` is that of a split, where it has none of its own."""
        if self.missing(folder):
            raise DataNotAvailableError(
                f"The dataset '{self.name}' is not on this machine: "
                f"{folder / self.missing(folder)[0]} is missing. Get it with: privgcn fetch "
                f"{self.name}, or set PRIVGCN_DATA to a folder that holds it."
            )
        return self.loader(self, folder, seed)

    def missing(self, folder: Path) -> list[str]:
        """The raw files that are not below ``folder``."""
        return []

    def fetch(
        self, folder: Path, *, source: Path | None = None, progressbar: bool = False
    ) -> list[Path]:
        """Makes sure that the raw files are below ``folder``, and names them.

        ``source`` is a folder that has them, instead of a download.
        """
        return []


def dataset_names() -> tuple[str, ...]:
    """The names of all known datasets; ``clinic`` comes first."""
    return ("clinic", *sorted(_entry_points()))


def dataset(name: str) -> DatasetCard:
    """The card of a dataset."""
    if name == "clinic":
        from privgcn.data.clinic import CARD

        return CARD
    if name not in _entry_points():
        raise DataError(
            f"The name of a dataset must be one of {', '.join(dataset_names())}. Got "
            f"{shown(name)}.{_did_you_mean(name)}"
        )
    card: DatasetCard = _entry_points()[name].load()
    return card


def usual_encodings(source: str) -> Mapping[str, Mapping[str, Any]]:
    """The ``encodings`` of a dataset's card; none of a user's own documents."""
    return dataset(source).encodings if source in dataset_names() else {}


def load_corpus(
    source: str | os.PathLike[str],
    *,
    classes: Sequence[str] | None = None,
    seed: int = 0,
    data_dir: str | os.PathLike[str] | None = None,
    id: str | None = None,
    text: str | None = None,
    label: str | None = None,
    owner: str | None = None,
    split: str | None = None,
    edges: str | os.PathLike[str] | None = None,
    encoding: str | None = None,
) -> Corpus:
    """Loads a user's folder or file of documents, or a dataset that is known by name.

    A plain word that names a dataset means that dataset; write ``./cora`` for a folder of
    that name.

    Args:
        source: A folder, a file, or the name of a dataset.
        classes: The class set, where it is public knowledge. Without it the classes are
            read off the labels, and a privacy statement says so.
        seed: Of the random split, where the source has none of its own.
        data_dir: Where raw datasets are; default ``PRIVGCN_DATA`` or the user cache.
        id: The column of that meaning, where it has another name; so the next four.
        text: See ``id``.
        label: See ``id``.
        owner: See ``id``; it says whose each document is.
        split: See ``id``; ``random`` draws one whatever columns there are.
        edges: A file of edges, instead of the one in the folder.
        encoding: Of text files, where it is not UTF-8.

    Raises:
        DataError: The input breaks a rule; the message names file, line or id, rule and
            remedy.
        DataNotAvailableError: The dataset is known but not on this machine.
    """
    progress.begin("reading")
    name = os.fspath(source)
    reading: dict[str, Any] = {
        **{"id": id, "text": text, "label": label, "owner": owner, "split": split},
        **{"edges": edges, "encoding": encoding, "classes": classes},
    }
    if name in dataset_names():
        for option, value in reading.items():
            if value is not None:
                raise DataError(
                    f"The '{option}' is for documents of your own. Got the dataset '{name}', "
                    "which has its own. Leave it out."
                )
        return dataset(name).load(data_folder(data_dir), seed)
    from privgcn.data.ingest import read_documents

    path = documents_path(name)
    with Problems() as problems:
        fields = read_documents(path, problems, seed=seed, **reading)
    return Corpus(**fields)


def documents_path(name: str) -> Path:
    """The folder or file of a user's documents."""
    # Unlike those of pathlib, these raise nothing on a name that no file could have.
    path = os.path.expanduser(name)
    if not os.path.isdir(path) and not os.path.isfile(path):
        raise DataError(
            f"The source {shown(name)} must be a folder or a file of documents, or a dataset. "
            f"Got neither.{_did_you_mean(name)} Datasets: {', '.join(dataset_names())}."
        )
    return Path(path)


def resolved_source(source: str) -> str:
    """A source that means the same documents from anywhere on this machine."""
    known = source in dataset_names()
    return source if known else os.path.realpath(os.path.expanduser(source))


@cache
def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=_GROUP)}


def _did_you_mean(name: str) -> str:
    near = difflib.get_close_matches(os.path.basename(name), dataset_names(), n=1)
    return f" Did you mean '{near[0]}'?" if near else ""
