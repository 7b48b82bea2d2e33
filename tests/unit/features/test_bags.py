"""Hashed words are scikit-learn's, to the bit."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.preprocessing import normalize

from corpora import of_texts
from privgcn.features import bags
from privgcn.features.bags import HashingWords

TEXTS = (
    "The valve, the Valve and the pressure_valve: 12 mm, 3 beats a beat",
    "".join(map(chr, range(128))) + " a\x1cb ab\x1dcd e\x0bf",
    "Überdruck im Ventil: ÉTÉ 2021, naïve café; ΑΒΓ αβγ, 中文 字",
    "",
    "the a of",
)


def _expected(words: HashingWords) -> Any:
    def analyse(text: str) -> list[str]:
        found = [
            word[: words.prefix]
            for word in re.findall(r"\b\w\w+\b", text.lower())
            if word not in words.left_out
        ]
        runs = [
            " ".join(found[at : at + size])
            for size in range(2, words.ngrams + 1)
            for at in range(len(found) - size + 1)
        ]
        return [*found, *runs]

    hasher = HashingVectorizer(
        n_features=words.dimension, analyzer=analyse, norm=None, dtype=np.float32
    )
    counts = hasher.transform(TEXTS)
    counts.eliminate_zeros()
    counts.data = np.sign(counts.data) * np.log1p(np.abs(counts.data))
    return normalize(counts)


@pytest.mark.parametrize("most", [2, 1 << 20])
@pytest.mark.parametrize(
    "options", [{}, {"dimension": 5}, {"ngrams": 3}, {"prefix": None, "stop_words": None}]
)
def test_rows_are_those_of_scikit_learn(
    options: dict[str, Any], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bags, "_MOST_FOUND", most)
    words = HashingWords.with_options(options)
    rows, expected = words.transform(of_texts(*TEXTS)), _expected(words)
    assert rows.shape == expected.shape
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows.toarray(), expected.toarray())
