"""Every dataset of the catalogue keeps the promises of its card and of Corpus."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from privgcn.data import Corpus, load_corpus
from privgcn.data.card import DatasetCard
from privgcn.data.catalogue import DATASETS
from privgcn.data.location import data_folder

# train, validation, test; the paper's sizes where it has the dataset.
SIZES = {
    "clinic": (2909, 364, 327),
    "cora": (1208, 500, 1000),
    "citeseer": (1827, 500, 1000),
    "pubmed": (18217, 500, 1000),
    "cora-text": (1208, 500, 1000),
    "citeseer-text": (2548, 319, 319),
    "pokec-like": (16_000, 2_000, 2_000),
    "reddit-like": (15_252, 2_383, 5_643),
    "mnist": (60_000, 0, 10_000),
}


def _marks(card: DatasetCard) -> list[pytest.MarkDecorator]:
    return [pytest.mark.dataset] if card.files else []


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=_marks(card)) for name, card in DATASETS.items()],
)
def loaded(request: pytest.FixtureRequest) -> tuple[DatasetCard, Corpus]:
    card = DATASETS[request.param]
    if card.files and "PRIVGCN_DATA" not in os.environ:
        pytest.skip("PRIVGCN_DATA is not set: the real datasets are not on this machine")
    if card.missing(data_folder()):
        pytest.skip(f"PRIVGCN_DATA does not hold '{card.name}'")
    return card, load_corpus(card.name)


def test_the_card_tells_the_truth(loaded: tuple[DatasetCard, Corpus]) -> None:
    card, corpus = loaded
    assert len(corpus) == card.documents
    assert card.links is None or corpus.edges.shape[1] == card.links
    assert corpus.num_classes == card.classes
    assert corpus.name == card.name
    assert corpus.facts.source == card.name
    assert corpus.facts.synthetic == card.synthetic
    if card.name in SIZES:
        assert (
            tuple(len(v) for v in (corpus.train, corpus.validation, corpus.test))
            == (SIZES[card.name])
        )


def test_synthetic_data_say_so_everywhere(loaded: tuple[DatasetCard, Corpus]) -> None:
    card, corpus = loaded
    if card.synthetic:
        assert "synthetic" in card.title.lower()
        assert "synthetic" in repr(corpus)
        assert not card.files
    else:
        assert "synthetic" not in card.title.lower()
        assert card.files
        assert all(file.sha256 and file.size for file in card.files if file.url)


def test_the_corpus_is_well_formed(loaded: tuple[DatasetCard, Corpus]) -> None:
    _, corpus = loaded
    assert corpus.ids.dtype == object
    assert len(set(corpus.ids)) == len(corpus)
    assert corpus.labels.dtype == np.int64
    assert corpus.split.dtype == np.int8
    assert corpus.edges.dtype == np.int64
    assert (corpus.edges[0] < corpus.edges[1]).all()
    keys = corpus.edges[0] * len(corpus) + corpus.edges[1]
    assert (np.diff(keys) > 0).all()
    if corpus.vectors is not None:
        assert corpus.vectors.dtype == np.float32
        assert corpus.facts.public_vectors
    if corpus.texts is not None:
        assert all(text.strip() for text in corpus.texts)
    assert not corpus.owners_cross_splits
    corpus.check_trainable()


def test_loading_twice_gives_the_same(loaded: tuple[DatasetCard, Corpus]) -> None:
    card, corpus = loaded
    again = load_corpus(card.name)
    assert (again.split == corpus.split).all()
    assert (again.edges == corpus.edges).all()
    assert again.texts == corpus.texts
    if isinstance(corpus.vectors, np.ndarray):
        assert (again.vectors == corpus.vectors).all()


def test_classes_can_be_declared_in_another_order(loaded: tuple[DatasetCard, Corpus]) -> None:
    card, corpus = loaded
    turned = load_corpus(card.name, classes=corpus.classes[::-1])
    assert turned.facts.classes_declared
    names = np.array(corpus.classes, dtype=object)
    assert (names[corpus.labels] == names[::-1][turned.labels]).all()


def test_paths_of_raw_files_stay_below_the_data_folder() -> None:
    for card in DATASETS.values():
        for file in card.files:
            assert not Path(file.path).is_absolute()
            assert ".." not in file.path
