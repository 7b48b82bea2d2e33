"""The classifier takes documents in whatever form people have them in."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_matrix

from privgcn import Corpus, GraphClassifier
from privgcn.errors import ConfigError, DataError, PrivacyContractError

# Documents are fitted again and again here, on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::privgcn.errors.PrivacyWarning")

WORDS = {"billing": "invoice payment amount", "delivery": "parcel courier doorstep"}
TEXTS = [f"{WORDS[topic]} {row % 7}" for row in range(60) for topic in WORDS]
LABELS = list(WORDS) * 60
LINKS = [(row, row + 2) for row in range(0, len(TEXTS) - 2)]
NEW = ["the courier left a parcel", "payment of an invoice"]


def classifier(**changes: Any) -> GraphClassifier:
    return GraphClassifier(**{"epsilon": 4.0, "delta": 1e-4, "features": "static", **changes})


def test_a_list_of_texts_with_labels_and_links() -> None:
    model = classifier().fit(TEXTS, LABELS, links=LINKS)
    assert model.classes_.tolist() == ["billing", "delivery"]
    assert model.predict(NEW).tolist() == ["delivery", "billing"]
    assert model.score(TEXTS[:20], LABELS[:20], links=LINKS[:18]) > 0.9
    shares = model.predict_proba(NEW, links=[])
    np.testing.assert_allclose(np.exp(model.predict_log_proba(NEW)), shares)
    assert model.statement_ is not None
    assert model.statement_.units == len(TEXTS)


def test_links_among_the_new_documents_count() -> None:
    quick = {"training.epochs": 20}
    model = GraphClassifier(features="static", settings=quick).fit(TEXTS, LABELS, links=LINKS)
    odd = [*NEW, "something else"]
    apart = model.predict_proba(odd)
    joined = model.predict_proba(odd, links=[(0, 2)])
    assert abs(apart[2] - joined[2]).max() > 1e-3
    alone = model.predict_proba(odd, links=[(0, 2)], inference="alone")
    np.testing.assert_array_equal(alone, model.predict_proba(odd, inference="alone"))


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_a_frame_with_its_own_columns(library: str) -> None:
    module = pytest.importorskip(library)
    owners = [f"person {row // 3}" for row in range(len(TEXTS))]
    frame = module.DataFrame({"text": TEXTS, "label": LABELS, "owner": owners})
    model = classifier(unit="person").fit(frame)
    assert model.statement_ is not None
    assert (model.statement_.unit, model.statement_.units) == ("person", 40)
    assert model.predict(module.DataFrame({"text": NEW})).tolist() == ["delivery", "billing"]
    assert model.score(frame) > 0.9
    assert model.predict(module.Series(NEW)).tolist() == ["delivery", "billing"]


def test_labels_keep_their_type() -> None:
    numbers = [7 if label == "billing" else 3 for label in LABELS]
    model = classifier().fit(pl.DataFrame({"text": TEXTS, "label": numbers}))
    assert model.classes_.tolist() == [3, 7]
    assert model.predict(NEW).tolist() == [3, 7]
    assert model.fit(TEXTS, np.array(numbers)).predict(np.array(NEW)).tolist() == [3, 7]


def test_declared_classes_are_a_public_fact() -> None:
    def facts(model: GraphClassifier) -> set[str]:
        assert model.statement_ is not None
        return {fact.code for fact in (*model.statement_.assumed_public,)}

    names = ["billing", "delivery", "returns"]
    model = classifier().fit(TEXTS, LABELS, classes=names)
    assert model.classes_.tolist() == names
    assert "classes_declared" in facts(model)
    assert "classes_declared" not in facts(classifier().fit(TEXTS, LABELS))
    rng = np.random.default_rng(0)
    vectors, codes = rng.normal(size=(50, 4)), rng.integers(0, 2, 50)
    arrays = GraphClassifier(epsilon=1.0, delta=1e-4).fit(vectors, codes, classes=[0, 1, 2])
    assert arrays.classes_.tolist() == [0, 1, 2]
    assert "classes_declared" in facts(arrays)
    with pytest.raises(ConfigError, match="declared classes"):
        GraphClassifier().fit(vectors, codes, classes=[0, 2])


def test_only_the_training_rows_of_a_split_train() -> None:
    split = ["train" if row < 90 else "test" for row in range(len(TEXTS))]
    model = classifier().fit({"text": TEXTS, "label": LABELS, "split": split}, links=LINKS)
    assert model.statement_ is not None
    assert model.statement_.units == 90


def test_owners_protect_persons_who_wrote_vectors() -> None:
    rng = np.random.default_rng(0)
    vectors, labels = rng.normal(size=(60, 5)), rng.integers(0, 2, 60)
    model = GraphClassifier(epsilon=1.0, delta=1e-4, unit="person")
    model.fit(vectors, labels, owners=np.arange(60) // 4, links=csr_matrix(np.eye(60, k=1)))
    assert model.statement_ is not None
    assert model.statement_.units == 15
    with pytest.raises(PrivacyContractError, match="owner"):
        model.fit(vectors, labels)


@pytest.mark.filterwarnings("ignore")
def test_a_pyg_data_trains_on_its_mask_and_scores_on_the_other() -> None:
    data = Corpus.from_frame(
        {
            "text": TEXTS,
            "label": LABELS,
            "split": ["train" if row < 90 else "test" for row in range(len(TEXTS))],
        },
        links=LINKS,
    ).to_pyg()
    model = classifier().fit(data)
    assert model.statement_ is not None
    assert model.statement_.units == 90
    assert model.classes_.tolist() == [0, 1]
    assert model.predict(data).shape == (len(TEXTS),)
    assert model.score(data) == model.score(Corpus.from_pyg(data).test) > 0.9
    assert model.score(data, inference="full-graph") > 0.9


def test_a_frame_of_numbers_is_vectors_as_in_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(rng.normal(size=(50, 3)), schema=["a", "b", "c"])
    model = GraphClassifier(settings={"training.epochs": 3}).fit(frame, rng.integers(0, 2, 50))
    assert model.n_features_in_ == 3
    model.fit(TEXTS, LABELS)
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("one text", ["a"]), "single text.*load_corpus"),
        (([], []), "at least one document"),
        ((TEXTS, [[label] for label in LABELS]), "must be a single value"),
        ((TEXTS, None), "requires y"),
        (({"text": TEXTS},), "requires y"),
        (({"body": TEXTS}, LABELS), "column 'text'"),
        (({"text": TEXTS, "label": LABELS}, LABELS), "given once"),
        ((TEXTS, LABELS[:-1]), "one entry for each"),
        ((TEXTS, ["billing"] * len(TEXTS)), "at least two classes"),
        ((TEXTS, [None, *LABELS[1:]]), "a label for every training document"),
        ((Corpus.from_texts(TEXTS, LABELS), LABELS), "'y' of GraphClassifier must be left out"),
    ],
)
def test_what_cannot_train_is_refused_in_words(given: tuple[Any, ...], words: str) -> None:
    with pytest.raises((ConfigError, DataError), match=words):
        classifier().fit(*given)


def test_measurements_are_no_classes_of_texts_either() -> None:
    with pytest.raises(ValueError, match="continuous"):
        classifier().fit(TEXTS, np.linspace(0.1, 0.9, len(TEXTS)))


def test_owners_are_given_for_every_text() -> None:
    with pytest.raises(DataError, match="'owner' must be given for each of the 120"):
        classifier(unit="person").fit(TEXTS, LABELS, owners=["p", "q"])
    with pytest.raises(PrivacyContractError, match="Add a column 'owner'"):
        classifier(unit="person").fit(TEXTS, LABELS)


def test_no_documents_have_no_predictions() -> None:
    model = classifier().fit(TEXTS, LABELS)
    with pytest.raises(DataError, match="at least one document"):
        model.predict([])


def test_scoring_asks_for_labels_and_for_all_of_them() -> None:
    model = classifier().fit(TEXTS, LABELS)
    with pytest.raises(ConfigError, match="give y"):
        model.score(NEW)
    with pytest.raises(DataError, match="each of the 2 documents"):
        model.score(NEW, ["billing"])
    assert model.score(NEW, [None, "billing"]) == 1.0
    with pytest.raises(DataError, match="need texts"):
        model.predict(np.ones((2, model.n_features_in_)))
