"""Grids of runs: of the paper, in a small size, and of a user's own."""

import pytest

from privgcn.errors import ConfigError, DataNotAvailableError
from privgcn_paper.experiments import AXES, Experiment, available, chosen, experiments, value_of
from privgcn_paper.runner import settings_of

NAMES = [
    *("table1", "experiment-a", "experiment-b", "experiment-c", "features"),
    *("hard-cases", "mnist", "as-released"),
]


@pytest.mark.parametrize("name", NAMES)
class TestEachExperiment:
    def test_its_runs_can_be_made_and_each_is_in_a_table(self, name):
        experiment = experiments()[name]
        tables = [view for view in experiment.show if view.rows]
        for point in experiment.points():
            if "lot" not in point and point["recipe"] != "as-released":
                settings_of(point, 0)
            assert list(point) == [axis for axis in AXES if axis in point]
            assert any(view.takes(point) for view in tables), point

    def test_the_small_size_is_some_of_the_runs(self, name):
        experiment = experiments()[name]
        small, full = experiment.points(quick=True), experiment.points()
        assert 0 < len(small) <= 24
        assert all(point in full for point in small)

    @pytest.mark.parametrize("quick", [False, True])
    def test_no_two_runs_share_a_cell_or_a_mark(self, name, quick):
        experiment = experiments()[name]
        for view in experiment.show:
            points = [p for p in experiment.points(quick=quick) if view.takes(p)]
            for axes in filter(None, (view.rows, [*view.each, *view.lines])):
                cells = [
                    tuple(value_of(p, axis) for axis in (*axes, view.columns)) for p in points
                ]
                assert len(set(cells)) == len(cells), (view, axes)


def test_the_experiments_are_the_paper_s():
    assert list(experiments()) == list(chosen("all")) == NAMES
    assert list(chosen("mnist, table1")) == ["mnist", "table1"]
    grid = experiments()["experiment-c"].points(["cora"])
    assert {value_of(point, "parts") for point in grid} == {1, 2, 4, 6, 8, 10, 100, "each"}
    fractions = {value_of(p, "fraction") for p in experiments()["experiment-b"].points()}
    assert fractions == {0.25, 0.5, 0.75, 1.0}
    points = experiments()["table1"].points(["letters/"])
    assert {point["dataset"] for point in points} == {"letters/"}
    assert experiments()["features"].points(["cora"]) == []
    with pytest.raises(ConfigError, match=r"must be one of table1, .* or all. Got 'tabel1'"):
        chosen("table1,tabel1")


def test_usual_values_are_left_out_and_no_run_is_made_twice():
    usual = {"dataset": "cora", "recipe": "plain", "parts": 1, "fraction": 1.0}
    auto = {"recipe": "auto", "epsilon": 1}
    grids = [usual, auto, {**auto, "epsilon": [1, 2]}]
    points = Experiment("", "", grids, [], ["cora"], {}).points()
    assert points[0] == {"dataset": "cora", "recipe": "plain"}
    assert value_of(points[0], "parts") == 1
    assert len(points) == 3


def test_a_missing_dataset_is_left_out_and_said_unless_it_was_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVGCN_DATA", str(tmp_path))
    here, notes = available(["clinic", "pokec"], named=False)
    assert here == ["clinic"]
    assert notes == ["pokec was not run: its raw data are not on this machine."]
    for names, named in ((["clinic", "pokec"], True), (["pokec", "reddit"], False)):
        with pytest.raises(DataNotAvailableError):
            available(names, named=named)
