from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from privgcn.data.catalogue import DatasetCard, RawFile, dataset
from privgcn.data.download import data_folder, fetch
from privgcn.errors import ConfigError, DataError, DataNotAvailableError

CONTENT = bytes(range(256)) * 500


@dataclass
class Server:
    """A web server whose answers a test can spoil."""

    url: str = ""
    content: bytes = CONTENT
    status: int = 200
    requests: list[str] = field(default_factory=list)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for scheme in ("http", "https", "all"):
        monkeypatch.delenv(f"{scheme}_proxy", raising=False)
        monkeypatch.delenv(f"{scheme}_proxy".upper(), raising=False)


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.requests.append(self.path)
            if state.status != 200:
                self.send_error(state.status)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(state.content)

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        state.url = f"http://127.0.0.1:{running.server_address[1]}/file"
        yield state
        running.shutdown()
        thread.join()


def card(url: str | None) -> DatasetCard:
    file = RawFile("set/file.bin", len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), url)
    return replace(dataset("clinic"), name="set", files=(file,), origin="a shelf")


def test_a_file_is_downloaded_once(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        (path,) = fetch(card(server.url), tmp_path)
        assert path == tmp_path / "set" / "file.bin"
        assert path.read_bytes() == CONTENT
    assert len(server.requests) == 1
    assert [p.name for p in path.parent.iterdir()] == ["file.bin"]
    assert capfd.readouterr() == ("", "")


def test_a_changed_file_is_replaced(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "set" / "file.bin"
    path.parent.mkdir()
    path.write_bytes(b"changed")
    fetch(card(server.url), tmp_path)
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("content", [CONTENT[::-1], CONTENT[:100]], ids=["other", "cut"])
def test_a_wrong_file_leaves_nothing(server: Server, tmp_path: Path, content: bytes) -> None:
    server.content = content
    with pytest.raises(DataNotAvailableError, match="could not be had") as caught:
        fetch(card(server.url), tmp_path)
    assert caught.value.exit_code == 3
    assert list((tmp_path / "set").iterdir()) == []


def test_a_server_that_refuses(server: Server, tmp_path: Path) -> None:
    server.status = 404
    with pytest.raises(DataNotAvailableError, match="404"):
        fetch(card(server.url), tmp_path)


def test_offline(tmp_path: Path) -> None:
    with pytest.raises(DataNotAvailableError, match="Check the connection") as caught:
        fetch(card("http://127.0.0.1:9/file"), tmp_path)
    assert caught.value.exit_code == 3


def test_a_folder_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    (tmp_path / "set").write_text("a file")
    with pytest.raises(ConfigError, match="cannot be written"):
        fetch(card(server.url), tmp_path)


def test_what_has_no_address_is_taken_from_a_folder(tmp_path: Path) -> None:
    downloads, data = tmp_path / "downloads", tmp_path / "data"
    downloads.mkdir()
    with pytest.raises(DataNotAvailableError, match=r"by hand \(a shelf\)"):
        fetch(card(None), data)
    with pytest.raises(DataNotAvailableError, match="nowhere below"):
        fetch(card(None), data, source=downloads)
    (downloads / "file.bin").write_bytes(b"wrong")
    with pytest.raises(DataError, match="SHA256"):
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
