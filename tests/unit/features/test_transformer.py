from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from corpora import of_texts
from privgcn.errors import ConfigError, DataError, DataNotAvailableError
from privgcn.features import featurizer_from_state, make_featurizer

pytestmark = [
    pytest.mark.text,
    pytest.mark.skipif(
        importlib.util.find_spec("transformers") is None,
        reason="the extra 'text' is not installed",
    ),
]
WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "pes",
    "mačka",
    "rád",
    "mám",
    "##ka",
    ".",
]
TEXTS = ("mám rád pes", "mačka", "mám mám mám mačka . pes", "rád\nmačka pes", "neznáme")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A multilingual BERT in everything but size and training."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("tiny-bert")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    BertTokenizerFast(str(folder / "vocab.txt"), do_lower_case=False).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=12,
    )
    BertModel(config).save_pretrained(folder)
    return folder


def by_hand(folder: Path, text: str) -> np.ndarray:
    import torch
    from transformers import BertModel, BertTokenizerFast

    tokens = BertTokenizerFast.from_pretrained(folder)(
        text, return_tensors="pt", truncation=True, max_length=12
    )
    with torch.inference_mode():
        hidden = BertModel.from_pretrained(folder).eval()(**tokens).last_hidden_state
    return hidden[0].mean(dim=0).numpy()


def test_the_mean_over_tokens(tiny: Path, tmp_path: Path) -> None:
    corpus = of_texts(*TEXTS, "pes " * 40)
    options = {"model": str(tiny), "cache_dir": str(tmp_path)}
    made = make_featurizer("transformer", options, corpus).fit(corpus)
    rows = made.transform(corpus)
    assert rows.shape == (6, 16)
    assert rows.dtype == np.float32
    assert made.dimension == 16
    for row, text in zip(rows, [*TEXTS, "pes " * 40], strict=True):
        assert np.allclose(row, by_hand(tiny, text), atol=1e-5)


def test_the_mean_over_lines_is_the_paper_s_mean_over_columns(
    tiny: Path, tmp_path: Path
) -> None:
    corpus = of_texts("rád\n\nmačka pes", "mačka")
    options = {"model": str(tiny), "cache_dir": str(tmp_path), "average": "lines"}
    rows = make_featurizer("transformer", options, corpus).fit(corpus).transform(corpus)
    expected = (by_hand(tiny, "rád") + by_hand(tiny, "mačka pes")) / 2
    assert np.allclose(rows[0], expected, atol=1e-5)
    assert np.allclose(rows[1], by_hand(tiny, "mačka"), atol=1e-5)


def test_a_second_run_encodes_nothing(
    tiny: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    corpus = of_texts(*TEXTS)
    options = {"model": str(tiny), "cache_dir": str(tmp_path)}
    made = make_featurizer("transformer", options, corpus).fit(corpus)
    rows = made.transform(corpus)

    def refuse(*arguments: object) -> None:
        raise AssertionError("the encoder was loaded again")

    monkeypatch.setattr("privgcn.features.transformer.Encoder", refuse)
    again = featurizer_from_state(json.loads(json.dumps(made.state())))
    assert (again.transform(of_texts(*TEXTS[::-1])) == rows[::-1]).all()
    assert again.learned == made.learned
    assert made.learned is not None
    assert made.learned.startswith("nothing from these texts")


def test_a_changed_encoder_is_refused_and_has_its_own_cache(tiny: Path, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "copy"
    shutil.copytree(tiny, folder)
    corpus = of_texts(*TEXTS)
    made = make_featurizer(
        "transformer", {"model": str(folder), "cache_dir": str(tmp_path / "cache")}, corpus
    ).fit(corpus)
    made.transform(corpus)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "layer_norm_eps": 1e-3}))
    with pytest.raises(DataError, match="used in training"):
        made.transform(corpus)


def test_what_to_do_when_there_is_no_hub(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    corpus = of_texts("a")
    with pytest.raises(DataNotAvailableError) as caught:
        make_featurizer("transformer", None, corpus).fit(corpus)
    assert caught.value.exit_code == 3
    for word in ("bert-base-multilingual-cased", "hf download", "'model'", "minilm"):
        assert word in str(caught.value)


def test_folders_that_hold_no_encoder(tmp_path: Path) -> None:
    corpus = of_texts("a")
    with pytest.raises(DataError, match=r"no config\.json"):
        make_featurizer("transformer", {"model": str(tmp_path)}, corpus).fit(corpus)
    (tmp_path / "config.json").write_text('{"model_type": "bert", "hidden_size": 16}')
    made = make_featurizer(
        "transformer", {"model": str(tmp_path), "cache_dir": str(tmp_path / "c")}, corpus
    ).fit(corpus)
    with pytest.raises(DataError, match="with its tokenizer"):
        made.transform(corpus)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"average": "words"}, "'text' or 'lines'"),
        ({"max_length": 1}, "at least 3"),
        ({"layers": 3}, "no option 'layers'"),
    ],
)
def test_bad_options(options: dict[str, object], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        make_featurizer("transformer", options, of_texts("a"))
