from __future__ import annotations

import sys
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from tests.features.documents import documents, of_texts, of_vectors

from privgcn.data.corpus import MappedRows
from privgcn.errors import ConfigError
from privgcn.features import choose, feature_kinds, featurizer_from_state, make_featurizer
from privgcn.features.choose import BUDGET, TOKENS_A_SECOND, without_paths
from privgcn.features.encoders import Universal
from privgcn.features.packages import Weights

TWO_CORES = 2 * TOKENS_A_SECOND["float32"]


def test_tokens_fall_smoothly_and_never_outrun_the_budget():
    counts, chosen = [1, 10_000, 160_000, 160_001, *range(1, 200_000, 501)], {}
    for count in sorted(counts):
        choice = choose(count, speed=TWO_CORES)
        chosen[count] = tokens = choice.options.get("max_length", 0)
        assert choice.kind == ("both" if tokens else "static")
        assert ("--features fast" in str(choice)) == (tokens > 0)
        assert ("--features best" in str(choice)) == (tokens < 256)
        assert count * tokens <= BUDGET * TWO_CORES
    tokens = [*chosen.values()]
    assert tokens == sorted(tokens, reverse=True)
    assert set(tokens) == {0, *range(16, 257, 16)}
    assert [chosen[count] for count in counts[:4]] == [256, 256, 16, 0]
    on_a_gpu = choose(160_001, speed=TOKENS_A_SECOND["cuda"])
    assert on_a_gpu.options["max_length"] == 256


@pytest.mark.parametrize("count", [3, 10**7])
def test_a_wish_does_not_look_at_the_number(count):
    assert make_featurizer("fast", None, of_texts("a"), documents=count).kind == "static"
    for options, tokens in (({}, 256), ({"max_length": 32}, 32)):
        best = make_featurizer("best", options, of_texts("a"), documents=count)
        assert (best.kind, best.state()["max_length"]) == ("both", tokens)


@pytest.mark.parametrize("wanted", [None, "fast", "best"])
def test_another_language_takes_no_english_encoder(wanted, monkeypatch):
    corpus = of_texts("mám rád psa", "the of and")
    monkeypatch.setattr(Universal, "weights", Weights("no_such", "universal", {}))
    made = make_featurizer(wanted, None, corpus, language="Polish").fit(corpus)
    assert made.kind == "hashing"
    # No list of English words is left out of other languages.
    assert made.state()["left_out"] == []
    assert "pip install universal" in str(choose(10, language="Polish", wanted=wanted))
    monkeypatch.setattr(Universal, "weights", Weights("numpy", "universal", {}))
    assert choose(10, language="Polish", wanted=wanted).kind == "universal"
    assert choose(10, language="EN").kind == "both"
    # No encoder is chosen for a language that none of them knows.
    with pytest.raises(ConfigError, match=r"'language' .* Got 'Klingon'.*--features hashing"):
        choose(10, language="Klingon", wanted=wanted)
    named = make_featurizer("hashing", None, corpus, language="Slovak").fit(corpus)
    assert named.state()["left_out"] == []


# hazard 21
def test_content_does_not_choose_the_kind_of_features():
    states = [
        make_featurizer(None, None, of_texts(*[text] * 4)).state()
        for text in ("some words", "many words " * 2000, "a", "1 2 3", "")
    ]
    assert states[0]["kind"] == "both"
    assert all(state == states[0] for state in states)
    for vectors in (np.zeros((4, 3), np.float32), np.full((4, 3), np.nan, np.float32)):
        assert make_featurizer(None, None, of_vectors(vectors)).kind == "given"
    both = documents(2, texts=("kernels", "graphs"), vectors=np.zeros((2, 2), np.float32))
    assert make_featurizer(None, None, both).kind == "given"
    assert make_featurizer("hashing", None, both).transform(both).nnz


# hazard 21
def test_persons_who_write_more_choose_nothing_else():
    """With the number of units as ``documents``, private numbers of letters say nothing."""
    few, many = of_texts("a"), of_texts(*["a"] * 200_000)
    few, many = (make_featurizer(None, None, own, documents=9_000) for own in (few, many))
    assert few.kind == "both"
    assert few.state() == many.state()
    # All documents count, and not only those that train.
    assert make_featurizer(None, None, of_texts("a"), documents=10**9).kind == "static"


def test_kinds_are_those_of_this_package_first(monkeypatch):
    with pytest.raises(ConfigError, match=r"must be one of given, hashing.*fast, best"):
        featurizer_from_state({"kind": "os.path"})
    assert {"bow", "tfidf", "fasttext"} <= feature_kinds().keys()
    stranger = EntryPoint("minilm", "strangers.module:Features", "privgcn.features")
    module = sys.modules["privgcn.features.choose"]
    monkeypatch.setattr(module, "entry_points", lambda group: [stranger])
    assert feature_kinds()["minilm"].value == "privgcn.features.encoders:MiniLM"


def test_options_without_paths():
    options = {"model": "/home/me/bert", "cache_dir": "/tmp/x", "average": "lines"}
    assert without_paths("transformer", options) == {"model": "bert", "average": "lines"}
    assert without_paths("word-vectors", {"source": "/a/b.vec"}) == {"source": "b.vec"}


def test_choosing_and_fitting_read_no_vectors_of_a_view(tmp_path, monkeypatch):
    np.save(tmp_path / "rows.npy", np.zeros((4, 3), dtype=np.float32))
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="c")
    view = documents(4, vectors=mapped).select([3, 1])
    monkeypatch.setattr(MappedRows, "__getitem__", None)
    made = make_featurizer(None, None, view).fit(view)
    assert (made.kind, made.dimension) == ("given", 3)
