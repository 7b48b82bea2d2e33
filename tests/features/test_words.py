from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from scipy.sparse import issparse
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.preprocessing import normalize
from tests.features.documents import of_texts

from privgcn.errors import ConfigError, DataError, PrivGCNError
from privgcn.features import featurizer_from_state, make_featurizer, words
from privgcn.features.words import HashingWords
from privgcn_paper.bags import split_words

TEXTS = (
    "Graph kernels, graph cuts and the learning of kernels",
    "The neural network learns; a network of neural units!",
    "Genetic search: a genetic algorithm for search",
    "Kernels for neural search",
)
HARD = (
    "The valve, the Valve and the pressure_valve: 12 mm, 3 beats a beat",
    "".join(map(chr, range(128))) + " a\x1cb ab\x1dcd e\x0bf",
    "Überdruck im Ventil: ÉTÉ 2021, naïve café; ΑΒΓ αβγ, 中文 字",
    "half \ud800a character",
    "",
    "the a of",
)
SMALL: dict[str, dict[str, object]] = {
    "hashing": {"dimension": 64},
    "bow": {"min_count": 2},
    "tfidf": {"min_count": 2},
}
CORPUS = of_texts(*TEXTS)


def by_scikit_learn(made: HashingWords) -> Any:
    """All texts at once, split by another pattern."""

    def tokens(text: str) -> list[str]:
        long = [word for word in re.split(r"\W+", text.lower()) if len(word) > 1]
        return [word[: made.prefix] for word in long if word not in made.left_out]

    hasher = HashingVectorizer(
        n_features=made.dimension, analyzer=tokens, norm=None, dtype=np.float32
    )
    counts = hasher.transform(HARD)
    counts.eliminate_zeros()
    counts.data = np.sign(counts.data) * np.log1p(np.abs(counts.data))
    return normalize(counts)


@pytest.mark.parametrize("chunk", [2, 4096])
@pytest.mark.parametrize(
    "options", [{}, {"dimension": 5}, {"prefix": None, "stop_words": None}]
)
def test_hashed_rows_are_scikit_learn_s_in_chunks(
    options: dict[str, Any], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "_CHUNK", chunk)
    made = HashingWords.with_options(options)
    rows, expected = made.transform(of_texts(*HARD)), by_scikit_learn(made)
    assert rows.shape == expected.shape
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows.toarray(), expected.toarray())
    assert rows[1:3].nnz == expected[1:3].nnz


@pytest.mark.parametrize("kind", SMALL)
def test_rows_are_sparse_float32_and_survive_json(kind: str) -> None:
    made = make_featurizer(kind, SMALL[kind], CORPUS).fit(CORPUS)
    rows = made.transform(CORPUS)
    assert issparse(rows)
    assert rows.format == "csr"
    assert rows.dtype == np.float32
    assert rows.shape == (4, made.dimension)
    again = featurizer_from_state(json.loads(json.dumps(made.state())))
    assert again.kind == kind
    assert again.learned == made.learned
    assert again.dimension == made.dimension
    assert abs(again.transform(CORPUS) - rows).max() == 0
    assert made.transform(of_texts("?!", "of the")).nnz == 0
    assert kind == "tfidf" or made.transform(of_texts()).shape == (0, made.dimension)
    assert (made.learned is None) == (kind == "hashing")


# hazard 19
@pytest.mark.parametrize("kind", SMALL)
def test_a_row_depends_on_its_own_text_to_the_bit(kind: str) -> None:
    made = make_featurizer(kind, SMALL[kind], CORPUS).fit(CORPUS)
    alone = {text: made.transform(of_texts(text)) for text in TEXTS}
    for order in (TEXTS, TEXTS[::-1], (*TEXTS[2:], "kernels loud " * 300, *TEXTS[:2])):
        rows = made.transform(of_texts(*order))
        for row, text in enumerate(order):
            if text in alone:
                own = rows[row]
                assert own.indices.tolist() == alone[text].indices.tolist()
                assert own.data.tobytes() == alone[text].data.tobytes()


# hazard 20
def test_hashing_is_as_wide_and_as_deep_whatever_others_write() -> None:
    """Features that claim to learn nothing are fitted and made for each document apart."""
    made = []
    for others in ((), TEXTS, tuple(f"word{number} {'long ' * 300}" for number in range(50))):
        documents = of_texts("kernels for neural search", *others)
        own = make_featurizer("hashing", None, documents).fit(documents)
        made.append((own.state(), own.transform(documents)[0].toarray().tobytes()))
    assert made[0] == made[1] == made[2]
    assert len(made[0][1]) == 4 * 4096


