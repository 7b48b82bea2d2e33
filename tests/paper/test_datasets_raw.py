import hashlib
from pathlib import Path

import pooch
import pytest
import requests

from privgcn.data.catalogue import dataset
from privgcn.errors import ConfigError, DataNotAvailableError
from privgcn_paper.datasets.raw import PublishedDataset, RawFile

CONTENT = bytes(range(256)) * 500


def card(url="https://example.org/file"):
    file = RawFile("set/file.bin", len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), url)
    described = {**vars(dataset("clinic")), "name": "set", "origin": "a shelf"}
    return PublishedDataset(**described, files=(file,))


@pytest.fixture
def answers(monkeypatch):
    """What a server sends, one answer for each request."""
    left = []

    def download(url, target, caller):
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        Path(target).write_bytes(answer)

    monkeypatch.setattr(pooch, "HTTPDownloader", lambda **options: download)
    return left


def test_a_file_is_downloaded_once_and_again_where_it_was_changed(answers, tmp_path, capfd):
    answers += [CONTENT, CONTENT]
    for _ in range(2):
        (path,) = card().fetch(tmp_path)
        assert path == tmp_path / "set" / "file.bin"
        assert path.read_bytes() == CONTENT
    assert len(answers) == 1
    path.write_bytes(b"changed")
    card().fetch(tmp_path)
    assert path.read_bytes() == CONTENT
    assert [own.name for own in path.parent.iterdir()] == ["file.bin"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("answer", [CONTENT[::-1], CONTENT[:9], requests.HTTPError("404")])
def test_a_wrong_answer_leaves_nothing(answers, tmp_path, answer):
    answers.append(answer)
    with pytest.raises(DataNotAvailableError, match=r"could not be had .*(hash|404)") as caught:
        card().fetch(tmp_path)
    assert caught.value.exit_code == 3
    assert list((tmp_path / "set").iterdir()) == []


def test_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(DataNotAvailableError, match="Check the connection") as caught:
        card("http://127.0.0.1:9/file").fetch(tmp_path)
    assert caught.value.exit_code == 3


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "set").write_text("a file")
    with pytest.raises(ConfigError, match="cannot be written"):
        card().fetch(tmp_path)


def test_what_has_no_address_is_taken_from_a_folder(tmp_path):
    downloads, data = tmp_path / "downloads", tmp_path / "data"
    downloads.mkdir()
    with pytest.raises(DataNotAvailableError, match=r"by hand \(a shelf\)"):
        card(None).fetch(data)
    with pytest.raises(DataNotAvailableError, match="nowhere below"):
        card(None).fetch(data, source=downloads)
    (downloads / "file.bin").write_bytes(b"wrong")
    with pytest.raises(DataNotAvailableError, match="SHA256"):
        card(None).fetch(data, source=downloads)
    (downloads / "file.bin").write_bytes(CONTENT)
    assert card(None).fetch(data, source=downloads) == card(None).fetch(data)
    assert dataset("clinic").fetch(data) == []
