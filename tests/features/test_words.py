from __future__ import annotations

import json
import re

import numpy as np
import pytest
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.preprocessing import normalize
from tests.features.documents import of_texts

from privgcn.errors import ConfigError, DataError, PrivGCNError
from privgcn.features import featurizer_from_state, make_featurizer, words
from privgcn.features.words import HashingWords

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
CORPUS = of_texts(*TEXTS)


def by_scikit_learn(made):
    """All texts at once, split by another pattern."""

    def tokens(text):
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
def test_hashed_rows_are_scikit_learn_s_in_chunks(options, chunk, monkeypatch):
    monkeypatch.setattr(words, "_CHUNK", chunk)
    made = HashingWords.with_options(options)
    rows, expected = made.transform(of_texts(*HARD)), by_scikit_learn(made)
    assert (rows.format, rows.dtype, rows.shape) == ("csr", np.float32, expected.shape)
    np.testing.assert_array_equal(rows.toarray(), expected.toarray())
    assert rows[1:3].nnz == expected[1:3].nnz
    again = featurizer_from_state(json.loads(json.dumps(made.state())))
    assert abs(again.transform(of_texts(*HARD)) - rows).max() == 0
    assert made.transform(of_texts()).shape == (0, made.dimension)
    assert made.learned is None


# hazard 19
@pytest.mark.parametrize(
    ("kind", "options"),
    [("hashing", {"dimension": 64}), ("bow", {"min_count": 2}), ("tfidf", {"min_count": 2})],
)
def test_a_row_depends_on_its_own_text_to_the_bit(kind, options):
    made = make_featurizer(kind, options, CORPUS).fit(CORPUS)
    alone = {text: made.transform(of_texts(text)) for text in TEXTS}
    for order in (TEXTS, TEXTS[::-1], (*TEXTS[2:], "kernels loud " * 300, *TEXTS[:2])):
        for own, text in zip(made.transform(of_texts(*order)), order, strict=True):
            if text in alone:
                assert own.indices.tolist() == alone[text].indices.tolist()
                assert own.data.tobytes() == alone[text].data.tobytes()


# hazard 20
def test_hashing_is_as_wide_and_as_deep_whatever_others_write():
    """Features that claim to learn nothing are fitted and made for each document apart."""
    made = []
    for others in ((), TEXTS, tuple(f"word{number} {'long ' * 300}" for number in range(50))):
        documents = of_texts("kernels for neural search", *others)
        own = make_featurizer("hashing", None, documents).fit(documents)
        made.append((own.state(), own.transform(documents)[0].toarray().tobytes()))
    assert made[0] == made[1] == made[2]
    assert len(made[0][1]) == 4 * 4096


def test_words_are_left_out_as_a_whole_and_joined_by_their_first_letters():
    rows = HashingWords().transform(of_texts("system", "systems", "everything"))
    assert rows.getnnz(axis=1).tolist() == [0, 1, 0]
    one, other = of_texts("classify the learners"), of_texts("Classified, a learner!")
    for prefix, joined in ((6, True), (None, False)):
        made = make_featurizer("hashing", {"prefix": prefix}, one)
        assert (abs(made.transform(one) - made.transform(other)).max() == 0) == joined


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
def test_bad_options(kind, options, word):
    with pytest.raises(ConfigError, match=word):
        make_featurizer(kind, options, CORPUS)


def test_an_edited_state_is_refused_and_no_default_fills_a_gap():
    state = HashingWords().state()
    with pytest.raises(PrivGCNError, match="a valid list"):
        featurizer_from_state(state | {"left_out": None})
    with pytest.raises(DataError, match="differ in 'colour'"):
        featurizer_from_state(state | {"colour": 1})
    for name in state.keys() - {"kind"}:
        with pytest.raises(DataError, match=f"differ in '{name}'"):
            featurizer_from_state({key: state[key] for key in state if key != name})
