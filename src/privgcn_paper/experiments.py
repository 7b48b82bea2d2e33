"""The paper's experiments as data: grids of runs, from ``experiments.toml``.

>>> experiments()["table1"].question
'What does privacy cost, on the full graph and on ten parts?'
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from itertools import product
from typing import Any, Literal

from privgcn.config import Mode
from privgcn.errors import ConfigError, DataNotAvailableError, shown

Point = dict[str, Any]
"""A run without its seed: the value of each of its axes."""

AXES = (
    *("dataset", "recipe", "features", "optimizer", "epsilon", "noise", "parts", "fraction"),
    *("split", "learning_rate", "clip", "lot", "epochs", "changes"),
)
"""In the order of tables and of the file of all runs.

``parts`` are groups of the partition, and ``each`` makes every document one. ``fraction`` is
of the training documents. ``split`` has fractions of training and validation documents, for
data without a split. ``clip`` is whether a run of the released code clips, as the paper says.
``lot`` is the images of a step on MNIST. ``changes`` has further settings by dotted name.
"""

ALL = "all"
_USUAL: Point = {"parts": 1, "fraction": 1.0, "clip": False}


@dataclass(frozen=True)
class View:
    """A table with the axes ``rows``, or a figure for each value of the axes ``each``.

    Attributes:
        columns: The axis of the columns, or of the width of the figure.
        measure: ``score``, or ``hard``: the fraction of the hard cases that stay errors.
        where: Only runs with these values; ``none`` stands for an axis that a run has not.
        lines: The axes that tell the lines of a figure apart.
    """

    columns: str
    rows: list[str] = field(default_factory=list)
    measure: Literal["score", "hard"] = "score"
    mode: Mode | None = None
    where: dict[str, Any] = field(default_factory=dict)
    each: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def takes(self, point: Point) -> bool:
        """Whether a run is shown."""
        return all(
            value_of(point, axis) == (None if value == "none" else value)
            for axis, value in self.where.items()
        )


@dataclass(frozen=True)
class Experiment:
    """Grids of runs, and how their scores are shown.

    A grid has axes with one value or a list of them, and runs on ``datasets`` if it does not
    say; ``quick`` has the values of an axis in the small size.
    """

    title: str
    question: str
    grid: list[dict[str, Any]]
    show: list[View]
    datasets: list[str]
    quick: dict[str, list[Any]]
    mode: Mode = "full-graph"

    def points(
        self, datasets: Sequence[str] | None = None, *, quick: bool = False
    ) -> list[Point]:
        """Every run, none twice; on these ``datasets`` instead of the experiment's own."""
        small = self.quick if quick else {}
        names = datasets or small.get("datasets", self.datasets)
        points: dict[str, Point] = {}
        for grid in self.grid:
            axes = {n: v if isinstance(v, list) else [v] for n, v in grid.items()}
            own = axes.get("dataset", names)
            axes["dataset"] = [name for name in own if name in names]
            for axis in axes.keys() & small.keys():
                axes[axis] = [value for value in axes[axis] if value in small[axis]]
            ordered = [axis for axis in AXES if axis in axes]
            for values in product(*(axes[axis] for axis in ordered)):
                both = zip(ordered, values, strict=True)
                point = {axis: value for axis, value in both if value != _USUAL.get(axis)}
                points.setdefault(json.dumps(point, sort_keys=True), point)
        return list(points.values())


def value_of(point: Mapping[str, Any], axis: str) -> Any:
    """The value of a run on an axis, or its usual one."""
    return point.get(axis, _USUAL.get(axis))


def data_file(name: str) -> str:
    """A data file of this package."""
    return resources.files("privgcn_paper").joinpath(name).read_text("utf-8")


@cache
def experiments() -> Mapping[str, Experiment]:
    """The paper's experiments by name."""
    tree = tomllib.loads(data_file("experiments.toml"))
    return {
        name: Experiment(**{**entry, "show": [View(**view) for view in entry["show"]]})
        for name, entry in tree.items()
    }


def chosen(names: str) -> dict[str, Experiment]:
    """The experiments of comma-separated names, or every one for ``all``."""
    known = experiments()
    picked = list(known) if names == ALL else [name.strip() for name in names.split(",")]
    for name in picked:
        if name not in known:
            raise ConfigError(
                f"The 'name' of an experiment must be one of {', '.join(known)} or {ALL}. "
                f"Got {shown(name)}."
            )
    return {name: known[name] for name in picked}


def available(names: Sequence[str], *, named: bool) -> tuple[list[str], list[str]]:
    """Which of these datasets are on this machine, and sentences about those that are not."""
    from privgcn.data import load_corpus

    here: list[str] = []
    notes: list[str] = []
    for name in names:
        try:
            load_corpus(name)
        except DataNotAvailableError:
            if named or (not here and name == names[-1]):
                raise
            notes.append(f"{name} was not run: its raw data are not on this machine.")
        else:
            here.append(name)
    return here, notes
