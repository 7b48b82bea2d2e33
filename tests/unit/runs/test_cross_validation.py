"""Cross-validation: each document is tested once, and private documents are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privgcn import cross_validate
from privgcn.data.corpus import TEST, TRAIN
from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.runs import cross_validation
from unit.runs.small_corpus import DOCUMENTS, small_corpus

SHORT = {"training.epochs": 20, "training.learning_rate": 0.1}


def test_every_document_is_a_test_document_once(monkeypatch: pytest.MonkeyPatch) -> None:
    splits = []

    def train(corpus: Any, settings: Any) -> Any:
        splits.append(np.asarray(corpus.split))
        return _train(corpus, settings)

    _train = cross_validation.train
    monkeypatch.setattr(cross_validation, "train", train)
    found = cross_validate(small_corpus(texts=False), folds=4, settings=SHORT)
    tested = np.stack([split == TEST for split in splits])
    assert tested.sum(0).tolist() == [1] * DOCUMENTS
    assert all(set(split.tolist()) == {TRAIN, TEST} for split in splits)
    assert found["documents"] == DOCUMENTS
    row = found["own-graph"]["micro_f1"]
    assert len(row["values"]) == 4
    assert row["mean"] > 0.9
    assert row["interval"][0] < row["mean"]


def test_documents_of_an_owner_stay_together() -> None:
    owners = np.arange(DOCUMENTS) // 6
    corpus = small_corpus(
        texts=False, owners=owners, owner_names=tuple(f"owner {i}" for i in range(20))
    )
    folds = cross_validation._folds(corpus, 5, 0)
    for owner in range(20):
        assert len(set(folds[owners == owner].tolist())) == 1
    assert sorted(set(folds.tolist())) == list(range(5))


def test_a_budget_needs_the_word_that_documents_are_public() -> None:
    corpus = small_corpus(texts=False)
    with pytest.raises(PrivacyContractError, match="privgcn tune"):
        cross_validate(corpus, epsilon=1.0)
    changes = {"privacy.delta": 1e-3, "training.epochs": 2}
    found = cross_validate(corpus, folds=2, epsilon=1.0, settings=changes, public=True)
    assert len(found["alone"]["macro_f1"]["values"]) == 2


@pytest.mark.parametrize("folds", [1, 121])
def test_folds_must_fit_the_documents(folds: int) -> None:
    with pytest.raises(ConfigError, match="between 2 and 120"):
        cross_validate(small_corpus(texts=False), folds=folds)
