"""Drawings: every value is where its axis says, and said in words."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from privgcn.report.charts import Figure, Point, Scale, Series, save_svg

HOSTILE = "<b>\x00&\"'"


def lines(*series, **more):
    return Figure("a title", series, "epsilon (smaller is more private)", "score", **more)


def drawn(figure):
    return ElementTree.fromstring(str(figure.svg()))


def titles(figure):
    return [node.text for node in drawn(figure).iter("{http://www.w3.org/2000/svg}title")]


def test_pointing_at_a_mark_says_its_value_and_where_it_is():
    figure = lines(
        Series("auto", [Point(1, 0.5), Point(8, 0.75, std=0.1)]),
        Series("majority", [Point(None, 0.25)], "reference"),
    )

    assert sorted(titles(figure)) == [
        "auto, epsilon 1: 0.500",
        "auto, epsilon 8: 0.750 ± 0.100",
        "majority: 0.250",
    ]
    assert drawn(figure).get("aria-label") == "a title"
    assert drawn(figure).get("width") == "100%"


def test_bars_say_their_names_and_intervals():
    figure = Figure(
        "bars",
        [
            Series("alone", [Point("alone", 0.5, ends=(0.4, 0.6))]),
            Series("forecast", [Point("own-graph", 0.4, ends=(0.3, 0.5))], "range"),
        ],
        kind="bar",
    )

    assert titles(figure) == [
        "alone: 0.500 (0.400 to 0.600)",
        "forecast, own-graph: 0.300 to 0.500",
    ]
    assert figure.legend() == []


def test_every_x_is_a_percentage_so_that_the_drawing_fits_any_width():
    figure = lines(Series("a", [Point(x, 0.1 * x, std=0.05) for x in range(1, 8)]))
    for node in drawn(figure).iter():
        if node.tag.endswith(("line", "circle")):
            for name in ("x1", "x2", "cx"):
                at = node.get(name)
                assert at is None or at in ("0", "-4", "4") or at.endswith("%"), (node.tag, at)


def test_no_two_of_many_series_look_alike():
    figure = lines(*(Series(f"{i}", [Point(1, i / 40)]) for i in range(40)))
    marks = re.findall(r'<path d="([^"]+)" class="mark (s\d)"', figure.svg())

    assert len(marks) == len(set(marks)) == 40


def test_hostile_names_are_text():
    figure = Figure(HOSTILE, [Series(HOSTILE, [Point(HOSTILE, 0.5)])], HOSTILE, HOSTILE, "bar")
    drawing = str(figure.svg())

    ElementTree.fromstring(drawing)
    assert "<b>" not in drawing


def test_a_line_does_not_guess_a_named_place_that_has_no_value():
    whole = Series("a", [Point(name, 0.5) for name in "xyz"])
    gap = Series("b", [Point("x", 0.2), Point("z", 0.2)])

    assert len(re.findall(r'class="stroke s0"', lines(whole).svg())) == 2
    assert 'class="stroke s1"' not in lines(whole, gap).svg()


@pytest.mark.parametrize(
    ("positions", "ticks"),
    [
        ([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"]),
        ([1, 2, 3], ["1", "2", "3"]),
        ([1, 10, "each"], ["1", "10", "each"]),
        ([3], ["3"]),
        ([], ["everywhere"]),
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


def test_the_values_are_a_table_too():
    figure = lines(
        Series("a", [Point(1, 0.5, std=0.1)]),
        Series("level", [Point(None, 0.25)], "reference"),
        Series("range", [Point(2, 0.4, ends=(0.3, 0.5))], "range"),
    )

    assert [tuple(row) for row in figure.values_table().rows] == [
        ("a", "1", "0.500 ± 0.100"),
        ("level", "everywhere", "0.250"),
        ("range", "2", "0.300 to 0.500"),
    ]


def test_a_file_of_its_own_has_a_legend_and_a_ground(tmp_path):
    figure = lines(
        Series(HOSTILE, [Point(1, 0.5), Point(2, 0.7)]), Series("b", [Point(1, 0.6)])
    )
    tree = ElementTree.parse(save_svg(figure, tmp_path / "figure.svg")).getroot()
    words = [node.text for node in tree.iter("{http://www.w3.org/2000/svg}text")]

    assert "b" in words
    assert tree.get("width") == "720"
    assert "prefers-color-scheme" in (tmp_path / "figure.svg").read_text()
