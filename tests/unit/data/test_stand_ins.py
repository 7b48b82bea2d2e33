from __future__ import annotations

import numpy as np
import pytest

from privgcn.data import Corpus, load_corpus
from privgcn.data.stand_ins import make_pokec_like


@pytest.fixture(scope="module", params=["pokec-like", "reddit-like"])
def stand_in(request: pytest.FixtureRequest) -> Corpus:
    return load_corpus(request.param)


def test_stand_ins_say_what_they_are(stand_in: Corpus) -> None:
    assert stand_in.name.endswith("-like")
    assert stand_in.facts.synthetic
    assert "synthetic" in (stand_in.facts.public_vectors or "")


def test_a_stand_in_is_the_same_every_time() -> None:
    made, again = load_corpus("pokec-like"), make_pokec_like.__wrapped__()
    assert made.texts == again.texts
    assert (made.edges == again.edges).all()
    assert np.array_equal(made.vectors, again.vectors)  # type: ignore[arg-type]


def test_sizes_are_the_paper_s(stand_in: Corpus) -> None:
    sizes = {"pokec-like": (16_000, 2_000, 2_000), "reddit-like": (15_252, 2_383, 5_643)}
    parts = (stand_in.train, stand_in.validation, stand_in.test)
    assert tuple(len(part) for part in parts) == sizes[stand_in.name]
    assert isinstance(stand_in.vectors, np.ndarray)
    assert stand_in.vectors.shape[1] == {"pokec-like": 768, "reddit-like": 602}[stand_in.name]
    assert len(np.unique(stand_in.train.labels)) == stand_in.num_classes


def test_the_task_is_neither_trivial_nor_hopeless(stand_in: Corpus) -> None:
    """A nearest-mean rule on whitened vectors, which needs a second and no solver."""
    assert isinstance(stand_in.vectors, np.ndarray)
    rows = stand_in.vectors - stand_in.vectors.mean(axis=0)
    axes = np.linalg.svd(rows[::10], full_matrices=False)[2][:64]
    rows = rows @ axes.T
    rows /= rows.std(axis=0)
    train, test = stand_in.split == 0, stand_in.split == 2
    classes = range(stand_in.num_classes)
    means = np.stack([rows[train & (stand_in.labels == code)].mean(axis=0) for code in classes])
    distance = ((rows[test][:, None] - means) ** 2).sum(axis=2)
    score = (distance.argmin(axis=1) == stand_in.labels[test]).mean()
    low, high = {"pokec-like": (0.75, 0.87), "reddit-like": (0.5, 0.7)}[stand_in.name]
    assert low < score < high
