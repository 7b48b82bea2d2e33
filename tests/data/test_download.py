from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pooch
import pytest
import requests

from privgcn.data.catalogue import DatasetCard, RawFile, dataset
from privgcn.data.download import data_folder, fetch
from privgcn.errors import ConfigError, DataNotAvailableError

CONTENT = bytes(range(256)) * 500


def card(url: str | None = "https://example.org/file") -> DatasetCard:
    file = RawFile("set/file.bin", len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), url)
    return replace(dataset("clinic"), name="set", files=(file,), origin="a shelf")


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a server sends, one answer for each request."""
    left: list[Any] = []

    def download(url: str, target: str, caller: object) -> None:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        Path(target).write_bytes(answer)

    monkeypatch.setattr(pooch, "HTTPDownloader", lambda **options: download)
    return left


def test_a_file_is_downloaded_once_and_again_where_it_was_changed(
    answers: list[Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    answers += [CONTENT, CONTENT]
    for _ in range(2):
        (path,) = fetch(card(), tmp_path)
        assert path == tmp_path / "set" / "file.bin"
        assert path.read_bytes() == CONTENT
    assert len(answers) == 1
    path.write_bytes(b"changed")
    fetch(card(), tmp_path)
    assert path.read_bytes() == CONTENT
    assert [own.name for own in path.parent.iterdir()] == ["file.bin"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("answer", [CONTENT[::-1], CONTENT[:9], requests.HTTPError("404")])
def test_a_wrong_answer_leaves_nothing(
    answers: list[Any], tmp_path: Path, answer: object
) -> None:
    answers.append(answer)
    with pytest.raises(DataNotAvailableError, match=r"could not be had .*(hash|404)") as caught:
        fetch(card(), tmp_path)
    assert caught.value.exit_code == 3
    assert list((tmp_path / "set").iterdir()) == []


def test_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(DataNotAvailableError, match="Check the connection") as caught:
        fetch(card("http://127.0.0.1:9/file"), tmp_path)
    assert caught.value.exit_code == 3


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "set").write_text("a file")
    with pytest.raises(ConfigError, match="cannot be written"):
        fetch(card(), tmp_path)


def test_what_has_no_address_is_taken_from_a_folder(tmp_path: Path) -> None:
    downloads, data = tmp_path / "downloads", tmp_path / "data"
    downloads.mkdir()
    with pytest.raises(DataNotAvailableError, match=r"by hand \(a shelf\)"):
        fetch(card(None), data)
    with pytest.raises(DataNotAvailableError, match="nowhere below"):
        fetch(card(None), data, source=downloads)
    (downloads / "file.bin").write_bytes(b"wrong")
    with pytest.raises(DataNotAvailableError, match="SHA256"):
        fetch(card(None), data, source=downloads)
    (downloads / "file.bin").write_bytes(CONTENT)
    assert fetch(card(None), data, source=downloads) == fetch(card(None), data)
    assert fetch(dataset("clinic"), data) == []


def test_where_data_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVGCN_DATA", "/here")
    assert data_folder() == Path("/here")
    assert data_folder(tmp_path) == tmp_path
    monkeypatch.delenv("PRIVGCN_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert data_folder() == Path("/cache/privgcn/data")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert data_folder() == Path.home() / ".cache" / "privgcn" / "data"
