"""The local engine: one process per core, and a crash costs one task.

The standard pool gives up all its tasks when one worker dies, and its workers outlive a
killed parent. Here every worker has a pipe of its own, so the parent knows whose task died,
and every worker watches the parent.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from privgcn.errors import ConfigError
from privgcn.experiments.engines import Outcome, outcome_of
from privgcn.experiments.tasks import Task

_GRACE_SECONDS = 2.0
_AT_ONCE_ON_DEVICE = 8


class LocalEngine:
    """Runs tasks in processes of this machine; default one per core this process may use.

    Tasks of a device run beside them, in one more process.
    """

    here = True

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise ConfigError(
                f"The 'workers' of LocalEngine must be at least 1. Got {workers}."
            )
        self.workers = workers or _cores()

    def run(self, tasks: Iterable[Task]) -> Iterator[Outcome]:
        """Runs all tasks; closing the iterator ends the workers."""
        waiting: dict[str, deque[Task]] = {"cpu": deque(), "cuda": deque()}
        for task in tasks:
            waiting[task.device].append(task)
        team: list[_Worker] = []
        try:
            for queue, most in ((waiting["cpu"], self.workers), (waiting["cuda"], 1)):
                team += [_Worker(queue.popleft()) for _ in range(min(most, len(queue)))]
            for worker in team:
                worker.fill(waiting[worker.device])
            while team:
                ready = wait([thing for worker in team for thing in worker.waitable])
                for worker in [w for w in team if any(t in ready for t in w.waitable)]:
                    outcome = worker.outcome()
                    queue = waiting[worker.device]
                    # The next task begins before anybody looks at the last one.
                    worker.fill(queue)
                    if not worker.tasks:
                        team.remove(worker)
                        worker.end()
                        if queue:
                            team.append(_Worker(queue.popleft()))
                            team[-1].fill(queue)
                    yield outcome
        finally:
            for worker in team:
                worker.end()


class _Worker:
    """One process and the tasks it has at the moment.

    That is one task on a core. Tasks of a device share one process, and overlap: while one
    waits for the host, the device works for the others.
    """

    def __init__(self, task: Task) -> None:
        self.device = task.device
        self.tasks: list[Task] = []
        self._at_once = 1 if task.device == "cpu" else _AT_ONCE_ON_DEVICE
        # A fresh interpreter: a copy of this one would inherit threads and locks.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, self._at_once), daemon=True)
        with _interrupts_held():
            self._process.start()
        theirs.close()
        self.give(task)

    @property
    def waitable(self) -> list[Any]:
        return [self._pipe, self._process.sentinel]

    def fill(self, queue: deque[Task]) -> None:
        """Gives tasks out of a queue while there is room; a dead worker gets none."""
        while queue and len(self.tasks) < self._at_once and self._process.is_alive():
            self.give(queue.popleft())

    def give(self, task: Task) -> None:
        self.tasks.append(task)
        self._begun = time.monotonic()
        try:
            self._pipe.send(task)
        except (BrokenPipeError, OSError):
            self._process.join(_GRACE_SECONDS)

    def outcome(self) -> Outcome:
        try:
            found: Outcome = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(_GRACE_SECONDS)
            task = self.tasks.pop()
            return Outcome(task, None, self._death(), time.monotonic() - self._begun)
        self.tasks = [task for task in self.tasks if task.key != found.task.key]
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
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(pipe: Connection, at_once: int) -> None:
    """A worker's life: tasks in, outcomes out, until the pipe closes."""
    # An interrupt at the keyboard reaches every process; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    one_at_a_time = threading.Lock()

    def answer(task: Task) -> None:
        outcome = outcome_of(task)
        with one_at_a_time:
            pipe.send(outcome)

    with suppress(EOFError):
        if at_once == 1:
            while True:
                answer(pipe.recv())
        with ThreadPoolExecutor(at_once) as pool:
            while True:
                pool.submit(answer, pipe.recv())


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
