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
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from typing import Any

from privgcn.errors import ConfigError
from privgcn.experiments.engines import Outcome, one_thread, outcomes_of
from privgcn.experiments.tasks import Task, imports

_GRACE_SECONDS = 2.0
_AT_ONCE_ON_DEVICE = 8
# What PyTorch says of an error after which a process has no device; of no memory it does not.
_LOST = "CUDA error"

Company = list[Task]
"""Tasks that run in one pass; most are alone."""


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
        waiting = _queues(tasks)
        _import_once({company[0].kind for queue in waiting.values() for company in queue})
        team: list[_Worker] = []
        try:
            most = {"cpu": self.workers, "cuda": 1}
            for device, queue in waiting.items():
                team += [_Worker(queue.popleft()) for _ in range(min(most[device], len(queue)))]
            for worker in team:
                worker.fill(waiting[worker.device])
            while team:
                ready = wait([thing for worker in team for thing in worker.waitable])
                for worker in [w for w in team if any(t in ready for t in w.waitable)]:
                    outcomes = worker.outcomes()
                    queue = waiting[worker.device]
                    # The next task begins before anybody looks at the last one.
                    worker.fill(queue)
                    if not worker.under_way:
                        team.remove(worker)
                        worker.end()
                        if queue:
                            team.append(_Worker(queue.popleft()))
                            team[-1].fill(queue)
                    yield from outcomes
        finally:
            for worker in team:
                worker.end()


def _queues(tasks: Iterable[Task]) -> dict[str, deque[Company]]:
    """What waits for the cores, in the order given, and for the device, most steps first."""
    companies: dict[str, Company] = {}
    for task in tasks:
        companies.setdefault(task.company, []).append(task)
    waiting: dict[str, deque[Company]] = {"cpu": deque(), "cuda": deque()}
    for company in companies.values():
        waiting[company[0].device].append(company)
    ordered = sorted(waiting["cuda"], key=lambda company: -company[0].steps)
    return {**waiting, "cuda": deque(ordered)}


class _Worker:
    """One process and the companies of tasks it has at the moment.

    That is one task on a core. Tasks of a device share one process, and overlap: while one
    waits for the host, the device works for the others.
    """

    def __init__(self, company: Company) -> None:
        self.device = company[0].device
        self.under_way: list[Company] = []
        self._at_once = 1 if self.device == "cpu" else _AT_ONCE_ON_DEVICE
        context = _fresh_processes()
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, self._at_once), daemon=True)
        with _interrupts_held():
            self._process.start()
        theirs.close()
        self.give(company)

    @property
    def waitable(self) -> list[Any]:
        return [self._pipe, self._process.sentinel]

    def fill(self, queue: deque[Company]) -> None:
        """Gives tasks out of a queue while there is room; a dead worker gets none."""
        while queue and len(self.under_way) < self._at_once and self._process.is_alive():
            self.give(queue.popleft())

    def give(self, company: Company) -> None:
        self.under_way.append(company)
        self._begun = time.monotonic()
        try:
            self._pipe.send(company)
        except (BrokenPipeError, OSError):
            self._process.join(_GRACE_SECONDS)

    def outcomes(self) -> list[Outcome]:
        """What became of one company, or of all when the device is lost to the process."""
        try:
            found: list[Outcome] = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(_GRACE_SECONDS)
            seconds = time.monotonic() - self._begun
            return [
                Outcome(task, None, self._death(), seconds) for task in self.under_way.pop()
            ]
        ended = found[0].task.key
        self.under_way = [company for company in self.under_way if company[0].key != ended]
        if self.device == "cpu" or _LOST not in str(found[0].reason):
            return found
        # Nothing in the process can use the device again, and some would wait for it for ever.
        self.end()
        why = (
            "The process of the device was ended by a CUDA error, which this task or one "
            f"beside it may have caused: {found[0].reason}"
        )
        seconds = time.monotonic() - self._begun
        beside = [task for company in self.under_way for task in company]
        self.under_way = []
        return found + [Outcome(task, None, why, seconds) for task in beside]

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


def _fresh_processes() -> ForkServerContext | SpawnContext:
    """Processes that inherit neither threads nor locks, as copies of this one would.

    Where it can be, they are copies of one that has done nothing but import.
    """
    if "forkserver" in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("forkserver")
    return multiprocessing.get_context("spawn")


def _import_once(kinds: set[str]) -> None:
    """Starts the process that workers are copies of, with what their tasks import.

    That takes seconds in one process, and far more in many at once.
    """
    context, theirs = _fresh_processes(), one_thread()
    before = {name: os.environ.get(name) for name in theirs}
    if isinstance(context, SpawnContext):
        return
    context.set_forkserver_preload(sorted({name for kind in kinds for name in imports(kind)}))
    os.environ.update(theirs)
    try:
        with _interrupts_held():
            forkserver.ensure_running()
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


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


def _work(pipe: Connection, at_once: int) -> None:
    """A worker's life: tasks in, outcomes out, until the pipe closes."""
    # An interrupt at the keyboard reaches every process; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    one_at_a_time = threading.Lock()

    def answer(company: Company) -> None:
        outcomes = outcomes_of(company)
        with one_at_a_time:
            pipe.send(outcomes)

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
