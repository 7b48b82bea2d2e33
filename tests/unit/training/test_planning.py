"""From settings to a plan, reading nothing but public facts."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from brute_force import random_graph
from privgcn.config import PrivacySettings
from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import AllParts, EpochParts, PoissonParts
from privgcn.training.planning import make_plan

GRAPH = random_graph(40, owners=8)


def plan(columns: dict[str, Any] | None = None, **changes: Any) -> PrivacyPlan:
    privacy = PrivacySettings(**{"noise_multiplier": 2.0, "delta": 1e-3, **changes})
    return make_plan(privacy, GRAPH, epochs=3, seed=9, columns=columns or {})


@pytest.mark.parametrize(
    ("changes", "facts", "schedule", "steps"),
    [
        ({}, PartitionFacts(kind="each", parts=40), AllParts(40), 3),
        ({"parts": 1}, PartitionFacts(kind="single", parts=1), AllParts(1), 3),
        (
            {"parts": "4", "sampling": "poisson"},
            PartitionFacts(kind="random", parts=4, seed=9),
            PoissonParts(4, 0.25),
            12,
        ),
        (
            {"parts": 4, "sampling": "epoch"},
            PartitionFacts(kind="random", parts=4, seed=9),
            EpochParts(4),
            12,
        ),
        (
            {"unit": "person"},
            PartitionFacts(kind="each", parts=8, by="owner"),
            AllParts(8),
            3,
        ),
        (
            {"parts": "column:year"},
            PartitionFacts(kind="column", parts=5, column="year"),
            AllParts(5),
            3,
        ),
    ],
    ids=str,
)
def test_settings_become_a_plan(
    changes: dict[str, Any], facts: PartitionFacts, schedule: Any, steps: int
) -> None:
    made = plan({"year": np.arange(40) % 5}, **changes)
    assert made.partition == facts
    assert made.schedule == schedule
    assert made.steps == steps
    assert made.units == (8 if changes.get("unit") == "person" else 40)


def test_an_epsilon_is_kept() -> None:
    made = plan(epsilon=1.0, noise_multiplier=None)
    assert 0.99 < made.epsilon <= 1.0


def test_content_has_no_say_in_the_plan() -> None:
    privacy = PrivacySettings(epsilon=1.0, delta=1e-3, parts=4, sampling="poisson")
    other = random_graph(40, links=3, seed=5, unlabelled=0.99)
    bare = replace(other, labels=torch.full((40,), -1))
    plans = [
        make_plan(privacy, graph, epochs=2, seed=1, columns={})
        for graph in (GRAPH, other, bare)
    ]
    assert plans[0] == plans[1] == plans[2]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"epsilon": 1.0}, ConfigError),
        ({"noise_multiplier": None}, ConfigError),
        ({"parts": 0}, PrivacyContractError),
        ({"parts": -3}, PrivacyContractError),
        ({"parts": 41}, PrivacyContractError),
        ({"parts": "some"}, ConfigError),
        ({"parts": "\N{SUPERSCRIPT TWO}"}, ConfigError),
        ({"parts": "column:"}, PrivacyContractError),
        ({"unit": "person", "parts": 9}, PrivacyContractError),
        ({"unit": "graph"}, PrivacyContractError),
        ({"delta": 0.03}, PrivacyContractError),
    ],
    ids=str,
)
def test_settings_that_cannot_be_kept(changes: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        plan(**changes)
