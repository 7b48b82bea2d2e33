"""What a model's files may tell: what was released with noise, public facts, nothing else."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from typer.testing import CliRunner

from privgcn.cli import app
from privgcn.data import Corpus
from privgcn.runs.classifier import GraphClassifier
from unit.runs.small_corpus import small_corpus

_HASH = re.compile(r"[0-9a-f]{64}")


def neighbours(*, texts: bool) -> dict[str, Corpus]:
    """The same index set and classes with other content."""
    corpus = small_corpus(texts=texts)
    labels = corpus.labels.copy()
    labels[:40] = 0
    # Every third text has no word that counts.
    words = tuple(("the", "rash", "pulse")[i % 3] for i in range(len(corpus)))
    content: dict[str, Any] = {"texts": words}
    if not texts:
        content = {"vectors": np.array(corpus.vectors) * (np.arange(len(corpus)) % 3)[:, None]}
    return {
        "usual": corpus,
        "other content": replace(corpus, **content),
        "other labels": replace(corpus, labels=labels),
        "no links": replace(corpus, edges=corpus.edges[:, :0]),
    }


def told(folder: Path) -> dict[str, str]:
    """The content of every file but for hashes, and of the weights but for their values."""
    content = {}
    for path in sorted(folder.iterdir()):
        if path.suffix == ".safetensors":
            with safe_open(path, framework="np") as file:
                shapes = {n: file.get_slice(n).get_shape() for n in file.keys()}  # noqa: SIM118
                text = json.dumps([shapes, file.metadata()])
        else:
            text = path.read_text(encoding="utf-8")
        content[path.name] = _HASH.sub("HASH", text)
    return content


@pytest.mark.parametrize("texts", [True, False], ids=["texts", "vectors"])
def test_neighbours_differ_on_disk_in_what_was_released_and_nothing_else(
    tmp_path: Path, texts: bool
) -> None:
    found = {}
    for name, corpus in neighbours(texts=texts).items():
        model = GraphClassifier(2.0, 1e-3, reproducible=True).fit(corpus.train)
        model.save(tmp_path / name)
        found[name] = told(tmp_path / name)
        shapes, metadata = json.loads(found[name]["model.safetensors"])
        assert set(metadata) == {"statement_digest"}
        assert set(shapes) == {"layers.0.weight", "path", "centre", "bias"}
    for name, content in found.items():
        assert content == found["usual"], name


@pytest.mark.parametrize("texts", [True, False], ids=["texts", "vectors"])
def test_how_much_a_person_wrote_is_told_nowhere(tmp_path: Path, texts: bool) -> None:
    """Owners are public with unit person; how many documents each has is not."""
    corpus = small_corpus(
        texts=texts,
        owners=np.arange(120) // 12,
        owner_names=tuple(f"p{i}" for i in range(10)),
        split=np.repeat([0, 1, 2], [72, 24, 24]).astype(np.int8),
    )
    briefly = corpus.select(~np.isin(np.arange(120), np.arange(37, 48)))
    for name, each in (("usual", corpus), ("brief", briefly)):
        model = GraphClassifier(2.0, 1e-3, unit="person", reproducible=True).fit(each.train)
        model.save(tmp_path / name)
    assert len(briefly.train) < len(corpus.train)
    assert told(tmp_path / "usual") == told(tmp_path / "brief")


def test_the_same_run_twice_is_the_same_on_disk(tmp_path: Path) -> None:
    for name in ("once", "again"):
        model = GraphClassifier(2.0, 1e-3, reproducible=True).fit(small_corpus().train)
        model.save(tmp_path / name)
    for path in (tmp_path / "once").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name


def test_releases_of_neighbours_tell_the_same(tmp_path: Path) -> None:
    """Through the command line, with cards and settings."""
    found = []
    for corpus in neighbours(texts=True).values():
        letters, run, out = (tmp_path / name for name in ("letters", "run", "released"))
        write(letters, corpus)
        call("train", str(letters), "--epsilon", "2", "--delta", "1e-3", "--out", str(run))
        call("release", str(run), str(out))
        found.append(told(out))
        for folder in (letters, run, out):
            shutil.rmtree(folder)
    assert all(content == found[0] for content in found)


def write(folder: Path, corpus: Corpus) -> None:
    folder.mkdir()
    split = ("train", "validation", "test")
    rows = [
        {
            "id": str(corpus.ids[row]),
            "text": (corpus.texts or ())[row],
            "label": corpus.classes[corpus.labels[row]],
            "split": split[corpus.split[row]],
        }
        for row in range(len(corpus))
    ]
    (folder / "documents.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    links = [f"{corpus.ids[a]},{corpus.ids[b]}\n" for a, b in corpus.edges.T]
    (folder / "edges.csv").write_text("source,target\n" + "".join(links))


def call(*arguments: str) -> None:
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
