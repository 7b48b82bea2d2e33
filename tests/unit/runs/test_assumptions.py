"""What a statement must own up to, on every road to a model."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from privgcn.config import MODES, make_settings
from privgcn.data import Corpus
from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.privacy.accounting.selection import RunCount
from privgcn.privacy.claim import Fact
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.statement_text import in_words
from privgcn.runs.assumptions import not_covered
from privgcn.runs.candidates import SearchSpace
from privgcn.runs.classifier import GraphClassifier
from privgcn.runs.folder import MODEL, read_folder, write_folder
from privgcn.runs.predictions import predict_source
from privgcn.runs.release import releasable_statement
from privgcn.runs.run import Run
from privgcn.runs.train import public_size, train
from privgcn.runs.tune import search
from unit.runs.small_corpus import small_corpus

EPSILON, DELTA = 2.0, 1e-3


def by_classifier(corpus: Corpus, features: str | None) -> PrivacyStatement | None:
    return GraphClassifier(EPSILON, DELTA, features=features).fit(corpus.train).statement_


def by_training(corpus: Corpus, features: str | None) -> PrivacyStatement | None:
    return train(corpus, settings(features)).model.statement


def by_search(corpus: Corpus, features: str | None) -> PrivacyStatement | None:
    space, count = SearchSpace({"training.reach": (1.0, 2.0)}), RunCount("poisson", 2.0)
    return search(corpus, settings(features), space, count).trial.model.statement


def settings(features: str | None) -> Any:
    changes = {"privacy.delta": DELTA, "features.kind": features}
    return make_settings("auto", epsilon=EPSILON, changes=changes)


Road = Callable[[Corpus, str | None], PrivacyStatement | None]
ROADS: list[Road] = [by_classifier, by_training, by_search]


def gaps(statement: PrivacyStatement | None) -> str:
    assert statement is not None
    statement.verify()
    return " ".join(in_words(statement, statement.not_covered)).lower()


@pytest.mark.parametrize("road", ROADS)
def test_classes_read_off_the_labels_are_named_on_every_road(road: Road) -> None:
    corpus = small_corpus()
    assert "read off the labels" in gaps(road(corpus, None))
    declared = replace(corpus, facts=replace(corpus.facts, classes_declared=True))
    assert "read off the labels" not in gaps(road(declared, None))
    arrays = small_corpus(texts=False).train
    model = GraphClassifier(EPSILON, DELTA).fit(arrays.vectors, arrays.labels)
    assert "read off the labels" in gaps(model.statement_)


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("features", ["bow", "tfidf"])
def test_features_that_learn_are_named_on_every_road(road: Road, features: str) -> None:
    assert "vocabulary" not in gaps(road(small_corpus(), "hashing"))
    assert "vocabulary" in gaps(road(small_corpus(), features))


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("features", ["bow", "tfidf"])
def test_features_learn_from_training_documents_only(road: Road, features: str) -> None:
    """The statement says so, and the number of words it names is that of these documents."""
    corpus = small_corpus()
    assert corpus.texts is not None
    texts = tuple(
        text if split == 0 else f"{text} unheard{number % 5} elsewhere{number % 3}"
        for number, (text, split) in enumerate(zip(corpus.texts, corpus.split, strict=True))
    )
    others = replace(corpus, texts=texts)
    assert gaps(road(others, features)) == gaps(road(corpus, features))


def test_a_run_with_learned_features_is_released_on_request_only(tmp_path: Path) -> None:
    for features in ("bow", "hashing"):
        model = GraphClassifier(EPSILON, DELTA, features=features).fit(small_corpus().train)
        model.save(tmp_path / features)
    releasable_statement(Run(tmp_path / "hashing"), learned_features=False)
    releasable_statement(Run(tmp_path / "bow"), learned_features=True)
    with pytest.raises(PrivacyContractError, match="not covered"):
        releasable_statement(Run(tmp_path / "bow"), learned_features=False)


def test_only_predictions_that_see_no_training_document_are_covered(tmp_path: Path) -> None:
    """The claim is compared with what moves when training documents are others."""
    corpus = small_corpus(texts=False)
    vectors = np.array(corpus.vectors)
    vectors[corpus.split == 0] *= -5.0
    other = small_corpus(texts=False, vectors=vectors)
    model = GraphClassifier(EPSILON, DELTA).fit(corpus.train)
    model.save(tmp_path / "run")
    statement = model.statement_
    assert statement is not None
    stated = {claim.mode: claim.covered for claim in statement.inference_modes}
    documents = tmp_path / "new"
    documents.mkdir()
    (documents / "documents.csv").write_text("id,text\na,x\nb,y\n")
    np.save(documents / "features.npy", vectors[:2])
    for mode in MODES:
        first = model.predict_proba(corpus.test, inference=mode)
        sees_training = not np.array_equal(
            first, model.predict_proba(other.test, inference=mode)
        )
        assert stated[mode] == (not sees_training)
        if stated[mode]:
            # A saved model cannot know whether these documents trained it.
            assert predict_source(tmp_path / "run", str(documents), mode).covered is None
        else:
            with pytest.raises(ConfigError, match="training documents"):
                predict_source(tmp_path / "run", str(documents), mode)


def test_what_an_encoder_may_have_seen_is_named_though_it_learns_nothing() -> None:
    encoder: Any = SimpleNamespace(learns=False, learned="the encoder read it elsewhere")
    fact = Fact("learned_features", detail="the encoder read it elsewhere")
    assert fact in not_covered(small_corpus(), encoder)


def test_seeded_noise_is_not_released_whichever_file_says_so(tmp_path: Path) -> None:
    GraphClassifier(EPSILON, DELTA).fit(small_corpus().train).save(tmp_path)
    releasable_statement(Run(tmp_path), learned_features=False)
    stored = read_folder(tmp_path)
    record = stored.text(MODEL).replace('"releasable": true', '"releasable": false')
    assert record != stored.text(MODEL)
    write_folder(tmp_path, stored.kind, {**stored.files, MODEL: record}, overwrite=True)
    with pytest.raises(PrivacyContractError, match="releasable"):
        releasable_statement(Run(tmp_path), learned_features=False)


def test_default_features_follow_owners_where_only_they_are_public() -> None:
    owned = small_corpus(owners=np.arange(120) // 12, owner_names=tuple("abcdefghij"))
    person = make_settings(epsilon=1.0, changes={"privacy.unit": "person"})
    assert public_size(owned, person) == 10
    assert public_size(owned, make_settings(epsilon=1.0)) == 120
