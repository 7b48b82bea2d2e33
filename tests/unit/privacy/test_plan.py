"""A plan binds what runs to what is claimed."""

from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.privacy.accounting.epsilon import epsilon_of
from privgcn.privacy.accounting.events import GaussianQuery
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import AllParts, Composition, EpochParts, PoissonParts

EACH = PartitionFacts(kind="each", parts=100)
RANDOM = PartitionFacts(kind="random", parts=10, seed=1)
OWNERS = PartitionFacts(kind="each", parts=100, by="owner")
SINGLE = PartitionFacts(kind="single", parts=1)


def plan(**changes: Any) -> PrivacyPlan:
    fields: dict[str, Any] = {
        "unit": "document",
        "relation": "remove",
        "partition": EACH,
        "schedule": AllParts(100),
        "clip_norm": 0.5,
        "noise_multiplier": 8.0,
        "steps": 30,
        "delta": 1e-5,
        "units": 100,
    }
    return PrivacyPlan(**{**fields, **changes})


def test_epsilon_follows_from_the_fields() -> None:
    assert plan().epsilon == epsilon_of(noise_multiplier=8.0, steps=30)
    assert plan().sensitivity == 1
    assert plan().noise_std == 4.0
    assert plan(clip_norm=7.0).epsilon == plan().epsilon


@pytest.mark.parametrize(
    ("changes", "sensitivity"),
    [
        ({}, 1),
        ({"relation": "replace"}, 2),
        ({"partition": RANDOM, "schedule": AllParts(10)}, 2),
        ({"unit": "person", "partition": OWNERS}, 1),
        ({"unit": "person", "partition": OWNERS, "relation": "replace"}, 2),
        ({"unit": "document", "partition": OWNERS}, 2),
        (
            {
                "unit": "person",
                "partition": replace(RANDOM, by="owner"),
                "schedule": AllParts(10),
            },
            2,
        ),
        ({"unit": "part", "partition": RANDOM, "schedule": AllParts(10)}, 1),
        ({"unit": "graph", "partition": SINGLE, "schedule": AllParts(1)}, 1),
        (
            {
                "unit": "graph",
                "partition": SINGLE,
                "schedule": AllParts(1),
                "relation": "replace",
            },
            2,
        ),
        ({"partition": SINGLE, "schedule": AllParts(1)}, 2),
    ],
)
def test_unit_relation_and_partition_decide_the_sensitivity(
    changes: dict[str, Any], sensitivity: int
) -> None:
    made = plan(**changes)
    assert made.sensitivity == sensitivity
    assert made.epsilon == epsilon_of(noise_multiplier=8.0, steps=30, sensitivity=sensitivity)


def test_the_schedule_decides_what_is_accounted() -> None:
    parts = {"partition": RANDOM, "unit": "part"}
    every = plan(schedule=AllParts(10), **parts)
    epoch = plan(schedule=EpochParts(10), **parts)
    poisson = plan(schedule=PoissonParts(10, 0.1), **parts)
    assert epoch.epsilon == epsilon_of(noise_multiplier=8.0, steps=3)
    assert plan(schedule=EpochParts(10), steps=31, **parts).epsilon == epsilon_of(
        noise_multiplier=8.0, steps=4
    )
    assert poisson.epsilon == epsilon_of(
        noise_multiplier=8.0, steps=30, sampling_probability=0.1
    )
    assert poisson.epsilon_without_amplification == every.epsilon
    assert epoch.epsilon_without_amplification == epoch.epsilon
    # What the released code did: visit every part once per epoch, account Poisson.
    assert poisson.epsilon < epoch.epsilon


def test_a_home_made_schedule_is_refused() -> None:
    class Cheap(PoissonParts):
        def composition(self, steps: int) -> Composition:
            return Composition(1e-9, 1)

    class Pretender:
        name = "all"
        parts = 100
        expected_parts = 100.0

        def sample(self, step: int, source: object) -> None:
            return None

        def composition(self, steps: int) -> Composition:
            return Composition(1e-9, 1)

    for schedule in (Cheap(100, 0.5), Pretender(), None, "all"):
        with pytest.raises(PrivacyContractError, match="schedule"):
            plan(schedule=schedule)


