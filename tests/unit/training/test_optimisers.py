"""Optimisers act on what they are fed, and on nothing else."""

from typing import Any

import pytest
import torch

from privgcn.config import TrainingSettings
from privgcn.training.optimisers import Optimiser


def run(steps: int, **changes: Any) -> list[torch.Tensor]:
    settings = TrainingSettings(**{"learning_rate": 0.1, **changes})
    optimiser = Optimiser([torch.ones(3, 1, 2)], settings)
    for step in range(steps):
        optimiser.step([torch.full((3, 1, 2), float(step + 1))])
    return optimiser.result()


def test_sgd_goes_along_what_it_is_fed() -> None:
    assert run(2, optimizer="sgd")[0][0, 0, 0] == pytest.approx(1 - 0.1 - 0.2)


def test_adam_is_pytorchs() -> None:
    leaf = torch.nn.Parameter(torch.ones(3, 1, 2))
    adam = torch.optim.Adam([leaf], lr=0.1)
    for step in range(3):
        leaf.grad = torch.full((3, 1, 2), float(step + 1))
        adam.step()
    assert torch.allclose(run(3, optimizer="adam")[0], leaf.detach())


def test_large_steps_give_the_mean_of_the_last_two_iterates() -> None:
    last = [run(steps, optimizer="sgd")[0][0, 0, 0] for steps in (2, 3)]
    mean = run(3, optimizer="sgd", reach=1.5)[0][0, 0, 0]
    assert mean == pytest.approx(float(sum(last) / 2))


@pytest.mark.parametrize(
    "changes",
    [{"optimizer": "adam"}, {"optimizer": "sgd"}, {"optimizer": "sgd", "reach": 1.5}],
    ids=str,
)
def test_state_there_and_back(changes: dict[str, Any]) -> None:
    settings = TrainingSettings(**{"learning_rate": 0.1, **changes})
    first = Optimiser([torch.ones(2, 1, 2)], settings)
    for _ in range(3):
        first.step([torch.randn(2, 1, 2)])
    second = Optimiser([torch.zeros(2, 1, 2)], settings)
    second.restore(first.state())
    assert second.steps == 3
    gradient = torch.randn(2, 1, 2)
    for optimiser in (first, second):
        optimiser.step([gradient.clone()])
    assert torch.equal(first.result()[0], second.result()[0])
    assert torch.equal(first.parameters[0], second.parameters[0])


def test_adam_moves_float64_weights() -> None:
    """A user's module may have them, and what is released is float32."""
    settings = TrainingSettings(learning_rate=0.1, optimizer="adam")
    optimiser = Optimiser([torch.ones(2, 1, 3, dtype=torch.float64)], settings)
    optimiser.step([torch.ones(2, 1, 3)])
    assert optimiser.result()[0].dtype == torch.float64
    assert torch.allclose(optimiser.result()[0], torch.tensor(0.9, dtype=torch.float64))
