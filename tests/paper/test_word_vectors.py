import gzip
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from tests.features.documents import of_texts

from privgcn.errors import DataError, DataNotAvailableError
from privgcn.features import featurizer_from_state, make_featurizer
from privgcn_paper.word_vectors import find_vectors, look_up

GLOVE = "the 1 1 1\ncat 1 0 0\nat name@x.y 9 9 9\ndog 0 1 0\ndog 5 5 5\nfish 0 0 4e-1\n"


@pytest.fixture(params=["glove.txt", "fast.vec", "fast.vec.gz"])
def vectors(request, tmp_path):
    path = tmp_path / request.param
    text = GLOVE if "glove" in path.name else f"6 3\n{GLOVE}"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


def test_the_mean_over_known_words(vectors):
    corpus = of_texts("The cat, the DOG and a bird!", "fish fish cat", "nothing known", "at")
    made = make_featurizer("word-vectors", {"source": vectors}, corpus).fit(corpus)
    rows = made.transform(corpus)
    cased = {"source": vectors, "stop_words": None, "lowercase": False}
    other = make_featurizer("word-vectors", cased, corpus).fit(corpus).transform(corpus)
    assert np.allclose(other[:2], [[1, 0.5, 0.5], [1 / 3, 0, 0.8 / 3]])
    assert made.dimension == 3
    assert rows.dtype == np.float32
    expected = [[0.5, 0.5, 0], [1 / 3, 0, 0.8 / 3], [0, 0, 0], [0, 0, 0]]
    assert np.allclose(rows, expected)
    again = featurizer_from_state(json.loads(json.dumps(made.state())), vectors)
    assert (again.transform(corpus) == rows).all()
    assert made.learned is not None
    assert made.learned.startswith("nothing from these texts")


def test_a_file_is_named_by_its_path_or_alone_in_the_data_folder(tmp_path, monkeypatch):
    (tmp_path / "word-vectors").mkdir()
    (tmp_path / "word-vectors" / "mine.vec").write_text("1 2\ncat 1 0\n")
    monkeypatch.setenv("PRIVGCN_DATA", str(tmp_path))
    assert look_up(find_vectors("mine.vec"), ["cat"])[1] == 2
    for options in (None, {"source": "other.vec"}):
        with pytest.raises(DataNotAvailableError, match=r"not on this .*option 'source'"):
            make_featurizer("word-vectors", options, of_texts("a")).fit(of_texts("a"))


CUT = gzip.compress("".join(f"w{n} {n} {n * 7 % 13}\n" for n in range(5000)).encode())[:-2000]


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("a.txt", b"cat 1 0 0\ndog 1 0\n", "Line 2"),
        ("a.txt", b"cat 1 0 0\ndog 1 0 x\n", "Line 2"),
        ("a.txt", b"", "none"),
        ("a.bin", b"\xba\x16\x4f\x2f\x0c\0\0\0 1\n", "take the .vec file"),
        ("a.vec.gz", CUT, "cut"),
    ],
)
def test_broken_files(tmp_path, name, content, word):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=word):
        look_up(tmp_path / name, ["dog", "w4999"])


def test_other_vectors_than_in_training_are_refused(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text("dog 1 2\n")
    corpus = of_texts("dog")
    made = make_featurizer("word-vectors", {"source": str(path)}, corpus).fit(corpus)
    path.write_text("dog 1 3\n")
    with pytest.raises(DataError, match="used in training"):
        made.transform(corpus)


def test_features_fasttext_takes_the_paper_s_vectors_of_slovak(tmp_path, monkeypatch):
    (tmp_path / "word-vectors").mkdir()
    path = tmp_path / "word-vectors" / "cc.sk.300.vec.gz"
    path.write_bytes(gzip.compress("3 2\nthe 1 2\npes 3 4\nmačka 5 6\n".encode()))
    monkeypatch.setenv("PRIVGCN_DATA", str(tmp_path))
    corpus = of_texts("pes, the pes", "mačka neznáma")
    made = make_featurizer("fasttext", None, corpus).fit(corpus)
    rows = made.transform(corpus)
    assert np.allclose(rows, [[7 / 3, 10 / 3], [5, 6]])
    assert made.state()["left_out"] == []
    assert np.array_equal(featurizer_from_state(made.state()).transform(corpus), rows)


# hazard 29
def test_a_state_names_a_file_of_the_data_folder_and_no_other(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVGCN_DATA", str(tmp_path / "data"))
    path = tmp_path / "mine.txt"
    path.write_text("dog 1 2\n")
    corpus = of_texts("dog")
    made = make_featurizer("word-vectors", {"source": str(path)}, corpus).fit(corpus)
    state = made.state()
    assert str(tmp_path) not in json.dumps(state)
    for name in ("mine.txt", str(path), "../../mine.txt"):
        with pytest.raises(DataNotAvailableError, match="must be on this machine"):
            featurizer_from_state({**state, "source": name}).transform(corpus)
    (tmp_path / "data" / "word-vectors").mkdir(parents=True)
    path.rename(tmp_path / "data" / "word-vectors" / "mine.txt")
    assert np.allclose(featurizer_from_state(state).transform(corpus), [[1, 2]])


# hazard 19
def test_a_row_has_the_same_bits_after_other_texts(tmp_path):
    path, random = tmp_path / "glove.txt", np.random.default_rng(0)
    numbers = random.normal(size=(40, 7))
    path.write_text(
        "".join(f"w{n} {' '.join(map(str, row))}\n" for n, row in enumerate(numbers))
    )
    texts = [" ".join(f"w{n}" for n in random.integers(0, 60, 30)) for _ in range(12)]
    corpus = of_texts(*texts)
    made = make_featurizer("word-vectors", {"source": str(path)}, corpus).fit(corpus)
    rows = made.transform(corpus)
    for row, text in zip(rows, texts, strict=True):
        assert made.transform(of_texts(text))[0].tobytes() == row.tobytes()
        assert made.transform(of_texts("w59 w3", text))[1].tobytes() == row.tobytes()


LIMITED = """
import resource, sys
from pathlib import Path
from privgcn.errors import DataError
from privgcn_paper.word_vectors import look_up

most = 256 << 20
resource.setrlimit(resource.RLIMIT_DATA, (most, most))
try:
    look_up(Path(sys.argv[1]), ["dog", "cat"])
except DataError as error:
    print(error)
"""


# hazard 30
@pytest.mark.parametrize("content", ["a line without an end", "a vector without an end"])
def test_a_small_file_that_unpacks_to_gigabytes(tmp_path, content):
    path = tmp_path / "bomb.vec.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(b"dog 1 2\n" if content.startswith("a line") else b"")
        for _ in range(20):
            stream.write((b"x" if content.startswith("a line") else b"1 ") * (1 << 24))
    assert path.stat().st_size < 16 << 20
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert "a line has at most" in done.stdout
