from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from privgcn.cli.app import app
from privgcn.features.cache import VectorCache, default_cache


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    VectorCache(default_cache(), "model", 3).vectors(
        ["a"], lambda texts: np.ones((len(texts), 3), dtype=np.float32)
    )
    return default_cache()


def test_the_cache_is_shown_and_stays(filled: Path) -> None:
    shown = CliRunner().invoke(app, ["cache"])
    assert shown.exit_code == 0
    assert str(filled) in shown.stdout
    assert "1 files" in shown.stdout
    assert "private texts" in shown.stdout
    record = json.loads(CliRunner().invoke(app, ["cache", "--json"]).stdout)
    assert (record["files"], record["encoders"], record["purged"]) == (1, 1, False)
    assert len(list(filled.rglob("*.npz"))) == 1


def test_the_cache_is_purged(filled: Path, tmp_path: Path) -> None:
    elsewhere = CliRunner().invoke(app, ["cache", "--purge", "--cache-dir", str(tmp_path)])
    assert elsewhere.exit_code == 0
    assert len(list(filled.rglob("*.npz"))) == 1
    purged = CliRunner().invoke(app, ["cache", "--purge"])
    assert purged.exit_code == 0
    assert list(filled.rglob("*.npz")) == []


def test_a_file_is_no_cache(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("x")
    done = CliRunner().invoke(app, ["cache", "--cache-dir", str(tmp_path / "letter")])
    assert "must be a folder" in str(done.exception)


def test_the_way_to_delete_another_cache_names_that_cache(tmp_path: Path, filled: Path) -> None:
    there = CliRunner().invoke(app, ["cache", "--cache-dir", str(filled)])
    assert f"privgcn cache --purge --cache-dir {filled}" in there.stdout
    nothing = CliRunner().invoke(app, ["cache", "--cache-dir", str(tmp_path / "no")])
    assert "0 files" in nothing.stdout
    assert "--purge" not in nothing.stdout
