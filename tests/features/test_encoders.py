from __future__ import annotations

import copy
import importlib.util
import json
import pickle
import shutil
import sys
from zipfile import ZipFile

import numpy as np
import pytest
from safetensors.numpy import load_file
from tests.features.documents import of_texts

from privgcn.errors import DataError, DataNotAvailableError
from privgcn.features import bert, featurizer_from_state, make_featurizer
from privgcn.features.encoders import MiniLM, StaticVectors, Universal

needs_universal = pytest.mark.skipif(
    not Universal.weights.installed, reason="the extra 'languages' is not installed"
)
no_transformers = importlib.util.find_spec("transformers") is None


def has_transformers(test):
    reason = "the extra 'text' is not installed"
    return pytest.mark.text(pytest.mark.skipif(no_transformers, reason=reason)(test))


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "pes", "mačka", "rád", "mám", "##ka"]
TEXTS = ("mám rád pes", "mačka", "mám mám mám mačka . pes", "neznáme")


def made_in(folder, kind="minilm", **options):
    corpus = of_texts("a")
    options = {"cache_dir": str(folder), **options}
    return make_featurizer(kind, options, corpus).fit(corpus)


@pytest.fixture(params=["float32", "bfloat16"])
def number(request, monkeypatch):
    monkeypatch.setattr(bert, "kernel", lambda: ("cpu", request.param))
    return str(request.param)


@pytest.mark.text
def test_the_forward_pass_is_that_of_transformers(tmp_path, number):
    transformers = pytest.importorskip("transformers")
    import torch

    folder = tmp_path / "minilm"
    ZipFile(MiniLM.weights.checked()[0]).extractall(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    texts = ["", "One heart.", "Graphs, kernels & \u4f60\u597d " * 9, "long words " * 400]
    rows = made_in(tmp_path).transform(of_texts(*texts))
    for text, row in zip(texts, rows, strict=True):
        tokens = tokenizer(text, return_tensors="pt", truncation=True, max_length=256)
        with torch.inference_mode():
            mean = model(**tokens).last_hidden_state[0].mean(dim=0)
        mean = torch.nn.functional.normalize(mean, dim=0)
        if number == "float32":
            assert np.allclose(row, mean, atol=1e-5)
        assert row @ mean.numpy() > 0.999


# hazard 17
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("minilm", {}),
        ("minilm", {"max_length": 16}),
        ("both", {"max_length": 32}),  # and so static
        pytest.param("universal", {}, marks=needs_universal),
    ],
)
def test_a_vector_has_the_same_bits_in_any_company(kind, options, tmp_path, number):
    """Otherwise one document would move the rows of others."""
    vocabulary = ["patient", "letter", "heart", "sonata", "network", "the", "of", "was"]
    random, own = np.random.default_rng(0), {}
    # Mixed lengths, up to the full 256 tokens, in ragged and in full batches.
    lengths = (1, 3, 14, 14, 15, 40, 90, 254, 400)
    texts = [" ".join(random.choice(vocabulary, n)) for n in lengths]
    for chosen in ([*range(9)], [*range(8, -1, -1)], [0, 2, 4, 6, 8], [7], [3], [3] + [4] * 90):
        some = [texts[row] for row in chosen]
        others = [f"sonata {row}" for row in range(90) if len(chosen) > 90]
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        rows = made_in(folder, kind, **options).transform(of_texts(*some, *others))
        for text, row in zip(some, rows[: len(some)], strict=True):
            assert own.setdefault(text, row.tobytes()) == row.tobytes()


# hazard 17
def test_the_shape_of_a_batch_follows_from_a_text_alone():
    shapes = []

    def forward(codes, mask):
        shapes.append(tuple(codes.shape))
        assert mask.any(dim=1).all()
        return codes.unsqueeze(-1).float()

    def shapes_of(*lengths):
        shapes.clear()
        tokens = [[1] * length for length in lengths]
        bert.encoded(tokens, forward, width=1, longest=256)
        return set(shapes)

    alone = shapes_of(17)
    assert {shape for shape in shapes_of(*[17] * 99, 200, 0) if shape[1] == 20} == alone
    assert alone == {(12, 20)}


