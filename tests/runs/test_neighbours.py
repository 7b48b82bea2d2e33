"""What a run tells of its training documents: what was released with noise, and no more."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from builders import run_folder, small_settings, two_class_corpus
from privgcn import progress
from privgcn.data import Corpus
from privgcn.mechanism import Session
from privgcn.runs.classifier import GraphClassifier
from privgcn.runs.prepare import prepare
from privgcn.runs.run import Run, write_release
from privgcn.runs.train import train

_HASH = re.compile(r"[0-9a-f]{64}")
CHANGES: list[dict[str, Any]] = [
    {},
    {"training.balanced": True},
    {"prediction.method": "direct"},
    {"privacy.parts": 5, "privacy.sampling": "poisson"},
    {"privacy.parts": 5, "privacy.sampling": "epoch", "privacy.relation": "replace"},
]


def neighbours(*, texts: bool) -> dict[str, Corpus]:
    """The same index set and classes with other content in the training documents."""
    corpus = two_class_corpus(worded=texts)
    train = corpus.split == 0
    labels = np.where(train, 0, corpus.labels)
    # Every third text has no word that counts.
    words = tuple(("the", "rash", "pulse")[i % 3] for i in range(len(corpus)))
    content: dict[str, Any] = {"texts": words}
    if not texts:
        scale = np.where(train, np.arange(len(corpus)) % 3, 1)[:, None]
        content = {"vectors": np.array(corpus.vectors) * scale.astype(np.float32)}
    return {
        "usual": corpus,
        "other content": replace(corpus, **content),
        "other labels": replace(corpus, labels=labels),
        "no edges": replace(corpus, edges=corpus.edges[:, :0]),
    }


def told(folder: Path) -> dict[str, str]:
    """The content of every file but for hashes, and of the weights but for their values."""
    content = {}
    for path in sorted(folder.iterdir()):
        text = "" if path.suffix == ".safetensors" else path.read_text(encoding="utf-8")
        content[path.name] = _HASH.sub("HASH", text)
    with safe_open(folder / "model.safetensors", framework="np") as file:
        shapes = {n: file.get_slice(n).get_shape() for n in file.keys()}  # noqa: SIM118
        return {**content, "shapes": json.dumps([shapes, sorted(file.metadata())])}


# hazard 1
@pytest.mark.parametrize(
    ("kind", "changes"),
    # The vectors of class names are public, and with static ones they are there.
    [*((kind, each) for kind in ("hashing", "given") for each in CHANGES), ("static", {})],
    ids=str,
)
def test_what_leaves_training_follows_from_its_answers(
    monkeypatch: pytest.MonkeyPatch, kind: str, changes: dict[str, Any]
) -> None:
    """The same answers, whatever the documents are, must give the same model."""
    answer = Session.query

    def query(self: Session, question: Any) -> Any:
        shape = answer(self, question).shape
        return np.random.default_rng(self.remaining).normal(size=shape) * 0.01

    monkeypatch.setattr(Session, "query", query)
    options = {"dimension": 64} if kind == "hashing" else {}
    settings = small_settings(features__kind=kind, features__options=options)
    settings = settings.changed({"training.epochs": 4, **changes})
    models = {}
    for name, corpus in neighbours(texts=kind != "given").items():
        declared = replace(corpus, facts=replace(corpus.facts, classes_declared=True))
        models[name] = train(prepare(declared, settings)).model
    usual = models["usual"].released
    assert ("label_direction" in usual.tensors) == (kind == "static")
    for name, model in models.items():
        assert model.released.tensors.keys() == usual.tensors.keys(), name
        for tensor, values in model.released.tensors.items():
            assert np.array_equal(values, usual.tensors[tensor]), (name, tensor)
        assert model.released.matching == usual.matching
        assert model.record == models["usual"].record


# hazard 27
def test_saved_models_and_releases_of_neighbours_tell_the_same(tmp_path: Path) -> None:
    contents: dict[str, list[Any]] = {"texts": [], "vectors": [], "releases": []}
    for form in ("texts", "vectors"):
        for name, corpus in neighbours(texts=form == "texts").items():
            model = GraphClassifier(2.0, 1e-3, features="static" if form == "texts" else None)
            model.set_params(reproducible=True, random_state=0).fit(corpus.train)
            model.save(tmp_path / form / name)
            contents[form].append(told(tmp_path / form / name))
            shapes, metadata = json.loads(contents[form][-1]["shapes"])
            assert metadata == ["statement_digest"]
            assert set(shapes) == {"weight", "iterates", "mean", "class_bias"}
    for name, corpus in neighbours(texts=True).items():
        settings = small_settings(training__epochs=3, data__source=f"/home/jane/{name}")
        run_folder(tmp_path / name, corpus, settings)
        write_release(Run(tmp_path / name), tmp_path / f"{name} out", {})
        contents["releases"].append(told(tmp_path / f"{name} out"))
    for form, alike in contents.items():
        assert all(content == alike[0] for content in alike), form


# hazard 21
@pytest.mark.parametrize("texts", [True, False], ids=["texts", "vectors"])
def test_how_much_a_person_wrote_is_told_nowhere(tmp_path: Path, texts: bool) -> None:
    """Owners are public with unit person; how many documents each has is not."""
    corpus = two_class_corpus(
        worded=texts,
        owners=np.arange(120) // 12,
        owner_names=tuple(f"p{i}" for i in range(10)),
        split=np.repeat([0, 1, 2], [72, 24, 24]).astype(np.int8),
    )
    briefly = corpus.select(~np.isin(np.arange(120), np.arange(37, 48)))
    for name, each in (("usual", corpus), ("brief", briefly)):
        model = GraphClassifier(2.0, 1e-3, unit="person", reproducible=True, random_state=0)
        model.set_params(features="hashing" if texts else None).fit(each.train)
        model.save(tmp_path / name)
    assert len(briefly.train) < len(corpus.train)
    assert told(tmp_path / "usual") == told(tmp_path / "brief")


# hazard 33
@pytest.mark.parametrize("texts", [True, False], ids=["sparse", "dense"])
def test_before_and_while_it_trains_a_run_tells_public_facts_only(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, texts: bool
) -> None:
    """Plan, advice and progress; neither a loss nor how much was clipped is printed."""

    class Notes:
        def __init__(self) -> None:
            self.told: list[Any] = []

        def begin(self, name: str) -> None:
            self.told.append(name)

        def advance(self, done: int, total: int) -> None:
            self.told.append((done, total))

    kind = "hashing" if texts else "given"
    settings = small_settings(features__kind=kind, features__options={}, training__epochs=4)
    public = []
    for corpus in neighbours(texts=texts).values():
        notes = Notes()
        with caplog.at_level(logging.DEBUG), progress.watched(notes):
            prepared = prepare(corpus, settings)
            train(prepared)
        public.append((prepared.plan, prepared.advice, prepared.featurizer, notes.told))
    assert all(each == public[0] for each in public)
    assert public[0][1] or not texts
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")


# hazard 16
def test_a_run_that_was_stopped_leaves_nothing_and_is_trained_with_other_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sum is never released twice: there is no state on disk from which to go on."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    query = Session.query
    answers: list[Any] = []

    def stopping(self: Session, question: Any) -> Any:
        if len(answers) == 3:
            raise KeyboardInterrupt
        answers.append(query(self, question))
        return answers[-1]

    monkeypatch.setattr(Session, "query", stopping)
    settings = small_settings(seed=1)
    with pytest.raises(KeyboardInterrupt):
        train(prepare(two_class_corpus(), settings))
    assert list(tmp_path.iterdir()) == []
    before = answers[:]
    answers.clear()
    with pytest.raises(KeyboardInterrupt):
        train(prepare(two_class_corpus(), settings))
    for first, second in zip(before, answers, strict=True):
        assert not np.isclose(first, second, rtol=1e-9, atol=0).any()
