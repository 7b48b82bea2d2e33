from __future__ import annotations

import pytest
import torch

from privgcn.config import make_settings
from privgcn.errors import PrivacyContractError
from privgcn.privacy.mechanism.together import PlansTogether
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import AllParts
from privgcn.training.planning import signal_over_noise, with_rate


def plan(units: int, noise: float, steps: int = 30) -> PrivacyPlan:
    return PrivacyPlan(
        unit="document",
        relation="remove",
        partition=PartitionFacts(kind="each", parts=units),
        schedule=AllParts(units),
        clip_norm=1.0,
        noise_multiplier=noise,
        steps=steps,
        delta=1e-6,
        units=units,
    )


def rate(units: int, noise: float) -> float:
    training = make_settings("auto", epsilon=1.0).training
    found = with_rate(training, plan(units, noise)).learning_rate
    assert found is not None
    return found


def test_the_step_follows_the_noise_and_the_documents() -> None:
    assert rate(1000, 20.0) == pytest.approx(2 * rate(1000, 40.0))
    assert rate(2000, 40.0) == pytest.approx(2 * rate(1000, 40.0))


def test_the_noise_of_all_steps_adds_up_to_the_reach() -> None:
    training = make_settings("auto", epsilon=1.0).training
    carried = rate(1000, 20.0) * 20.0 / 1000 * 30**0.5
    assert carried == pytest.approx(training.reach)


def test_a_step_is_never_longer_than_the_bound() -> None:
    assert rate(1_000_000, 1.0) == 2000.0


def test_signal_grows_with_documents_and_falls_with_features() -> None:
    assert signal_over_noise(plan(100, 50.0), 1000) < 1.0
    few, many = (
        signal_over_noise(plan(5000, 5.0), 100),
        signal_over_noise(plan(10_000, 5.0), 100),
    )
    assert many == pytest.approx(2 * few)
    assert signal_over_noise(plan(5000, 5.0), 400) == pytest.approx(few / 2)


def test_settings_with_a_rate_of_their_own_are_left_alone() -> None:
    training = make_settings("plain").training
    assert with_rate(training, plan(100, 5.0)) is training


def test_plans_in_one_pass_have_no_reach() -> None:
    levels = (plan(100, 5.0), plan(100, 9.0))
    together = PlansTogether(levels, torch.device("cpu"))
    with pytest.raises(PrivacyContractError, match="a reach gives each its own"):
        with_rate(make_settings("auto", epsilon=1.0).training, together)
    training = make_settings("plain").training
    assert with_rate(training, together) is training