def test_words_are_left_out_as_a_whole_and_not_by_their_first_letters() -> None:
    rows = HashingWords().transform(of_texts("system", "systems", "everything"))
    assert rows.getnnz(axis=1).tolist() == [0, 1, 0]


def test_hashing_joins_the_forms_of_a_word() -> None:
    one, other = of_texts("classify the learners"), of_texts("Classified, a learner!")
    for prefix, joined in ((6, True), (None, False)):
        made = make_featurizer("hashing", {"prefix": prefix}, one)
        assert (abs(made.transform(one) - made.transform(other)).max() == 0) == joined


def test_bag_of_words_takes_the_interval_of_occurrences() -> None:
    options = {"min_count": 2, "max_count": 2, "stop_words": "none"}
    made = make_featurizer("bow", options, CORPUS).fit(CORPUS)
    assert made.state()["words"] == ["a", "for", "genetic", "graph", "network", "of", "the"]
    rows = made.transform(CORPUS).toarray()
    assert rows[2].tolist() == [1, 1, 1, 0, 0, 0, 0]
    assert made.learned is not None
    assert "vocabulary of 7 words" in made.learned


def test_tfidf_agrees_with_scikit_learn() -> None:
    options = {"min_count": 1, "stop_words": None}
    made = make_featurizer("tfidf", options, CORPUS).fit(CORPUS)
    oracle = TfidfVectorizer(analyzer=split_words, sublinear_tf=True).fit(TEXTS)
    assert list(oracle.get_feature_names_out()) == made.state()["words"]
    assert abs(made.transform(CORPUS) - oracle.transform(TEXTS)).max() < 1e-6
    assert made.learned is not None
    assert "how many training texts" in made.learned


@pytest.mark.parametrize("options", [{"min_count": 99}, {"min_count": 3, "max_count": 2}])
def test_an_empty_vocabulary_is_refused(options: dict[str, object]) -> None:
    for texts in (TEXTS, ("", "?"), ()):
        with pytest.raises(DataError, match="Widen the interval"):
            make_featurizer("bow", options, CORPUS).fit(of_texts(*texts))


@pytest.mark.parametrize(
    ("kind", "options", "word"),
    [
        ("hashing", {"size": 3}, "no option 'size'"),
        ("hashing", {"dimension": 2**40}, "less than"),
        ("hashing", {"dimension": 10.0}, "a valid integer"),
        ("hashing", {"prefix": 0}, "at least 1"),
        ("hashing", {"stop_words": "slovak"}, "'english' or None"),
        ("tfidf", {"idf": [1.0]}, "no option 'idf'"),
        ("transformer", {"average": "words"}, "'text', 'lines' or 'columns'"),
        ("given", {"size": 3}, "It has none"),
    ],
)
def test_bad_options(kind: str, options: dict[str, object], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        make_featurizer(kind, options, CORPUS)


@pytest.mark.parametrize(
    ("kind", "changes", "word"),
    [
        ("hashing", {"left_out": None}, "a valid list"),
        ("hashing", {"left_out": ["a", "a"]}, "differ from each other"),
        ("bow", {"words": "kernels"}, "a valid list"),
        ("tfidf", {"idf": [1.0]}, "one number for each word"),
        ("tfidf", {"idf": [float("nan")] * 6}, "finite"),
        ("bow", {"colour": 1}, "differ in 'colour'"),
    ],
)
def test_an_edited_state_is_refused(kind: str, changes: dict[str, object], word: str) -> None:
    made = make_featurizer(kind, SMALL[kind], CORPUS).fit(CORPUS)
    with pytest.raises(PrivGCNError, match=word):
        featurizer_from_state(made.state() | changes)


@pytest.mark.parametrize("kind", SMALL)
def test_no_default_fills_a_gap_in_a_state(kind: str) -> None:
    state = make_featurizer(kind, SMALL[kind], CORPUS).fit(CORPUS).state()
    for name in state.keys() - {"kind"}:
        with pytest.raises(DataError, match=f"differ in '{name}'"):
            featurizer_from_state({key: state[key] for key in state if key != name})
