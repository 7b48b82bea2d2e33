from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file
from tests.features.documents import of_texts

from privgcn.errors import DataError
from privgcn.features import featurizer_from_state, make_featurizer
from privgcn.features.encoders import StaticVectors
from privgcn.features.packages import WORDLLAMA

TEXTS = (
    "The patient had a heart attack.",
    "A cardiac arrest was treated in hospital.",
    "The violin sonata was played beautifully.",
)


def test_rows_are_sums_of_token_vectors_by_log_counts() -> None:
    corpus = of_texts("graph kernel graph", "")
    made = make_featurizer("static", None, corpus).fit(corpus)
    rows = made.transform(corpus)
    vectors, tokens = WORDLLAMA.checked()
    table = load_file(vectors)["embedding.weight"].astype(np.float64)
    # The codes of the words in the vocabulary of Llama 2.
    words = json.loads(tokens.read_text())["model"]["vocab"]
    graph, kernel = table[words["\u2581graph"]], table[words["\u2581kernel"]]
    expected = np.log(3) * graph + np.log(2) * kernel
    assert np.allclose(rows[0], expected / np.linalg.norm(expected), atol=1e-6)
    assert not rows[1].any()
    assert rows.dtype == np.float32
    assert made.dimension == 256


def test_meaning_without_a_network(no_network: None) -> None:
    corpus = of_texts(*TEXTS)
    made = make_featurizer("static", None, corpus).fit(corpus)
    rows = made.transform(corpus)
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.1
    again = featurizer_from_state(json.loads(json.dumps(made.state())))
    assert (again.transform(corpus) == rows).all()
    assert made.learned is not None
    assert made.learned.startswith("nothing from these texts")
    assert "wordllama" not in sys.modules


def test_a_row_has_the_same_bits_in_any_company(monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_featurizer("static", None, of_texts("a")).fit(of_texts("a"))
    monkeypatch.setattr(StaticVectors, "_chunk", 2)
    texts = [*TEXTS, "\ud800 half a character", "word " * 500]
    whole = made.transform(of_texts(*texts))
    for row, text in enumerate(texts):
        assert np.array_equal(made.transform(of_texts(text))[0], whole[row])


def test_other_vectors_than_in_training_are_refused() -> None:
    corpus = of_texts("a")
    state = make_featurizer("static", None, corpus).fit(corpus).state()
    with pytest.raises(DataError, match="used in training"):
        featurizer_from_state({**state, "identity": "0" * 64}).transform(corpus)
