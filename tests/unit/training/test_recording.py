"""Recorded steps do what steps do, draw every number once, and never wait for the host."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch

from brute_force import random_graph
from privgcn.config import Settings, parse_settings
from privgcn.errors import PrivacyContractError
from privgcn.graph import DenseRows, TextGraph
from privgcn.models import make_model
from privgcn.privacy.mechanism import clipping, device_gradients
from privgcn.privacy.mechanism.cutting import cut_as_planned
from privgcn.privacy.mechanism.device_gradients import DeviceGradients
from privgcn.privacy.mechanism.noise_grid import grid_of
from privgcn.privacy.mechanism.together import AnyPlan, PlansTogether
from privgcn.privacy.plan import PrivacyPlan
from privgcn.randomness import (
    _MOST_STEPS_AHEAD,
    DeviceReplicas,
    DeviceSource,
    RandomSource,
)
from privgcn.training import plain, recording
from privgcn.training.fit import fit, fit_together
from privgcn.training.plain import train_plain
from privgcn.training.planning import make_plan
from privgcn.training.private import PrivateTrainer
from privgcn.training.recording import Recording, own_stream

ON_CUDA = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
GRAPH = random_graph(60, 8, links=150, seed=3)


def settings(**changes: Any) -> Settings:
    tree: dict[str, Any] = {
        "model": {"kind": "gcn", "hidden": 5, "dropout": 0.5},
        "training": {"optimizer": "adam", "learning_rate": 0.1, "epochs": 6, "patience": 0},
        "privacy": {
            "noise_multiplier": 1.0,
            "delta": 1e-3,
            "parts": 5,
            "unit": "part",
            "sampling": "poisson",
            "reproducible": True,
        },
    }
    return parse_settings(tree).changed(changes)


def test_on_a_cpu_a_step_is_called() -> None:
    calls: list[int] = []
    advance = Recording(torch.device("cpu"), [None])
    for number in range(6):
        advance(lambda: calls.append(1), number % 2)
    assert len(calls) == 6


class ReplayedOnCpu(Recording):
    """Replays a step as a device does, by running it again: what is drawn is the same."""

    def _recorded(self, step: Any) -> Any:
        class Graph:
            def replay(self) -> None:
                step()

        graph: Any = Graph()
        for each in self._draws:
            each.record_into(graph)
        return graph


def drawn_by(draws: DeviceReplicas, steps: int, *, replayed: bool) -> torch.Tensor:
    """What repeated steps draw, ``[steps, rows, replicas, 3]``."""
    shape, found = (40, len(draws._sources), 3), []

    def step() -> None:
        one, other = draws.normal([shape, shape])
        again = draws.normal([shape])[0]
        masks = draws.uniform_bytes(shape).double()
        found.append(torch.cat([one, other, again, masks + 1000]))

    kind = ReplayedOnCpu if replayed else Recording
    advance = kind(torch.device("cuda" if replayed else "cpu"), [draws])
    for _ in range(steps):
        advance(step)
    return torch.stack(found)


def test_more_steps_than_are_drawn_ahead_draw_every_number_once() -> None:
    cpu, steps = torch.device("cpu"), 2 * _MOST_STEPS_AHEAD + 7
    three = drawn_by(DeviceReplicas([4, 5, 6], "noise", cpu), steps, replayed=False)
    normal = three[:, :120]
    assert len(normal.unique()) == normal.numel()
    masks = three[:, 120:].flatten(1)
    assert len(masks.unique(dim=0)) == steps, "every step has masks of its own"
    replayed = drawn_by(DeviceReplicas([4, 5, 6], "noise", cpu), steps, replayed=True)
    assert torch.equal(three, replayed)
    alone = drawn_by(DeviceReplicas([5], "noise", cpu), steps, replayed=True)
    assert torch.equal(three[..., 1:2, :], alone)


def with_validation(graph: TextGraph) -> TextGraph:
    split = torch.zeros(len(graph), dtype=torch.int8)
    split[::3] = 1
    return TextGraph(graph.features, graph.edges, graph.labels, graph.classes, split)


def test_how_often_the_host_asks_does_not_move_where_a_seed_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    visible = with_validation(GRAPH)
    train = visible.induced(torch.nonzero(visible.split == 0)[:, 0])
    model = make_model("gcn", 8, GRAPH.classes, hidden=5, dropout=0.5)
    chosen = settings(
        **{"training.epochs": 200, "training.patience": 3, "training.learning_rate": 0.3}
    ).training
    found, epochs = [], []
    for between in (1, 7, 1000):
        monkeypatch.setitem(plain._EPOCHS_BETWEEN, "cpu", between)
        seen: list[int] = []
        found.append(
            train_plain(
                model,
                train,
                chosen,
                [1, 2, 3],
                visible=visible,
                progress=lambda done, of, seen=seen: seen.append(done),
            )
        )
        epochs.append(len(seen))
    assert epochs[0] < epochs[1] < epochs[2] == 200
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize("sampling", ["poisson", "epoch", "all"])
@pytest.mark.parametrize("large", [True, False])
def test_seeds_that_sample_share_a_pass_as_a_device_takes_it(
    monkeypatch: pytest.MonkeyPatch, sampling: str, large: bool
) -> None:
    """The trainer of a device, on the CPU: each seed gives what it gives alone."""
    monkeypatch.setattr(clipping, "_MOST_IN_PAIRS", 4 if large else 64)
    dense = replace(GRAPH, features=DenseRows(GRAPH.features.dense()))
    chosen = settings(**{"privacy.sampling": sampling})
    assert chosen.privacy is not None
    model = make_model("gcn", 8, GRAPH.classes, hidden=5, dropout=0.5)
    plan = make_plan(chosen.privacy, dense, epochs=6, seed=0, columns={})
    cpu = torch.device("cpu")

    def trained(seeds: list[int]) -> list[torch.Tensor]:
        masks = DeviceReplicas(seeds, "dropout", cpu)
        source = DeviceReplicas(seeds, "noise", cpu)
        gradients = DeviceGradients(model, cut_as_planned(dense, plan, {}), plan, masks)
        first = model.initial(seeds)
        return PrivateTrainer(first, gradients, plan, chosen.training, source).run()

    three = trained([1, 2, 3])
    for replica, seed in enumerate([1, 2, 3]):
        for one, other in zip(three, trained([seed]), strict=True):
            torch.testing.assert_close(one[..., replica, :], other[..., 0, :])


LEVELS = [0.4, 1.0, 9.0]


def test_noise_levels_share_a_pass_and_each_gives_what_it_gives_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The trainer of a device, on the CPU; the levels have grids of their own."""
    monkeypatch.setattr(clipping, "_MOST_IN_PAIRS", 4)
    dense = replace(GRAPH, features=DenseRows(GRAPH.features.dense()))
    model = make_model("gcn", 8, GRAPH.classes, hidden=5, dropout=0.5)
    cpu, seeds = torch.device("cpu"), [1, 2]

    def planned(level: float) -> PrivacyPlan:
        privacy = settings(**{"privacy.noise_multiplier": level}).privacy
        assert privacy is not None
        return make_plan(privacy, dense, epochs=6, seed=0, columns={})

    def trained(plan: AnyPlan, everyone: list[int]) -> list[torch.Tensor]:
        masks = DeviceReplicas(everyone, "dropout", cpu)
        source = DeviceReplicas(everyone, "noise", cpu)
        gradients = DeviceGradients(model, cut_as_planned(dense, plan, {}), plan, masks)
        first, training = model.initial(everyone), settings().training
        return PrivateTrainer(first, gradients, plan, training, source).run()

    plans = [planned(level) for level in LEVELS]
    assert len({grid_of(plan).step for plan in plans}) == len(LEVELS)
    each = tuple(plan for plan in plans for _ in seeds)
    together = trained(PlansTogether(each, cpu), seeds * len(LEVELS))
    for number, plan in enumerate(plans):
        for one, other in zip(together, trained(plan, seeds), strict=True):
            assert torch.equal(one[..., 2 * number : 2 * number + 2, :], other)


