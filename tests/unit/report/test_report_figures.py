import json
import math
import re
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from privgcn.errors import DataError
from privgcn.report import Figure
from privgcn.report.charts import save_svg, svg
from privgcn.report.drawing import Colours, Look
from privgcn.report.records import read_record
from privgcn.report.scales import position_scale, value_scale

HOSTILE = '"><script>alert(1)</script>'


def record(**changes):
    return {
        "title": "Experiment B",
        "x_label": "epsilon (ε)",
        "y_label": "micro-F1",
        "series": [
            {"name": "sgd", "points": [[2, 0.3, 0.01], [137, 0.6, 0.02]]},
            {"name": "adam", "points": [[2, 0.4], [137, 0.5, None]]},
        ],
        **changes,
    }


def drawing(figure, **options):
    return ElementTree.fromstring(str(svg(figure, **options)))


@pytest.mark.parametrize("kind", ["line", "bar"])
@pytest.mark.parametrize("width", [336, 760])
def test_drawings_are_well_formed_and_keep_inside_their_width(kind, width):
    root = drawing(Figure.model_validate(record(kind=kind)), width=width)

    assert root.get("viewBox").split()[2] == str(width)
    for node in root.iter():
        if node.tag.endswith("rect") and node.get("class") == "tip-box":
            assert float(node.get("x")) >= 0
            assert float(node.get("x")) + float(node.get("width")) <= width


def test_every_point_has_a_value_that_keyboard_and_ear_reach():
    root = drawing(Figure.model_validate(record()))
    values = [node for node in root.iter() if node.get("class") == "value"]

    assert len(values) == 4
    assert all(node.get("tabindex") == "0" for node in values)
    assert values[0].get("aria-label") == "sgd, epsilon 2, micro-F1 0.300 ± 0.010"


def shown_at(root, x, y):
    """What the topmost target over a place shows."""
    found = None
    for value in root.iter():
        if value.get("class") != "value":
            continue
        target = value[0]
        if target.tag.endswith("circle"):
            away = math.dist((x, y), (float(target.get("cx")), float(target.get("cy"))))
            hit = away <= float(target.get("r"))
        else:
            left, top = float(target.get("x")), float(target.get("y"))
            right, bottom = left + float(target.get("width")), top + float(target.get("height"))
            hit = left <= x <= right and top <= y <= bottom
        if hit:
            found = value
    return " ".join(text.text for text in found.iter() if text.get("class") == "tip-text")


@pytest.mark.parametrize("width", [336, 760])
def test_no_value_hides_under_the_target_of_another(width):
    near = [0.10, 0.101, 0.12, 0.15, 0.2, 0.9]
    names = [f"s{i}" for i in range(len(near))]
    series = [
        {"name": name, "points": [[2, y, 0.01], [3, y]]}
        for name, y in zip(names, near, strict=True)
    ]
    series.append({"name": "level", "points": [[None, 0.15]], "role": "reference"})
    root = drawing(Figure.model_validate(record(series=series)), width=width)
    circles = [
        n for n in root.iter() if n.tag.endswith("circle") and "target" in n.get("class")
    ]
    values = [n for n in root.iter() if n.get("class") == "value"]

    assert len(circles) == 12
    for value in values:
        if value[0].tag.endswith("circle"):
            shown = shown_at(root, float(value[0].get("cx")), float(value[0].get("cy")))
            assert value.get("aria-label").split(",")[0] in shown.replace(",", "").split()


def test_lone_points_keep_large_targets():
    root = drawing(Figure.model_validate(record(series=[{"name": "a", "points": [[1, 0.1]]}])))

    [circle] = [n for n in root.iter() if n.tag.endswith("circle")]
    assert float(circle.get("r")) == 13


def test_a_vector_file_has_no_hover_values_and_names_itself(tmp_path):
    path = save_svg(Figure.model_validate(record()), tmp_path / "deep" / "b.svg")
    root = ElementTree.parse(path).getroot()

    assert not [node for node in root.iter() if node.get("class") == "value"]
    assert root.find("{*}title").text == "Experiment B"
    assert root.get("role") == "img"


