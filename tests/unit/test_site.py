"""Pages of the documentation that are made from code are current; the link checker notices."""

from __future__ import annotations

import re
from pathlib import Path

import check_site
import pytest
import reference

import privgcn
from privgcn.config import setting_names


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_generated_page_is_current(name: str) -> None:
    stored = (reference.FOLDER / name).read_text(encoding="utf-8")
    assert stored == reference.PAGES[name](), "run python scripts/reference.py"


def test_every_setting_is_on_its_page_with_a_meaning() -> None:
    page = reference.settings_page()
    for name in setting_names():
        row = re.search(rf"^\| `{re.escape(name)}` \|.*\| (.*) \|$", page, flags=re.MULTILINE)
        assert row, name
        assert row[1].strip(), name


def test_every_public_name_is_in_the_reference() -> None:
    page = (reference.FOLDER / "python.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^::: \S+\.(\w+)$", page, flags=re.MULTILINE))
    assert set(privgcn.__all__) - {"__version__"} <= named


def _site(folder: Path, body: str) -> list[str]:
    (folder / "index.html").write_text(f'<h1 id="top">x</h1><a href="other.html">o</a>{body}')
    (folder / "other.html").write_text('<p id="here">y</p>')
    return check_site.complaints(folder)


def test_a_sound_site_has_no_complaints(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"")
    good = '<a href="other.html#here"><img src="a.png"></a><a href="#top">t</a>'
    assert _site(tmp_path, good + '<a href="https://example.org/away">w</a>') == []


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ('<a href="gone.html">g</a>', "no gone.html"),
        ('<a href="other.html#there">g</a>', "#there"),
        ('<a href="#below">g</a>', "#below"),
        ('<img src="gone.png">', "no gone.png"),
        ('<script src="https://example.org/x.js"></script>', "loads https://example.org/x.js"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "loads //example.org/x.css"),
    ],
)
def test_a_broken_site_is_noticed(tmp_path: Path, body: str, word: str) -> None:
    (found,) = _site(tmp_path, body)
    assert word in found


def test_a_page_out_of_reach_and_a_font_from_elsewhere_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "lost.html").write_text("<p>z</p>")
    (tmp_path / "x.css").write_text("@font-face { src: url('https://example.org/f.woff') }")
    found = _site(tmp_path, "")
    assert any("lost.html" in line for line in found)
    assert any("https://example.org/f.woff" in line for line in found)
    assert len(found) == 2


def test_an_empty_folder_is_no_site(tmp_path: Path) -> None:
    assert check_site.complaints(tmp_path)