def test_running_one_schedule_and_accounting_another_is_impossible() -> None:
    with pytest.raises(PrivacyContractError, match="as many parts"):
        plan(schedule=AllParts(99))
    with pytest.raises(FrozenInstanceError):
        plan().schedule = EpochParts(100)  # type: ignore[misc]
    with pytest.raises(ConfigError, match="'epsilon' of PrivacyPlan is unknown"):
        plan(epsilon=0.1)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"delta": 0.011}, "delta"),
        ({"unit": "person"}, "by 'owner'"),
        ({"unit": "graph"}, "one part"),
        ({"partition": replace(EACH, parts=10), "schedule": AllParts(10)}, "as many parts"),
        ({"partition": replace(RANDOM, parts=101), "schedule": AllParts(101)}, "at most"),
        (
            {
                "accountant": "moments",
                "relation": "replace",
                "schedule": PoissonParts(100, 0.1),
            },
            "pld or rdp",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_broken_contracts(changes: dict[str, Any], match: str) -> None:
    with pytest.raises(PrivacyContractError, match=match):
        plan(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"unit": "node"},
        {"relation": "add"},
        {"accountant": "gdp"},
        {"clip_norm": 0.0},
        {"clip_norm": 1e-40},
        {"steps": 10**10},
        {"clip_norm": float("inf")},
        {"noise_multiplier": 0.0},
        {"noise_multiplier": float("nan")},
        {"noise_multiplier": "8"},
        {"noise_multiplier": True},
        {"noise_multiplier": np.True_},
        {"clip_norm": "1"},
        {"units": 10**400},
        {"units": "100"},
        {"steps": True},
        {"delta": "1e-5"},
        {"steps": 0},
        {"steps": 2.5},
        {"units": 0},
        {"delta": 0.0},
        {"partition": {"kind": "each", "parts": 100}},
        {"side_queries": ("counts",)},
    ],
    ids=str,
)
def test_bad_values(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        plan(**changes)


def test_an_error_names_rule_value_and_remedy() -> None:
    with pytest.raises(ConfigError) as caught:
        plan(clip_norm=0.0)
    assert str(caught.value) == (
        "The 'clip_norm' of PrivacyPlan must be at least 0.000001. Got 0.0. It bounds the norm "
        "of one part's gradient; outside this range float32 would round noise and gradients."
    )
    with pytest.raises(ConfigError, match=r"The 'steps' of PrivacyPlan must be a number\. Got"):
        plan(steps="30")
    with pytest.raises(ConfigError, match="The 'relation' of PrivacyPlan must be given"):
        PrivacyPlan(unit="document")  # type: ignore[call-arg]


def test_numbers_of_numpy_become_plain_ones() -> None:
    made = plan(steps=np.int64(30), clip_norm=np.float32(0.5), units=np.int32(100))
    assert made == plan()
    assert [type(made.steps), type(made.clip_norm)] == [int, float]


def test_a_copy_is_checked_like_the_first() -> None:
    with pytest.raises(PrivacyContractError, match="as many parts"):
        replace(plan(), units=99)
    with pytest.raises(ConfigError):
        replace(plan(), noise_multiplier=0.0)


def test_no_default_fills_what_a_file_leaves_out() -> None:
    record = plan().to_dict()
    for name in ("selection", "side_queries", "accountant"):
        with pytest.raises(ConfigError, match="must be given"):
            PrivacyPlan.from_dict({key: record[key] for key in record if key != name})
    partition = {key: record["partition"][key] for key in ("kind", "parts")}
    with pytest.raises(ConfigError, match="must be given"):
        PrivacyPlan.from_dict({**record, "partition": partition})


def test_delta_is_weak_above_a_tenth_over_the_units() -> None:
    assert not plan(delta=1e-3).weak_delta
    assert plan(delta=1.1e-3).weak_delta
    assert plan(delta=1e-2).weak_delta


def test_side_queries_are_paid_for() -> None:
    query = GaussianQuery("class counts", 20.0, 1)
    assert plan(side_queries=(query,)).epsilon > plan().epsilon
    moments = plan(side_queries=[query], accountant="moments")
    assert moments.side_queries == (query,)
    assert moments.epsilon > plan(accountant="moments").epsilon
    for bad in ({"name": ""}, {"noise_multiplier": 0.0}, {"sensitivity": 3}):
        with pytest.raises(ConfigError):
            replace(query, **bad)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"partition": RANDOM, "schedule": PoissonParts(10, 0.3)},
        {"partition": RANDOM, "schedule": EpochParts(10), "accountant": "rdp"},
        {
            "partition": PartitionFacts(kind="column", parts=4, column="year"),
            "schedule": AllParts(4),
        },
        {"side_queries": (GaussianQuery("class counts", 20.0, 2),)},
    ],
    ids=str,
)
def test_a_plan_survives_the_way_through_plain_values(changes: dict[str, Any]) -> None:
    made = plan(**changes)
    again = PrivacyPlan.from_dict(made.to_dict())
    assert again == made
    assert again.epsilon == made.epsilon


def test_reading_a_plan_is_strict() -> None:
    record = plan().to_dict()
    for broken in (
        {**record, "epsilon": 0.1},
        {key: value for key, value in record.items() if key != "accountant"},
        {**record, "schedule": {"name": "all"}},
        {**record, "schedule": {"name": "all", "parts": 100, "sampling_probability": 0.1}},
        {**record, "schedule": {"name": "poisson", "parts": 100}},
        {**record, "schedule": "all"},
        {**record, "partition": {**record["partition"], "extra": 1}},
        {**record, "side_queries": [{"name": "x"}]},
        {**record, "side_queries": 3},
        [],
    ):
        with pytest.raises((ConfigError, PrivacyContractError)):
            PrivacyPlan.from_dict(broken)


def test_for_epsilon_takes_the_least_noise_that_keeps_the_promise() -> None:
    fields = {name: getattr(plan(), name) for name in PrivacyPlan.__dataclass_fields__}
    del fields["noise_multiplier"]
    made = PrivacyPlan.for_epsilon(1.0, **fields)
    assert 0.9999 < made.epsilon <= 1.0
    query = GaussianQuery("class counts", 10.0, 1)
    careful = PrivacyPlan.for_epsilon(1.0, **{**fields, "side_queries": (query,)})
    assert careful.epsilon <= 1.0
    assert careful.noise_multiplier > made.noise_multiplier
    with pytest.raises(ConfigError, match="left out"):
        PrivacyPlan.for_epsilon(1.0, noise_multiplier=1.0, **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "random", "parts": 3},
        {"kind": "each", "parts": 3, "seed": 1},
        {"kind": "single", "parts": 2},
        {"kind": "column", "parts": 2},
        {"kind": "each", "parts": 2, "column": "year"},
        {"kind": "metis", "parts": 2},
        {"kind": "each", "parts": 2, "by": "author"},
        {"kind": "random", "parts": 2, "seed": -1},
        {"kind": "random", "parts": 0, "seed": 1},
    ],
    ids=str,
)
def test_partition_facts_are_checked(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        PartitionFacts(**fields)
