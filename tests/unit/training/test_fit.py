"""One door to training: guard rails, seeds, and no way around the plan."""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from brute_force import random_graph
from privgcn.config import Settings, make_settings, parse_settings
from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.graph import DenseRows, TextGraph
from privgcn.graph.sparse_rows import SparseRows
from privgcn.privacy.plan import PrivacyPlan
from privgcn.training.devices import faster_device, work_of
from privgcn.training.fit import fit, training_device

GRAPH = random_graph(30, 8, owners=6)
LARGE_STEPS = {
    "training.optimizer": "sgd",
    "training.reach": 1.5,
    "training.learning_rate": None,
}


def settings(**changes: Any) -> Settings:
    tree: dict[str, Any] = {
        "model": {"kind": "gcn", "hidden": 5, "dropout": 0.5},
        "training": {"optimizer": "adam", "learning_rate": 0.1, "epochs": 4, "patience": 0},
        "privacy": {
            "noise_multiplier": 1.0,
            "delta": 1e-2,
            "parts": 5,
            "sampling": "poisson",
            "reproducible": True,
        },
    }
    return parse_settings(tree).changed(changes)


def same(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("sampling", ["all", "poisson", "epoch"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_same_seed_same_parameters_bit_for_bit(sampling: str, optimizer: str) -> None:
    chosen = settings(
        **{"privacy.sampling": sampling, "training.optimizer": optimizer, "seed": 7}
    )
    first, second = (fit(GRAPH, chosen) for _ in range(2))
    assert same(first.parameters, second.parameters)
    assert not first.releasable
    other = fit(GRAPH, chosen.changed({"seed": 8}))
    assert not same(first.parameters, other.parameters)


def test_releasable_runs_of_one_seed_differ() -> None:
    chosen = settings(**{"privacy.reproducible": False, "seed": 7})
    first, second = (fit(GRAPH, chosen) for _ in range(2))
    assert first.releasable
    assert not same(first.parameters, second.parameters)


def test_replicas_have_weights_noise_and_samples_of_their_own() -> None:
    chosen = settings(**{"privacy.sampling": "all", "privacy.reproducible": False})
    fitted = fit(GRAPH, chosen.changed({"training.epochs": 1}), seeds=[1, 1, 2])
    assert not same(fitted.replica(0).parameters, fitted.replica(1).parameters)
    assert fitted.replica(2).parameters[0].shape[1] == 1


@pytest.mark.parametrize("sampling", ["all", "poisson", "epoch", None])
@pytest.mark.parametrize("kind", ["gcn", "linear"])
@pytest.mark.parametrize("dense", [False, True])
def test_a_seed_gives_the_same_run_whatever_trains_beside_it(
    sampling: str | None, kind: str, dense: bool
) -> None:
    chosen = settings(**{"model.kind": kind, "training.parts": 1})
    if sampling and kind == "linear":
        chosen = chosen.changed(LARGE_STEPS)
    if sampling is None:
        chosen = chosen.model_copy(update={"privacy": None}).changed({"training.parts": 3})
    else:
        chosen = chosen.changed({"privacy.sampling": sampling})
    graph = replace(GRAPH, features=DenseRows(GRAPH.features.dense())) if dense else GRAPH
    together, beside = fit(graph, chosen, seeds=[3, 5]), fit(graph, chosen, seeds=[4, 6, 5])
    for one, other in zip(
        together.replica(1).parameters, beside.replica(2).parameters, strict=True
    ):
        # Products of several replicas round in another order, nothing more.
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert not same(together.replica(0).parameters, together.replica(1).parameters)


def test_how_much_somebody_writes_sets_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def spy(size: int) -> Any:
        asked.append(size)
        return nullcontext()

    monkeypatch.setattr("privgcn.training.fit.threads_worth", spy)
    owners = GRAPH.owners
    assert owners is not None
    fewer = torch.nonzero((owners != owners[0]) | (torch.arange(30) == 0))[:, 0]
    wordy = replace(
        GRAPH, features=SparseRows.from_scipy(csr_matrix(np.ones((30, 8), np.float32)))
    )
    brief = replace(
        GRAPH, features=SparseRows.from_scipy(csr_matrix(np.eye(30, 8, dtype=np.float32)))
    )
    chosen = settings(**{"privacy.unit": "person"})
    for graph in (wordy, brief, wordy.induced(fewer)):
        fit(graph, chosen)
    assert len(set(asked)) == 1


def test_early_stopping_is_refused_in_a_private_run() -> None:
    with pytest.raises(PrivacyContractError, match="stop early"):
        fit(GRAPH, settings(**{"training.patience": 5}), visible=GRAPH)


def test_validation_documents_have_no_influence_on_a_private_run() -> None:
    chosen = settings()
    seen = fit(GRAPH, chosen, visible=random_graph(50, 8, seed=9))
    assert same(seen.parameters, fit(GRAPH, chosen).parameters)


class Untouchable:
    """Features that nobody may look at; only their public shape is known."""

    width = 8
    shape = (30, 8)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"data were touched: {name}")


class Sealed:
    """A tensor of which only the length is public."""

    def __len__(self) -> int:
        return 30

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"data were touched: {name}")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"training.patience": 3}, PrivacyContractError),
        ({"privacy.delta": 0.5}, PrivacyContractError),
        ({"privacy.unit": "person"}, PrivacyContractError),
        ({"privacy.unit": "graph"}, PrivacyContractError),
        ({"privacy.parts": 31}, PrivacyContractError),
        ({"privacy.parts": "column:year"}, PrivacyContractError),
        ({"privacy.parts": "half"}, ConfigError),
        ({"privacy.epsilon": 1.0}, ConfigError),
        ({"privacy.noise_multiplier": None}, ConfigError),
        ({"privacy.noise_multiplier": 1e-9}, ConfigError),
        ({"privacy.clip_norm": 1e-7}, ConfigError),
        ({"privacy.clip_norm": 1e7}, ConfigError),
        ({"privacy.sampling": "all", "privacy.sampling_probability": 0.1}, ConfigError),
        (
            {"privacy.accountant": "moments", "privacy.relation": "replace"},
            PrivacyContractError,
        ),
    ],
    ids=str,
)
def test_errors_come_before_any_data_are_touched(
    changes: dict[str, Any], error: type[Exception]
) -> None:
    sealed: Any = Sealed()
    graph = TextGraph(Untouchable(), sealed, sealed, 4, sealed)  # type: ignore[arg-type]
    with pytest.raises(error):
        fit(graph, settings(**changes))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_settings_that_are_no_numbers_are_refused(bad: float) -> None:
    for name in ("delta", "clip_norm", "noise_multiplier", "sampling_probability"):
        with pytest.raises(ConfigError):
            fit(GRAPH, settings(**{f"privacy.{name}": bad}))
    with pytest.raises(Exception, match="epsilon"):
        fit(GRAPH, settings(**{"privacy.epsilon": bad, "privacy.noise_multiplier": None}))


