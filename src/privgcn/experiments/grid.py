"""Experiments as grids: declared, not programmed.

An experiment is a list of grids, a grid is a product of axes, and a point of it with all
its seeds is one task: the seeds of one configuration train in one pass. What is stored is
one record per run, that is per configuration and seed. A run is named by the hash of
everything that decides its result, so experiments share the runs they have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

from privgcn.errors import ConfigError
from privgcn.experiments.canonical import canonical, digest
from privgcn.experiments.tasks import resolve_point, task_weight

RECORD_FORMAT = 1
"""Part of every key: records of another format are other runs, never misread ones."""

Point = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One configuration with all its seeds: the unit that an engine runs.

    Attributes:
        kind: How it is run; a name of the task registry.
        settings: Everything but the seed that decides the result, as plain values.
        seeds: The runs of the task.
    """

    kind: str
    settings: Mapping[str, Any]
    seeds: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise ConfigError(
                f"The 'seeds' of a task must be one or more different numbers. "
                f"Got {list(self.seeds)}."
            )

    @cached_property
    def key(self) -> str:
        """Hash of the configuration and the seeds that train together."""
        return digest({**self._identity, "seeds": list(self.seeds)})

    @cached_property
    def configuration(self) -> str:
        """Hash of the configuration alone."""
        return digest(self._identity)

    def run_key(self, seed: int) -> str:
        """Hash that names one run: the configuration with one seed."""
        return digest({**self._identity, "seed": seed})

    @property
    def weight(self) -> float:
        """Roughly how long it takes, relative to other tasks."""
        return task_weight(self.kind, self.settings) * len(self.seeds)

    def with_seeds(self, seeds: Sequence[int]) -> Task:
        """The same configuration with other seeds."""
        return Task(self.kind, self.settings, tuple(seeds))

    def pieces(self) -> list[Task]:
        """One task per seed where the seeds share no work, else the task itself."""
        if not self.settings.get("apart"):
            return [self]
        return [self.with_seeds([seed]) for seed in self.seeds]

    @property
    def _identity(self) -> dict[str, Any]:
        return {"format": RECORD_FORMAT, "kind": self.kind, "settings": dict(self.settings)}


@dataclass(frozen=True)
class Grid:
    """The product of some axes.

    Attributes:
        axes: Name of each axis and its values, such as ``{"epsilon": [1, 2]}``.
        kind: How the points are run; a name of the task registry.
        where: Keeps a point only where this says so.
    """

    axes: Mapping[str, Sequence[Any]]
    kind: str = "train"
    where: Callable[[Point], bool] | None = None

    def __post_init__(self) -> None:
        for name, values in self.axes.items():
            if isinstance(values, str) or not len(values):
                raise ConfigError(
                    f"The axis '{name}' of a grid must be a list with at least one value. "
                    f"Got {values!r}."
                )

    def points(self) -> Iterator[Point]:
        """All combinations, the last axis fastest."""
        for values in product(*self.axes.values()):
            point = dict(zip(self.axes, values, strict=True))
            if self.where is None or self.where(point):
                yield point


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
        for _, task in self.pairs():
            if task.configuration not in seen:
                seen.add(task.configuration)
                yield task

    def pairs(self) -> Iterator[tuple[Point, Task]]:
        """Every point with its task; points that mean the same run share a task."""
        for grid in self.grids:
            for point in grid.points():
                settings = resolve_point(grid.kind, point)
                yield point, Task(grid.kind, settings, tuple(self.seeds))

    @property
    def runs(self) -> int:
        """Number of runs: configurations times seeds."""
        return sum(len(task.seeds) for task in self)


__all__ = ["RECORD_FORMAT", "Experiment", "Grid", "Point", "Task", "canonical"]
