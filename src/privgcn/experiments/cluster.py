"""The Ray engine: the same tasks on a cluster, where nodes may come and go.

Tasks are deterministic and only this process writes records, so a task whose node died is
simply run again on another one. The package must be installed on every node, and data must
be found there under the same ``PRIVGCN_DATA``.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from privgcn.errors import ConfigError, MissingExtraError
from privgcn.experiments.engines import Outcome, outcome_of
from privgcn.experiments.tasks import Task
from privgcn.experiments.train_task import DEVICE, check_device

# How often a task is run again because its node or process died under it.
_RETRIES = 5
_KNOCK_SECONDS = 5.0
_PASSED_ON = ("PRIVGCN_DATA", DEVICE, "PYTHONPATH")


class RayEngine:
    """Runs tasks on a Ray cluster, one core each, and one GPU where runs train on CUDA.

    Args:
        address: Of the cluster; ``None`` joins the one that ``RAY_ADDRESS`` names, or
            starts one on this machine.
        device: Where runs train, ``cpu`` or ``cuda``; default as the environment says.
    """

    here = False

    def __init__(self, address: str | None = None, device: str | None = None) -> None:
        device = check_device(device, here=False)
        if device == "auto":
            raise ConfigError(
                "The device of engine 'ray' must be cpu or cuda, as every node has to have it. "
                "Got 'auto'."
            )
        try:
            import ray
        except ImportError:
            raise MissingExtraError("The engine 'ray'", "cluster") from None
        self._ray: Any = ray
        self._joined = not ray.is_initialized()
        if self._joined:
            _check_reachable(address)
            try:
                ray.init(
                    address=address,
                    runtime_env={"env_vars": worker_environment()},
                    log_to_driver=False,
                    include_dashboard=False if address is None else None,
                )
            except ConnectionError as error:
                raise _unreachable(address, error) from None
        self._options = task_options(device)
        self.workers = workers_of(self._ray.cluster_resources(), device)

    def run(self, tasks: Iterable[Task]) -> Iterator[Outcome]:
        """Runs all tasks; closing the iterator cancels what is under way."""
        ray = self._ray
        remote = ray.remote(**self._options)(outcome_of)
        waiting = iter(tasks)
        under_way: dict[Any, Task] = {}
        try:
            while True:
                # A few more than there are cores, so that no core waits for this process.
                while len(under_way) < 2 * self.workers:
                    task = next(waiting, None)
                    if task is None:
                        break
                    under_way[remote.remote(task)] = task
                if not under_way:
                    return
                ready, _ = ray.wait(list(under_way), num_returns=1)
                for reference in ready:
                    task = under_way.pop(reference)
                    yield _outcome(task, ray, reference)
        finally:
            for reference in under_way:
                ray.cancel(reference, force=True)
            if self._joined:
                ray.shutdown()


def worker_environment() -> dict[str, str]:
    """Variables of this process that every worker of the cluster gets."""
    variables = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {**variables, "OMP_WAIT_POLICY": "passive"}


def task_options(device: str) -> dict[str, Any]:
    """What one task asks of the cluster."""
    options: dict[str, Any] = {"num_cpus": 1, "max_retries": _RETRIES}
    return {**options, "num_gpus": 1} if device == "cuda" else options


def workers_of(resources: Mapping[str, float], device: str) -> int:
    """How many tasks a cluster runs at a time; with CUDA it must have a GPU."""
    cores = max(1, int(resources.get("CPU", 1)))
    if device != "cuda":
        return cores
    cards = int(resources.get("GPU", 0))
    if not cards:
        raise ConfigError(
            f"The variable {DEVICE} must be cpu where the Ray cluster has no GPU. "
            f"Got {device!r}. Unset it, or join a cluster with GPUs through --address."
        )
    return min(cores, cards)


def _check_reachable(address: str | None) -> None:
    """Knocks at the address first: Ray itself waits for minutes before it gives up."""
    host, separator, port = (address or "").removeprefix("ray://").rpartition(":")
    if not separator or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=_KNOCK_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, error) from None


def _unreachable(address: str | None, error: Exception) -> ConfigError:
    return ConfigError(
        f"The 'address' of engine 'ray' must be a running cluster. Got {address!r}: {error}. "
        "Start one with: ray start --head"
    )


def _outcome(task: Task, ray: Any, reference: Any) -> Outcome:
    try:
        found: Outcome = ray.get(reference)
    except ray.exceptions.RayError as error:
        first = str(error).strip().partition("\n")[0]
        return Outcome(task, None, f"{type(error).__name__}: {first}", 0.0)
    return found
