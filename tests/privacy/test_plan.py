"""A plan binds what runs to what is claimed."""

import json
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
from privgcn.privacy.plan import PartitionFacts, PrivacyPlan, Schedule, plan_for
from privgcn.privacy.values import in_plain_values, read_strictly

TEN = {"partition": RANDOM, "schedule": Schedule("all", 10)}
TEN_OWNED = {**TEN, "partition": replace(RANDOM, by="owner")}
ONE = {"partition": SINGLE, "schedule": Schedule("all", 1)}
COLUMN = PartitionFacts(kind="column", groups=4, column="year")


# hazard 12
@pytest.mark.parametrize(
    ("unit", "removed", "replaced", "changes"),
    [
        ("document", 1, 2, {}),
        ("document", 2, 2, TEN),
        ("document", 2, 2, ONE),
        ("document", 2, 2, {"partition": OWNERS}),
        ("person", 1, 2, {"partition": OWNERS}),
        ("person", 2, 2, TEN_OWNED),
        ("part", 1, 2, TEN),
        ("graph", 1, 2, ONE),
    ],
)
def test_unit_relation_and_partition_decide_the_sensitivity(
    unit: str, removed: int, replaced: int, changes: dict[str, Any]
) -> None:
    for relation, sensitivity in (("remove", removed), ("replace", replaced)):
        made = plan(unit=unit, relation=relation, **changes)
        assert made.sensitivity == sensitivity
        cost = epsilon_of(noise_multiplier=8.0, steps=30, sensitivity=sensitivity)
        assert made.epsilon == cost == replace(made, clip_norm=7.0).epsilon


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
def test_poisson_samples_vary_in_size_and_need_a_source() -> None:
    """Rate and independence are tested where samples are drawn: tests/mechanism."""
    schedule, source = Schedule("poisson", 50, 0.1), RandomSource.seeded(3, "test")
    assert (schedule.rate, schedule.expected_groups, schedule.releases(9)) == (0.1, 5.0, 9)
    sizes = np.array([schedule.sample(step, source).sum() for step in range(4000)])
    # Five standard errors; a fixed-size sampler has variance 0 and fails here.
    assert abs(sizes.var() - 4.5) < 5 * 4.5 * math.sqrt(2 / 4000)
    assert (sizes == 0).any(), "empty samples must happen, and count as steps"
    with pytest.raises(ValueError, match="random source"):
        schedule.sample(0, None)


