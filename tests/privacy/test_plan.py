"""A plan binds what runs to what is claimed."""

import math
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

from privacy.plans import EACH, OWNERS, RANDOM, SINGLE, plan
from privgcn.config import PrivacySettings
from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.mechanism import RandomSource
from privgcn.privacy.accounting import GaussianEvent, epsilon_of, epsilon_of_events
from privgcn.privacy.plan import (
    PartitionFacts,
    PrivacyPlan,
    Schedule,
    plan_for,
)

TEN = {"partition": RANDOM, "schedule": Schedule("all", 10)}
ONE = {"partition": SINGLE, "schedule": Schedule("all", 1)}


# hazard 12
@pytest.mark.parametrize(
    ("changes", "sensitivity"),
    [
        ({}, 1),
        ({"relation": "replace"}, 2),
        (TEN, 2),
        ({"unit": "person", "partition": OWNERS}, 1),
        ({"unit": "person", "partition": OWNERS, "relation": "replace"}, 2),
        ({"unit": "document", "partition": OWNERS}, 2),
        ({**TEN, "unit": "person", "partition": replace(RANDOM, by="owner")}, 2),
        ({"unit": "document", "relation": "replace", **TEN}, 2),
        (
            {
                "unit": "person",
                "partition": replace(RANDOM, by="owner"),
                "relation": "replace",
                "schedule": Schedule("all", 10),
            },
            2,
        ),
        ({"unit": "part", **TEN}, 1),
        ({"unit": "part", **TEN, "relation": "replace"}, 2),
        ({"unit": "graph", **ONE}, 1),
        ({"unit": "graph", **ONE, "relation": "replace"}, 2),
        (ONE, 2),
    ],
)
def test_unit_relation_and_partition_decide_the_sensitivity(
    changes: dict[str, Any], sensitivity: int
) -> None:
    made = plan(**changes)
    assert made.sensitivity == sensitivity
    assert made.epsilon == epsilon_of(noise_multiplier=8.0, steps=30, sensitivity=sensitivity)


def test_epsilon_follows_from_the_fields() -> None:
    assert plan().epsilon == epsilon_of(noise_multiplier=8.0, steps=30)
    assert plan().noise_std == 4.0
    assert plan(clip_norm=7.0).epsilon == plan().epsilon


# --- schedules ------------------------------------------------------------------------------


# hazard 11
@pytest.mark.parametrize(("name", "expected"), [("all", 7.0), ("epoch", 1.0)])
def test_each_group_is_used_as_often_as_it_pays(name: Any, expected: float) -> None:
    schedule = Schedule(name, 7)
    assert (schedule.expected_groups, schedule.rate) == (expected, 1.0)
    for steps in range(1, 23):
        used = sum(schedule.sample(step, None).astype(int) for step in range(steps))
        paid = schedule.releases(steps)
        assert used.max() == paid == (steps if name == "all" else math.ceil(steps / 7))


