from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes the folders of who runs it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("PRIVGCN_DATA", str(tmp_path / "data"))
    return tmp_path


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any attempt to reach another machine fails."""

    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("the network was asked")

    for name in ("socket.connect", "socket.connect_ex", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(f"socket.{name}", refuse)
