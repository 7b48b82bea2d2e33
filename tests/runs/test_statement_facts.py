"""What a statement must own up to, through every entrance to a model."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score
from torch import nn

from builders import corpus_folder, run_folder, small_settings, two_class_corpus
from privgcn.config import Settings, make_settings
from privgcn.data import Corpus, load_corpus
from privgcn.errors import PrivacyContractError, PrivacyWarning
from privgcn.privacy.ledger import Ledger
from privgcn.privacy.selection import RunCount
from privgcn.privacy.statement import Fact, PrivacyStatement
from privgcn.runs import classifier
from privgcn.runs.classifier import GraphClassifier
from privgcn.runs.prepare import prepare
from privgcn.runs.run import Run, releasable_statement, verify
from privgcn.runs.train import not_covered, train
from privgcn.runs.tune import search

EPSILON, DELTA = 2.0, 1e-3
QUICK = {"training.epochs": 2}


def by_classifier(corpus: Corpus, features: str | None) -> PrivacyStatement | None:
    classifier._fits.clear()
    return GraphClassifier(EPSILON, DELTA, features=features).fit(corpus.train).statement_


def by_training(corpus: Corpus, features: str | None) -> PrivacyStatement | None:
    return train(prepare(corpus, settings(features))).model.statement


def by_search(corpus: Corpus, features: str | None) -> PrivacyStatement | None:
    space, count = {"training.noise_scale": (1.0, 2.0)}, RunCount(2.0)
    return search(corpus, settings(features), space, count)[0].model.statement


def settings(features: str | None) -> Settings:
    changes = {"privacy.delta": DELTA, "features.kind": features}
    return make_settings("auto", epsilon=EPSILON, changes=changes)


Entrance = Callable[[Corpus, str | None], PrivacyStatement | None]
ENTRANCES: list[Entrance] = [by_classifier, by_training, by_search]


def gaps(statement: PrivacyStatement | None) -> dict[str, Fact]:
    assert statement is not None
    statement.verify()
    return {fact.code: fact for fact in statement.not_covered}


@pytest.fixture(autouse=True)
def _no_earlier_fits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(classifier, "_fits", [])
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        yield


# hazard 25
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_classes_that_were_taken_from_the_labels_are_named(entrance: Entrance) -> None:
    corpus = two_class_corpus()
    assert gaps(entrance(corpus, "hashing"))["classes_from_labels"].count == 2
    facts = {"split_origin": "stratified", "not_covered": ("rare words left",)}
    declared = replace(corpus, facts=replace(corpus.facts, classes_declared=True, **facts))
    statement = entrance(declared, "hashing")
    assert statement is not None
    assert Fact("classes_declared", count=2) in statement.assumed_public
    # So is what was prepared by looking.
    named = gaps(statement)
    assert {"split_by_label", "other"} <= named.keys()
    assert "classes_from_labels" not in named
    assert named["other"].detail == "rare words left"
    rows = two_class_corpus(worded=False).train
    model = GraphClassifier(EPSILON, DELTA).fit(rows.vectors, rows.labels)
    assert "classes_from_labels" in gaps(model.statement_)


# hazard 25
@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("features", ["bow", "tfidf"])
def test_features_that_learn_are_named_and_learn_from_training_documents_only(
    entrance: Entrance, features: str
) -> None:
    corpus = two_class_corpus()
    texts = tuple(
        text if split == 0 else f"{text} unheard{number % 5} elsewhere{number % 3}"
        for number, (text, split) in enumerate(zip(corpus.texts, corpus.split, strict=True))
    )
    facts = [gaps(entrance(c, features)) for c in (corpus, replace(corpus, texts=texts))]
    assert "vocabulary" in str(facts[0]["learned_features"].detail)
    assert facts[0] == facts[1]
    # So is what an encoder may have read elsewhere, though it learns nothing here.
    encoder: Any = SimpleNamespace(learns=False, learned="the encoder read it elsewhere")
    fact = Fact("learned_features", detail="the encoder read it elsewhere")
    assert fact in not_covered(corpus, encoder)


# hazard 25
def test_a_module_of_the_users_own_is_named() -> None:
    class Own(nn.Linear):
        def forward(self, x: Any, edge_index: Any) -> Any:
            return super().forward(x)

    corpus = two_class_corpus(worded=False)
    model = GraphClassifier(EPSILON, DELTA, module=Own(6, 2), parts=6, settings=QUICK)
    statement = model.fit(corpus.train).statement_
    assert statement is not None
    named = {fact.code: str(fact.detail) for fact in statement.assumed_public}
    assert "Own" in named["own_module"]


def test_learned_features_need_a_word_to_be_released_and_seeded_noise_never_is(
    tmp_path: Path,
) -> None:
    def saved(features: str, **more: Any) -> Run:
        classifier._fits.clear()
        model = GraphClassifier(EPSILON, DELTA, features=features, settings=QUICK, **more)
        model.fit(two_class_corpus().train).save(tmp_path / features, overwrite=True)
        return Run(tmp_path / features)

    releasable_statement(saved("hashing"), learned_features=False)
    releasable_statement(saved("bow"), learned_features=True)
    with pytest.raises(PrivacyContractError, match="not covered"):
        releasable_statement(saved("bow"), learned_features=False)
    with pytest.raises(PrivacyContractError, match="was seeded"):
        releasable_statement(
            saved("hashing", reproducible=True, random_state=0), learned_features=True
        )


# --- searches that nobody pays for -----------------------------------------------------------


def vectors(seed: int = 0) -> tuple[Any, Any]:
    labels = np.arange(60) % 2
    return np.random.default_rng(seed).normal(size=(60, 4)) + 3 * labels[:, None], labels


def private(**changes: Any) -> GraphClassifier:
    return GraphClassifier(**{"epsilon": 1.0, "delta": 1e-3, "settings": QUICK, **changes})


# hazard 25
def test_the_winner_of_a_grid_search_claims_nothing(tmp_path: Path) -> None:
    public = GridSearchCV(
        GraphClassifier(None, settings=QUICK), {"optimizer": ["sgd", "adam"]}, cv=2
    )
    public.fit(*vectors())
    with pytest.warns(PrivacyWarning, match="voids the claim"):
        cross_val_score(private(), *vectors(), cv=2)
    grid = GridSearchCV(private(), {"epsilon": [1.0, 2.0]}, cv=2)
    with pytest.warns(PrivacyWarning, match="privgcn tune"):
        grid.fit(*vectors())
    statement = grid.best_estimator_.statement_
    assert [fact.code for fact in statement.void] == ["unpaid_search"]
    grid.best_estimator_.save(tmp_path / "model")
    for path in (tmp_path / "model", tmp_path / "model" / "statement.json"):
        with pytest.raises(PrivacyContractError, match="It is void"):
            verify(path)
    with pytest.raises(PrivacyContractError, match="void by the fact"):
        Ledger(tmp_path / "ledger.jsonl").record(statement)
    with pytest.raises(PrivacyContractError, match="void by the fact 'unpaid_search'"):
        releasable_statement(Run(tmp_path / "model"), learned_features=True)


# hazard 25
def test_several_fits_on_the_same_documents_are_warned_of_and_stated(tmp_path: Path) -> None:
    rows, labels = vectors()
    first = private().fit(rows[:40], labels[:40])
    assert first.statement_ is not None
    assert not first.statement_.one_of_several
    with pytest.warns(PrivacyWarning, match="trained on more than once"):
        second = private(epsilon=2.0).fit(rows[25:45], labels[25:45])
    for each in (first, second):
        assert each.statement_ is not None
        assert not each.statement_.void
        assert "NOT chosen among several" in str(each.statement_)
    first.save(tmp_path / "first")
    saved = Run(tmp_path / "first")
    assert saved.statement == first.statement_
    with pytest.raises(PrivacyContractError, match="--not-chosen"):
        releasable_statement(saved, learned_features=True)
    releasable_statement(saved, learned_features=True, not_chosen=True)


def test_what_is_never_released_and_other_documents_are_not() -> None:
    private().fit(*vectors())
    private(reproducible=True, random_state=0, epsilon=2.0).fit(*vectors())
    private(epsilon=None, delta=1e-5).fit(*vectors())
    other = private(epsilon=3.0).fit(*vectors(1))
    assert other.statement_ is not None
    assert not other.statement_.one_of_several


# hazard 25
def test_the_better_of_two_runs_is_not_released_unless_it_was_not_chosen(
    tmp_path: Path,
) -> None:
    source = corpus_folder(tmp_path / "letters")
    for name in ("first", "again", "elsewhere/third"):
        made = small_settings(data__source=str(source))
        run_folder(tmp_path / name, load_corpus(str(source)), made)
    # The same model in another place is no other model.
    shutil.copytree(tmp_path / "elsewhere/third", tmp_path / "elsewhere/copy")
    alone = Run(tmp_path / "elsewhere/third")
    assert releasable_statement(alone, learned_features=False) == alone.statement
    for name in ("first", "again"):
        with pytest.raises(
            PrivacyContractError, match=r"one of 2 private runs .* --not-chosen"
        ):
            releasable_statement(Run(tmp_path / name), learned_features=False)
    releasable_statement(Run(tmp_path / "first"), learned_features=False, not_chosen=True)
