from __future__ import annotations

import pytest

from corpora import of_texts
from privgcn.features import choose, make_featurizer
from privgcn.features.default import MOST_DOCUMENTS, MOST_DOCUMENTS_GPU


@pytest.mark.parametrize(
    ("documents", "gpu", "kind"),
    [
        (1, False, "minilm"),
        (MOST_DOCUMENTS, False, "minilm"),
        (MOST_DOCUMENTS + 1, False, "static"),
        (MOST_DOCUMENTS + 1, True, "minilm"),
        (MOST_DOCUMENTS_GPU, True, "minilm"),
        (MOST_DOCUMENTS_GPU + 1, True, "static"),
    ],
)
def test_the_number_of_documents_and_the_device_choose(
    documents: int, gpu: bool, kind: str
) -> None:
    choice = choose(documents, gpu=gpu)
    assert choice.kind == kind
    assert choice.seconds > 0
    other = {"minilm": "static", "static": "minilm"}[kind]
    words = str(choice)
    assert words.startswith(f"Features: {kind} (texts taken as English")
    assert f"--features {other} takes about" in words
    assert "--language" in words


def test_the_time_grows_with_the_documents() -> None:
    assert choose(4000, gpu=False).seconds == pytest.approx(4 * choose(1000, gpu=False).seconds)
    assert choose(9000, gpu=True).seconds < choose(9000, gpu=False).seconds


def test_another_language_takes_no_english_encoder() -> None:
    choice = choose(10, language="Slovak")
    assert choice.kind == "hashing"
    assert "transformer" in choice.alternative
    corpus = of_texts("mám rád psa", "the of and")
    made = make_featurizer(None, None, corpus, language="Slovak").fit(corpus)
    assert made.kind == "hashing"
    # No list of English words is left out of other languages.
    assert made.state()["left_out"] == []
    assert choose(10, language="EN").kind == "minilm"


def test_all_documents_count_and_not_only_those_that_train() -> None:
    corpus = of_texts("a", "b")
    assert make_featurizer(None, None, corpus).kind == "minilm"
    many = make_featurizer(None, None, corpus, documents=MOST_DOCUMENTS_GPU + 1)
    assert many.kind == "static"
