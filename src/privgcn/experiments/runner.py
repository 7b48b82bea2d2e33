"""Runs what is missing of an experiment and stores it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from privgcn.errors import ConfigError
from privgcn.experiments.engines import Engine
from privgcn.experiments.progress import Progress, Quiet, Tally
from privgcn.experiments.store import RecordStore
from privgcn.experiments.tasks import Task

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class Summary:
    """What a call of the runner did.

    Attributes:
        runs: Runs of the experiment.
        kept: Runs that had a record before.
        done: Runs done now.
        failed: Runs without a record because their task failed, now or before.
        seconds: Wall time of this call.
    """

    runs: int
    kept: int
    done: int
    failed: int
    seconds: float


def run_tasks(
    tasks: Iterable[Task],
    store: RecordStore,
    engine: Engine,
    *,
    retry_failed: bool = True,
    progress: Progress | None = None,
) -> Summary:
    """Runs every task that has no records yet, the longest first.

    Records appear as tasks end, so stopping at any moment loses only what was under way.

    Args:
        tasks: An experiment, or any tasks.
        store: Where the records go; must be open.
        engine: Where the tasks run.
        retry_failed: Whether tasks that failed in an earlier call are tried again.
        progress: Shows how far it is.
    """
    begun = time.monotonic()
    shown: Progress = progress or Quiet()
    everything = list(tasks)
    pending = list(_pending(everything, store, retry_failed))
    runs = sum(len(task.seeds) for task in everything)
    left_failed = sum(len(store.failed(task)) for task in everything)
    kept = sum(len(task.seeds) - len(store.missing(task)) for task in everything)
    tally = Tally(runs=runs, weight=sum(task.weight for task in pending), kept=kept)
    tally.failed = 0 if retry_failed else left_failed
    tally.under_way = min(engine.workers, len(pending))
    outcomes = engine.run(sorted(pending, key=lambda task: -task.weight))
    try:
        shown.show(tally)
        for outcome in outcomes:
            if outcome.results is None:
                store.fail(outcome.task, str(outcome.reason))
                tally.failed += len(outcome.task.seeds)
            else:
                store.add(outcome.task, outcome.results, outcome.seconds)
                tally.done += len(outcome.task.seeds)
            tally.weight_done += outcome.task.weight
            shown.show(tally)
    finally:
        # Ends worker processes before anything else, also on an interrupt.
        close = getattr(outcomes, "close", None)
        if close is not None:
            close()
        shown.close()
    return Summary(runs, kept, tally.done, tally.failed, time.monotonic() - begun)


def summary_of(tasks: Sequence[Task], store: RecordStore) -> Summary:
    """What a store has of some tasks, without running any."""
    runs = sum(len(task.seeds) for task in tasks)
    kept = runs - sum(len(store.missing(task)) for task in tasks)
    return Summary(runs, kept, 0, sum(len(store.failed(task)) for task in tasks), 0.0)


def _pending(tasks: list[Task], store: RecordStore, retry_failed: bool) -> Iterator[Task]:
    for task in tasks:
        left = store.missing(task)
        if not retry_failed:
            failed = store.failed(task)
            left = tuple(seed for seed in left if seed not in failed)
        if left:
            yield task if left == task.seeds else task.with_seeds(left)


def make_engine(
    name: str = "local", *, workers: int | None = None, address: str | None = None
) -> Engine:
    """An engine by name.

    Args:
        name: ``local`` or ``ray``.
        workers: Of ``local``: processes at a time; default one per core.
        address: Of ``ray``: the cluster to join; default the one of the environment, or a
            new one on this machine.
    """
    if name == "local":
        from privgcn.experiments.local import LocalEngine

        if address is not None:
            raise ConfigError(
                f"The 'address' is for engine 'ray' only. Got {address!r} with engine 'local'. "
                "Add --engine ray."
            )
        return LocalEngine(workers)
    if name == "ray":
        from privgcn.experiments.cluster import RayEngine

        return RayEngine(address)
    raise ConfigError(f"The 'engine' must be one of {', '.join(ENGINES)}. Got {name!r}.")