def test_a_stopped_run_keeps_what_it_encoded(tmp_path, monkeypatch):
    corpus, made = of_texts("a", "b", "c", "d"), made_in(tmp_path)
    calls, encoded = [], bert.encoded

    def stops(tokens, *own, **more):
        calls.append(len(tokens))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return encoded(tokens, *own, **more)

    monkeypatch.setattr(type(made), "_chunk", 2)
    monkeypatch.setattr("privgcn.features.encoders.encoded", stops)
    with pytest.raises(KeyboardInterrupt):
        made.transform(corpus)
    assert calls == [2, 2]
    made.transform(corpus)
    # The second half alone is encoded again.
    assert calls == [2, 2, 2]


def test_a_pickle_holds_no_weights(tmp_path):
    made = made_in(tmp_path)
    made.transform(of_texts("One heart."))
    pickled = pickle.dumps(made)
    assert len(pickled) < 10_000
    other = of_texts("A sonata.")
    for copied in (pickle.loads(pickled), copy.deepcopy(made)):
        assert np.array_equal(copied.transform(other), made.transform(other))


@pytest.mark.parametrize("kind", ["both", pytest.param("universal", marks=needs_universal)])
def test_half_a_character_does_not_end_the_run(kind, tmp_path):
    rows = made_in(tmp_path, kind).transform(of_texts("bad \ud800 text", "bad ? text"))
    assert np.array_equal(rows[0], rows[1])


# hazard 29
@pytest.mark.parametrize(
    "kind", ["static", "minilm", "both", pytest.param("universal", marks=needs_universal)]
)
def test_meaning_without_a_network(kind, tmp_path, no_network):
    like = "A cardiac arrest was treated in hospital."
    if kind == "universal":
        like = "Le patient a eu une crise cardiaque."
    corpus = of_texts("The patient had a heart attack.", like, "The violin sonata was played.")
    made = make_featurizer(kind, None, corpus).fit(corpus)
    rows = made.transform(corpus)
    assert rows.shape == (3, made.dimension)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.1
    assert str(made.learned).startswith("nothing from these texts")
    assert "wordllama" not in sys.modules
    state = json.loads(json.dumps(made.state()))
    assert (featurizer_from_state(state).transform(corpus) == rows).all()
    assert str(tmp_path) not in json.dumps(state)
    with pytest.raises(DataError, match="used in training"):
        featurizer_from_state({**state, "identity": "0" * 64}).transform(corpus)


def test_static_rows_are_sums_of_token_vectors_by_log_counts():
    corpus = of_texts("graph kernel graph", "")
    rows = make_featurizer("static", None, corpus).fit(corpus).transform(corpus)
    vectors, tokens = StaticVectors.weights.checked()
    table = load_file(vectors)["embedding.weight"].astype(np.float64)
    # The codes of the words in the vocabulary of Llama 2.
    words = json.loads(tokens.read_text())["model"]["vocab"]
    graph, kernel = table[words["\u2581graph"]], table[words["\u2581kernel"]]
    expected = np.log(3) * graph + np.log(2) * kernel
    assert np.allclose(rows[0], expected / np.linalg.norm(expected), atol=1e-6)
    assert not rows[1].any()
    assert rows.dtype == np.float32