def bars(reference):
    data = {"name": "ours", "points": [["cora", 0.5], ["pubmed", 0.6]]}
    return Figure.model_validate(record(kind="bar", series=[data, reference]))


@pytest.mark.parametrize(
    ("points", "lines"),
    [([["cora", 0.3], ["pubmed", 0.4]], 2), ([[None, 0.3]], 2), ([["guessing", 0.3]], 0)],
)
def test_a_reference_for_bars_of_others_is_a_line_across_them(points, lines):
    root = drawing(bars({"name": "majority", "points": points, "role": "reference"}))
    rims = [node for node in root.iter() if node.get("class") == "rim"]
    numbers = [node.text for node in root.iter() if node.get("class") == "number"]

    assert len(rims) == lines
    assert numbers == ["0.500", "0.600", *([] if lines else ["0.300"])]
    if lines:
        left = {rim.get("x1") for rim in rims}
        assert len(left) == len(points)
        spoken = [
            node.get("aria-label") for node in root.iter() if node.get("class") == "value"
        ]
        assert sum(words.startswith("majority, ") for words in spoken) == 2


def test_a_framed_file_has_a_ground_in_both_colour_schemes(tmp_path):
    path = save_svg(Figure.model_validate(record()), tmp_path / "b.svg", framed=True)
    root = ElementTree.parse(path).getroot()
    left, top, width, height = map(float, root.get("viewBox").split())
    [ground] = [node for node in root.iter() if node.get("class") == "ground"]

    assert (float(ground.get("x")), float(ground.get("y"))) == (left, top)
    assert (float(ground.get("width")), float(ground.get("height"))) == (width, height)
    assert "prefers-color-scheme: dark" in root.find("{*}style").text


@pytest.mark.parametrize("kind", ["line", "bar"])
def test_hostile_names_stay_text(kind):
    hostile = record(
        title=HOSTILE,
        kind=kind,
        x_label=HOSTILE,
        y_label=HOSTILE,
        series=[{"name": HOSTILE, "points": [[HOSTILE, 1]]}],
    )

    drawn = svg(Figure.model_validate(hostile))

    assert "<script" not in drawn
    parsed = ElementTree.fromstring(str(drawn))
    assert not [n for n in parsed.iter() if n.tag.endswith("script")]


def test_names_and_numbers_on_one_axis_become_names_in_order():
    mixed = Figure.model_validate(
        record(series=[{"name": "a", "points": [[1, 0.1], [100, 0.2], ["each", 0.3]]}])
    )

    assert [p.x for p in mixed.series[0].points] == ["1", "100", "each"]
    assert drawing(mixed) is not None


def test_a_line_does_not_cross_a_place_without_a_value():
    every = [["1", 0.1], ["10", 0.2], ["100", 0.3], ["each", 0.4]]
    drawn = svg(
        Figure.model_validate(
            record(
                series=[
                    {"name": "whole", "points": every},
                    {"name": "broken", "points": [*every[:2], every[3]]},
                ]
            )
        )
    )
    paths = re.findall(r'd="([^"V]+)"[^>]*stroke-linejoin', str(drawn))

    assert [(path.count("M"), path.count("L")) for path in paths] == [(1, 3), (2, 1)]


def test_a_stored_figure_is_the_same_figure():
    made = Figure.model_validate(record())
    stored = json.loads(json.dumps(made.model_dump(mode="json"), allow_nan=False))

    assert stored["series"][0]["points"][0] == [2.0, 0.3, 0.01]
    assert Figure.model_validate(stored) == made


def test_values_are_also_a_table():
    rows = Figure.model_validate(record()).values_table().markdown()

    assert "| sgd | 137 | 0.600 ± 0.020 |" in rows