def test_the_schedule_decides_what_is_accounted() -> None:
    every, epoch, poisson = (
        plan(unit="part", partition=RANDOM, schedule=Schedule(name, 10, rate))
        for name, rate in (("all", None), ("epoch", None), ("poisson", 0.1))
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


def test_running_one_schedule_and_accounting_another_is_impossible() -> None:
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
    with pytest.raises(FrozenInstanceError):
        made.schedule = Schedule("epoch", 100)  # type: ignore[misc]


POISSON = Schedule("poisson", 100, 0.1)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"delta": 0.011}, "delta"),
        ({"unit": "person"}, "by 'owner'"),
        ({"unit": "graph"}, "one group"),
        ({"schedule": Schedule("all", 99)}, "as many groups"),
        ({**TEN, "partition": replace(EACH, groups=10)}, "as many groups"),
        ({**TEN, "units": 9}, "at most"),
        ({"accountant": "moments", "relation": "replace", "schedule": POISSON}, "pld or rdp"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_fields_that_together_break_the_guarantee_are_refused(
    changes: dict[str, Any], match: str
) -> None:
    with pytest.raises(PrivacyContractError, match=match):
        plan(**changes)


@pytest.mark.parametrize(
    ("made", "fields", "name"),
    [
        (plan, {"unit": "node"}, "unit"),
        (plan, {"accountant": "gdp"}, "accountant"),
        (plan, {"clip_norm": 1e-40}, "clip_norm"),
        (plan, {"units": 10**400}, "units"),
        (plan, {"steps": 10**10}, "steps"),
        (plan, {"partition": {"kind": "each", "groups": 100}}, "partition"),
        (plan, {"epsilon": 0.1}, "epsilon"),
        (Schedule, {"name": "all", "sampling_probability": 0.5}, "sampling_probability"),
        (Schedule, {"name": "poisson"}, "sampling_probability"),
        (Schedule, {"name": "poisson", "sampling_probability": 1.5}, "sampling_probability"),
        (Schedule, {"name": "shuffle"}, "sampling"),
        (PartitionFacts, {"kind": "random"}, "seed"),
        (PartitionFacts, {"kind": "single"}, "groups"),
        (PartitionFacts, {"kind": "column"}, "column"),
    ],
)
def test_bad_values_are_named(made: Any, fields: dict[str, Any], name: str) -> None:
    needed = {} if made is plan else {"groups": 3}
    with pytest.raises(ConfigError, match=f"'{name}'"):
        made(**{**needed, **fields})


def test_delta_is_weak_above_a_tenth_over_the_units() -> None:
    assert [plan(delta=delta).weak_delta for delta in (1e-3, 1.1e-3, 1e-2)] == [0, 1, 1]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"partition": RANDOM, "schedule": Schedule("poisson", 10, 0.3)},
        {"partition": RANDOM, "schedule": Schedule("epoch", 10), "accountant": "rdp"},
        {"unit": "person", "partition": OWNERS, "relation": "replace"},
        {"partition": COLUMN, "schedule": Schedule("all", 4)},
    ],
    ids=str,
)
def test_a_plan_survives_the_way_through_plain_values(changes: dict[str, Any]) -> None:
    made = plan(**changes)
    again = read_strictly(PrivacyPlan, json.dumps(in_plain_values(made)), "a plan")
    assert again == made
    assert again.epsilon == made.epsilon <= made.epsilon_without_amplification * (1 + 1e-8)


def planned(units: int = 100, **settings: Any) -> PrivacyPlan:
    privacy = PrivacySettings(**{"noise_multiplier": 8.0, **settings})
    columns = {"ward": np.array(["a", "b", "c", "a"] * 25), "year": np.arange(100)}
    return plan_for(privacy, units, epochs=30, seed=7, columns=columns)


# hazard 13
def test_settings_become_a_plan_with_the_least_noise_that_keeps_the_promise() -> None:
    assert planned(clip_norm=0.5) == plan()
    assert 0.9999 < planned(epsilon=1.0, noise_multiplier=None).epsilon <= 1.0
    assert planned(unit="person").partition == OWNERS
    for both in ((None, None), (1.0, 8.0)):
        with pytest.raises(ConfigError, match="either 'epsilon' or 'noise_multiplier'"):
            planned(epsilon=both[0], noise_multiplier=both[1])


def test_parts_become_a_partition() -> None:
    assert planned(parts=1).partition == SINGLE
    assert planned(parts=10).partition == replace(RANDOM, seed=7)
    ward = planned(parts="column:ward", unit="part")
    assert ward.partition == PartitionFacts(kind="column", groups=3, column="ward")
    epochs = planned(parts=10, sampling="epoch")
    assert (epochs.steps, epochs.training.count) == (300, 30)
    poisson = planned(parts=10, sampling="poisson", sampling_probability=0.2)
    assert (poisson.steps, poisson.training.sampling_probability) == (150, 0.2)
    # The paper's rate is the default.
    paper = planned(parts=10, sampling="poisson")
    assert (paper.steps, paper.training.sampling_probability) == (300, 0.1)
    for parts in (0, 101, "some"):
        with pytest.raises(ConfigError, match="'column:NAME' or a number between 1 and 100"):
            planned(parts=parts)
    with pytest.raises(PrivacyContractError, match="not in the corpus"):
        planned(parts="column:age")
