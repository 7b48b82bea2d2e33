"""The numbers the paper published, as facts to compare with; nothing here is computed."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from privgcn.errors import ConfigError

OPTIMIZERS = ("sgd", "adam")


def read_text(name: str) -> str:
    """A data file of this package."""
    return resources.files("privgcn.experiments.paper").joinpath(name).read_text("utf-8")


@cache
def read_table(name: str) -> Mapping[str, Any]:
    """A TOML file of this package."""
    return tomllib.loads(read_text(name))


def published() -> Mapping[str, Any]:
    """The published numbers as a tree."""
    return read_table("published.toml")


@cache
def leaves() -> Mapping[str, Any]:
    """Every published number by its dotted path, such as ``table1.cora.majority``."""
    return dict(_leaves(published(), ""))


def _leaves(node: Any, path: str) -> Iterator[tuple[str, Any]]:
    items: Any = node.items() if isinstance(node, Mapping) else enumerate(node)
    for name, value in items:
        below = f"{path}.{name}" if path else str(name)
        if isinstance(value, Mapping) or (
            isinstance(value, list) and isinstance(value[0], Mapping)
        ):
            yield from _leaves(value, below)
        else:
            yield below, value


def noise_of(epsilon: float, optimizer: str) -> float:
    """The noise multiplier of the paper's table for an epsilon named in round numbers."""
    rows = published()["noise_to_epsilon"]
    for row in rows:
        if abs(row["epsilon"] - epsilon) < 0.5:
            return float(row[optimizer]["noise_multiplier"])
    raise ConfigError(
        "The 'epsilon' of the paper's noise table must be near one of "
        f"{sorted(row['epsilon'] for row in rows)}. Got {epsilon}."
    )
