from __future__ import annotations

import pytest
import tiny_task

from privgcn.errors import ConfigError
from privgcn.experiments.grid import Experiment, Grid
from privgcn.experiments.tasks import Task, canonical


def _experiment(**changes: object) -> Experiment:
    axes = {"shift": [0.5, 1.0], "steps": [10, 20, 30]}
    fields = {"name": "tiny", "grids": [Grid(axes, tiny_task.KIND)], "seeds": (0, 1)}
    return Experiment(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_grid_is_the_product_of_its_axes_and_a_task_holds_all_seeds() -> None:
    tasks = list(_experiment())
    assert len(tasks) == 6
    assert _experiment().runs == 12
    assert [task.settings["steps"] for task in tasks] == [10, 20, 30] * 2
    assert all(task.seeds == (0, 1) for task in tasks)


def test_tasks_come_one_by_one() -> None:
    def endless_points(self: Grid):
        number = 0
        while True:
            yield {"shift": number}
            number += 1

    class Endless(Grid):
        points = endless_points

    experiment = _experiment(grids=[Endless({"shift": [0]}, tiny_task.KIND)])
    tasks = iter(experiment)
    assert [next(tasks).settings["shift"] for _ in range(3)] == [0, 1, 2]


def test_points_that_mean_the_same_run_give_one_task() -> None:
    grids = [Grid({"shift": [1]}, tiny_task.KIND), Grid({"shift": [1.0]}, tiny_task.KIND)]
    assert len(list(_experiment(grids=grids))) == 1


def test_a_run_is_named_by_everything_that_decides_it() -> None:
    task = Task(tiny_task.KIND, {"a": 1, "b": {"c": [1, 2]}}, (0, 1))
    same = Task(tiny_task.KIND, {"b": {"c": [1.0, 2]}, "a": 1.0}, (0, 1))
    assert task.key == same.key
    assert task.run_key(0) == same.run_key(0)
    others = [
        task.run_key(1),
        Task(tiny_task.KIND, {"a": 1, "b": {"c": [2, 1]}}, (0,)).run_key(0),
        Task("other:", task.settings, (0,)).run_key(0),
    ]
    assert len({task.run_key(0), *others}) == 4
    # The seeds that train beside it do not rename a run.
    assert task.with_seeds((0,)).run_key(0) == task.run_key(0)
    assert task.with_seeds((0,)).key != task.key


@pytest.mark.parametrize("seeds", [(), (1, 1)])
def test_seeds_must_be_different(seeds: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="'seeds' of a task"):
        Task(tiny_task.KIND, {}, seeds)


@pytest.mark.parametrize("values", [[], "cora"])
def test_an_axis_is_a_list(values: object) -> None:
    with pytest.raises(ConfigError, match="axis 'dataset'"):
        Grid({"dataset": values})  # type: ignore[dict-item]


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object()])
def test_settings_are_plain_values(value: object) -> None:
    with pytest.raises(ConfigError, match="plain finite values"):
        canonical({"a": value})


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(ConfigError, match="'nonsense'"):
        list(Experiment("x", [Grid({"a": [1]}, "nonsense")]))
