from __future__ import annotations

import json

import numpy as np
import pytest

from corpora import corpus_of
from privgcn.data import Corpus
from privgcn.errors import ConfigError, DataError, PrivGCNError
from privgcn.features import FEATURES, featurizer_from_state, make_featurizer

TEXTS = (
    "Graph kernels, graph cuts and the learning of kernels",
    "The neural network learns; a network of neural units!",
    "Genetic search: a genetic algorithm for search",
    "Kernels for neural search",
)


def corpus(
    texts: tuple[str, ...] | None = TEXTS,
    vectors: np.ndarray | None = None,
    public: str | None = None,
) -> Corpus:
    return corpus_of(texts, vectors, public)


SMALL: dict[str, dict[str, object]] = {
    "hashing": {"dimension": 64},
    "bow": {"min_count": 2},
    "tfidf": {"min_count": 2},
}


@pytest.mark.parametrize("kind", SMALL)
def test_text_kinds_are_sparse_float32_and_survive_json(kind: str) -> None:
    from scipy.sparse import issparse

    made = make_featurizer(kind, SMALL[kind], corpus()).fit(corpus())
    rows = made.transform(corpus())
    assert issparse(rows)
    assert rows.format == "csr"
    assert rows.dtype == np.float32
    assert rows.shape == (4, made.dimension)
    again = featurizer_from_state(json.loads(json.dumps(made.state())))
    assert again.kind == kind
    assert again.learned == made.learned
    assert again.dimension == made.dimension
    assert abs(again.transform(corpus()) - rows).max() == 0


@pytest.mark.parametrize("kind", SMALL)
def test_a_row_depends_on_its_own_document_only(kind: str) -> None:
    made = make_featurizer(kind, SMALL[kind], corpus()).fit(corpus())
    whole = made.transform(corpus()).toarray()
    for row, text in enumerate(TEXTS):
        assert np.allclose(made.transform(corpus((text,))).toarray()[0], whole[row])


@pytest.mark.parametrize("kind", SMALL)
def test_a_text_of_unknown_words_is_a_zero_row(kind: str) -> None:
    made = make_featurizer(kind, SMALL[kind], corpus()).fit(corpus())
    assert made.transform(corpus(("?!", "of the"))).nnz == 0


def test_hashing_learns_nothing_and_its_rows_have_length_one() -> None:
    made = make_featurizer("hashing", None, corpus())
    assert made.learned is None
    assert made.dimension == 4096
    rows = made.fit(corpus()).transform(corpus())
    assert np.allclose(np.sqrt(rows.multiply(rows).sum(axis=1)), 1)
    assert "words" not in made.state()


def test_hashing_joins_the_forms_of_a_word_and_counts_runs() -> None:
    one, other = corpus(("classify the learners",)), corpus(("Classified, a learner!",))
    made = make_featurizer("hashing", None, one)
    assert abs(made.transform(one) - made.transform(other)).max() == 0
    whole = make_featurizer("hashing", {"prefix": None}, one)
    assert abs(whole.transform(one) - whole.transform(other)).max() > 0
    runs = make_featurizer("hashing", {"ngrams": 2}, one)
    assert runs.transform(one).nnz == made.transform(one).nnz + 1


def test_bag_of_words_takes_the_interval_of_occurrences() -> None:
    made = make_featurizer(
        "bow", {"min_count": 2, "max_count": 2, "stop_words": "none"}, corpus()
    ).fit(corpus())
    words = made.state()["words"]
    assert words == ["a", "for", "genetic", "graph", "network", "of", "the"]
    rows = made.transform(corpus()).toarray()
    assert rows[2].tolist() == [1, 1, 1, 0, 0, 0, 0]
    assert made.learned is not None
    assert "vocabulary of 7 words" in made.learned
    counts = make_featurizer("bow", {"min_count": 2, "binary": False}, corpus()).fit(corpus())
    assert counts.transform(corpus()).max() == 2


def test_tfidf_agrees_with_scikit_learn() -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    from privgcn.features.bags import split_words

    options = {"min_count": 1, "stop_words": None}
    made = make_featurizer("tfidf", options, corpus()).fit(corpus())
    oracle = TfidfVectorizer(analyzer=split_words, sublinear_tf=True).fit(TEXTS)
    assert list(oracle.get_feature_names_out()) == made.state()["words"]
    assert abs(made.transform(corpus()) - oracle.transform(TEXTS)).max() < 1e-6
    assert made.learned is not None
    assert "how many training texts" in made.learned


def test_given_vectors_always_name_where_they_come_from() -> None:
    vectors = np.eye(3, 5, dtype=np.float32)
    own = corpus(None, vectors)
    made = make_featurizer(None, {}, own).fit(own)
    assert made.kind == "given"
    assert made.dimension == 5
    assert made.transform(own) is own.vectors
    assert made.learned is not None
    assert "unknown" in made.learned
    known = corpus(None, vectors, public="counts")
    published = make_featurizer(None, {}, known).fit(known)
    assert published.learned is not None
    assert "counts" in published.learned
    again = featurizer_from_state(made.state())
    assert again.learned == made.learned
    with pytest.raises(DataError, match="must have 5 numbers"):
        again.transform(corpus(None, np.zeros((2, 4), dtype=np.float32)))