def test_plans_that_differ_in_more_than_noise_share_no_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    privacy = settings().privacy
    assert privacy is not None
    plan = make_plan(privacy, GRAPH, epochs=6, seed=0, columns={})
    cpu = torch.device("cpu")
    for other in (replace(plan, clip_norm=2.0), replace(plan, steps=7)):
        with pytest.raises(PrivacyContractError, match="but for their noise"):
            PlansTogether((plan, other), cpu)
    # Many small parts are sampled by a mask, and their sums have one grid.
    monkeypatch.setattr(device_gradients, "_FEW_SAMPLED", 0)
    model, pieces = make_model("gcn", 8, GRAPH.classes), cut_as_planned(GRAPH, plan, {})
    with pytest.raises(PrivacyContractError, match="side by side"):
        DeviceGradients(model, pieces, PlansTogether((plan, plan), cpu), None)


@pytest.mark.parametrize("device", [pytest.param("cuda", marks=ON_CUDA)])
def test_on_a_device_noise_levels_share_a_pass(
    monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    monkeypatch.setattr(clipping, "_MOST_IN_PAIRS", 4)
    runs = [
        (
            settings(
                **{"training.device": device, "privacy.noise_multiplier": level},
                **{"training.optimizer": "sgd", "training.epochs": 20},
            ),
            [1, 2],
        )
        for level in LEVELS
    ]
    for fitted, (chosen, seeds) in zip(fit_together(GRAPH, runs), runs, strict=True):
        alone = fit(GRAPH, chosen, seeds=seeds)
        assert fitted.plan == alone.plan
        assert not fitted.releasable
        for one, other in zip(fitted.parameters, alone.parameters, strict=True):
            assert torch.equal(one, other)


@contextmanager
def never_recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(recording, "_CALLS_BEFORE", 10**9)
        yield


CASES: list[dict[str, Any]] = [
    {},
    {"privacy.sampling": "all"},
    {"privacy.sampling": "epoch"},
    {"privacy.sampling": "all", "privacy.parts": 1, "privacy.unit": "graph"},
    {"privacy.sampling": "all", "privacy.parts": "each", "privacy.unit": "document"},
    {"training.optimizer": "sgd"},
    {"model.kind": "mlp"},
]


@pytest.mark.parametrize("changes", CASES)
@pytest.mark.parametrize("large", [True, False])
@pytest.mark.parametrize("device", [pytest.param("cuda", marks=ON_CUDA)])
def test_recorded_private_steps_are_the_steps_themselves(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], large: bool, device: str
) -> None:
    monkeypatch.setattr(clipping, "_MOST_IN_PAIRS", 4 if large else 64)
    chosen = settings(**{"training.device": device, "training.epochs": 20}, **changes)
    recorded = fit(GRAPH, chosen, seeds=[1, 2])
    alone = fit(GRAPH, chosen, seeds=[2])
    with never_recorded(monkeypatch):
        called = fit(GRAPH, chosen, seeds=[1, 2])
    assert not recorded.releasable
    for one, other in zip(recorded.parameters, called.parameters, strict=True):
        assert torch.equal(one, other)
    for one, other in zip(recorded.replica(1).parameters, alone.parameters, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("device", [pytest.param("cuda", marks=ON_CUDA)])
def test_recorded_plain_steps_stop_where_the_cpu_would(
    monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    chosen = settings(
        **{"training.device": device, "training.epochs": 100, "training.patience": 4}
    ).model_copy(update={"privacy": None})
    visible = with_validation(GRAPH)
    train = visible.induced(torch.nonzero(visible.split == 0)[:, 0])
    recorded = fit(train, chosen, seeds=[1, 2], visible=visible)
    with never_recorded(monkeypatch):
        monkeypatch.setitem(plain._EPOCHS_BETWEEN, "cuda", 1)
        called = fit(train, chosen, seeds=[1, 2], visible=visible)
    for one, other in zip(recorded.parameters, called.parameters, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("secret", [True, False])
@pytest.mark.parametrize("device", [pytest.param("cuda", marks=ON_CUDA)])
def test_every_replay_draws_what_comes_next(secret: bool, device: str) -> None:
    place = torch.device(device)

    def draws() -> DeviceReplicas | DeviceSource:
        if secret:
            return DeviceSource(RandomSource.reproducible(5, "as if secret"), place)
        return DeviceReplicas([5, 6], "noise", place)

    shape, found = (50, 2, 3), []
    for recorded in (True, False):
        own, kept = draws(), torch.empty(8, *shape, dtype=torch.float64)
        out = torch.empty(shape, dtype=torch.float64, device=place)
        dropped = torch.empty(shape, dtype=torch.uint8, device=place)

        def step(own: Any = own, out: Any = out, dropped: Any = dropped) -> None:
            out.copy_(own.normal([shape])[0])
            dropped.copy_(own.uniform_bytes(shape))

        advance = Recording(place if recorded else torch.device("cpu"), [own])
        with own_stream(place):
            for number in range(8):
                advance(step)
                kept[number] = out.cpu() + 1000 * dropped.cpu()
        found.append(kept)
    assert torch.equal(*found)
    assert len(found[0].unique()) == found[0].numel(), "every coordinate has its own draw"


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("changes", CASES)
@pytest.mark.parametrize("device", [pytest.param("cuda", marks=ON_CUDA)])
def test_a_step_never_waits_for_the_device(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], device: str
) -> None:
    monkeypatch.setattr(clipping, "_MOST_IN_PAIRS", 4)
    calls: list[int] = []
    inner = recording.Recording.__call__

    def watched(self: Any, step: Any, form: Any = None) -> None:
        calls.append(1)
        torch.cuda.set_sync_debug_mode("error" if len(calls) > 4 else "default")
        try:
            inner(self, step, form)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    monkeypatch.setattr(recording.Recording, "__call__", watched)
    with never_recorded(monkeypatch):
        fit(GRAPH, settings(**{"training.device": device}, **changes), seeds=[1, 2])
    assert len(calls) > 5


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=ON_CUDA)])
@pytest.mark.parametrize("private", [True, False])
def test_an_ended_run_leaves_nothing_behind(private: bool, device: str) -> None:
    """Without waiting for Python to look for cycles, which small objects alone make it do."""
    chosen = settings(**{"training.device": device})
    if not private:
        chosen = chosen.model_copy(update={"privacy": None})
    fit(GRAPH, chosen)
    gc.collect()
    gc.disable()
    try:
        fit(GRAPH, chosen)
        left = [o for o in gc.get_objects() if type(o) in (PrivateTrainer, Recording)]
    finally:
        gc.enable()
    assert left == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_memory_of_ended_runs_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_LEAST_FREE", 1.0)
    held = []
    for _ in range(30):
        fit(GRAPH, settings(**{"training.device": "cuda"}))
        held.append(torch.cuda.memory_reserved())
    assert max(held[10:]) <= max(held[:10])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_threads_never_share_a_stream() -> None:
    """What one thread launches while another one records would be recorded, not done."""
    device = torch.device("cuda")
    streams: dict[int, set[int]] = {}
    all_here = threading.Barrier(4)

    def work() -> None:
        all_here.wait()
        for _ in range(40):
            with own_stream(device):
                mine = torch.cuda.current_stream(device).cuda_stream
                streams.setdefault(threading.get_ident(), set()).add(mine)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(own) for own in streams.values()] == [1] * 4
    assert len(set.union(*streams.values())) == 4
