"""The local engine: one process per core, and a crash costs one task.

The standard pool gives up all its tasks when one worker dies, and its workers outlive a
killed parent. Here every worker has a pipe of its own, so the parent knows whose task died,
and every worker watches the parent.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from privgcn.errors import ConfigError
from privgcn.experiments.engines import Outcome, outcome_of
from privgcn.experiments.tasks import Task

_GRACE_SECONDS = 2.0


class LocalEngine:
    """Runs tasks in processes of this machine; default one per core this process may use."""

    here = True

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise ConfigError(
                f"The 'workers' of LocalEngine must be at least 1. Got {workers}."
            )
        self.workers = workers or _cores()

    def run(self, tasks: Iterable[Task]) -> Iterator[Outcome]:
        """Runs all tasks; closing the iterator ends the workers."""
        waiting = iter(tasks)
        team: list[_Worker] = []
        try:
            for task in waiting:
                team.append(_Worker(task))
                if len(team) == self.workers:
                    break
            while team:
                ready = wait([thing for worker in team for thing in worker.waitable])
                for worker in [w for w in team if any(t in ready for t in w.waitable)]:
                    outcome = worker.outcome()
                    following = next(waiting, None)
                    # The next task begins before anybody looks at the last one.
                    if following is not None and worker.alive:
                        worker.give(following)
                    else:
                        team.remove(worker)
                        worker.end()
                        if following is not None:
                            team.append(_Worker(following))
                    yield outcome
        finally:
            for worker in team:
                worker.end()


class _Worker:
    """One process and the task it has at the moment."""

    def __init__(self, task: Task) -> None:
        # A fresh interpreter: a copy of this one would inherit threads and locks.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs,), daemon=True)
        with _interrupts_held():
            self._process.start()
        theirs.close()
        self.give(task)

    @property
    def waitable(self) -> list[Any]:
        return [self._pipe, self._process.sentinel]

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def give(self, task: Task) -> None:
        self._task, self._begun = task, time.monotonic()
        try:
            self._pipe.send(task)
        except (BrokenPipeError, OSError):
            self._process.join(_GRACE_SECONDS)

    def outcome(self) -> Outcome:
        try:
            found: Outcome = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(_GRACE_SECONDS)
            return Outcome(self._task, None, self._death(), time.monotonic() - self._begun)
        return found

    def _death(self) -> str:
        code = self._process.exitcode
        if code is not None and code < 0:
            name = signal.Signals(-code).name
            hint = " (often: out of memory)" if -code == signal.SIGKILL else ""
            return f"The worker process was ended by {name}{hint}."
        return f"The worker process ended with exit code {code}."

    def end(self) -> None:
        self._pipe.close()
        self._process.terminate()
        self._process.join(_GRACE_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Processes that begin in here never see an interrupt at the keyboard; this one later."""
    # Started first, because its start would let interrupts through again.
    resource_tracker.ensure_running()
    if sys.platform == "win32":  # each process has its own console events there
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(pipe: Connection) -> None:
    """A worker's life: a task in, an outcome out, until the pipe closes."""
    # An interrupt at the keyboard reaches every process; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError):
        while True:
            pipe.send(outcome_of(pipe.recv()))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
