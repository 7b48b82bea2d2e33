from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from tests.features.documents import of_texts

from privgcn.errors import DataError, PrivGCNError
from privgcn.features import featurizer_from_state, make_featurizer
from privgcn_paper.bags import split_words

TEXTS = (
    "Graph kernels, graph cuts and the learning of kernels",
    "The neural network learns; a network of neural units!",
    "Genetic search: a genetic algorithm for search",
    "Kernels for neural search",
)
CORPUS = of_texts(*TEXTS)
KINDS = pytest.mark.parametrize("kind", ["bow", "tfidf"])


def fitted(kind, **options):
    return make_featurizer(kind, options, CORPUS).fit(CORPUS)


@KINDS
def test_rows_are_sparse_float32_and_survive_json(kind):
    made = fitted(kind, min_count=2)
    rows = made.transform(CORPUS)
    assert (rows.format, rows.dtype, rows.shape) == ("csr", np.float32, (4, made.dimension))
    again = featurizer_from_state(json.loads(json.dumps(made.state())))
    assert (again.kind, again.learned) == (kind, made.learned)
    assert abs(again.transform(CORPUS) - rows).max() == 0
    assert made.transform(of_texts("?!", "of the")).nnz == 0


def test_a_bag_has_the_words_of_an_interval_of_occurrences_and_says_that_it_learned_them():
    made = fitted("bow", min_count=2, max_count=2, stop_words="none")
    assert made.state()["words"] == ["a", "for", "genetic", "graph", "network", "of", "the"]
    assert made.transform(CORPUS).toarray()[2].tolist() == [1, 1, 1, 0, 0, 0, 0]
    assert made.learns
    assert "vocabulary of 7 words" in made.learned


def test_tfidf_agrees_with_scikit_learn():
    made = fitted("tfidf", min_count=1, stop_words=None)
    oracle = TfidfVectorizer(analyzer=split_words, sublinear_tf=True).fit(TEXTS)
    assert list(oracle.get_feature_names_out()) == made.state()["words"]
    assert abs(made.transform(CORPUS) - oracle.transform(TEXTS)).max() < 1e-6
    assert "how many training texts" in made.learned


@pytest.mark.parametrize("options", [{"min_count": 99}, {"min_count": 3, "max_count": 2}])
def test_an_empty_vocabulary_is_refused(options):
    for texts in (TEXTS, ("", "?"), ()):
        with pytest.raises(DataError, match="Widen the interval"):
            make_featurizer("bow", options, CORPUS).fit(of_texts(*texts))


@pytest.mark.parametrize(
    ("kind", "changes", "word"),
    [
        ("bow", {"words": "kernels"}, "a valid list"),
        ("bow", {"words": ["a", "a"]}, "differ from each other"),
        ("tfidf", {"idf": [1.0]}, "one number for each word"),
        ("tfidf", {"idf": [float("nan")] * 6}, "finite"),
    ],
)
def test_an_edited_state_is_refused(kind, changes, word):
    state = fitted(kind, min_count=2).state()
    with pytest.raises(PrivGCNError, match=word):
        featurizer_from_state(state | changes)
