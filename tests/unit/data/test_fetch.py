from __future__ import annotations

import hashlib
import http.server
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from privgcn.data.card import DatasetCard, RawFile
from privgcn.data.catalogue import DATASETS
from privgcn.data.fetch import fetch
from privgcn.errors import ConfigError, DataError, DataNotAvailableError

CONTENT = bytes(range(256)) * 5_000


@dataclass
class Server:
    """A web server whose answers a test can spoil."""

    url: str = ""
    content: bytes = CONTENT
    cut_after: list[int] = field(default_factory=list)
    ranges: bool = True
    status: int = 200
    asked: list[str | None] = field(default_factory=list)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for scheme in ("http", "https", "all"):
        monkeypatch.delenv(f"{scheme}_proxy", raising=False)
        monkeypatch.delenv(f"{scheme}_proxy".upper(), raising=False)
    # urlopen keeps the opener, and with it the proxies, of its first call.
    monkeypatch.setattr(urllib.request, "_opener", None)


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.asked.append(wanted)
            start = int(wanted[6:-1]) if wanted and state.ranges else 0
            if state.status != 200:
                self.send_error(state.status)
                return
            if start >= len(state.content):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(state.content) - start))
            self.end_headers()
            stop = state.cut_after.pop(0) if state.cut_after else len(state.content)
            self.wfile.write(state.content[start : start + stop])

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        state.url = f"http://127.0.0.1:{running.server_address[1]}/file"
        yield state
        running.shutdown()
        thread.join()


def card(url: str | None, content: bytes = CONTENT) -> DatasetCard:
    file = RawFile("set/file.bin", len(content), hashlib.sha256(content).hexdigest(), url)
    return replace(DATASETS["cora"], name="set", files=(file,), origin="a shelf")


def test_a_file_is_downloaded_once(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    (path,) = fetch(card(server.url), tmp_path, lambda *step: seen.append(step))
    assert path == tmp_path / "set" / "file.bin"
    assert path.read_bytes() == CONTENT
    assert seen[0] == ("file.bin", 0, len(CONTENT))
    assert seen[-1] == ("file.bin", len(CONTENT), len(CONTENT))
    fetch(card(server.url), tmp_path)
    assert server.asked == [None]
    assert [p.name for p in path.parent.iterdir()] == ["file.bin"]


def test_a_cut_connection_is_continued(server: Server, tmp_path: Path) -> None:
    server.cut_after = [300_000, 500_000]
    (path,) = fetch(card(server.url), tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-", "bytes=800000-"]


def test_what_arrived_is_kept_for_the_next_command(server: Server, tmp_path: Path) -> None:
    server.cut_after = [1000, 1000, 1000]
    with pytest.raises(DataNotAvailableError, match="run the command again") as caught:
        fetch(card(server.url), tmp_path)
    assert caught.value.exit_code == 3
    assert not (tmp_path / "set" / "file.bin").exists()
    assert (tmp_path / "set" / "file.bin.part").stat().st_size == 3000
    (path,) = fetch(card(server.url), tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.asked[-1] == "bytes=3000-"


def test_a_server_without_ranges_starts_again(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    server.cut_after = [1000]
    (path,) = fetch(card(server.url), tmp_path)
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("size", [500, len(CONTENT), len(CONTENT) + 7])
def test_a_spoilt_part_is_thrown_away(server: Server, tmp_path: Path, size: int) -> None:
    part = tmp_path / "set" / "file.bin.part"
    part.parent.mkdir()
    part.write_bytes(b"x" * size)
    (path,) = fetch(card(server.url), tmp_path)
    assert path.read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing(server: Server, tmp_path: Path) -> None:
    server.content = CONTENT[::-1]
    with pytest.raises(DataNotAvailableError, match="sha256 is not the published one"):
        fetch(card(server.url), tmp_path)
    assert list((tmp_path / "set").iterdir()) == []


def test_more_than_the_published_file_is_not_taken(server: Server, tmp_path: Path) -> None:
    server.content = CONTENT * 20
    seen: list[int] = []
    with pytest.raises(DataNotAvailableError, match="sha256 is not the published one"):
        fetch(card(server.url), tmp_path, lambda name, done, total: seen.append(done))
    assert max(seen) < 2 * len(CONTENT)
    assert list((tmp_path / "set").iterdir()) == []


def test_a_folder_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    (tmp_path / "set").write_text("a file")
    with pytest.raises(ConfigError, match="cannot be written"):
        fetch(card(server.url), tmp_path)


def test_a_changed_file_is_replaced(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "set" / "file.bin"
    path.parent.mkdir()
    path.write_bytes(b"changed")
    fetch(card(server.url), tmp_path)
    assert path.read_bytes() == CONTENT


def test_a_server_that_refuses(server: Server, tmp_path: Path) -> None:
    server.status = 404
    with pytest.raises(DataNotAvailableError, match="404"):
        fetch(card(server.url), tmp_path)


def test_offline(tmp_path: Path) -> None:
    with pytest.raises(DataNotAvailableError, match="Check the connection") as caught:
        fetch(card("http://127.0.0.1:9/file"), tmp_path)
    assert caught.value.exit_code == 3


def test_no_address(tmp_path: Path) -> None:
    with pytest.raises(DataNotAvailableError, match=r"by hand \(a shelf\)"):
        fetch(card(None), tmp_path)
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "file.bin").write_bytes(b"wrong")
    with pytest.raises(DataError, match="sha256"):
        fetch(card(None), tmp_path)
    (tmp_path / "set" / "file.bin").write_bytes(CONTENT)
    assert len(fetch(card(None), tmp_path)) == 1


def test_a_generated_dataset_needs_no_files(tmp_path: Path) -> None:
    assert fetch(DATASETS["clinic"], tmp_path) == []