# hazard 11
def test_poisson_includes_groups_independently_at_the_accounted_rate() -> None:
    schedule = Schedule("poisson", 50, 0.1)
    source = RandomSource.seeded(3, "test")
    steps = 4000
    joined = np.array([schedule.sample(step, source) for step in range(steps)], float)
    rate = schedule.rate
    assert (rate, schedule.expected_groups, schedule.releases(steps)) == (0.1, 5.0, steps)
    sizes = joined.sum(axis=1)
    # Five standard errors; a fixed-size sampler has variance 0 and fails here.
    assert abs(joined.mean() - rate) < 5 * math.sqrt(rate * (1 - rate) / joined.size)
    expected_variance = 50 * rate * (1 - rate)
    assert abs(sizes.var() - expected_variance) < 5 * expected_variance * math.sqrt(2 / steps)
    correlation = np.corrcoef(joined.T) - np.eye(50)
    assert np.abs(correlation).max() < 5.5 / math.sqrt(steps)
    assert (sizes == 0).any(), "empty samples must happen, and count as steps"
    with pytest.raises(ValueError, match="random source"):
        schedule.sample(0, None)
    # The paper's rate is the default.
    assert Schedule("poisson", 10) == Schedule("poisson", 10, 0.1)


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        (("all", 3, 0.5), "left out"),
        (("epoch", 3, 0.5), "left out"),
        (("poisson", 1), "one group"),
        (("poisson", 3, 1.5), "sampling_probability"),
        (("poisson", 0), "groups"),
        (("shuffle", 3), "sampling"),
        (("all", True), "groups"),
    ],
)
def test_bad_schedules_are_refused(fields: tuple[Any, ...], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        Schedule(*fields)


def test_the_schedule_decides_what_is_accounted() -> None:
    groups: dict[str, Any] = {"partition": RANDOM, "unit": "part"}
    every, epoch, poisson = (
        plan(schedule=Schedule(name, 10), **groups) for name in ("all", "epoch", "poisson")
    )
    assert every.training == GaussianEvent(8.0, 30)
    assert epoch.training == GaussianEvent(8.0, 3)
    assert poisson.training == GaussianEvent(8.0, 30, 0.1)
    assert replace(epoch, steps=31).training.count == 4
    for made in (every, epoch, poisson):
        assert made.epsilon == epsilon_of_events([made.training], delta=1e-5)
    assert poisson.epsilon_without_amplification == every.epsilon
    assert epoch.epsilon_without_amplification == epoch.epsilon
    # What the released code did: visit every group once per epoch, account Poisson.
    assert poisson.epsilon < epoch.epsilon


def test_a_home_made_schedule_is_never_accounted() -> None:
    class Cheap(Schedule):
        rate = 1e-9

        def releases(self, steps: int) -> int:
            return 1

    class Pretender:
        name, groups, rate, expected_groups = "all", 100, 1e-9, 100.0

    made = plan(schedule=Cheap("poisson", 100, 0.5))
    assert type(made.schedule) is Schedule
    assert made.training == GaussianEvent(8.0, 30, 0.5)
    for schedule in (Pretender(), None, "all"):
        with pytest.raises(ConfigError, match="schedule"):
            plan(schedule=schedule)


def test_running_one_schedule_and_accounting_another_is_impossible() -> None:
    with pytest.raises(PrivacyContractError, match="as many groups"):
        plan(schedule=Schedule("all", 99))
    with pytest.raises(FrozenInstanceError):
        plan().schedule = Schedule("epoch", 100)  # type: ignore[misc]
    with pytest.raises(ConfigError, match="'epsilon' of a privacy plan is unknown"):
        plan(epsilon=0.1)


# --- the plan -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"delta": 0.011}, "delta"),
        ({"unit": "person"}, "by 'owner'"),
        ({"unit": "graph"}, "one group"),
        ({**TEN, "partition": replace(EACH, groups=10)}, "as many groups"),
        (
            {"partition": replace(RANDOM, groups=101), "schedule": Schedule("all", 101)},
            "at most",
        ),
        (
            {
                "accountant": "moments",
                "relation": "replace",
                "schedule": Schedule("poisson", 100, 0.1),
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
        {"clip_norm": 1e-40},
        {"noise_multiplier": 0.0},
        {"noise_multiplier": float("nan")},
        {"noise_multiplier": "8"},
        {"noise_multiplier": np.True_},
        {"units": 10**400},
        {"steps": 10**10},
        {"steps": 2.5},
        {"units": 0},
        {"delta": 0.0},
        {"partition": {"kind": "each", "groups": 100}},
        {"side_queries": ()},
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
        "The 'clip_norm' of a privacy plan must be at least 0.000001. Got 0.0. It bounds the "
        "norm of one group's vector; outside this range rounding could not be bounded."
    )
    with pytest.raises(ConfigError, match=r"The 'steps' of a privacy plan must be a number\."):
        plan(steps="30")
    with pytest.raises(ConfigError, match="The 'relation' of a privacy plan must be given"):
        PrivacyPlan(unit="document")  # type: ignore[call-arg]


def test_delta_is_weak_above_a_tenth_over_the_units() -> None:
    assert not plan(delta=1e-3).weak_delta
    assert plan(delta=1.1e-3).weak_delta
    assert plan(delta=1e-2).weak_delta


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"partition": RANDOM, "schedule": Schedule("poisson", 10, 0.3)},
        {"partition": RANDOM, "schedule": Schedule("epoch", 10), "accountant": "rdp"},
        {"unit": "person", "partition": OWNERS, "relation": "replace"},
        {
            "partition": PartitionFacts(kind="column", groups=4, column="year"),
            "schedule": Schedule("all", 4),
        },
    ],
    ids=str,
)
def test_a_plan_survives_the_way_through_plain_values(changes: dict[str, Any]) -> None:
    made = plan(**changes)
    again = PrivacyPlan.from_dict(made.to_dict())
    assert again == made
    assert again.epsilon == made.epsilon
    assert made.epsilon <= made.epsilon_without_amplification * (1 + 1e-8)


