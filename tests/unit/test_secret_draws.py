"""Keys that nobody can guess, and draws that never return, on the objects training uses."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from brute_force import random_graph
from privgcn.config import Settings, parse_settings
from privgcn.graph import TextGraph
from privgcn.privacy.mechanism.part_gradients import StackGradients
from privgcn.randomness import RandomSource
from privgcn.training.fit import fit
from privgcn.training.optimisers import Optimiser
from privgcn.training.private import PrivateTrainer

GRAPH = random_graph(12, 16, 16, links=20)


def settings(**changes: Any) -> Settings:
    tree: dict[str, Any] = {
        "model": {"kind": "gcn", "hidden": 16, "dropout": 0.5},
        "training": {"optimizer": "sgd", "learning_rate": 0.1, "epochs": 6, "patience": 0},
        "privacy": {"noise_multiplier": 1.5, "delta": 1e-2, "parts": 4},
    }
    return parse_settings(tree).changed(changes)


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> list[RandomSource]:
    """Every secret source that is made."""
    made: list[RandomSource] = []
    original = RandomSource.secret

    def secret() -> RandomSource:
        made.append(original())
        return made[-1]

    monkeypatch.setattr(RandomSource, "secret", staticmethod(secret))
    return made


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What training takes its noise and its dropout masks from."""
    seen: list[Any] = []
    trainer, gradients = PrivateTrainer.__init__, StackGradients.__init__

    def noise(self: PrivateTrainer, *args: Any, **options: Any) -> None:
        trainer(self, *args, **options)
        seen.append(self.source)

    def masks(self: StackGradients, *args: Any, **options: Any) -> None:
        gradients(self, *args, **options)
        seen.append(self.dropout)

    monkeypatch.setattr(PrivateTrainer, "__init__", noise)
    monkeypatch.setattr(StackGradients, "__init__", masks)
    return seen


def test_a_secret_key_has_far_more_than_32_bits_of_entropy() -> None:
    """Among 2^17 keys of 24 bits some 500 return, and 2 of 32 bits; of 256 bits none."""
    first = {RandomSource.secret().words(1).tobytes() for _ in range(2**17)}
    assert len(first) == 2**17


def test_training_draws_from_secret_sources_and_no_others(
    sources: list[RandomSource], used: list[Any]
) -> None:
    for sampling in ("all", "poisson", "epoch"):
        fit(GRAPH, settings(**{"privacy.sampling": sampling}))
    assert len(used) == 6
    for source in used:
        assert any(source is made for made in sources)


def test_every_source_of_a_run_has_a_key_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[bytes] = []
    original = RandomSource.__init__

    def spy(self: RandomSource, key: bytes, **options: Any) -> None:
        keys.append(bytes(key))
        original(self, key, **options)

    monkeypatch.setattr(RandomSource, "__init__", spy)
    for _ in range(3):
        fit(GRAPH, settings())
    assert len(keys) >= 6
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("reproducible", [False, True])
def test_no_draw_of_a_run_returns_not_even_negated(
    monkeypatch: pytest.MonkeyPatch, reproducible: bool
) -> None:
    received: list[np.ndarray[Any, Any]] = []
    step = Optimiser.step

    def spy(self: Optimiser, gradients: Sequence[Tensor]) -> None:
        received.append(np.concatenate([g.flatten().numpy() for g in gradients]))
        step(self, gradients)

    monkeypatch.setattr(Optimiser, "step", spy)
    chosen = settings(**{"privacy.reproducible": reproducible})
    fit(silent(GRAPH), chosen, seeds=[0, 1])
    noise = np.abs(np.stack(received).astype(np.float64))
    # Two of a few thousand float32 draws may meet by chance; whole rows of them may not.
    for shift in range(1, len(noise)):
        assert float((noise[shift:] == noise[:-shift]).mean()) < 0.01
    _, counts = np.unique(noise, return_counts=True)
    assert float((counts > 1).mean()) < 0.01


def silent(graph: TextGraph) -> TextGraph:
    """The same documents without any label: what the optimiser gets is noise alone."""
    return TextGraph(
        graph.features,
        graph.edges,
        torch.full_like(graph.labels, -1),
        graph.classes,
        graph.split,
    )
