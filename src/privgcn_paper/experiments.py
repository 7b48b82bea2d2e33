"""The experiments as data: grids of runs in ``experiments.toml``, or in a file of your own.

A file of your own has one table ``[[grid]]`` or more, and may say a ``title`` and how many
``seeds``. Each key of a grid is an axis, with one value or a list of them::

    title = "Our letters beside Cora"
    seeds = 3

    [[grid]]
    dataset = ["letters/", "cora"]
    recipe = "auto"
    epsilon = [1, 2, 4]
    features = ["hashing", "minilm"]

A dataset without test documents of its own needs ``split = [[0.6, 0.2]]``: fractions of training
and validation documents. ``changes`` takes further settings by dotted name.

    >>> experiment("table1").question
    'What does privacy cost, on the full graph and on ten parts?'
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from privgcn.errors import ConfigError, DataNotAvailableError, reason, refusal, shown
from privgcn.files import read_bounded

Point = dict[str, Any]
"""A run without its seed: the value of each of its axes."""

AXES = (
    *("dataset", "recipe", "features", "optimizer", "epsilon", "noise", "parts", "fraction"),
    *("split", "learning_rate", "sound", "lot", "epochs", "changes"),
)
"""In this order they stand in tables and in the file of all runs."""

RECIPES = ("plain", "auto", "paper-full", "paper-split", "as-released")
ALL = "all"
_USUAL: Point = {"parts": 1, "fraction": 1.0, "sound": ""}
_SEEDS, _QUICK_SEEDS = 5, 2
_MOST_BYTES, _MOST_POINTS = 1 << 20, 10_000


class View(BaseModel):
    """A table of scores, and a figure for each value of the axes ``each``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: list[str]
    columns: str
    measure: Literal["score", "hard"] = "score"
    where: dict[str, Any] = Field(default_factory=dict)
    each: list[str] = Field(default_factory=list)
    lines: list[str] = Field(default_factory=list)


class Experiment(BaseModel):
    """Grids of runs, and how their scores are shown.

    Attributes:
        mode: The inference mode of the scores; that of the paper's protocol by default.
        quick: The values of an axis that the small size has.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str = "Experiment"
    question: str = ""
    datasets: list[str] = Field(default_factory=list)
    mode: Literal["alone", "own-graph", "full-graph"] = "full-graph"
    seeds: Annotated[int, Field(ge=1, le=1000)] = _SEEDS
    quick: dict[str, list[Any]] = Field(default_factory=dict)
    show: list[View] = Field(default_factory=list)
    grid: Annotated[list[dict[str, Any]], Field(min_length=1)]

    def points(
        self, datasets: Sequence[str] | None = None, *, quick: bool = False
    ) -> list[Point]:
        """Every run, none twice.

        Args:
            datasets: Instead of the experiment's own.
            quick: The small size.
        """
        own = self.quick.get("datasets", self.datasets) if quick else self.datasets
        names = list(own if datasets is None else datasets)
        found: dict[str, Point] = {}
        for grid in self.grid:
            for point in _combinations(grid, names, self.quick if quick else {}):
                found.setdefault(json.dumps(point, sort_keys=True), point)
        return list(found.values())

    def number_of_seeds(self, asked: int | None, *, quick: bool) -> int:
        """As asked; by default the experiment's own, and two in the small size."""
        if asked is not None and asked < 1:
            raise ConfigError(f"The 'seeds' of an experiment must be at least 1. Got {asked}.")
        return asked or (_QUICK_SEEDS if quick else self.seeds)


def _combinations(
    grid: Mapping[str, Any], datasets: Sequence[str], quick: Mapping[str, Sequence[Any]]
) -> Iterator[Point]:
    axes = {name: v if isinstance(v, list) else [v] for name, v in grid.items()}
    axes["dataset"] = [
        name for name in axes.get("dataset", datasets) if not datasets or name in datasets
    ]
    for name, kept in quick.items():
        if name in axes:
            axes[name] = [value for value in axes[name] if value in kept]
    for values in product(*axes.values()):
        point = dict(zip(axes, values, strict=True))
        yield {
            name: point[name]
            for name in AXES
            if name in point and point[name] != _USUAL.get(name)
        }


