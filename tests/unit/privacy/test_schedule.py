"""A schedule samples what it accounts for."""

import math

import numpy as np
import pytest

from privgcn.errors import ConfigError
from privgcn.privacy.schedule import (
    AllParts,
    Composition,
    EpochParts,
    PoissonParts,
    make_schedule,
    steps_per_epoch,
)
from privgcn.randomness import RandomSource


def test_all_uses_every_part_and_pays_every_step() -> None:
    schedule = make_schedule("all", 7)
    assert schedule.sample(0, RandomSource.secret()) is None
    assert schedule.expected_parts == 7.0
    assert schedule.composition(30) == Composition(1.0, 30)


def test_epoch_uses_each_part_as_often_as_it_pays() -> None:
    schedule = make_schedule("epoch", 3)
    source = RandomSource.secret()
    for steps in range(1, 12):
        used = np.concatenate([schedule.sample(step, source) for step in range(steps)])
        counts = np.bincount(used, minlength=3)
        composition = schedule.composition(steps)
        assert composition == Composition(1.0, math.ceil(steps / 3))
        assert counts.max() == composition.count
    assert schedule.expected_parts == 1.0


def test_poisson_includes_parts_independently_at_the_accounted_rate() -> None:
    schedule = PoissonParts(50, 0.1)
    source = RandomSource.reproducible(3, "test")
    steps = 4000
    joined = np.zeros((steps, 50))
    for step in range(steps):
        joined[step, schedule.sample(step, source)] = 1.0
    rate = schedule.composition(steps).sampling_probability
    assert rate == 0.1
    sizes = joined.sum(axis=1)
    # Five standard errors; a fixed-size sampler has variance 0 and fails here.
    assert abs(joined.mean() - rate) < 5 * math.sqrt(rate * (1 - rate) / joined.size)
    expected_variance = 50 * rate * (1 - rate)
    assert abs(sizes.var() - expected_variance) < 5 * expected_variance * math.sqrt(2 / steps)
    correlation = np.corrcoef(joined.T) - np.eye(50)
    assert np.abs(correlation).max() < 5.5 / math.sqrt(steps)
    assert (sizes == 0).any(), "empty samples must happen, and count as steps"


def test_two_secret_sources_sample_differently() -> None:
    schedule = PoissonParts(1000, 0.5)
    first = schedule.sample(0, RandomSource.secret())
    second = schedule.sample(0, RandomSource.secret())
    assert not np.array_equal(first, second)


def test_poisson_takes_the_papers_rate_by_default() -> None:
    assert make_schedule("poisson", 10) == PoissonParts(10, 0.1)


@pytest.mark.parametrize(
    ("name", "parts", "probability"),
    [
        ("all", 3, 0.5),
        ("epoch", 3, 0.5),
        ("poisson", 1, None),
        ("poisson", 3, 0.0),
        ("poisson", 3, 1.5),
        ("poisson", 3, float("nan")),
        ("poisson", 3, True),
        ("shuffle", 3, None),
        ("all", 0, None),
        ("all", 2.0, None),
        ("all", True, None),
    ],
)
def test_bad_schedules_are_refused(name: str, parts: int, probability: float | None) -> None:
    with pytest.raises(ConfigError):
        make_schedule(name, parts, probability)


def test_no_step_is_free() -> None:
    for schedule in (AllParts(2), EpochParts(5), PoissonParts(2, 0.5)):
        assert schedule.composition(1).count == 1
        with pytest.raises(ConfigError):
            schedule.composition(0)


def test_steps_per_epoch() -> None:
    assert steps_per_epoch(AllParts(10)) == 1
    assert steps_per_epoch(EpochParts(10)) == 10
    assert steps_per_epoch(PoissonParts(10, 0.1)) == 10
    assert steps_per_epoch(PoissonParts(10, 1.0)) == 1
