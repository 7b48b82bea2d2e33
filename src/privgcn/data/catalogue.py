"""One door to every corpus: a dataset that is known by name, or a user's folder."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from privgcn import progress
from privgcn.data import clinic, mnist, planetoid, pokec, reddit, stand_ins, text_graphs
from privgcn.data.card import DatasetCard
from privgcn.data.corpus import NO_LABEL, Corpus, check_classes
from privgcn.data.folder import load_folder
from privgcn.data.location import data_folder
from privgcn.data.pyg_datasets import PREFIX, load_pyg_dataset
from privgcn.errors import DataError, shown

DATASETS: dict[str, DatasetCard] = {
    card.name: card
    for card in (
        clinic.CARD,
        *planetoid.CARDS,
        *text_graphs.CARDS,
        *pokec.CARDS,
        reddit.CARD,
        *stand_ins.CARDS,
        mnist.CARD,
    )
}


def load_corpus(
    source: str | os.PathLike[str],
    *,
    classes: Sequence[str] | None = None,
    seed: int = 0,
    data_dir: str | os.PathLike[str] | None = None,
    require_labels: bool = True,
) -> Corpus:
    """Loads a user's folder of documents, or a dataset of the catalogue.

    A plain word that is in the catalogue means that dataset; write ``./cora`` for a folder
    of that name. ``pyg:Planetoid/Cora`` is a dataset of PyTorch Geometric whose raw files are
    in the data folder.

    Args:
        source: A folder, or the name of a dataset.
        classes: The class set, where it is public knowledge. Without it the classes are
            read off the labels, and a privacy statement says so.
        seed: Of the random split, where the source has none of its own.
        data_dir: Where raw datasets are; default ``PRIVGCN_DATA`` or the user cache.
        require_labels: Whether a ``label`` column with gaps among the training documents,
            or with one class only, is a mistake. Pass False for documents to predict on.

    Raises:
        DataError: The input breaks a rule; the message names file, place, rule and remedy.
        DataNotAvailableError: The dataset is known but not on this machine.

    Examples:
        >>> from privgcn import load_corpus
        >>> load_corpus("clinic").facts.synthetic
        True
    """
    progress.begin("reading")
    name = os.fspath(source)
    if name in DATASETS or name.startswith(PREFIX):
        folder = data_folder(data_dir)
        known = name in DATASETS
        corpus = DATASETS[name].load(folder, seed) if known else load_pyg_dataset(name, folder)
        return corpus if classes is None else _declare(corpus, classes)
    # Unlike those of pathlib, these two raise nothing on a name that no file could have.
    path = os.path.expanduser(name)
    if not os.path.isdir(path):
        got = "a file: name the folder it is in" if os.path.isfile(path) else "neither"
        raise DataError(
            f"The source {shown(name)} must be a folder with documents or a dataset of the "
            f"catalogue. Got {got}.{did_you_mean(name)} Known datasets: "
            f"{', '.join(sorted(DATASETS))}."
        )
    return load_folder(Path(path), classes=classes, seed=seed, require_labels=require_labels)


def resolved_source(source: str) -> str:
    """A source that means the same documents from anywhere on this machine."""
    named = source in DATASETS or source.startswith(PREFIX)
    return source if named else os.path.realpath(os.path.expanduser(source))


def did_you_mean(name: str) -> str:
    """A hint at the dataset whose name is nearest to what was typed; empty if none is near."""
    near = difflib.get_close_matches(name, DATASETS, n=1)
    return f" Did you mean '{near[0]}'?" if near else ""


def _declare(corpus: Corpus, classes: Sequence[str]) -> Corpus:
    """Maps the labels of a catalogue corpus to a declared class set."""
    declared = check_classes(classes)
    index = {name: code for code, name in enumerate(declared)}
    unknown = [name for name in corpus.classes if name not in index]
    if unknown:
        raise DataError(
            f"The 'classes' must hold every class of the dataset '{corpus.name}'. "
            f"'{unknown[0]}' is missing. Add it."
        )
    table = np.array([*(index[name] for name in corpus.classes), NO_LABEL], dtype=np.int64)
    return replace(
        corpus,
        classes=declared,
        labels=table[corpus.labels],
        facts=replace(corpus.facts, classes_declared=True),
    )
