"""The numbers the paper published, as facts to compare with; nothing here is computed."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

from privgcn.errors import ConfigError

OPTIMIZERS = ("sgd", "adam")
ByOptimizer = Mapping[str, float]


@dataclass(frozen=True)
class NoiseRow:
    """A row of the noise table: one epsilon and the noise that gives it."""

    epsilon: float
    optimizer: str
    noise_multiplier: float
    steps: int


@dataclass(frozen=True)
class Scores:
    """A dataset's row of the main table; every score by optimiser is a micro F1."""

    majority: float
    non_private: ByOptimizer
    full_epsilon_2: ByOptimizer
    split_epsilon_1: ByOptimizer
    split_epsilon_2: ByOptimizer


@dataclass(frozen=True)
class FeatureScores:
    """A feature kind's row of the Pokec comparison; ``private`` by epsilon, then optimiser."""

    non_private: ByOptimizer
    private: Mapping[int, ByOptimizer]


@dataclass(frozen=True)
class MnistRow:
    """A row of the MNIST table."""

    lot_size: int
    noise_multiplier: float
    epsilon: float
    f1: float
    std: float


@dataclass(frozen=True)
class DatasetSize:
    """A row of the table of dataset sizes."""

    classes: int
    train: int
    test: int


@dataclass(frozen=True)
class Published:
    """Every published number."""

    settings: Mapping[str, Any]
    sizes: Mapping[str, DatasetSize]
    noise: tuple[NoiseRow, ...]
    scores: Mapping[str, Scores]
    features: Mapping[str, FeatureScores]
    mnist: tuple[MnistRow, ...]
    claims: Mapping[str, Any]

    def noise_of(self, epsilon: float, optimizer: str) -> NoiseRow:
        """The row of the noise table nearest to an epsilon named in round numbers.

        Raises:
            ConfigError: The paper has no such epsilon.
        """
        for row in self.noise:
            if row.optimizer == optimizer and abs(row.epsilon - epsilon) < 0.5:
                return row
        known = sorted({row.epsilon for row in self.noise})
        raise ConfigError(
            f"The 'epsilon' of the paper's noise table must be near one of {known} with "
            f"optimiser sgd or adam. Got {epsilon} with {optimizer!r}."
        )


@cache
def published() -> Published:
    """Reads the package's own copy of the published numbers."""
    text = (
        resources.files("privgcn.experiments.paper")
        .joinpath("published.toml")
        .read_text("utf-8")
    )
    tree = tomllib.loads(text)
    return Published(
        settings=MappingProxyType(tree["settings"]),
        sizes={name: DatasetSize(**row) for name, row in tree["dataset_sizes"].items()},
        noise=tuple(
            NoiseRow(row["epsilon"], name, row[name]["noise_multiplier"], row[name]["steps"])
            for row in tree["noise_to_epsilon"]
            for name in OPTIMIZERS
        ),
        scores={
            name: Scores(
                majority=row["majority"],
                non_private=row["non_private"],
                full_epsilon_2=row["dp_full_eps2"],
                split_epsilon_1=row["dp_split_eps1"],
                split_epsilon_2=row["dp_split_eps2"],
            )
            for name, row in tree["table1"].items()
        },
        features={
            name: FeatureScores(
                non_private=row["non_private"],
                private={int(key[3:]): value for key, value in row["dp"].items()},
            )
            for name, row in tree["pokec_features"].items()
        },
        mnist=tuple(MnistRow(**row) for row in tree["mnist"]),
        claims=MappingProxyType(tree["text_claims"]),
    )
