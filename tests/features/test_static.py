from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.features.documents import of_texts

from privgcn.errors import DataError, DataNotAvailableError
from privgcn.features import featurizer_from_state, make_featurizer
from privgcn.features.base import package_folder
from privgcn.features.static import StaticVectors

TABLE = "weights/l2_supercat_256.safetensors"
TOKENS = "tokenizers/l2_supercat_tokenizer_config.json"
TEXTS = (
    "The patient had a heart attack.",
    "A cardiac arrest was treated in hospital.",
    "The violin sonata was played beautifully.",
)


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The two files in a package of their own, so that they can be spoilt."""
    source, folder = package_folder("wordllama", "wordllama", "static"), tmp_path / "own_table"
    for name in (TABLE, TOKENS):
        (folder / name).parent.mkdir(parents=True)
        shutil.copy(source / name, folder / name)
    (folder / "__init__.py").write_text("raise ImportError('must not be imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(StaticVectors, "_package", "own_table")
    return folder


def test_rows_are_sums_of_token_vectors_by_log_counts(copied: Path) -> None:
    corpus = of_texts("graph kernel graph", "")
    made = make_featurizer("static", None, corpus).fit(corpus)
    rows = made.transform(corpus)
    table = load_file(copied / TABLE)["embedding.weight"].astype(np.float64)
    # The codes of the words in the vocabulary of Llama 2.
    words = json.loads((copied / TOKENS).read_text())["model"]["vocab"]
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


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1000])


def _few_rows(path: Path) -> None:
    save_file({"embedding.weight": np.ones((10, 4), dtype=np.float16)}, path)


def _not_finite(path: Path) -> None:
    save_file({"embedding.weight": np.full((32000, 4), np.nan, dtype=np.float16)}, path)


def _another_name(path: Path) -> None:
    save_file({"table": np.ones((32000, 4), dtype=np.float16)}, path)


@pytest.mark.parametrize(
    ("name", "spoil", "word"),
    [
        (TABLE, _cut, "complete safetensors"),
        (TABLE, _few_rows, "one finite vector"),
        (TABLE, _not_finite, "one finite vector"),
        (TABLE, _another_name, "one finite vector"),
        (TOKENS, _cut, "hold a tokenizer"),
        (TABLE, Path.unlink, "missing"),
    ],
)
def test_spoilt_files_are_refused(
    name: str,
    spoil: Callable[[Path], None],
    word: str,
    copied: Path,
) -> None:
    spoil(copied / name)
    with pytest.raises(DataError, match=word):
        make_featurizer("static", None, of_texts("a")).fit(of_texts("a"))


def test_other_vectors_than_in_training_are_refused(copied: Path) -> None:
    corpus = of_texts("a")
    made = make_featurizer("static", None, corpus).fit(corpus)
    save_file({"embedding.weight": np.ones((32000, 256), dtype=np.float16)}, copied / TABLE)
    with pytest.raises(DataError, match="used in training"):
        made.transform(corpus)


def test_what_to_do_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StaticVectors, "_package", "no_such_package_here")
    with pytest.raises(DataNotAvailableError, match="pip install wordllama"):
        make_featurizer("static", None, of_texts("a")).fit(of_texts("a"))
