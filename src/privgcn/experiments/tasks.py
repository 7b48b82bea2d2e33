"""A task: one configuration with all its seeds, named by what decides its result.

The kind of a task is a module, so that a worker process or a node of a cluster imports only
what its task needs, and so that any package may add one. The module has the functions

- ``resolve``: a point of a grid to the full settings of a run, as plain values;
- ``run``: settings and seeds to one result per seed, as plain values;
- ``weight``, where it has one: settings to a rough relative cost, for the time left;
- ``steps``, where runs can train on a device: settings to the steps of a run;
- ``label``, where it has one: settings to a few words for people;
- ``device``, where runs can train on one: settings and number of seeds to what is faster,
  ``cpu`` or ``cuda``; ``run`` then takes that as well;
- ``apart``, where it has one: whether seeds share no work on a CPU;
- ``company`` and ``run_together``, where configurations can share a pass on a device: settings
  to what those that can have in common (``None``: none can), and several settings with
  their seeds to the results of each;
- ``IMPORTS``, where it has some: modules that ``run`` imports, which workers share.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from privgcn.errors import ConfigError

RECORD_FORMAT = 2
"""Part of every key: records of another format are other runs, never misread ones."""

KINDS = {
    "train": "privgcn.experiments.train_task",
    "references": "privgcn.experiments.reference_task",
}
"""Kinds with a short name; any other kind is named by its module."""

Point = dict[str, Any]
Result = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One configuration with all its seeds: the unit that an engine runs.

    Attributes:
        kind: How it is run: a name of ``KINDS``, or a module.
        settings: Everything but the seed that decides the result, as plain values.
        seeds: The runs of the task.
        device: Where they train. No part of a run's name: noise of another generator, and
            other rounding, are another draw of the same experiment.
    """

    kind: str
    settings: Mapping[str, Any]
    seeds: tuple[int, ...]
    device: str = "cpu"

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

    @cached_property
    def weight(self) -> float:
        """Roughly how long it takes, relative to other tasks."""
        return len(self.seeds) * float(self._told("weight", 1.0))

    @cached_property
    def steps(self) -> int:
        """Roughly how long it takes on a device: any step costs much the same there."""
        return int(self._told("steps", 1))

    def with_seeds(self, seeds: Sequence[int]) -> Task:
        """The same configuration with other seeds."""
        return replace(self, seeds=tuple(seeds))

    def on(self, asked: str) -> Task:
        """The same task where it is to run: ``auto``, ``cpu`` or ``cuda`` was asked for."""
        faster = getattr(kind_module(self.kind), "device", None)
        if faster is None:
            asked = "cpu"
        elif asked == "auto":
            asked = faster(self.settings, len(self.seeds))
        return replace(self, device=asked)

    def pieces(self) -> list[Task]:
        """One task per seed where the seeds share no work, else the task itself."""
        if self.device != "cpu" or not self._told("apart", False):
            return [self]
        return [self.with_seeds([seed]) for seed in self.seeds]

    @cached_property
    def company(self) -> str:
        """The same for tasks that share a pass where they run."""
        shared = self._told("company", None)
        if shared is None or self.device == "cpu":
            return self.key
        return digest({"kind": self.kind, "device": self.device, "shared": shared})

    def _told(self, name: str, default: Any) -> Any:
        """What a function of the kind, where it has that one, says of the settings."""
        function = getattr(kind_module(self.kind), name, None)
        return default if function is None else function(self.settings)

    @property
    def _identity(self) -> dict[str, Any]:
        return {"format": RECORD_FORMAT, "kind": self.kind, "settings": dict(self.settings)}


def kind_module(kind: str) -> ModuleType:
    """The module of a kind, or an error where there is none."""
    name = KINDS.get(kind, kind)
    if find_spec(name) is None:
        raise ConfigError(
            f"The 'kind' of a task must be one of {', '.join(KINDS)}, or a module. "
            f"Got {kind!r}."
        )
    return import_module(name)


def imports(kind: str) -> tuple[str, ...]:
    """Modules that every run of a kind imports."""
    return tuple(getattr(kind_module(kind), "IMPORTS", ()))


def check_axes(
    what: str, point: Mapping[str, Any], must: Set[str], may: Set[str] = frozenset()
) -> None:
    """Refuses a point that lacks an axis, or has one that is not known."""
    if not must <= point.keys() <= must | may:
        more = f", and may have {', '.join(sorted(may))}" if may else ""
        raise ConfigError(
            f"A grid of {what} must have the axes {', '.join(sorted(must))}{more}. "
            f"Got {', '.join(point)}."
        )


def make_task(kind: str, point: Mapping[str, Any], seeds: Sequence[int]) -> Task:
    """The task of a point of a grid."""
    return Task(kind, kind_module(kind).resolve(dict(point)), tuple(seeds))


def run_task(
    kind: str, settings: Mapping[str, Any], seeds: Sequence[int], device: str | None = None
) -> list[Result]:
    """Runs one configuration with all its seeds; the place where work happens."""
    module = kind_module(kind)
    where = {"device": device} if device is not None and hasattr(module, "device") else {}
    results: list[Result] = module.run(dict(settings), tuple(seeds), **where)
    return _one_per_seed(kind, results, seeds)


def run_company(tasks: Sequence[Task]) -> list[list[Result]]:
    """Runs tasks of one company; the results of each."""
    first = tasks[0]
    if len(tasks) == 1:
        return [run_task(first.kind, first.settings, first.seeds, first.device)]
    runs = [(task.settings, task.seeds) for task in tasks]
    found = kind_module(first.kind).run_together(runs, first.device)
    return [
        _one_per_seed(task.kind, results, task.seeds)
        for task, results in zip(tasks, found, strict=True)
    ]


def _one_per_seed(kind: str, results: list[Result], seeds: Sequence[int]) -> list[Result]:
    if len(results) != len(seeds):
        raise ConfigError(
            f"A task of kind '{kind}' must give one result per seed ({len(seeds)}). "
            f"Got {len(results)}."
        )
    return results


def label(kind: str, settings: Mapping[str, Any], seeds: Sequence[int] = ()) -> str:
    """What runs are, in a few words: those of its kind, and the seeds that are meant."""
    own = getattr(kind_module(kind), "label", None)
    words = [own(settings)] if own is not None else _plain_words(settings)
    if seeds:
        numbers = ", ".join(str(seed) for seed in seeds)
        words.append(f"seed {numbers}" if len(seeds) == 1 else f"seeds {numbers}")
    return ", ".join(words)


def _plain_words(settings: Mapping[str, Any]) -> list[str]:
    words = [str(settings["dataset"])] if "dataset" in settings else []
    return words + [
        f"{name} {value}"
        for name, value in settings.items()
        if name != "dataset" and isinstance(value, str | int | float)
    ]


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces; ``1.0`` and ``1`` are the same number.

    Raises:
        ConfigError: A value that JSON does not know, such as NaN or an array.
    """
    try:
        return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"The 'settings' of a run must be plain finite values. Got {value!r} ({error})."
        ) from None


def digest(value: Any) -> str:
    """The sha256 of the canonical form: equal settings have equal hashes."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value
