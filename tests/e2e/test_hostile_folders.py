"""Folders made by somebody who means harm: one line and exit code 2, at once."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load, save

from privgcn import GraphClassifier, load_corpus
from privgcn.cli import main
from privgcn.runs.folder import (
    MODEL,
    SETTINGS,
    TRAINED,
    WEIGHTS,
    read_folder,
    write_folder,
)

Files = dict[str, bytes]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of two kinds of features, and two letters to predict."""
    folder = tmp_path_factory.mktemp("models")
    few = load_corpus("clinic").select(np.arange(0, 3600, 20))
    hashed = GraphClassifier(epsilon=8.0, delta=1e-3, features="hashing")
    hashed.fit(few.train).save(folder / "hashing")
    plain = GraphClassifier(features="tfidf", settings={"training.epochs": 2})
    plain.fit(few.train).save(folder / "tfidf")
    (folder / "new").mkdir()
    (folder / "new" / "documents.csv").write_text("id,text\n1,heart and blood\n2,skin\n")
    return folder


def record(**changes: Any) -> Callable[[Files], None]:
    """Changes of ``model.json``; a dotted name reaches into it."""

    def edit(files: Files) -> None:
        tree = json.loads(files[MODEL])
        for name, value in changes.items():
            *path, last = name.split("__")
            node = tree
            for key in path:
                node = node[key]
            node[last] = value
        files[MODEL] = json.dumps(tree).encode()

    return edit


def text(name: str, content: bytes) -> Callable[[Files], None]:
    return lambda files: files.update({name: content})


def setting(old: str, new: str) -> Callable[[Files], None]:
    def edit(files: Files) -> None:
        assert old in files[SETTINGS].decode()
        files[SETTINGS] = files[SETTINGS].decode().replace(old, new).encode()

    return edit


def tensors(change: Callable[[dict[str, torch.Tensor]], None]) -> Callable[[Files], None]:
    def edit(files: Files) -> None:
        found = load(files[WEIGHTS])
        change(found)
        files[WEIGHTS] = save(found)

    return edit


WEIGHT = "layers.0.weight"
HOSTILE: dict[str, tuple[str, Callable[[Files], None]]] = {
    "broken settings": ("tfidf", text(SETTINGS, b"recipe = [")),
    "deep settings": ("tfidf", text(SETTINGS, b"a = " + b"[" * 10_000)),
    "strange settings": ("tfidf", text(SETTINGS, b"\xff")),
    "many hops": ("tfidf", setting("hops = 2", "hops = 999999999")),
    "many hops in prediction": ("hashing", setting("hops = 10", "hops = 999999999")),
    "wide hidden layer": ("tfidf", setting("hidden = 32", "hidden = 1000000")),
    "broken model": ("tfidf", text(MODEL, b'{"format": 3')),
    "deep model": ("tfidf", text(MODEL, b'{"a":' * 100_000)),
    "digits": ("tfidf", text(MODEL, b'{"format": ' + b"3" * 5000 + b"}")),
    "wide": ("tfidf", record(width=10**12)),
    "wide, a float": ("tfidf", record(width=1e12)),
    "wide in range": ("tfidf", record(width=2**31 - 1)),
    "wide hashing": (
        "hashing",
        record(width=2**31 - 1, features__dimension=2**31 - 1),
    ),
    "many classes": ("tfidf", record(classes__values=list(range(10**6)), classes__dtype="i8")),
    "one class": ("tfidf", record(classes__values=["a"])),
    "strange class type": ("tfidf", record(classes__dtype="U999999999")),
    "class out of range": (
        "tfidf",
        record(classes__dtype="i1", classes__values=[1000] * 6),
    ),
    "unknown features": ("tfidf", record(features={"kind": "magic"})),
    "features without words": ("tfidf", record(features={"kind": "tfidf"})),
    "words that are no words": ("tfidf", record(features__words=[1, 2])),
    "too few weights of words": ("tfidf", record(features__idf=[1.0])),
    "endless runs of words": ("hashing", record(features__ngrams=-1)),
    "no numbers": ("hashing", record(matching=None)),
    "endless rounds": ("hashing", record(matching__rounds=10**12)),
    "strange numbers": ("hashing", record(matching__rate=-1.0)),
    "unknown parameters": ("tfidf", record(parameters={"magic": 1})),
    "no plan": ("hashing", record(plan=None)),
    "plan of many steps": ("hashing", record(plan__steps=10**15)),
    "weights that are none": ("tfidf", text(WEIGHTS, b"\xff" * 100)),
    "NaN": ("tfidf", tensors(lambda t: t[WEIGHT].fill_(float("nan")))),
    "infinity": ("tfidf", tensors(lambda t: t["layers.1.bias"].fill_(float("inf")))),
    "transposed": (
        "tfidf",
        tensors(lambda t: t.update({WEIGHT: t[WEIGHT].permute(2, 1, 0).contiguous()})),
    ),
    "missing tensor": ("tfidf", tensors(lambda t: t.__delitem__(WEIGHT))),
    "added tensor": ("tfidf", tensors(lambda t: t.update(extra=torch.ones(1)))),
    "float64": ("tfidf", tensors(lambda t: t.update({WEIGHT: t[WEIGHT].double()}))),
    "broken fingerprints": ("tfidf", text(TRAINED, b'{"format": 1}')),
    "deep fingerprints": ("tfidf", text(TRAINED, b"[" * 100_000)),
}


def answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> str:
    """What the program says on its way out with exit code 2."""
    monkeypatch.setattr(sys, "argv", ["privgcn", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    said = capsys.readouterr()
    assert stop.value.code == 2, said.err
    assert said.err.startswith("Error: ")
    assert said.err.count("\n") == 1
    assert len(said.err) < 1500
    assert said.out == ""
    return said.err


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_model_is_one_line(
    models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    kind, edit = HOSTILE[name]
    files = {**read_folder(models / kind).files}
    edit(files)
    write_folder(tmp_path / "model", "run", files)
    words = ["predict", str(tmp_path / "model"), str(models / "new")]
    answer(monkeypatch, capsys, *words, "--out", str(tmp_path / "p.csv"))
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.parametrize("verb", ["verify", "evaluate", "report"])
@pytest.mark.parametrize("name", [MODEL, WEIGHTS, SETTINGS, "manifest.json"])
def test_a_pipe_or_an_endless_file_is_not_read(
    models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    verb: str,
) -> None:
    for trick in ("pipe", "zero"):
        folder = tmp_path / trick
        shutil.copytree(models / "hashing", folder)
        (folder / name).unlink()
        os.mkfifo(folder / name) if trick == "pipe" else (folder / name).symlink_to("/dev/zero")
        assert "regular file" in answer(monkeypatch, capsys, verb, str(folder))


def test_vectors_with_a_huge_header_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "documents.csv").write_text("id,label\n1,a\n2,b\n")
    for shape in ((2, 10**14), (10**12, 10**9), (2**62, 2**62)):
        with (tmp_path / "features.npy").open("wb") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            file.write(bytes(64))
        said = answer(monkeypatch, capsys, "train", str(tmp_path))
        assert "features.npy" in said


def test_runs_of_words_longer_than_a_text_cost_nothing(models: Path, tmp_path: Path) -> None:
    files = {**read_folder(models / "hashing").files}
    record(features__ngrams=10**12)(files)
    write_folder(tmp_path / "model", "model", files)
    model = GraphClassifier.load(tmp_path / "model")
    assert len(model.predict(load_corpus(models / "new", require_labels=False))) == 2