@pytest.mark.parametrize("kind", ["gcn", "linear", "mlp"])
@pytest.mark.parametrize("parts", ["each", 5, 1])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 3e38, 1e-45])
def test_no_document_can_spoil_the_model(kind: str, parts: Any, value: float) -> None:
    """Whether a parameter is finite must not depend on one document."""
    rows = GRAPH.features.dense().clone()
    rows[4] = value
    spoiled = replace(GRAPH, features=DenseRows(rows))
    chosen = settings(**{"model.kind": kind, "privacy.parts": parts, "privacy.sampling": "all"})
    for parameter in fit(spoiled, chosen).parameters:
        assert bool(torch.isfinite(parameter).all())


def test_parameters_that_overflow_leave_noise_and_nothing_else() -> None:
    chosen = settings(**{"training.optimizer": "sgd", "training.learning_rate": 1e36})
    fitted = fit(GRAPH, chosen)
    assert fitted.plan is not None


@pytest.mark.parametrize("documents", [1, 2])
@pytest.mark.parametrize("sampling", ["all", "epoch"])
def test_tiny_corpora_train(documents: int, sampling: str) -> None:
    graph = random_graph(documents, 3, 2, links=0)
    chosen = settings(**{"privacy.parts": "each", "privacy.sampling": sampling})
    assert fit(graph, chosen).plan is not None


