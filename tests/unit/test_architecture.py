"""The page about the architecture says what the code is: picture, rooms and modules."""

from __future__ import annotations

import re

import import_graph
import pytest
from import_graph import DRAWERS, PICTURE, ROOMS, ROOT, SOURCE, picture, root_modules

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_picture_shows_the_imports_of_today() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(), (
        "run python scripts/import_graph.py"
    )


def test_the_picture_has_a_dot_for_each_import_and_no_other() -> None:
    told = set(re.findall(r"<title>(\S+) imports (\S+)</title>", picture()))
    assert told == import_graph.links()
    assert {("runs", "training"), ("features", "data"), ("cli", "runs")} <= told


def test_an_import_against_the_order_is_not_drawn(monkeypatch) -> None:
    monkeypatch.setattr(import_graph, "links", lambda: {("data", "cli")})
    with pytest.raises(ValueError, match="against the order"):
        picture()


def test_the_pages_name_the_rooms_in_their_order() -> None:
    table = re.findall(r"^\| `(\w+)` \|", PAGE, flags=re.MULTILINE)
    assert tuple(table) == ROOMS
    listed = " ".join(CONTRIBUTING.split())
    assert " → ".join(ROOMS) in listed
    for text in (PAGE, CONTRIBUTING):
        assert all(f"`{name}`" in text for name in root_modules())
    for drawer in (*DRAWERS["privacy"], "paper"):
        assert f"`{drawer}`" in PAGE


def test_the_modules_and_folders_that_the_page_names_exist() -> None:
    named = re.findall(r"`([a-z_0-9/]+(?:\.py|\.toml|/))`", PAGE)
    assert len(named) > 30
    for name in named:
        assert (SOURCE / name).exists() or (ROOT / name).exists(), name


def test_the_links_of_the_page_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
