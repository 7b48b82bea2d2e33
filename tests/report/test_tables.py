"""Tables, and how numbers are written."""

from __future__ import annotations

import pytest

from privgcn.report.tables import MeanStd, Table
from privgcn.report.text import NOTHING, clean, markdown_text, number


def test_cells_are_written_for_readers():
    row = ("a", 3, 0.12345, float("nan"), MeanStd(0.5, 0.25), None)
    assert Table("t", list("abcdef"), [row]).texts() == [
        ["a", "3", "0.123", NOTHING, "0.500 ± 0.250", NOTHING]
    ]


def test_markdown_shows_user_text_as_it_is():
    table = Table("a|b", ("x", "n"), [("<i>*y*", 1.0), ("line\nbreak", None)], ["[note]"])
    assert table.markdown() == (
        "**a\\|b**\n\n| x | n |\n| :-- | --: |\n| \\<i\\>\\*y\\* | 1.000 |\n"
        f"| line break | {NOTHING} |\n\n\\[note\\]\n"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (136.512, "136.5"), (1e-05, "1e-5"), (2000.0, "2000"), (None, NOTHING),
     (1e12, "1e12"), (float("inf"), "inf"), (0.0121, "0.0121"), ("each", "each")],
)  # fmt: skip
def test_numbers_are_short(value, text):
    assert number(value) == text


def test_no_character_breaks_a_page():
    assert clean("a\x00\ud800\uffff\tb") == "a\ufffd?\ufffd\tb"
    assert markdown_text("a\u00a0b  c") == "a\u00a0b c"
