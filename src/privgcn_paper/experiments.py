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

A dataset without test documents of its own needs ``split = [[0.6, 0.2]]``: fractions of
training and validation documents. ``changes`` takes further settings by dotted name, such as
``changes = { "training.epochs" = 20 }``.

    >>> experiments()["table1"].question
    'What does privacy cost, on the full graph and on ten parts?'
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from privgcn.config import Mode
from privgcn.errors import ConfigError, DataNotAvailableError, reason, refusal, shown
from privgcn.files import read_bounded

Point = dict[str, Any]
"""A run without its seed: the value of each of its axes."""

ALL = "all"
_USUAL: Point = {"parts": 1, "fraction": 1.0, "clip": False}
_SEEDS, _QUICK_SEEDS = 5, 2
_MOST_BYTES = 1 << 20

T = TypeVar("T")
Axis = Annotated[
    list[T],
    BeforeValidator(lambda value: value if isinstance(value, list) else [value]),
    Field(min_length=1),
]
Above = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]
Fraction = Annotated[float, Field(gt=0, le=1)]


class Grid(BaseModel):
    """The axes of a grid; their order is that of tables and of the file of all runs.

    Attributes:
        parts: Groups of the partition; ``each`` makes every document one.
        fraction: Of the training documents.
        split: Fractions of training and validation documents, for data without a split.
        clip: Whether a run of the released code clips, as the paper describes it.
        lot: Images of a step, on MNIST.
        changes: Further settings by dotted name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: Axis[str] | None = None
    recipe: Axis[Literal["plain", "auto", "paper-full", "paper-split", "as-released"]]
    features: Axis[str] | None = None
    optimizer: Axis[Literal["sgd", "adam"]] | None = None
    epsilon: Axis[Above] | None = None
    noise: Axis[Above] | None = None
    parts: Axis[Count | Literal["each"]] | None = None
    fraction: Axis[Fraction] | None = None
    split: Axis[tuple[Fraction, Fraction]] | None = None
    learning_rate: Axis[Above] | None = None
    clip: Axis[bool] | None = None
    lot: Axis[Count] | None = None
    epochs: Axis[Count] | None = None
    changes: Axis[dict[str, Any]] | None = None

    def axes(self) -> dict[str, list[Any]]:
        """The axes that it has, and their values."""
        return self.model_dump(mode="json", exclude_none=True)


AXES = tuple(Grid.model_fields)


class View(BaseModel):
    """A table with the axes ``rows``, or a figure for each value of the axes ``each``.

    Attributes:
        rows: None where it is a figure alone.
        columns: The axis of the columns, or of the width of the figure.
        measure: ``score``, or ``hard``: the fraction of the hard cases that stay errors.
        mode: The inference mode of the scores of a figure; that of the experiment by default.
        where: Only runs with these values; ``none`` stands for an axis that a run has not.
        lines: What tells the lines of a figure apart.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: list[str] = Field(default_factory=list)
    columns: str
    measure: Literal["score", "hard"] = "score"
    mode: Mode | None = None
    where: dict[str, Any] = Field(default_factory=dict)
    each: list[str] = Field(default_factory=list)
    lines: list[str] = Field(default_factory=list)

    def takes(self, point: Point) -> bool:
        """Whether a run is shown."""
        return all(
            value_of(point, axis) == (None if value == "none" else value)
            for axis, value in self.where.items()
        )


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
    mode: Mode = "full-graph"
    seeds: Annotated[int, Field(ge=1, le=1000)] = _SEEDS
    quick: dict[str, list[Any]] = Field(default_factory=dict)
    show: list[View] = Field(default_factory=list)
    grid: Annotated[list[Grid], Field(min_length=1)]

    def points(
        self, datasets: Sequence[str] | None = None, *, quick: bool = False
    ) -> list[Point]:
        """Every run, none twice.

        Args:
            datasets: Instead of the experiment's own.
            quick: The small size.
        """
        small = self.quick if quick else {}
        names = datasets or small.get("datasets", self.datasets)
        points: dict[str, Point] = {}
        for grid in self.grid:
            axes = grid.axes()
            own = axes.get("dataset", names)
            axes["dataset"] = [name for name in own if not names or name in names]
            for axis in axes.keys() & small.keys():
                axes[axis] = [value for value in axes[axis] if value in small[axis]]
            ordered = [axis for axis in AXES if axis in axes]
            for values in product(*(axes[axis] for axis in ordered)):
                both = zip(ordered, values, strict=True)
                point = {axis: value for axis, value in both if value != _USUAL.get(axis)}
                points.setdefault(json.dumps(point, sort_keys=True), point)
        return list(points.values())

    def number_of_seeds(self, asked: int | None, *, quick: bool) -> int:
        """As asked; by default the experiment's own, and two in the small size."""
        if asked is not None and asked < 1:
            raise ConfigError(f"The 'seeds' of an experiment must be at least 1. Got {asked}.")
        return asked or (_QUICK_SEEDS if quick else self.seeds)


def value_of(point: Mapping[str, Any], axis: str) -> Any:
    """The value of a run on an axis, or its usual one; lists and tables as text."""
    value = point.get(axis, _USUAL.get(axis))
    return json.dumps(value) if isinstance(value, list | dict) else value


def data_file(name: str) -> str:
    """A data file of this package."""
    return resources.files("privgcn_paper").joinpath(name).read_text("utf-8")


@cache
def experiments() -> Mapping[str, Experiment]:
    """The paper's experiments by name."""
    tree = tomllib.loads(data_file("experiments.toml"))
    return {name: Experiment.model_validate(entry) for name, entry in tree.items()}


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
            f"The experiment {path} must be valid TOML: {reason(error)}."
        ) from None
    grids = [grid.axes() for grid in made.grid]
    if not all("dataset" in axes for axes in grids):
        raise ConfigError(f"Each grid in {path} must have the axis 'dataset'. One has none.")
    named = [name for name in AXES if any(name in axes for axes in grids)]
    columns = "epsilon" if "epsilon" in named else named[-1]
    view = View(rows=[name for name in named if name != columns], columns=columns)
    return made.model_copy(update={"show": [view], "mode": "own-graph"})


def available(names: Sequence[str], *, named: bool) -> tuple[list[str], list[str]]:
    """Which of these datasets are on this machine, and sentences about those that are not.

    Args:
        names: Of datasets.
        named: Whether the user named them; then each must be there.

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
