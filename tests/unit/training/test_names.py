"""Class names as a direction of the weights: used where they say something, else harmless."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from brute_force import random_graph
from privgcn.config import TrainingSettings, make_settings
from privgcn.graph import DenseRows, TextGraph
from privgcn.prediction.inference import released_of, scores_in_mode
from privgcn.randomness import RandomSource
from privgcn.training.fit import fit
from privgcn.training.names import along_names, name_directions, pulled, unpulled
from privgcn.training.optimisers import Optimiser

CLASSES, WIDTH = 8, 60
SETTINGS = TrainingSettings(optimizer="sgd", learning_rate=50.0, reach=0.8)


def words() -> Tensor:
    """A vector for the name of each class."""
    random = torch.Generator().manual_seed(5)
    return torch.nn.functional.normalize(torch.randn(CLASSES, WIDTH, generator=random))


def about_names(documents: int, seed: int) -> TextGraph:
    """Dense rows that lie near the name of their class, a little."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (documents,), generator=random)
    noise = torch.randn(documents, WIDTH, generator=random) / WIDTH**0.5
    rows = torch.nn.functional.normalize(0.35 * words()[labels] + noise)
    graph = random_graph(documents, 1, CLASSES, links=0, sparse=False)
    return replace(graph, features=DenseRows(rows), labels=labels)


def score(vectors: Tensor | None, mode: str = "alone") -> float:
    chosen = make_settings("auto", epsilon=1.0, changes={"privacy.reproducible": True})
    fitted = fit(about_names(400, 0), chosen, seeds=[0, 1, 2], class_vectors=vectors)
    new = about_names(800, 1)
    found = scores_in_mode(fitted, new, torch.arange(800), mode).argmax(-1)  # type: ignore[arg-type]
    return float((found == new.labels[:, None]).double().mean())


@pytest.mark.parametrize("mode", ["alone", "own-graph"])
def test_names_that_say_something_help(mode: str) -> None:
    assert score(words(), mode) > score(None, mode) + 0.05


def test_names_of_other_classes_do_no_harm() -> None:
    random = torch.Generator().manual_seed(6)
    codes = torch.randn(CLASSES, WIDTH, generator=random)
    assert score(codes) > score(None) - 0.02


def test_names_cost_no_release(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    original = RandomSource.normal
    monkeypatch.setattr(
        RandomSource, "normal", lambda self, shapes: drawn.append(1) or original(self, shapes)
    )
    graph, chosen = about_names(60, 0), make_settings("auto", epsilon=1.0)
    plans = [fit(graph, chosen, class_vectors=names).plan for names in (None, words())]
    assert plans[0] == plans[1]
    assert len(drawn) == 2 * 30


def test_names_with_one_vector_are_no_direction() -> None:
    assert name_directions(torch.ones(3, 4), SETTINGS) is None


def test_a_step_along_names_is_undone() -> None:
    names = name_directions(words(), SETTINGS)
    assert names is not None
    gradient = torch.randn(WIDTH, 2, CLASSES)
    moved = pulled(gradient, names)
    assert float((moved - gradient).norm()) > 0.1
    torch.testing.assert_close(unpulled(moved, names), gradient, rtol=1e-4, atol=1e-4)
    both = gradient.clone()
    both[:, 1] = 0.0
    assert not along_names(both, names)[:, 1].any(), "each replica by itself"


def test_across_the_names_a_step_is_the_usual_one() -> None:
    names = name_directions(words(), SETTINGS)
    assert names is not None
    gradient = torch.randn(WIDTH, 1, CLASSES)
    across = gradient - along_names(gradient, names) / float(names.square().sum())
    ends = []
    for own in (None, names):
        optimiser = Optimiser([torch.zeros(WIDTH, 1, CLASSES)], SETTINGS, own)
        optimiser.step([across])
        ends.append(optimiser.parameters[0].detach())
    torch.testing.assert_close(*ends, rtol=1e-3, atol=1e-3)


def test_matching_takes_the_names_out_of_the_released_sum() -> None:
    chosen = make_settings("auto", epsilon=1.0, changes={"privacy.reproducible": True})
    sums: list[Tensor] = []
    step = Optimiser.step
    with pytest.MonkeyPatch.context() as patch:

        def spy(self: Optimiser, gradients: list[Tensor]) -> None:
            sums.append(gradients[0].clone())
            step(self, gradients)

        patch.setattr(Optimiser, "step", spy)
        fitted = fit(about_names(300, 0), chosen, class_vectors=words())
    (released,) = released_of(fitted)
    mean = torch.stack(sums).mean(0)[:, 0] * 300
    mean = mean - mean.mean(-1, keepdim=True)
    torch.testing.assert_close(released.mean_sum, mean, rtol=1e-3, atol=2e-3)
    assert fitted.names is not None
    moved = released.prior.double().flatten()
    along = fitted.names[:, 0].double().flatten()
    assert float((moved @ along).abs() / (moved.norm() * along.norm())) == pytest.approx(1.0)
