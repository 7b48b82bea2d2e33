"""What can be run: one registry line per kind of task.

A kind names three functions as ``module:function``, so that a worker process or a node of
a cluster imports only what its task needs:

- ``resolve``: a point of a grid to the full settings of a run, as plain values;
- ``run``: settings and seeds to one result per seed, as plain values;
- ``weight``: settings to a rough relative cost, for the time left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from privgcn.errors import ConfigError

Result = dict[str, Any]


class TaskKind(NamedTuple):
    """Where the functions of a kind are."""

    resolve: str
    run: str
    weight: str | None = None


TASKS: dict[str, TaskKind] = {
    "train": TaskKind(
        "privgcn.experiments.train_task:resolve",
        "privgcn.experiments.train_task:run",
        "privgcn.experiments.train_task:weight",
    ),
    "as-released": TaskKind(
        "privgcn.experiments.paper.emulation:resolve",
        "privgcn.experiments.paper.emulation:run",
        "privgcn.experiments.paper.emulation:weight",
    ),
}


def task_kind(name: str) -> TaskKind:
    """The kind of a name; ``module:`` as prefix means that module's three functions."""
    if name in TASKS:
        return TASKS[name]
    if name.endswith(":"):
        return TaskKind(f"{name}resolve", f"{name}run")
    raise ConfigError(f"The 'kind' of a task must be one of {', '.join(TASKS)}. Got {name!r}.")


def resolve_point(kind: str, point: Mapping[str, Any]) -> dict[str, Any]:
    """The full settings of a point."""
    settings: dict[str, Any] = _function(task_kind(kind).resolve)(dict(point))
    return settings


def run_task(kind: str, settings: Mapping[str, Any], seeds: Sequence[int]) -> list[Result]:
    """Runs one configuration with all its seeds; the place where work happens."""
    results: list[Result] = _function(task_kind(kind).run)(dict(settings), tuple(seeds))
    if len(results) != len(seeds):
        raise ConfigError(
            f"A task of kind '{kind}' must give one result per seed ({len(seeds)}). "
            f"Got {len(results)}."
        )
    return results


def task_weight(kind: str, settings: Mapping[str, Any]) -> float:
    """A rough relative cost of one run."""
    reference = task_kind(kind).weight
    return 1.0 if reference is None else float(_function(reference)(settings))


def _function(reference: str) -> Callable[..., Any]:
    module, _, name = reference.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found
