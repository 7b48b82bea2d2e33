from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    """No test reads or writes the folders of who runs it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("PRIVGCN_DATA", str(tmp_path / "data"))


@pytest.fixture
def no_network(monkeypatch):
    """Any attempt to reach another machine fails."""

    def refuse(*arguments, **options):
        raise AssertionError("the network was asked")

    for name in ("socket.connect", "socket.connect_ex", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(f"socket.{name}", refuse)