def test_vectors_win_by_default_but_text_can_be_asked_for() -> None:
    both = corpus(TEXTS, np.zeros((4, 2), dtype=np.float32))
    assert make_featurizer(None, None, both).kind == "given"
    assert make_featurizer("hashing", None, both).fit(both).transform(both).nnz


@pytest.mark.parametrize("kind", ["hashing", "bow", "tfidf"])
def test_texts_are_required(kind: str) -> None:
    with pytest.raises(DataError, match="need texts"):
        make_featurizer(kind, None, corpus()).fit(
            corpus(None, np.zeros((2, 2), dtype=np.float32))
        )


def test_vectors_are_required() -> None:
    with pytest.raises(DataError, match="need vectors"):
        make_featurizer("given", None, corpus()).fit(corpus())


def test_an_empty_vocabulary_is_refused() -> None:
    with pytest.raises(DataError, match="Widen the interval"):
        make_featurizer("bow", {"min_count": 99}, corpus()).fit(corpus())


@pytest.mark.parametrize(
    ("kind", "options", "word"),
    [
        ("bert", {}, "must be one of given, hashing"),
        ("hashing", {"size": 3}, "no option 'size'"),
        ("given", {"size": 3}, "has none"),
        ("hashing", {"dimension": 1}, "at least 2"),
        ("hashing", {"dimension": 2**40}, "less than"),
        ("hashing", {"dimension": 10.0}, "a valid integer"),
        ("hashing", {"prefix": 0}, "at least 1"),
        ("hashing", {"stop_words": "slovak"}, "'english' or None"),
        ("bow", {"min_count": 0}, "at least 1"),
        ("bow", {"min_count": 3, "max_count": 2}, "at least 3"),
        ("bow", {"binary": 1}, "a valid boolean"),
        ("tfidf", {"binary": True}, "no option 'binary'"),
    ],
)
def test_bad_options(kind: str, options: dict[str, object], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        make_featurizer(kind, options, corpus())


def test_every_kind_can_be_loaded() -> None:
    for name, kind in FEATURES.items():
        assert kind.load().kind == name
        assert kind.summary
        assert kind.load().learns == (name in ("given", "bow", "tfidf"))


def test_hashing_is_as_wide_and_as_deep_whatever_others_write() -> None:
    """Features that claim to learn nothing are fitted and made for each document apart."""
    rows, widths = [], set()
    for others in ((), TEXTS, tuple(f"word{number} {'long ' * 300}" for number in range(50))):
        documents = corpus(("kernels for neural search", *others))
        made = make_featurizer("hashing", None, documents).fit(documents)
        widths.add(made.dimension)
        rows.append(made.transform(documents)[0].toarray())
    assert len(widths) == 1
    for row in rows[1:]:
        assert np.array_equal(row, rows[0])


def test_content_does_not_choose_the_kind_of_features() -> None:
    long = tuple("many words " * 2000 for _ in TEXTS)
    for texts in (TEXTS, long, ("a",) * 4, ("1 2 3",) * 4, ("",) * 4):
        assert make_featurizer(None, None, corpus(texts)).kind == "minilm"
    for vectors in (np.zeros((4, 3), np.float32), np.full((4, 3), np.nan, np.float32)):
        assert make_featurizer(None, None, corpus(TEXTS, vectors)).kind == "given"


@pytest.mark.parametrize(
    ("kind", "changes", "word"),
    [
        ("hashing", {"left_out": None}, "a valid list"),
        ("hashing", {"left_out": ["a", "a"]}, "differ from each other"),
        ("bow", {"words": "kernels"}, "a valid list"),
        ("tfidf", {"idf": [1.0]}, "one number for each word"),
        ("tfidf", {"idf": [float("nan")] * 6}, "finite"),
        ("bow", {"colour": 1}, "is unknown"),
    ],
)
def test_an_edited_state_is_refused(kind: str, changes: dict[str, object], word: str) -> None:
    made = make_featurizer(kind, SMALL[kind], corpus()).fit(corpus())
    with pytest.raises(PrivGCNError, match=word):
        featurizer_from_state(made.state() | changes)


@pytest.mark.parametrize("kind", SMALL)
def test_no_default_fills_a_gap_in_a_state(kind: str) -> None:
    state = make_featurizer(kind, SMALL[kind], corpus()).fit(corpus()).state()
    for name in state.keys() - {"kind"}:
        with pytest.raises(DataError, match=f"must have '{name}'"):
            featurizer_from_state({key: state[key] for key in state if key != name})