def test_reading_a_plan_is_strict_and_no_default_fills_a_gap() -> None:
    record = plan().to_dict()
    partition = {key: record["partition"][key] for key in ("kind", "groups")}
    for broken in (
        {**record, "epsilon": 0.1},
        *({k: v for k, v in record.items() if k != name} for name in record),
        {**record, "schedule": {"name": "all"}},
        {**record, "schedule": {"name": "all", "groups": 100}},
        {**record, "schedule": {**record["schedule"], "sampling_probability": 0.1}},
        {**record, "schedule": {**record["schedule"], "name": "poisson"}},
        {**record, "schedule": "all"},
        {**record, "partition": {**record["partition"], "extra": 1}},
        {**record, "partition": partition},
        [],
    ):
        with pytest.raises((ConfigError, PrivacyContractError)):
            PrivacyPlan.from_dict(broken)


# hazard 13
def test_for_epsilon_takes_the_least_noise_that_keeps_the_promise() -> None:
    fields = {name: getattr(plan(), name) for name in PrivacyPlan.__dataclass_fields__}
    del fields["noise_multiplier"]
    made = PrivacyPlan.for_epsilon(1.0, **fields)
    assert 0.9999 < made.epsilon <= 1.0


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "random", "groups": 3},
        {"kind": "each", "groups": 3, "seed": 1},
        {"kind": "single", "groups": 2},
        {"kind": "column", "groups": 2},
        {"kind": "each", "groups": 2, "by": "author"},
        {"kind": "random", "groups": 0, "seed": 1},
    ],
    ids=str,
)
def test_partition_facts_are_checked(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        PartitionFacts(**fields)


# --- from settings --------------------------------------------------------------------------


def planned(units: int = 100, **settings: Any) -> PrivacyPlan:
    given = {"noise_multiplier": 8.0, **settings}
    privacy = PrivacySettings(**given)
    columns = {"ward": np.array(["a", "b", "c", "a"] * 25), "year": np.arange(100)}
    return plan_for(privacy, units, epochs=30, seed=7, columns=columns)


def test_settings_become_a_plan() -> None:
    assert planned(clip_norm=0.5) == plan()
    assert planned(epsilon=1.0, noise_multiplier=None).epsilon <= 1.0
    person = planned(unit="person")
    assert person.partition == OWNERS
    assert person.sensitivity == 1


def test_parts_become_a_partition() -> None:
    assert planned(parts=1).partition == SINGLE
    assert planned(parts=10).partition == replace(RANDOM, seed=7)
    ward = planned(parts="column:ward", unit="part")
    assert ward.partition == PartitionFacts(kind="column", groups=3, column="ward")
    epochs = planned(parts=10, sampling="epoch")
    assert (epochs.steps, epochs.training.count) == (300, 30)
    poisson = planned(parts=10, sampling="poisson", sampling_probability=0.2)
    assert (poisson.steps, poisson.training.sampling_probability) == (150, 0.2)
    for parts, error in ((0, PrivacyContractError), (101, PrivacyContractError)):
        with pytest.raises(error, match="between 1 and 100"):
            planned(parts=parts)
    with pytest.raises(ConfigError, match="'column:NAME'"):
        planned(parts="some")
    with pytest.raises(PrivacyContractError, match="not in the corpus"):
        planned(parts="column:age")


@pytest.mark.parametrize("both", [(None, None), (1.0, 8.0)])
def test_either_epsilon_or_noise_is_given(both: tuple[Any, Any]) -> None:
    with pytest.raises(ConfigError, match="either 'epsilon' or 'noise_multiplier'"):
        planned(epsilon=both[0], noise_multiplier=both[1])