def test_a_level_holds_everywhere_and_names_its_own_line():
    series = [
        *record()["series"],
        {"name": "without privacy", "points": [[None, 0.8]], "role": "reference"},
    ]
    drawn = svg(Figure.model_validate(record(series=series)), values=False)

    assert drawn.count("without privacy") == 1


def test_same_input_same_bytes():
    assert svg(Figure.model_validate(record())) == svg(Figure.model_validate(record()))


def test_no_two_of_many_series_share_colour_and_shape():
    looks = [Look("", i, False) for i in range(64)]

    assert len({(look.colour, look.marker(0, 0, 5)) for look in looks}) == 64


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"title": None}, "'title'"),
        ({"series": []}, "'series'"),
        ({"series": [{"points": [[1, 2]]}]}, "name'"),
        ({"series": [{"name": "a", "points": []}]}, "points'"),
        ({"series": [{"name": "a", "points": [[1, None]]}]}, r"series\.0\.points\.0"),
        ({"series": [{"name": "a", "points": [[1, float("nan")]]}]}, r"series\.0\.points\.0"),
        ({"series": [{"name": "a", "points": [[1, 2, -1]]}]}, r"series\.0\.points\.0"),
        ({"series": [{"name": "a", "points": [5]}]}, r"series\.0\.points\.0"),
        ({"kind": "pie"}, "'kind'"),
    ],
)
def test_bad_figures_are_refused_with_the_rule(changes, words):
    with pytest.raises(DataError, match=words):
        read_record(Figure, record(**changes), "a figure")


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8))
def test_value_axes_hold_every_value_between_few_ticks(values):
    scale = value_scale(values, 0, 100)

    assert 2 <= len(scale.ticks) <= 13
    assert all(-1e-6 <= scale.place(value) <= 100 + 1e-6 for value in values)


@pytest.mark.parametrize("values", [[0.0], [0.3], [1.0], [0.8, 0.82], [-0.2, 0.1]])
def test_every_axis_of_values_has_zero_on_it(values):
    scale = value_scale(values, 0, 100)

    assert scale.low <= 0 <= scale.high
    assert scale.high <= 1


def named(*names):
    series = [{"name": name, "points": [[1, 0.5]]} for name in names]
    return Figure.model_validate(record(series=series))


def test_a_name_has_one_colour_on_all_charts_of_a_page():
    colours = Colours()
    first = {look.name: look.colour for look in colours.looks(named("alone", "own-graph"))}
    then = {look.name: look.colour for look in colours.looks(named("own-graph", "other"))}

    assert then["own-graph"] == first["own-graph"]
    assert then["other"] not in first.values()


def test_a_chart_never_shows_one_colour_twice_while_colours_last():
    colours = Colours()
    colours.looks(named(*(f"s{i}" for i in range(8))))
    later = colours.looks(named("s3", *(f"t{i}" for i in range(7))))

    assert len({look.colour for look in later}) == 8


def test_a_bar_named_like_its_series_needs_no_legend():
    series = [
        {"name": "alone", "points": [["alone", 0.5]]},
        {"name": "baseline", "points": [["majority", 0.3]], "role": "reference"},
    ]
    root = drawing(Figure.model_validate(record(series=series, kind="bar")), values=False)
    texts = [node.text for node in root.iter() if node.tag.endswith("text")]

    assert texts.count("alone") == 1
    assert texts.count("baseline") == 1


def test_wide_ranges_are_logarithmic_and_mark_their_own_values():
    scale = position_scale([2.0, 5.0, 10.0, 137.0], 0, 100)

    assert scale.kind == "log"
    assert [words for _, words in scale.ticks] == ["2", "5", "10", "137"]
    assert position_scale([10.0, 50.0, 100.0], 0, 1).kind == "linear"


@example([1.0], 5e-324)
@example([1e6, 999999.9999999999], 0.0)
@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=20), st.floats(0, 1))
def test_any_numbers_can_be_drawn(places, std):
    points = [[x, i / 20, std] for i, x in enumerate(places)]

    figure = Figure.model_validate(record(series=[{"name": "a", "points": points}]))
    assert drawing(figure) is not None
