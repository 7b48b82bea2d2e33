"""A stopped run goes on as the same run, or not at all."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from brute_force import random_graph
from privgcn.config import Settings, parse_settings
from privgcn.graph import TextGraph
from privgcn.graph.rows import rows_of
from privgcn.training.checkpoint import Checkpoint, clear_checkpoint
from privgcn.training.fit import fit

GRAPH = random_graph(20, 6)


class Stopped(Exception):
    """The machine went down."""


@pytest.fixture(autouse=True)
def _write_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Checkpoint, "offer", lambda self, state: self.write(state()))


def settings(**changes: Any) -> Settings:
    tree: dict[str, Any] = {
        "model": {"kind": "gcn", "hidden": 4, "dropout": 0.5},
        "training": {"optimizer": "adam", "learning_rate": 0.1, "epochs": 12, "patience": 0},
        "privacy": {"noise_multiplier": 1.0, "delta": 1e-2, "parts": 4, "reproducible": True},
    }
    return parse_settings(tree).changed(changes)


def stop_after(steps: int) -> Any:
    def progress(done: int, total: int) -> None:
        if done == steps:
            raise Stopped

    return progress


def first_step(folder: Path, chosen: Settings, graph: TextGraph = GRAPH, **options: Any) -> int:
    """The step with which a run begins that finds this folder."""
    seen: list[int] = []

    def progress(done: int, total: int) -> None:
        seen.append(done)
        raise Stopped

    with pytest.raises(Stopped):
        fit(graph, chosen, checkpoint_folder=folder, progress=progress, **options)
    return seen[0]


def changed_text() -> TextGraph:
    rows = GRAPH.features.dense().clone()
    rows[7] += 1
    return replace(GRAPH, features=rows_of(rows))


def changed_label() -> TextGraph:
    labels = GRAPH.labels.clone()
    labels[7] = (labels[7] + 1) % GRAPH.classes
    return replace(GRAPH, labels=labels)


def changed_link() -> TextGraph:
    return replace(GRAPH, edges=GRAPH.edges[:, 1:])


def changed_owner() -> TextGraph:
    return replace(GRAPH, owners=torch.arange(len(GRAPH)))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"training.optimizer": "sgd"},
        {
            "model.kind": "linear",
            "training.optimizer": "sgd",
            "training.reach": 1.0,
            "training.learning_rate": None,
        },
    ],
    ids=str,
)
def test_a_resumed_run_goes_on_where_it_was(tmp_path: Path, changes: dict[str, Any]) -> None:
    chosen = settings(**changes)
    with pytest.raises(Stopped):
        fit(GRAPH, chosen, checkpoint_folder=tmp_path, progress=stop_after(5))
    state = Checkpoint(tmp_path, {}).path
    assert state.exists()
    assert first_step(tmp_path, chosen) == 6
    fitted = fit(GRAPH, chosen, checkpoint_folder=tmp_path)
    assert all(bool(torch.isfinite(p).all()) for p in fitted.parameters)


@pytest.mark.parametrize(
    "changes",
    [
        {"privacy.noise_multiplier": 2.0},
        {"privacy.clip_norm": 3.0},
        {"privacy.reproducible": False},
        {"privacy.parts": 5},
        {"privacy.relation": "replace"},
        {"training.epochs": 13},
        {"training.learning_rate": 0.2},
        {"seed": 1},
    ],
    ids=str,
)
def test_a_state_of_another_run_is_not_taken(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(Stopped):
        fit(GRAPH, settings(), checkpoint_folder=tmp_path, progress=stop_after(5))
    assert first_step(tmp_path, settings(**changes)) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"seeds": [0, 1]},
        {"graph": random_graph(21, 6)},
        {"graph": random_graph(20, 7)},
        {"graph": replace(GRAPH, classes=GRAPH.classes + 1)},
    ],
    ids=["seeds", "documents", "features", "classes"],
)
def test_other_seeds_or_documents_are_another_run(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    with pytest.raises(Stopped):
        fit(GRAPH, settings(), checkpoint_folder=tmp_path, progress=stop_after(5))
    assert first_step(tmp_path, settings(), **options) == 1


def test_the_first_steps_had_the_noise_that_the_plan_says(tmp_path: Path) -> None:
    """One epsilon needs other noise for other documents: their state is of another run."""
    chosen = settings(
        **{"privacy.epsilon": 1.0, "privacy.noise_multiplier": None, "privacy.parts": "each"},
        **{"privacy.sampling": "poisson", "training.epochs": 2},
    )
    with pytest.raises(Stopped):
        fit(GRAPH, chosen, checkpoint_folder=tmp_path, progress=stop_after(5))
    assert first_step(tmp_path, chosen, graph=random_graph(40, 6)) == 1


@pytest.mark.parametrize("changed", [changed_text, changed_label, changed_link, changed_owner])
def test_a_state_is_not_taken_once_a_document_was_replaced(
    tmp_path: Path, changed: Callable[[], TextGraph]
) -> None:
    with pytest.raises(Stopped):
        fit(GRAPH, settings(), checkpoint_folder=tmp_path, progress=stop_after(5))
    assert first_step(tmp_path, settings(), changed()) == 1
    with pytest.raises(Stopped):
        fit(GRAPH, settings(), checkpoint_folder=tmp_path, progress=stop_after(5))
    assert first_step(tmp_path, settings()) == 6


def test_a_state_of_another_version_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Stopped):
        fit(GRAPH, settings(), checkpoint_folder=tmp_path, progress=stop_after(5))
    monkeypatch.setattr("privgcn.training.fit.__version__", "0.0.1")
    assert first_step(tmp_path, settings()) == 1


def test_the_fingerprint_of_the_documents_is_keyed(tmp_path: Path) -> None:
    from safetensors import safe_open

    found = []
    for name in ("a", "b"):
        with pytest.raises(Stopped):
            fit(GRAPH, settings(), checkpoint_folder=tmp_path / name, progress=stop_after(1))
        with safe_open(Checkpoint(tmp_path / name, {}).path, framework="pt") as file:
            found.append(file.metadata())
    assert found[0]["purpose"] != found[1]["purpose"]
    assert found[0]["key"] != found[1]["key"]


def test_a_finished_run_takes_away_its_state_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "unfinished"
    for other in (False, True):
        Checkpoint(folder, {}).write({"steps": torch.tensor(1)})
        if other:
            (folder / "notes.txt").write_text("mine")
        clear_checkpoint(folder)
        assert folder.exists() == other
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_a_damaged_state_is_no_state(tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        fit(GRAPH, settings(), checkpoint_folder=tmp_path, progress=stop_after(5))
    path = Checkpoint(tmp_path, {}).path
    deep = (100_000).to_bytes(8, "little") + b"[" * 100_000
    for content in (b"", b"not a checkpoint", path.read_bytes()[:100], deep):
        path.write_bytes(content)
        assert first_step(tmp_path, settings()) == 1


def test_a_state_holds_no_random_source_and_nothing_of_the_documents(tmp_path: Path) -> None:
    from safetensors import safe_open

    with pytest.raises(Stopped):
        fit(GRAPH, settings(), checkpoint_folder=tmp_path, progress=stop_after(5))
    with safe_open(Checkpoint(tmp_path, {}).path, framework="pt") as file:
        names = {name.split(".")[0] for name in file.keys()}  # noqa: SIM118
        assert set(file.metadata()) == {"purpose", "key"}
    assert names <= {"steps", "parameter", "step", "exp_avg", "exp_avg_sq"}


def test_writing_waits_between_two_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    checkpoint = Checkpoint(tmp_path / "new", {"run": 1}, every_seconds=1000.0)
    checkpoint.offer(lambda: {"steps": torch.tensor(3)})
    assert checkpoint.load() is None
    checkpoint.write({"steps": torch.tensor(3)})
    state = checkpoint.load()
    assert state is not None
    assert int(state["steps"]) == 3
    assert Checkpoint(tmp_path / "new", {"run": 2}).load() is None
