"""The noise and the samples, as the optimiser and the gradients receive them from ``fit``."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

from brute_force import plan_for, random_graph
from privgcn.config import Settings, parse_settings
from privgcn.graph import TextGraph
from privgcn.privacy.mechanism.noise import noisy
from privgcn.privacy.mechanism.noise_grid import MOST_REACH, Grid, grid_of
from privgcn.privacy.mechanism.part_gradients import StackGradients
from privgcn.privacy.schedule import make_schedule
from privgcn.randomness import RandomSource, SeededReplicas
from privgcn.training.checkpoint import Checkpoint
from privgcn.training.fit import fit
from privgcn.training.optimisers import Optimiser

# Features, hidden units and classes are as many, so that tensors share their shapes.
WIDTH = 16
NOISE, CLIP = 1.5, 2.0


def silent_graph(documents: int = 12) -> TextGraph:
    """Documents without any label: every part gradient is zero."""
    graph = random_graph(documents, WIDTH, WIDTH, links=20)
    return replace(graph, labels=torch.full((documents,), -1))


def settings(**changes: Any) -> Settings:
    tree: dict[str, Any] = {
        "model": {"kind": "gcn", "hidden": WIDTH, "dropout": 0.0},
        "training": {"optimizer": "sgd", "learning_rate": 0.1, "epochs": 40, "patience": 0},
        "privacy": {
            "noise_multiplier": NOISE,
            "clip_norm": CLIP,
            "delta": 1e-2,
            "parts": 4,
            "reproducible": True,
        },
    }
    return parse_settings(tree).changed(changes)


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> list[list[Tensor]]:
    """What the optimiser is fed, step by step."""
    seen: list[list[Tensor]] = []
    original = Optimiser.step

    def spy(self: Optimiser, gradients: Sequence[Tensor]) -> None:
        seen.append([gradient.clone() for gradient in gradients])
        original(self, gradients)

    monkeypatch.setattr(Optimiser, "step", spy)
    return seen


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The samples that gradients are asked for, step by step."""
    seen: list[Any] = []
    original = StackGradients.clipped_sum

    def spy(self: StackGradients, parameters: Any, samples: Any) -> list[Tensor]:
        seen.append(samples)
        return original(self, parameters, samples)

    monkeypatch.setattr(StackGradients, "clipped_sum", spy)
    return seen


def assert_variance(values: Tensor, expected: float) -> None:
    count = values.numel()
    ratio = float(values.double().square().sum()) / expected
    assert chi2.ppf(1e-7, count) < ratio < chi2.isf(1e-7, count)


def assert_independent(first: Tensor, second: Tensor) -> None:
    one, other = first.double().flatten(), second.double().flatten()
    correlation = float((one @ other) / (one.norm() * other.norm()))
    assert abs(correlation) * math.sqrt(len(one)) < 5.5


@pytest.mark.parametrize(
    ("sampling", "divisor"), [("all", 4.0), ("epoch", 1.0), ("poisson", 4 * 0.25)]
)
def test_every_tensor_gets_noise_of_its_own_in_every_step_and_replica(
    received: list[list[Tensor]], sampling: str, divisor: float
) -> None:
    epochs = 40 if sampling == "all" else 10
    fit(
        silent_graph(),
        settings(**{"privacy.sampling": sampling, "training.epochs": epochs}),
        seeds=[0, 1, 2],
    )
    assert len(received) == 40
    expected = (NOISE * CLIP / divisor) ** 2
    for number in range(4):
        everything = torch.stack([step[number] for step in received])
        assert_variance(everything, expected)
        for replica in range(3):
            assert_variance(everything[..., replica, :], expected)
        assert_independent(everything[:-1], everything[1:])  # steps
        assert_independent(everything[..., 0, :], everything[..., 1, :])  # replicas
        assert_independent(everything[..., 0, :], everything[..., 2, :])
    first, first_bias, second, second_bias = (
        torch.stack([step[number] for step in received]) for number in range(4)
    )
    assert first.shape == second.shape
    assert first_bias.shape == second_bias.shape
    assert_independent(first, second)
    assert_independent(first_bias, second_bias)
    for step in received:
        assert not torch.equal(step[0], step[2])


