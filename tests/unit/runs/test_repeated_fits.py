"""A search over private documents that no epsilon counts is warned of, and nothing else."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score

from privgcn import GraphClassifier
from privgcn.errors import PrivacyWarning
from privgcn.runs import repeated_fits
from unit.runs.small_corpus import small_corpus

SHORT = {"training.epochs": 2}


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(repeated_fits, "_earlier", [])
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        yield


def _vectors(seed: int = 0) -> tuple[Any, Any]:
    draw = np.random.default_rng(seed)
    labels = np.arange(60) % 2
    return draw.normal(size=(60, 4)) + 3 * labels[:, None], labels


def _private(**changes: Any) -> GraphClassifier:
    return GraphClassifier(**{"epsilon": 1.0, "delta": 1e-3, "settings": SHORT, **changes})


def test_a_grid_search_is_warned_of() -> None:
    search = GridSearchCV(_private(), {"epsilon": [1.0, 2.0]}, cv=2)
    with pytest.warns(PrivacyWarning, match="privgcn tune"):
        search.fit(*_vectors())


def test_scores_over_folds_are_warned_of_even_with_one_setting() -> None:
    with pytest.warns(PrivacyWarning, match="model selection"):
        cross_val_score(_private(), *_vectors(), cv=2)


def test_other_settings_on_the_same_documents_are_warned_of() -> None:
    texts = small_corpus()
    _private(features="hashing").fit(texts)
    with pytest.warns(PrivacyWarning, match="trained on before, with other settings"):
        _private(features="hashing", epsilon=2.0).fit(texts)


def test_half_of_the_documents_are_the_same_documents() -> None:
    rows, labels = _vectors()
    _private().fit(rows[:40], labels[:40])
    with pytest.warns(PrivacyWarning):
        _private(epsilon=2.0).fit(rows[20:], labels[20:])


@pytest.mark.parametrize(
    "second",
    [
        {},
        {"reproducible": True, "epsilon": 2.0},
        {"epsilon": None, "delta": None},
    ],
)
def test_the_same_setting_and_what_is_never_released_are_not(second: dict[str, Any]) -> None:
    _private().fit(*_vectors())
    _private(**second).fit(*_vectors())


def test_other_documents_are_other_documents() -> None:
    _private().fit(*_vectors(0))
    _private(epsilon=2.0).fit(*_vectors(1))


def test_a_search_without_privacy_is_nobodys_business() -> None:
    search = GridSearchCV(GraphClassifier(settings=SHORT), {"optimizer": ["sgd", "adam"]}, cv=2)
    search.fit(*_vectors())
    assert search.best_score_ >= 0.0
