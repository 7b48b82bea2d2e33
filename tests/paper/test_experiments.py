"""Grids of runs: of the paper, in a small size, and of a user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from privgcn.errors import ConfigError, DataError, DataNotAvailableError
from privgcn_paper.experiments import (
    AXES,
    Experiment,
    available,
    chosen,
    experiments,
    read_experiment,
    value_of,
)
from privgcn_paper.runner import check

NAMES = list(experiments())


class TestThePaper:
    def test_has_nine_experiments(self):
        assert [
            *("table1", "experiment-a", "experiment-b", "experiment-c", "features"),
            *("hard-cases", "mnist", "ablation", "as-released"),
        ] == NAMES

    @pytest.mark.parametrize("name", NAMES)
    def test_every_run_is_one_that_can_be_made(self, name):
        for point in experiments()[name].points():
            check(point)

    @pytest.mark.parametrize("name", NAMES)
    def test_the_small_size_is_some_of_the_runs(self, name):
        experiment = experiments()[name]
        small, full = experiment.points(quick=True), experiment.points()
        assert 0 < len(small) <= 24
        assert all(point in full for point in small)
        assert experiment.number_of_seeds(None, quick=True) == 2

    @pytest.mark.parametrize("quick", [False, True])
    @pytest.mark.parametrize("name", NAMES)
    def test_no_two_runs_share_a_cell_or_a_mark(self, name, quick):
        experiment = experiments()[name]
        for view in experiment.show:
            points = [p for p in experiment.points(quick=quick) if view.takes(p)]
            for axes in filter(None, (view.rows, [*view.each, *view.lines])):
                cells = [
                    tuple(value_of(p, axis) for axis in (*axes, view.columns)) for p in points
                ]
                assert len(set(cells)) == len(cells), (view, axes)

    @pytest.mark.parametrize("name", NAMES)
    def test_every_run_is_in_a_table(self, name):
        experiment = experiments()[name]
        tables = [view for view in experiment.show if view.rows]
        for point in experiment.points():
            assert any(view.takes(point) for view in tables), point

    def test_settings_of_the_paper(self):
        grid = experiments()["experiment-c"].points(["cora"])
        assert {value_of(point, "parts") for point in grid} == {1, 2, 4, 6, 8, 10, 100, "each"}
        fractions = {value_of(p, "fraction") for p in experiments()["experiment-b"].points()}
        assert fractions == {0.25, 0.5, 0.75, 1.0}

    def test_datasets_of_a_user_stand_in_for_the_paper_s(self):
        points = experiments()["table1"].points(["letters/"])
        assert {point["dataset"] for point in points} == {"letters/"}
        assert experiments()["features"].points(["cora"]) == []

    def test_the_usual_value_of_an_axis_is_left_out(self):
        (point,) = Experiment(
            grid=[{"dataset": "cora", "recipe": "plain", "parts": 1, "fraction": 1.0}]
        ).points()
        assert point == {"dataset": "cora", "recipe": "plain"}
        assert value_of(point, "parts") == 1

    def test_no_run_twice(self):
        grid = {"dataset": "cora", "recipe": "auto", "epsilon": 1}
        assert len(Experiment(grid=[grid, {**grid, "epsilon": [1.0, 2]}]).points()) == 2

    def test_axes_stand_in_one_order(self):
        for experiment in experiments().values():
            for point in experiment.points():
                assert list(point) == [name for name in AXES if name in point]


class TestNames:
    def test_several_and_all(self):
        assert list(chosen("mnist, table1")) == ["mnist", "table1"]
        assert list(chosen("all")) == NAMES

    def test_an_unknown_one_is_refused_with_those_that_there_are(self):
        with pytest.raises(
            ConfigError, match=r"must be one of table1, .* or all. Got 'tabel1'"
        ):
            chosen("table1,tabel1")

    def test_seeds_are_at_least_one(self):
        experiment = experiments()["table1"]
        assert experiment.number_of_seeds(3, quick=True) == 3
        assert experiment.number_of_seeds(None, quick=False) == 5
        with pytest.raises(ConfigError, match=r"'seeds' .* at least 1. Got 0"):
            experiment.number_of_seeds(0, quick=False)


GRID = '[[grid]]\ndataset = "letters/"\nrecipe = "auto"\n'


class TestOneOfAUser:
    def made(self, tmp_path: Path, text: str) -> Experiment:
        (tmp_path / "own.toml").write_text(text)
        return read_experiment(tmp_path / "own.toml")

    def test_reads_every_kind_of_axis(self, tmp_path):
        text = 'title = "Ours"\nseeds = 3\n' + GRID + "epsilon = [1, 2]\n"
        own = self.made(
            tmp_path,
            text + 'split = [[0.6, 0.2]]\nchanges = { "training.epochs" = 20 }\n',
        )
        assert own.title == "Ours"
        assert own.number_of_seeds(None, quick=False) == 3
        first, second = own.points()
        assert first == {
            "dataset": "letters/",
            "recipe": "auto",
            "epsilon": 1.0,
            "split": [0.6, 0.2],
            "changes": {"training.epochs": 20},
        }
        assert second["epsilon"] == 2.0
        # What a guarantee covers is what a user's own experiment shows.
        assert own.mode == "own-graph"
        assert own.show[0].columns == "epsilon"

    def test_a_grid_without_epsilon_has_its_last_axis_as_columns(self, tmp_path):
        own = self.made(tmp_path, GRID + 'changes = [{}, { "training.epochs" = 3 }]\n')
        assert own.show[0].columns == "changes"
        assert value_of(own.points()[1], "changes") == '{"training.epochs": 3}'

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("", "'grid' of the experiment in .* must be given"),
            ("grid = [", "must be valid TOML"),
            (GRID + "epsilonn = 1\n", r"'grid.0.epsilonn' .* is unknown. Got 1"),
            (GRID + "epsilon = 0\n", r"'grid.0.epsilon.0' .* must be greater than 0. Got 0"),
            (GRID + "epsilon = []\n", r"'grid.0.epsilon' .* at least 1 item"),
            (GRID + "split = [0.6, 0.2]\n", r"'grid.0.split.0' .* Got 0.6"),
            (GRID + 'changes = "x"\n', r"'grid.0.changes.0' .* dictionary"),
            (GRID.replace("auto", "best"), r"'grid.0.recipe.0' .* Got 'best'"),
            ('[[grid]]\nrecipe = "auto"\n', "must have the axis 'dataset'"),
            ('[[grid]]\ndataset = "cora"\n', "'grid.0.recipe' .* must be given"),
            (GRID + f"epsilon = {[1] * 200}\nnoise = {[1] * 200}\n", "at most 10,000 runs"),
            ("seeds = 0\n" + GRID, "'seeds' of the experiment in .* at least 1. Got 0"),
        ],
    )
    def test_what_is_wrong_is_said_in_one_line(self, tmp_path, text, says):
        with pytest.raises(ConfigError, match=says) as refused:
            self.made(tmp_path, text)
        assert "\n" not in str(refused.value)

    def test_a_file_that_is_not_there(self, tmp_path):
        with pytest.raises(DataError, match="does not exist"):
            read_experiment(tmp_path / "none.toml")


class TestAvailable:
    @pytest.fixture(autouse=True)
    def _nothing_here(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PRIVGCN_DATA", str(tmp_path))

    def test_a_missing_dataset_is_left_out_and_said(self):
        here, notes = available(["clinic", "pokec"], named=False)
        assert here == ["clinic"]
        assert notes == ["pokec was not run: its raw data are not on this machine."]

    def test_one_that_was_named_must_be_there(self):
        with pytest.raises(DataNotAvailableError):
            available(["clinic", "pokec"], named=True)

    def test_one_at_least_must_be_there(self):
        with pytest.raises(DataNotAvailableError):
            available(["pokec", "reddit"], named=False)
