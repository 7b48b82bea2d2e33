"""Experiments as grids: declared, not programmed.

An experiment is a list of grids, a grid is a product of axes, and a point of it with all
its seeds is one task: the seeds of one configuration train in one pass. What is stored is
one record per run, that is per configuration and seed. A run is named by the hash of
everything that decides its result, so experiments share the runs they have in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from privgcn.errors import ConfigError
from privgcn.experiments.tasks import Point, Task, make_task


@dataclass(frozen=True)
class Grid:
    """The product of some axes.

    Attributes:
        axes: Name of each axis and its values, such as ``{"epsilon": [1, 2]}``.
        kind: How the points are run; a kind of task.
    """

    axes: Mapping[str, Sequence[Any]]
    kind: str = "train"

    def __post_init__(self) -> None:
        for name, values in self.axes.items():
            if isinstance(values, str) or not len(values):
                raise ConfigError(
                    f"The axis '{name}' of a grid must be a list with at least one value. "
                    f"Got {values!r}."
                )

    @classmethod
    def of(cls, *points: Mapping[str, Any], kind: str = "train") -> list[Grid]:
        """Grids of single points, for runs that no product describes."""
        return [cls({name: [value] for name, value in p.items()}, kind) for p in points]

    def points(self) -> Iterator[Point]:
        """All combinations, the last axis fastest."""
        for values in product(*self.axes.values()):
            yield dict(zip(self.axes, values, strict=True))


@dataclass(frozen=True)
class Experiment:
    """A declarative grid of runs.

    Iterating gives the tasks one by one, none twice.

    Attributes:
        name: Short name, used for files.
        grids: What is run.
        seeds: Seeds of every configuration.

    Examples:
        >>> axes = {"dataset": ["clinic"], "recipe": ["auto"], "epsilon": [1, 2]}
        >>> experiment = Experiment("mine", [Grid(axes)], seeds=range(3))
        >>> len(list(experiment)), experiment.runs
        (2, 6)
    """

    name: str
    grids: Sequence[Grid]
    seeds: Sequence[int] = field(default_factory=lambda: range(5))

    def __iter__(self) -> Iterator[Task]:
        seen: set[str] = set()
        for grid in self.grids:
            for point in grid.points():
                task = make_task(grid.kind, point, self.seeds)
                if task.configuration not in seen:
                    seen.add(task.configuration)
                    yield task

    @property
    def runs(self) -> int:
        """Number of runs: configurations times seeds."""
        return sum(len(task.seeds) for task in self)