def test_both_stand_side_by_side_and_share_the_cache(tmp_path, monkeypatch):
    corpus = of_texts("The patient had a heart attack. " * 20, "A sonata.")
    short, long = (made_in(tmp_path, max_length=most).transform(corpus) for most in (16, 32))
    # hazard 18: a text that is cut elsewhere has another vector.
    assert not np.array_equal(short, long)
    parts = make_featurizer("static", None, corpus).fit(corpus).transform(corpus), short
    monkeypatch.setattr("privgcn.features.encoders.encoded", None)  # nothing is encoded twice
    made = made_in(tmp_path, "both", max_length=16)
    rows = made.transform(corpus)
    assert np.allclose(rows, np.hstack(parts) / np.sqrt(2), atol=1e-7)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert (made.dimension, rows.shape, rows.dtype) == (640, (2, 640), np.float32)
    assert "wordllama" in made.learned
    assert "all-MiniLM-L6-v2" in made.learned
    # A model reads as many tokens as it was trained with.
    monkeypatch.undo()
    assert np.array_equal(featurizer_from_state(made.state()).transform(corpus), rows)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A multilingual BERT in everything but size and training."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("tiny-bert")
    (folder / "vocab.txt").write_text("\n".join([*WORDS, "."]) + "\n", encoding="utf-8")
    BertTokenizerFast(str(folder / "vocab.txt"), do_lower_case=False).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "max_position_embeddings": 12}
    layers = {"num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(vocab_size=len(WORDS) + 1, **sizes, **layers)
    BertModel(config).save_pretrained(folder)
    return folder


def by_hand(folder, text):
    import torch
    from transformers import BertModel, BertTokenizerFast

    tokenizer = BertTokenizerFast.from_pretrained(folder)
    tokens = tokenizer(text, return_tensors="pt", truncation=True, max_length=12)
    with torch.inference_mode():
        hidden = BertModel.from_pretrained(folder).eval()(**tokens).last_hidden_state
    return hidden[0].mean(dim=0).numpy()


@has_transformers
@pytest.mark.parametrize(
    ("average", "lines"),
    [
        ("text", ["rád\n\nmačka pes"]),
        ("lines", ["rád", "mačka pes"]),
        ("columns", ["rád", "", "mačka pes"]),
    ],
)
def test_the_mean_over_tokens_and_over_lines(average, lines, tiny, tmp_path):
    texts = ["rád\n\nmačka pes", *TEXTS, "pes " * 40]
    made = made_in(tmp_path, "transformer", model=str(tiny), average=average)
    rows = made.transform(of_texts(*texts))
    assert (rows.shape, rows.dtype, made.dimension) == ((6, 16), np.float32, 16)
    expected = np.mean([by_hand(tiny, line) for line in lines], axis=0)
    assert np.allclose(rows, [expected, *(by_hand(tiny, own) for own in texts[1:])], atol=1e-5)


@has_transformers
def test_what_to_do_when_there_is_no_hub(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(DataNotAvailableError) as caught:
        made_in(tmp_path, "transformer")
    assert caught.value.exit_code == 3
    for word in ("bert-base-multilingual-cased", "hf download", "'model'"):
        assert word in str(caught.value)


@has_transformers
def test_folders_that_hold_no_encoder(tmp_path):
    for config in ("{", "{}"):
        (tmp_path / "config.json").write_text(config)
        with pytest.raises(DataError, match="with its tokenizer"):
            made_in(tmp_path, "transformer", model=str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "bert", "hidden_size": 16}')
    made = made_in(tmp_path, "transformer", model=str(tmp_path))
    with pytest.raises(DataError, match="with its tokenizer"):
        made.transform(of_texts("a"))


# hazard 29
@has_transformers
def test_a_state_holds_no_path_and_its_name_opens_no_socket(
    tiny, tmp_path, monkeypatch, no_network
):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    corpus = of_texts(*TEXTS)
    made = made_in(tmp_path / "vectors", "transformer", model=str(tiny))
    rows, state = made.transform(corpus), made.state()
    with pytest.raises(DataError, match="differ in 'cache_dir'"):
        featurizer_from_state({**state, "cache_dir": str(tmp_path / "theirs")})
    assert state["model"] == tiny.name
    assert str(tmp_path) not in json.dumps(state)
    assert str(tiny.parent) not in json.dumps(state)
    for name in (tiny.name, "bert-base-multilingual-cased", str(tiny), "../encoders/x", ""):
        with pytest.raises(DataNotAvailableError, match="nothing is downloaded"):
            featurizer_from_state({**state, "model": name}).transform(corpus)
    # In the user's own folder of encoders, or where the caller says.
    assert np.array_equal(featurizer_from_state(state, tiny).transform(corpus), rows)
    shutil.copytree(tiny, tmp_path / "data" / "encoders" / tiny.name)
    assert np.array_equal(featurizer_from_state(state).transform(corpus), rows)
    (tmp_path / "data" / "encoders" / tiny.name / "vocab.txt").write_text("other")
    with pytest.raises(DataError, match="used in training"):
        featurizer_from_state(state).transform(corpus)
