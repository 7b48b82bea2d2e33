"""The trainer takes a plan and runs exactly what it accounts for."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from brute_force import random_graph
from privgcn.config import TrainingSettings
from privgcn.errors import PrivacyContractError
from privgcn.graph import cut, random_parts
from privgcn.models import make_model
from privgcn.privacy.mechanism.part_gradients import StackGradients
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import AllParts, EpochParts, PoissonParts
from privgcn.randomness import RandomSource
from privgcn.training.private import PrivateTrainer

MODEL = make_model("linear", 6, 4, hops=1)
PLAN = PrivacyPlan(
    unit="part",
    relation="remove",
    partition=PartitionFacts(kind="random", parts=5, seed=0),
    schedule=PoissonParts(5, 0.4),
    clip_norm=0.5,
    noise_multiplier=1.0,
    steps=6,
    delta=1e-3,
    units=30,
)


def trainer(
    plan: Any = PLAN, *, own: PrivacyPlan | None = None, parts: int = 5
) -> PrivateTrainer:
    pieces = cut(random_graph(30, 6), random_parts(30, parts, 0), parts)
    gradients = StackGradients(MODEL, pieces, own or PLAN, None)
    settings = TrainingSettings(optimizer="sgd", learning_rate=0.1)
    source = RandomSource.reproducible(0, "test")
    return PrivateTrainer(MODEL.initial([0, 1]), gradients, plan, settings, source)


def test_exactly_the_steps_of_the_plan() -> None:
    seen: list[tuple[int, int]] = []
    running = trainer()
    running.run(lambda done, total: seen.append((done, total)))
    assert seen == [(step, 6) for step in range(1, 7)]
    with pytest.raises(PrivacyContractError, match="all of them were taken"):
        running.step()
    assert seen == [(step, 6) for step in range(1, 7)]


def test_nothing_looser_than_a_plan() -> None:
    class Cheap(PrivacyPlan):
        @property
        def noise_std(self) -> float:
            return 0.0

    fields = {name: getattr(PLAN, name) for name in PrivacyPlan.__dataclass_fields__}
    for plan in (PLAN.to_dict(), None, Cheap(**fields)):
        with pytest.raises(PrivacyContractError, match="nothing looser"):
            trainer(plan)


def test_gradients_for_another_plan_or_another_cut_are_refused() -> None:
    others = [
        {"own": replace(PLAN, clip_norm=50.0)},
        {"own": replace(PLAN, noise_multiplier=0.1)},
        {"parts": 1},
        {"parts": 6},
    ]
    for changes in others:
        with pytest.raises(PrivacyContractError, match="made for its own plan"):
            trainer(**changes)


@pytest.mark.parametrize("schedule", [AllParts(5), EpochParts(5), PoissonParts(5, 0.4)])
def test_what_runs_is_what_the_plan_accounts(schedule: Any) -> None:
    plan = replace(PLAN, schedule=schedule)
    running = trainer(plan, own=plan)
    asked: list[Any] = []
    original = running.gradients.clipped_sum

    def spy(parameters: Any, samples: Any) -> list[torch.Tensor]:
        asked.append(samples)
        return original(parameters, samples)

    running.gradients.clipped_sum = spy  # type: ignore[method-assign]
    running.run()
    composition = schedule.composition(PLAN.steps)
    if schedule.name == "all":
        assert asked == [None] * composition.count
    elif schedule.name == "epoch":
        uses = [step[0].tolist().count(part) for step in asked for part in range(5)]
        by_part = torch.tensor(uses).view(6, 5).sum(0)
        assert int(by_part.max()) == composition.count == 2
    else:
        assert len(asked) == composition.count
        sizes = {len(parts) for step in asked for parts in step}
        assert len(sizes) > 1, "a Poisson sample has no fixed size"
