from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from tests.features.documents import documents, of_texts, of_vectors

from privgcn.data import Corpus
from privgcn.errors import ConfigError
from privgcn.features import (
    choose,
    feature_kinds,
    featurizer_from_state,
    make_featurizer,
    without_paths,
)
from privgcn.features.choose import MOST_DOCUMENTS, MOST_DOCUMENTS_GPU


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
    other = {"minilm": "static", "static": "minilm"}[kind]
    words = str(choice)
    assert words.startswith(f"Features: {kind} (texts taken as English")
    assert f"--features {other} takes about" in words
    assert "--language" in words


@pytest.mark.parametrize(
    ("documents", "gpu", "words"),
    [(1, False, "about 1 s"), (210_000, True, "takes about 5 min"), (10**8, True, " h and")],
)
def test_the_time_grows_with_the_documents(documents: int, gpu: bool, words: str) -> None:
    assert words in str(choose(documents, gpu=gpu))


def test_another_language_takes_no_english_encoder() -> None:
    choice = choose(10, language="Slovak")
    assert choice.kind == "hashing"
    assert "--features transformer" in str(choice)
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


# hazard 21
def test_content_does_not_choose_the_kind_of_features() -> None:
    texts = ("some words",) * 4
    for own in (texts, ("many words " * 2000,) * 4, ("a",) * 4, ("1 2 3",) * 4, ("",) * 4):
        assert make_featurizer(None, None, of_texts(*own)).kind == "minilm"
    for vectors in (np.zeros((4, 3), np.float32), np.full((4, 3), np.nan, np.float32)):
        assert make_featurizer(None, None, of_vectors(vectors)).kind == "given"


# hazard 21
def test_persons_who_write_more_choose_no_other_kind() -> None:
    """With the number of units as ``documents``, private numbers of letters say nothing."""
    few, many = of_texts("a"), of_texts(*["a"] * (MOST_DOCUMENTS + 1))
    kinds = {make_featurizer(None, None, each, documents=100).kind for each in (few, many)}
    assert kinds == {"minilm"}


def test_text_can_be_asked_for_where_there_are_vectors() -> None:
    vectors = np.zeros((2, 2), dtype=np.float32)
    both = documents(2, texts=("kernels", "graphs"), vectors=vectors)
    assert make_featurizer(None, None, both).kind == "given"
    assert make_featurizer("hashing", None, both).fit(both).transform(both).nnz


def test_every_kind_can_be_loaded() -> None:
    kinds = feature_kinds()
    assert set(kinds) == {
        *("given", "hashing", "bow", "tfidf", "transformer", "minilm", "static"),
        *("word-vectors", "fasttext"),
    }
    for name, kind in kinds.items():
        loaded = kind.load()
        assert loaded.kind == name
        assert loaded.learns == (name in ("given", "bow", "tfidf"))


def test_no_installed_kind_takes_the_name_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = EntryPoint("minilm", "strangers.module:Features", "privgcn.features")
    module = sys.modules["privgcn.features.choose"]
    monkeypatch.setattr(module, "entry_points", lambda group: [stranger])
    assert feature_kinds()["minilm"].value == "privgcn.features.encoders:MiniLM"


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(ConfigError, match="must be one of given, hashing"):
        make_featurizer("bert", None, of_texts("a"))
    with pytest.raises(ConfigError, match="must be one of given, hashing"):
        featurizer_from_state({"kind": "os.path"})


def test_options_without_paths() -> None:
    options = {"model": "/home/me/bert", "cache_dir": "/tmp/x", "average": "lines"}
    assert without_paths("transformer", options) == {"model": "bert", "average": "lines"}
    assert without_paths(None, {"cache_dir": "/tmp/x"}) == {}
    assert without_paths("word-vectors", {"source": "/a/b.vec"}) == {"source": "b.vec"}


def test_choosing_and_fitting_read_no_vectors_of_a_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "rows.npy", np.zeros((4, 3), dtype=np.float32))
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="c")
    view = documents(4, vectors=mapped).select([3, 1])

    def refuse(*arguments: object) -> None:
        raise AssertionError("rows were read")

    monkeypatch.setattr(type(vars(Corpus)["vectors"]), "__get__", refuse)
    made = make_featurizer(None, None, view).fit(view)
    assert (made.kind, made.dimension) == ("given", 3)
