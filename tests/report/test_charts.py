"""Drawings: every value is where its axis says, and said in words."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from privgcn.report.charts import Figure, Point, Scale, Series
from privgcn.report.text import rendered

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<b>\x00&\"'"


def lines(*series, **more):
    return Figure("a title", series, "epsilon (smaller is more private)", "score", **more)


def drawn(figure):
    return ElementTree.fromstring(str(figure.svg()))


def test_pointing_at_a_mark_says_its_value_and_where_it_is():
    series = (
        Series("auto", [Point(1, 0.5), Point(8, 0.75, (0.65, 0.85))]),
        Series("majority", [Point(None, 0.25)], reference=True),
    )
    expected = ["auto, 1: 0.500", "auto, 8: 0.750 (0.650 to 0.850)", "majority: 0.250"]
    for figure in (lines(*series), lines(*series, bars=True)):
        drawing = drawn(figure)
        assert sorted(node.text for node in drawing.iter(f"{SVG}title")) == expected
        assert (drawing.get("aria-label"), drawing.get("width")) == ("a title", "100%")
    assert [tuple(row) for row in figure.values_table().rows] == [
        ("auto", "1", "0.500"),
        ("auto", "8", "0.750 (0.650 to 0.850)"),
        ("majority", "everywhere", "0.250"),
    ]


def test_no_two_of_many_series_look_alike():
    figure = lines(*(Series(f"{i}", [Point(1, i / 24)]) for i in range(24)))
    looks = re.findall(r'<g class="(s\d d\d)">\s*<line', str(figure.svg()))
    assert len(looks) == len(set(looks)) == 24


@pytest.mark.parametrize("bars", [False, True])
def test_hostile_names_are_text(bars):
    drawing = Figure(HOSTILE, [Series(HOSTILE, [Point(HOSTILE, 0.5)])], HOSTILE, HOSTILE, bars)
    assert "<b>" not in str(drawing.svg())
    assert drawn(drawing).get("aria-label")


@pytest.mark.parametrize(
    ("positions", "ticks"),
    [
        ([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"]),
        ([1, 2, 3], ["1", "2", "3"]),
        ([1, 10, "each"], ["1", "10", "each"]),
        ([3], ["3"]),
        ([], ["everywhere"]),
        ([i / 20 for i in range(21)], ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
    ],
)
def test_places_have_their_own_ticks_in_order(positions, ticks):
    scale = Scale.of_positions(positions)
    assert [words for _, words in scale.ticks] == ticks
    at = [scale.at(position) for position in positions]
    assert at == sorted(at)
    assert all(0 <= here <= 1 for here in at)


@pytest.mark.parametrize("values", [[0.2, 0.9], [0.0], [-0.3, 0.4], [1e-320], [3e9, 1.0]])
def test_an_axis_of_values_holds_zero_and_all_values(values):
    scale = Scale.of_values(values)
    assert all(-1e-9 <= scale.at(value) <= 1 + 1e-9 for value in [0.0, *values])
    assert 2 <= len(scale.ticks) <= 12


def test_a_file_of_its_own_has_a_legend_and_a_ground():
    figure = lines(Series(HOSTILE, [Point(1, 0.5)]), Series("b", [Point(1, 0.6)]))
    drawing = rendered("figure.svg", figure=figure)
    tree = ElementTree.fromstring(drawing.encode())
    assert "b" in [node.text for node in tree.iter(f"{SVG}text")]
    assert tree.get("width") == "720"
    assert "prefers-color-scheme" in drawing