def test_an_empty_sample_still_adds_the_full_noise(
    received: list[list[Tensor]], sampled: list[Any]
) -> None:
    graph = random_graph(12, WIDTH, WIDTH, unlabelled=0.0)
    rare = {"privacy.sampling": "poisson", "privacy.sampling_probability": 1e-3}
    fit(graph, settings(**rare, **{"training.epochs": 1, "privacy.parts": 2}))
    empty = [number for number, parts in enumerate(sampled) if len(parts[0]) == 0]
    assert len(empty) > 900
    expected = (NOISE * CLIP / 2e-3) ** 2
    for number in range(4):
        quiet = torch.stack([received[step][number] for step in empty[:200]])
        assert_variance(quiet, expected)


def test_the_divisor_is_the_expected_number_of_parts(
    received: list[list[Tensor]], sampled: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_noise(self: SeededReplicas, shapes: Sequence[Any]) -> list[Tensor]:
        return [torch.zeros(*shape, dtype=torch.float64) for shape in shapes]

    sums: list[list[Tensor]] = []
    original = StackGradients.clipped_sum

    def spy(self: StackGradients, parameters: Any, samples: Any) -> list[Tensor]:
        sums.append(original(self, parameters, samples))
        return [total.clone() for total in sums[-1]]

    monkeypatch.setattr(SeededReplicas, "normal", no_noise)
    monkeypatch.setattr(StackGradients, "clipped_sum", spy)
    graph = random_graph(12, WIDTH, WIDTH, unlabelled=0.0)
    poisson = {"privacy.sampling": "poisson", "privacy.sampling_probability": 0.4}
    fit(graph, settings(**poisson, **{"training.epochs": 20, "privacy.parts": 6}))
    for step, exact in zip(received, sums, strict=True):
        for mean, total in zip(step, exact, strict=True):
            assert torch.allclose(mean, (CLIP * total / (6 * 0.4)).float(), rtol=1e-6)


def test_poisson_samples_are_independent_and_at_the_accounted_rate(sampled: list[Any]) -> None:
    documents, rate, replicas = 30, 0.2, 8
    graph = silent_graph(documents)
    poisson = {
        "privacy.sampling": "poisson",
        "privacy.sampling_probability": rate,
        "privacy.parts": "each",
        "training.epochs": 60,
        "model.kind": "linear",
    }
    fitted = fit(graph, settings(**poisson), seeds=range(replicas))
    assert fitted.plan is not None
    composition = fitted.plan.schedule.composition(fitted.plan.steps)
    assert composition.sampling_probability == rate
    assert composition.count == len(sampled)
    joined = np.zeros((len(sampled), replicas, documents))
    for step, samples in enumerate(sampled):
        for replica, parts in enumerate(samples):
            joined[step, replica, parts] = 1.0
    rows = joined.reshape(-1, documents)
    spread = math.sqrt(rate * (1 - rate) / len(rows))
    assert np.abs(rows.mean(0) - rate).max() < 4.5 * spread
    sizes = rows.sum(1)
    variance = documents * rate * (1 - rate)
    assert abs(sizes.var() - variance) < 5 * variance * math.sqrt(2 / len(rows))
    correlation = np.corrcoef(rows.T) - np.eye(documents)
    assert np.abs(correlation).max() < 5.5 / math.sqrt(len(rows))
    for first, second in ((joined[:-1], joined[1:]), (joined[:, 0], joined[:, 1])):
        both = np.corrcoef(first.ravel(), second.ravel())[0, 1]
        assert abs(both) < 5 / math.sqrt(first.size)


def test_the_epoch_schedule_visits_each_part_once_and_pays_for_it(sampled: list[Any]) -> None:
    fitted = fit(
        silent_graph(), settings(**{"privacy.sampling": "epoch", "training.epochs": 3})
    )
    assert fitted.plan is not None
    assert [parts[0].tolist() for parts in sampled] == [[0], [1], [2], [3]] * 3
    composition = fitted.plan.schedule.composition(fitted.plan.steps)
    assert (composition.sampling_probability, composition.count) == (1.0, 3)


class Stopped(Exception):
    """The machine went down."""


@pytest.mark.parametrize("reproducible", [True, False])
def test_noise_is_fresh_after_a_resume(
    received: list[list[Tensor]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reproducible: bool,
) -> None:
    monkeypatch.setattr(Checkpoint, "offer", lambda self, state: self.write(state()))

    def stop(done: int, total: int) -> None:
        if done == 15:
            raise Stopped

    chosen = settings(**{"privacy.reproducible": reproducible})
    with pytest.raises(Stopped):
        fit(silent_graph(), chosen, progress=stop, checkpoint_folder=tmp_path)
    assert len(received) == 15
    fit(silent_graph(), chosen, checkpoint_folder=tmp_path)
    assert len(received) == 40, "a resumed run takes the steps that are left, and no more"
    before = torch.stack([step[0] for step in received[:15]])
    after = torch.stack([step[0] for step in received[15:30]])
    assert_independent(before, after)
    for late in received[15:]:
        for early in received[:15]:
            assert not torch.equal(late[0], early[0])
    assert_variance(torch.stack([step[2] for step in received[15:]]), (NOISE * CLIP / 4) ** 2)


def test_two_releasable_runs_differ_in_noise_and_samples(
    received: list[list[Tensor]], sampled: list[Any]
) -> None:
    secret = {
        "privacy.reproducible": False,
        "privacy.sampling": "poisson",
        "privacy.sampling_probability": 0.5,
        "privacy.parts": 12,
        "training.epochs": 5,
        "seed": 3,
    }
    runs = [fit(silent_graph(), settings(**secret)) for _ in range(2)]
    assert all(run.releasable for run in runs)
    half = len(received) // 2
    for first, second in zip(received[:half], received[half:], strict=True):
        assert not torch.equal(first[0], second[0])
    samples = [
        [parts[0].tolist() for parts in sampled[s]] for s in (slice(half), slice(half, None))
    ]
    assert samples[0] != samples[1]


def test_no_part_of_a_releasable_run_is_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(seed: int, purpose: str) -> RandomSource:
        raise AssertionError(f"a releasable run seeded its {purpose}")

    monkeypatch.setattr(RandomSource, "reproducible", refuse)
    for sampling in ("all", "poisson", "epoch"):
        fitted = fit(
            silent_graph(),
            settings(
                **{
                    "privacy.reproducible": False,
                    "privacy.sampling": sampling,
                    "training.epochs": 2,
                    # Masks too: which one a part gets depends on who else was sampled.
                    "model.dropout": 0.5,
                }
            ),
        )
        assert fitted.releasable


# -- in bits --------------------------------------------------------------------------------


@pytest.mark.parametrize("noise_multiplier", [0.01, 1.0, 3.73, 1e9])
@pytest.mark.parametrize("parts", [1, 1000, 10_000_000])
def test_noise_and_sums_fit_on_the_grid(noise_multiplier: float, parts: int) -> None:
    grid = Grid.of(noise_multiplier, parts)
    # Noise is far above the step, and sums with noise stay exact.
    assert grid.step <= noise_multiplier * 2.0**-16
    assert (MOST_REACH * parts + 10 * noise_multiplier) / grid.step < 2.0**53
    source = RandomSource.secret()
    sums = torch.arange(-500, 500, dtype=torch.float64) * grid.step
    (found,) = noisy([sums], grid, noise_multiplier, source)
    assert found.dtype == torch.float64
    steps = found / grid.step
    assert torch.equal(steps, steps.round())


@pytest.mark.parametrize("noise_multiplier", [0.01, 1.0, 3.73, 1e9])
@pytest.mark.parametrize("parts", [1, 1000])
def test_noise_is_accurate_far_below_the_step(noise_multiplier: float, parts: int) -> None:
    """Else grid values were more or less likely than they should be, by how floats round."""
    (draws,) = RandomSource.reproducible(0, "accuracy").normal([(20_000,)])
    words = RandomSource.reproducible(0, "accuracy").words(20_000)
    first, second = words[:10_000].astype(np.longdouble), words[10_000:] >> np.uint64(11)
    radius = np.sqrt(-2 * np.log((first + np.longdouble(0.5)) / np.longdouble(2) ** 64))
    angle = second.astype(np.longdouble) * (8 * np.arctan(np.longdouble(1)) / 2.0**53)
    exact = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
    error = float(np.abs(draws.numpy() - exact).max())
    assert 0 < error < 2.0**-46
    step = Grid.of(noise_multiplier, parts).step / noise_multiplier
    assert step >= 2.0**14 * 2.0**-46


@pytest.mark.parametrize("sampling", ["all", "poisson"])
def test_every_part_at_once_fits_on_a_plans_grid(sampling: str) -> None:
    """A Poisson sample may hold all of them, however few there are on average."""
    parts = 1 << 24
    plan = replace(
        plan_for(parts, noise_multiplier=0.01), schedule=make_schedule(sampling, parts)
    )
    assert MOST_REACH * parts / grid_of(plan).step < 2.0**53


def test_rounding_commutes_with_adding_a_grid_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Halves too: half to even would not, and parity would tell the sum."""
    grid = Grid(4, 2)
    noise = torch.arange(-40, 40, dtype=torch.float64) / 64
    monkeypatch.setattr(RandomSource, "normal", lambda self, shapes: [noise.clone()])
    source = RandomSource.secret()
    (quiet,) = noisy([torch.zeros(80, dtype=torch.float64)], grid, 1.0, source)
    for number in (1, 2, 3, -7, 2**40 + 1):
        shift = number * grid.step
        (moved,) = noisy([torch.full((80,), shift, dtype=torch.float64)], grid, 1.0, source)
        assert torch.equal(moved, quiet + shift)
        real = (noise + shift) / grid.step
        assert torch.equal(moved, (real + 0.5).floor() * grid.step)
    assert float((quiet - noise).abs().max()) <= grid.step / 2


def test_neighbours_reach_the_same_values() -> None:
    """A statistic that float32 noise fails: which low bits a result can have.

    Where noise is larger than the result, float32 noise lies on a coarser lattice than the
    result, and the low bits of the result are those of the sum.
    """
    grid, count = Grid.of(3.73, 1000), 200_000
    sums = [
        torch.full((count,), value * grid.step, dtype=torch.float64)
        for value in (2**29, 2**29 + 1)
    ]

    def low_bits(released: Tensor) -> Tensor:
        return (released / grid.step).long() & 7

    source = RandomSource.reproducible(0, "test")
    for values in sums:
        counts = torch.bincount(low_bits(noisy([values], grid, 3.73, source)[0]), minlength=8)
        assert chi2.sf(float(((counts - count / 8) ** 2 / (count / 8)).sum()), 7) > 1e-6
    naive = [
        low_bits(values + (3.73 * source.normal([(count,)])[0]).float()) for values in sums
    ]
    shares = [float((bits % 2 == 1).float().mean()) for bits in naive]
    assert abs(shares[0] - shares[1]) > 0.2, "the statistic must tell float32 noise"


def test_no_draw_returns_in_a_run(received: list[list[Tensor]]) -> None:
    """Neither as it was nor negated: differences or sums of steps would show the data."""
    fit(silent_graph(), settings(**{"privacy.reproducible": False, "training.epochs": 20}))
    values = torch.cat([tensor.double().flatten() for step in received for tensor in step])
    sizes = values[values != 0].abs()
    # Float32 values repeat by chance here and there; draws that return do so by the hundred.
    assert len(torch.unique(sizes)) > 0.999 * len(sizes)
    for lag in range(1, 20):
        for first, second in zip(received[:-lag], received[lag:], strict=True):
            for one, other in zip(first, second, strict=True):
                assert not torch.equal(one.abs(), other.abs())