def test_documents_without_features_train() -> None:
    graph = replace(GRAPH, features=DenseRows(torch.zeros(30, 8)))
    for kind in ("gcn", "linear"):
        assert fit(graph, settings(**{"model.kind": kind})).plan is not None


def test_the_plan_of_a_fit_is_what_was_run() -> None:
    fitted = fit(GRAPH, settings(**{"privacy.unit": "person"}))
    assert type(fitted.plan) is PrivacyPlan
    assert fitted.plan.steps == 4 * 5
    assert fitted.plan.units == 6
    assert fitted.plan.partition.by == "owner"


def test_a_non_private_fit_has_no_plan() -> None:
    fitted = fit(GRAPH, settings().model_copy(update={"privacy": None}))
    assert fitted.plan is None
    assert not fitted.releasable


def test_work_counts_what_a_step_samples_where_it_is_sampled() -> None:
    """A CPU gathers sampled documents; a device takes all of many small parts."""
    changes = {"training.epochs": 10, "privacy.reproducible": True}
    every = {"privacy.parts": "each", "privacy.unit": "document", "privacy.sampling": "poisson"}
    each = make_settings(
        "paper-full",
        epsilon=1,
        changes={**changes, **every, "privacy.sampling_probability": 0.01},
    )
    assert work_of(each, 1000, 1, width=3) == (1000, 3 * 32 * 10, 3 * 32 * 1000, True)
    ten = make_settings("paper-split", epsilon=1, changes=changes)
    assert work_of(ten, 1000, 2, width=3) == (100, 3 * 32 * 100 * 2, 3 * 32 * 100 * 2, True)
    whole = make_settings("paper-full", epsilon=1, changes=changes)
    assert work_of(whole, 1000, 1, width=3) == (10, 3 * 32 * 1000, 3 * 32 * 1000, True)


def test_many_parts_without_privacy_stay_on_the_cpu() -> None:
    """A device launches their steps one kernel at a time; few are recorded."""
    taken = {}
    for parts in (1, 32, 33, "each"):
        plain = make_settings("plain", changes={"training.parts": parts})
        work = work_of(plain, 20_000, 5)
        assert work.steps == plain.training.epochs * (20_000 if parts == "each" else parts)
        taken[parts] = faster_device(work, started=True)
    assert taken == {1: "cuda", 32: "cuda", 33: "cpu", "each": "cpu"}


def test_device_auto_takes_what_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA for many steps over many documents, the CPU for few; never what is not there."""
    short = settings(**{"training.device": "auto"})
    long = short.changed({"training.epochs": 100_000})
    few_large_steps = long.changed(LARGE_STEPS | {"model.kind": "linear"})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert training_device(GRAPH, short, 1).type == "cpu"
    assert training_device(GRAPH, long, 1).type == "cuda"
    assert training_device(GRAPH, few_large_steps, 1).type == "cpu"
    assert training_device(GRAPH, long.changed({"training.device": "cpu"}), 1).type == "cpu"
    assert training_device(GRAPH, short.changed({"training.device": "cuda"}), 1).type == "cuda"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert training_device(GRAPH, long, 1).type == "cpu"
    with pytest.raises(ConfigError, match="no CUDA device"):
        training_device(GRAPH, short.changed({"training.device": "cuda"}), 1)


def test_reach_chooses_all_of_the_large_steps() -> None:
    dense = replace(GRAPH, features=DenseRows(GRAPH.features.dense()))
    usual = settings(**{"model.kind": "linear", "privacy.parts": "each"})
    large = fit(dense, usual.changed(LARGE_STEPS))
    assert large.path is not None
    assert large.centre is not None
    assert not large.path[0].any()
    assert torch.equal(large.parameters[0], large.path[-2:].mean(0))
    other = fit(dense, usual)
    assert other.path is None
    assert other.centre is None
