"""Several processes train the same model to the bit, and each encodes its own texts."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from builders import corpus_folder
from privgcn.errors import ConfigError
from privgcn.mechanism import Ranks
from privgcn.runs.folder import SCORES, WEIGHTS

CODE = """
import sys
from pathlib import Path
from builders import small_settings
from privgcn.data import load_corpus
from privgcn.features.encoders import StaticVectors
from privgcn.mechanism import Ranks
from privgcn.runs.prepare import prepare
from privgcn.runs.run import write_run
from privgcn.runs.train import train

source, out, kind, unit, recipe = sys.argv[1:]
encoded, encode = [], StaticVectors._encode
def counted(self, texts, told):
    encoded.append(len(texts))
    return encode(self, texts, told)
StaticVectors._encode = counted
settings = small_settings(
    recipe, privacy__unit=unit, privacy__reproducible=True, training__epochs=2,
    features__kind=kind, features__options={},
)
corpus = load_corpus(source, seed=0)
with Ranks.of_environment() as ranks:
    run = train(prepare(corpus, settings, ranks=ranks))
    Path(f"{out}.{ranks.number}").write_text(str(sum(encoded)))
    if ranks.leads:
        write_run(Path(out), run, lambda *_: "")
"""
TESTS = str(Path(__file__).parents[1])


def run(count: int, *arguments: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    usual = {**os.environ, "PYTHONPATH": TESTS, "OMP_NUM_THREADS": "1"}
    shared = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", CODE, *arguments],
            env={**usual, **shared, "RANK": str(number)} if count > 1 else usual,
        )
        for number in range(count)
    ]
    assert [rank.wait(timeout=300) for rank in ranks] == [0] * count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "unit", "recipe", "count"),
    [
        ("static", "person", "auto", 2),
        ("hashing", "part", "paper-split", 2),
    ],
)
def test_ranks_leave_the_tensors_and_scores_of_one_process(
    tmp_path: Path, kind: str, unit: str, recipe: str, count: int
) -> None:
    source = str(corpus_folder(tmp_path / "corpus", owners=20))
    for number in (1, count):
        run(number, source, str(tmp_path / str(number)), kind, unit, recipe)
    for name in (WEIGHTS, SCORES):
        one, several = ((tmp_path / str(n) / name).read_bytes() for n in (1, count))
        assert one == several, name
    if kind == "static":
        encoded = [int((tmp_path / f"{count}.{n}").read_text()) for n in range(count)]
        # Each training text once, by the rank that holds it; rank 0 those to predict too. Names
        # of classes take an encoding on every rank.
        names = 0 if recipe == "paper-split" else int((tmp_path / "1.0").read_text()) - 60
        assert sum(encoded) - count * names == 60
        assert all(number - names < 60 for number in encoded)


def test_without_privacy_there_is_one_process() -> None:
    from builders import small_corpus, small_settings
    from privgcn.runs.prepare import prepare

    settings = small_settings("plain", epsilon=None)
    with pytest.raises(ConfigError, match="one process"):
        prepare(small_corpus(), settings, ranks=Ranks(0, 2))
    assert prepare(small_corpus(), settings, ranks=Ranks()).ranks is None


def test_each_rank_encodes_whole_groups() -> None:
    from builders import small_corpus, small_settings
    from privgcn.runs.prepare import prepare
    from privgcn.runs.train import _encoded

    corpus = small_corpus(owners=20)
    settings = small_settings(
        privacy__unit="person", features__kind="static", features__options={}
    )
    rows = []
    for number in range(3):
        prepared = prepare(corpus, settings, ranks=Ranks(number, 3))
        rows.append(_encoded(prepared).features.any(axis=1))
    assert (np.sum(rows, axis=0) == 1).all()
    for number, own in enumerate(rows):
        training = own[corpus.split == 0]
        owners = np.unique(corpus.owners[corpus.split == 0][training])
        assert len(owners)
        assert np.isin(corpus.owners, owners)[corpus.split == 0].sum() == training.sum()
        assert own[corpus.split != 0].any() == (number == 0)