def data_file(name: str) -> str:
    """A data file of this package."""
    return resources.files("privgcn_paper").joinpath(name).read_text("utf-8")


@cache
def experiments() -> Mapping[str, Experiment]:
    """The paper's experiments by name."""
    tree = tomllib.loads(data_file("experiments.toml"))
    return {name: Experiment.model_validate(entry) for name, entry in tree.items()}


def experiment(name: str) -> Experiment:
    """One of them."""
    return chosen(name)[name]


def chosen(names: str) -> dict[str, Experiment]:
    """The experiments of comma-separated names, or every one for ``all``.

    Raises:
        ConfigError: There is no such experiment.
    """
    known = experiments()
    if names == ALL:
        return dict(known)
    picked = [name.strip() for name in names.split(",")]
    for name in picked:
        if name not in known:
            raise ConfigError(
                f"The 'name' of an experiment must be one of {', '.join(known)} or {ALL}. "
                f"Got {shown(name)}."
            )
    return {name: known[name] for name in picked}


def read_experiment(path: Path) -> Experiment:
    """An experiment of a user's own.

    Raises:
        ConfigError: The file cannot be read, or an axis or a value is unknown.
    """
    try:
        tree = tomllib.loads(read_bounded(path, most=_MOST_BYTES).decode("utf-8"))
        made = Experiment.model_validate(tree)
    except ValidationError as error:
        raise refusal(error, f"the experiment in {path}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"The experiment {path} is not valid TOML: {reason(error)}."
        ) from None
    for grid in made.grid:
        _check_axes(grid, path)
    size = sum(
        len(list(product(*(v if isinstance(v, list) else [v] for v in grid.values()))))
        for grid in made.grid
    )
    if size > _MOST_POINTS:
        raise ConfigError(
            f"The grids in {path} must have at most {_MOST_POINTS:,} runs together. Got {size:,}."
        )
    axes = [name for name in AXES if any(name in grid for grid in made.grid)]
    columns = "epsilon" if "epsilon" in axes else axes[-1]
    view = View(rows=[name for name in axes if name != columns], columns=columns)
    return made.model_copy(update={"show": [view], "mode": "own-graph"})


def _check_axes(grid: Mapping[str, Any], path: Path) -> None:
    for name, value in grid.items():
        if name not in AXES:
            raise ConfigError(
                f"An axis of the grids in {path} must be one of {', '.join(AXES)}. Got {shown(name)}."
            )
        if value == []:
            raise ConfigError(f"The axis '{name}' in {path} must have a value. Got none.")
    recipes = grid.get("recipe")
    for needed in ("dataset", "recipe"):
        if needed not in grid:
            raise ConfigError(
                f"Each grid in {path} must have the axis '{needed}'. One has none."
            )
    for recipe in recipes if isinstance(recipes, list) else [recipes]:
        if recipe not in RECIPES:
            raise ConfigError(
                f"The 'recipe' of the grids in {path} must be one of {', '.join(RECIPES)}. "
                f"Got {shown(recipe)}."
            )


def available(names: Sequence[str], *, named: bool) -> tuple[list[str], list[str]]:
    """Which of these datasets are on this machine, and sentences about those that are not.

    Args:
        names: Of datasets.
        named: Whether the user named them: then each must be there.

    Raises:
        DataNotAvailableError: A dataset that was named is missing, or all are.
    """
    from privgcn.data import load_corpus

    here, notes = [], []
    for name in names:
        try:
            load_corpus(name)
        except DataNotAvailableError as error:
            if named:
                raise
            notes.append(f"{name} was not run: its raw data are not on this machine.")
            last = error
        else:
            here.append(name)
    if names and not here:
        raise last
    return here, notes
