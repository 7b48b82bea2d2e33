"""What an engine is: where tasks run, on the cores of this machine or on a cluster.

An engine takes tasks and yields outcomes in the order in which they end. A task that fails,
or takes its process down with it, is an outcome with a reason; the rest go on.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from privgcn.errors import PrivGCNError, one_line
from privgcn.experiments.tasks import Result, Task, run_company


@dataclass(frozen=True)
class Outcome:
    """What became of a task: its results, or the reason why there are none.

    It travels between processes and nodes.
    """

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


def outcome_of(task: Task) -> Outcome:
    """Runs a task in this process, on one thread, and catches whatever it raises."""
    (outcome,) = outcomes_of([task])
    return outcome


def outcomes_of(tasks: Sequence[Task]) -> list[Outcome]:
    """The same for tasks of one company; each is said to have taken its share of the time."""
    use_one_thread()
    begun = time.monotonic()
    found: Sequence[list[Result] | None]
    try:
        found, reason = run_company(tasks), None
    except (Exception, SystemExit) as error:
        found, reason = [None] * len(tasks), reason_of(error)
    seconds = (time.monotonic() - begun) / len(tasks)
    return [Outcome(t, own, reason, seconds) for t, own in zip(tasks, found, strict=True)]


def reason_of(error: BaseException) -> str:
    """An error in one line: the message alone where it was raised on purpose."""
    if isinstance(error, PrivGCNError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return one_line(f"{type(error).__name__}: {error}{where}")


def one_thread() -> dict[str, str]:
    """Variables of a process that computes on one thread, from its imports on."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    policy = os.environ.get("OMP_WAIT_POLICY", "passive")
    return {**dict.fromkeys(names, "1"), "OMP_WAIT_POLICY": policy}


def use_one_thread() -> None:
    """Tasks run side by side, one core each: threads inside a task would only collide."""
    os.environ.update(one_thread())
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(1)
