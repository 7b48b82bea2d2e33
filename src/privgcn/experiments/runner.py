"""Runs what is missing of an experiment and stores it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from privgcn.errors import ConfigError
from privgcn.experiments.engines import Engine
from privgcn.experiments.progress import Progress, Tally
from privgcn.experiments.store import RecordStore
from privgcn.experiments.tasks import Task


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
    progress: Progress | None = None,
) -> Summary:
    """Runs every task that has no records yet, failed ones too, the longest first.

    Records appear in the open store as tasks end, so stopping at any moment loses only what
    was under way.
    """
    begun = time.monotonic()
    shown = progress or Progress()
    everything = list(tasks)
    pending = [task.with_seeds(left) for task in everything if (left := store.missing(task))]
    before = summary_of(everything, store)
    weight = sum(task.weight for task in pending)
    tally = Tally(runs=before.runs, weight=weight, kept=before.kept)
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
    seconds = time.monotonic() - begun
    return replace(before, done=tally.done, failed=tally.failed, seconds=seconds)


def summary_of(tasks: Sequence[Task], store: RecordStore) -> Summary:
    """What a store has of some tasks, without running any."""
    runs = sum(len(task.seeds) for task in tasks)
    kept = runs - sum(len(store.missing(task)) for task in tasks)
    return Summary(runs, kept, 0, sum(len(store.failed(task)) for task in tasks), 0.0)


def make_engine(
    name: str = "local",
    *,
    workers: int | None = None,
    address: str | None = None,
    device: str | None = None,
) -> Engine:
    """An engine by name, ``local`` or ``ray``.

    Args:
        name: Of the engine.
        workers: Of ``local``: processes at a time; default one per core.
        address: Of ``ray``: the cluster to join; default that of the environment, or a new one.
        device: Of ``ray``: where runs train. Of ``local``, each task says so itself.
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

        return RayEngine(address, device)
    raise ConfigError(f"The 'engine' must be one of local, ray. Got {name!r}.")
