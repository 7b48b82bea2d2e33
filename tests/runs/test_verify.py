"""A run's files against each other, checked from the files alone."""

from __future__ import annotations

import json
import socket
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from builders import reseal, run_folder, small_settings, trained
from privgcn.config import to_toml
from privgcn.errors import ConfigError, DataError, PrivacyContractError, PrivGCNError
from privgcn.privacy.verify import DIGEST_KEY
from privgcn.runs.classifier import GraphClassifier
from privgcn.runs.folder import (
    MODEL,
    REPORT,
    SCORES,
    SEEN,
    SETTINGS,
    STATEMENT,
    WEIGHTS,
    write_folder,
)
from privgcn.runs.predictions import predict_source
from privgcn.runs.run import Run, model_files, releasable_statement, verify, write_release

ALL = (MODEL, REPORT, SCORES, SEEN, SETTINGS, STATEMENT, WEIGHTS)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Those of a run of recipe ``auto`` on dense rows, which has all tensors."""
    folder = run_folder(
        tmp_path_factory.mktemp("runs") / "run",
        settings=small_settings(features__kind="static", features__options={}),
    )
    return dict(Run(folder).files)


@pytest.fixture
def run(tmp_path: Path, files: dict[str, bytes]) -> Path:
    write_folder(tmp_path / "run", "run", files)
    return tmp_path / "run"


def test_an_honest_run_holds(run: Path, tmp_path: Path) -> None:
    for path in (run, run / "statement.json"):
        statement, checked = verify(path)
        assert checked == ("statement", "settings", "record", "model", "manifest")
        assert 3.99 < statement.epsilon <= 4.0
    alone = tmp_path / STATEMENT
    alone.write_bytes((run / STATEMENT).read_bytes())
    assert verify(alone)[1] == ("statement",)


@pytest.mark.parametrize("name", ALL)
def test_anything_edited_missing_or_added_is_noticed(run: Path, name: str) -> None:
    content = (run / name).read_bytes()
    # A space at the end of a text means nothing, and is an edit all the same.
    (run / name).write_bytes(content + b" ")
    with pytest.raises(DataError, match=rf"{name} was edited"):
        verify(run)
    (run / name).unlink()
    with pytest.raises(DataError, match=rf"{name} is missing"):
        verify(run)
    (run / name).write_bytes(content)
    verify(run)
    (run / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match=r"notes\.txt was added"):
        verify(run / STATEMENT)


def edits(tree: Any) -> Iterator[Any]:
    """The same with one value changed, to another of the same type, for each value."""
    if isinstance(tree, dict):
        yield {**tree, "x": 1}
        for name, value in tree.items():
            yield from ({**tree, name: edit} for edit in edits(value))
    elif isinstance(tree, list):
        yield [*tree, *tree[:1]] if tree else ["x"]
    elif isinstance(tree, bool) or tree is None:
        yield not tree
    else:
        yield tree + ("x" if isinstance(tree, str) else 1)


# hazard 28
@pytest.mark.parametrize("name", [MODEL, SETTINGS])
def test_no_field_of_the_record_and_no_setting_can_be_edited(run: Path, name: str) -> None:
    stored = Run(run)
    if name == MODEL:
        write, tree = json.dumps, stored.record(MODEL)
        assert {"classes", "features", "matching"} <= tree.keys()
    else:
        write, tree = to_toml, tomllib.loads(stored.content(SETTINGS).decode())
        # Where things lie on this machine is in no hash.
        assert tree.pop("data", {}) == tree["features"].pop("options", {}) == {}
    assert sum(1 for _ in edits(tree)) > 20
    for edit in edits(tree):
        reseal(run, {name: write(edit)})
        with pytest.raises(PrivGCNError):
            verify(run)
    reseal(run, {name: write(tree)})
    verify(run)


# hazard 28
def test_no_tensor_can_be_edited(run: Path) -> None:
    digest = verify(run)[0].digest
    tensors = load(Run(run).content(WEIGHTS))
    assert {"weight", "iterates", "mean", "class_bias", "label_direction"} == set(tensors)
    for name in tensors:
        moved = {**tensors, name: np.nextafter(tensors[name], np.float32(9))}
        reseal(run, {WEIGHTS: save(moved, {DIGEST_KEY: digest})})
        with pytest.raises(PrivacyContractError):
            verify(run)
    for blob in (save(tensors), save(tensors, {DIGEST_KEY: "0" * 64})):
        reseal(run, {WEIGHTS: blob})
        with pytest.raises(PrivacyContractError, match="digest of its statement"):
            verify(run)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        *((MODEL, broken, "JSON") for broken in ("{", "[]", '{"a": 1, "a": 2}', '{"a": NaN}')),
        (SETTINGS, "a = " + "[" * 5000, "not valid TOML"),
        (SETTINGS, b"\xff", "not valid TOML"),
        (SETTINGS, '[privacy]\nunit = "node"\n', r"privacy\.unit"),
        (SETTINGS, "[secrecy]\na = 1\n", "secrecy"),
        (SETTINGS, 'recipe = "plain"\n', r"\[privacy\]"),
        (STATEMENT, b"[" * 100_000, "nested too deeply"),
        (STATEMENT, b"\xff\xfe", "one JSON object"),
        (STATEMENT, None, "trained with privacy but has no"),
    ],
)
def test_files_that_cannot_be_are_refused(
    run: Path, name: str, content: bytes | str | None, words: str
) -> None:
    reseal(run, {name: content})
    with pytest.raises(PrivGCNError, match=words):
        verify(run)


def test_a_folder_that_was_never_written_is_refused(tmp_path: Path) -> None:
    for path, words in (
        (tmp_path / STATEMENT, "does not exist"),
        (tmp_path, "has no manifest"),
    ):
        with pytest.raises(DataError, match=words):
            verify(path)


def test_a_run_without_privacy_has_nothing_to_verify(tmp_path: Path) -> None:
    run = trained(settings=small_settings("plain", epsilon=None, training__epochs=2))
    write_folder(tmp_path / "run", "run", model_files(run.model))
    with pytest.raises(DataError, match="trained without privacy"):
        verify(tmp_path / "run")
    with pytest.raises(PrivacyContractError, match="nothing to release"):
        releasable_statement(Run(tmp_path / "run"), learned_features=True)


# hazard 29
def test_a_tampered_folder_is_obeyed_nowhere(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a model file names is no path and no address: nothing is opened or written."""
    folder, target = tmp_path / "new", tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "documents.csv").write_text("id,text\na,a parcel\nb,an invoice\n")

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    before = sorted(tmp_path.rglob("*"))
    predict_source(run, str(folder), "alone")
    assert sorted(tmp_path.rglob("*")) == before
    record = Run(run).record(MODEL)
    for name in ("cache_dir", "model", "source", "path", "url"):
        features = {**record["features"], name: str(target)}
        reseal(run, {MODEL: json.dumps({**record, "features": features})})
        with pytest.raises(PrivGCNError):
            predict_source(run, str(folder), "alone")
        assert not target.exists()
    tree = tomllib.loads(Run(run).content(SETTINGS).decode())
    tree["features"]["options"] = {"cache_dir": str(target)}
    reseal(run, {SETTINGS: to_toml(tree), MODEL: json.dumps(record)})
    predict_source(run, str(folder), "alone")
    assert not target.exists()


# hazard 27
def test_a_release_has_no_scores_no_hashes_and_no_path(run: Path, tmp_path: Path) -> None:
    tree = tomllib.loads(Run(run).content(SETTINGS).decode())
    tree["data"] = {"source": "/home/jane/letters"}
    tree["features"]["options"] = {"cache_dir": "/home/jane/cache"}
    reseal(run, {SETTINGS: to_toml(tree)})
    releasable_statement(Run(run), learned_features=False)
    write_release(Run(run), tmp_path / "released", {})
    stored = Run(tmp_path / "released")
    assert set(stored.files) == {MODEL, WEIGHTS, SETTINGS, STATEMENT}
    assert not any(b"jane" in content for content in stored.files.values())
    assert verify(tmp_path / "released")[0] == verify(run)[0]
    rows = ["a late parcel", "an invoice"]
    expected = GraphClassifier.load(run).predict_proba(rows, inference="alone")
    released = GraphClassifier.load(tmp_path / "released")
    assert np.array_equal(released.predict_proba(rows, inference="alone"), expected)
    for folder in (run, run / "release", run.parent):
        with pytest.raises(ConfigError, match="must lie apart"):
            write_release(Run(run), folder, {}, overwrite=True)
