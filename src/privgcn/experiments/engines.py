"""What an engine is: where tasks run, on the cores of this machine or on a cluster.

An engine takes tasks and yields outcomes in the order in which they end. A task that fails,
or takes its process down with it, is an outcome with a reason; the rest go on.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from privgcn.errors import PrivGCNError
from privgcn.experiments.tasks import Result, Task, run_task


@dataclass(frozen=True)
class Outcome:
    """What became of a task: its results, or the reason why there are none."""

    task: Task
    results: list[Result] | None
    reason: str | None
    seconds: float


class Engine(Protocol):
    """Something that runs tasks.

    Attributes:
        workers: Tasks at a time.
        here: Whether they run on this machine.
    """

    workers: int
    here: bool

    def run(self, tasks: Iterable[Task]) -> Iterator[Outcome]:
        """Runs all tasks; closing the iterator stops what is under way."""


@dataclass(frozen=True)
class Answer:
    """What a worker sends back; plain, so that it travels between processes and nodes."""

    results: list[Result] | None
    reason: str | None
    seconds: float


def answer(kind: str, settings: Mapping[str, Any], seeds: Sequence[int]) -> Answer:
    """Runs a task in this process and catches whatever it raises."""
    begun = time.monotonic()
    try:
        results = run_task(kind, settings, seeds)
    except (Exception, SystemExit) as error:
        return Answer(None, reason_of(error), time.monotonic() - begun)
    return Answer(results, None, time.monotonic() - begun)


def reason_of(error: BaseException) -> str:
    """An error in one line: the message alone where it was raised on purpose."""
    if isinstance(error, PrivGCNError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def use_one_thread() -> None:
    """Tasks run side by side, one core each: threads inside a task would only collide."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(1)
