"""The Ray engine against a real cluster of two worker nodes on this machine."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import tiny_task

from privgcn.errors import ConfigError, MissingExtraError
from privgcn.experiments.cluster import task_options, worker_environment, workers_of
from privgcn.experiments.grid import Experiment, Grid
from privgcn.experiments.progress import Tally
from privgcn.experiments.runner import make_engine, run_tasks
from privgcn.experiments.store import RecordStore

pytestmark = [
    pytest.mark.cluster,
    # Ray leaves sockets and files to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    pytest.importorskip("ray", reason="needs the 'cluster' extra")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # Ray would replace `print` for every later test of this process.
    monkeypatch.setenv("RAY_TQDM_PATCH_PRINT", "0")
    from ray.cluster_utils import Cluster

    # A dead node is noticed within a second or two instead of twenty.
    quick = {"health_check_period_ms": 300, "health_check_failure_threshold": 3}
    head = {"num_cpus": 0, "_system_config": quick}
    made = Cluster(initialize_head=True, head_node_args=head)
    yield made
    made.shutdown()


def test_a_node_killed_in_the_middle_loses_nothing(cluster: Any, store: RecordStore) -> None:
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    cluster.wait_for_nodes()
    axes = {"shift": [number / 10 for number in range(10)], "pause": [0.3]}
    tasks = list(Experiment("tiny", [Grid(axes, tiny_task.KIND)], seeds=(0, 1)))
    broken = list(Experiment("x", [Grid({"shift": [9], "fails": [1]}, tiny_task.KIND)], (0,)))

    class KillsANode:
        killed = False

        def show(self, tally: Tally) -> None:
            if tally.done >= 4 and not self.killed:
                self.killed = True
                cluster.remove_node(nodes[0], allow_graceful=False)

        def close(self) -> None:
            pass

    killer = KillsANode()
    begun = time.monotonic()
    engine = make_engine("ray", address=cluster.address)
    assert engine.workers == 2
    summary = run_tasks([*tasks, *broken], store, engine, progress=killer)
    assert killer.killed
    assert (summary.done, summary.failed) == (20, 1)
    assert store.failures_of(broken)[0]["reason"].startswith("ArithmeticError")
    for task in tasks:
        for seed in task.seeds:
            record = store.get(task.run_key(seed))
            assert record is not None
            assert record["result"] == tiny_task.run({**task.settings, "pause": 0}, (seed,))[0]
    assert time.monotonic() - begun < 300


def test_an_address_without_a_cluster_is_a_clear_error() -> None:
    pytest.importorskip("ray", reason="needs the 'cluster' extra")
    with pytest.raises(ConfigError, match="must be a running cluster"):
        make_engine("ray", address="127.0.0.1:1")


def test_without_ray_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"privgcn\[cluster\]"):
        make_engine("ray")


def test_workers_learn_the_device_and_ask_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVGCN_DATA", "/data")
    monkeypatch.delenv("PRIVGCN_DEVICE", raising=False)
    assert "PRIVGCN_DEVICE" not in worker_environment()
    assert "num_gpus" not in task_options("cpu")
    monkeypatch.setenv("PRIVGCN_DEVICE", "cuda")
    assert worker_environment()["PRIVGCN_DEVICE"] == "cuda"
    assert worker_environment()["PRIVGCN_DATA"] == "/data"
    assert task_options("cuda") == {**task_options("cpu"), "num_gpus": 1}


def test_a_cluster_without_gpus_is_refused_for_cuda() -> None:
    assert workers_of({"CPU": 16.0, "GPU": 2.0}, "cpu") == 16
    assert workers_of({"CPU": 16.0, "GPU": 2.0}, "cuda") == 2
    with pytest.raises(ConfigError, match="PRIVGCN_DEVICE must be cpu where the Ray cluster"):
        workers_of({"CPU": 16.0}, "cuda")


class _FakeRay:
    """What the engine says to Ray, as far as this machine without GPUs can tell."""

    def __init__(self) -> None:
        self.said: dict[str, Any] = {}

    def is_initialized(self) -> bool:
        return False

    def init(self, **options: Any) -> None:
        self.said |= options

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 4.0, "GPU": 1.0}

    def remote(self, **options: Any) -> Any:
        self.said |= options
        return lambda function: function

    def shutdown(self) -> None:
        pass


def test_the_engine_passes_the_device_on(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = _FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setenv("PRIVGCN_DEVICE", "cuda")
    engine = make_engine("ray")
    assert list(engine.run([])) == []
    assert engine.workers == 1
    assert not engine.here, "the device need not be on this machine"
    assert fake.said["runtime_env"]["env_vars"]["PRIVGCN_DEVICE"] == "cuda"
    assert fake.said["num_gpus"] == 1
