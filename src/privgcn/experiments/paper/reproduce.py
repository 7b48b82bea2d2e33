"""Runs named experiments into a results folder: the working part of ``privgcn reproduce``.

Runs of all experiments share one store, so what two of them have in common is trained once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from privgcn.errors import ConfigError, DataNotAvailableError
from privgcn.experiments.declared import Declared
from privgcn.experiments.engines import Engine
from privgcn.experiments.origin import code_identity
from privgcn.experiments.paper.comparison import Compared, compared
from privgcn.experiments.paper.mapping import claims
from privgcn.experiments.paper.provenance import Provenance, noted_call, provenance
from privgcn.experiments.paper.tables import in_order
from privgcn.experiments.paper.takeaways import takeaways
from privgcn.experiments.paper.targets import (
    Target,
    chosen_targets,
    declared_target,
    fitting_datasets,
    make_options,
)
from privgcn.experiments.progress import Progress
from privgcn.experiments.results import Options, Presentation, Results
from privgcn.experiments.runner import Summary, run_tasks, summary_of
from privgcn.experiments.store import RecordStore
from privgcn.experiments.tasks import Task
from privgcn.experiments.tasks import label as run_label
from privgcn.experiments.train_task import check_device
from privgcn.report.results import Takeaway


@dataclass(frozen=True)
class Shown:
    """What one experiment of a call shows, and where its files are."""

    name: str
    title: str
    folder: Path
    presentation: Presentation


@dataclass(frozen=True)
class Reproduction:
    """What a call did.

    Attributes:
        summary: Runs kept, done and failed, and the wall time.
        shown: Tables and figures of each experiment.
        failures: Failed runs with their label, settings, seeds and reason; runs of one
            configuration that failed alike are one entry.
        torn: Damaged records that were set aside and run again, with the run where known.
        provenance: Where the numbers of all experiments come from.
        takeaways: The paper's take-aways, judged from every record of the folder.
        compared: Every published number beside ours.
        results: The records of the folder, for the seeds that all experiments have.
    """

    summary: Summary
    shown: list[Shown]
    failures: list[dict[str, Any]]
    torn: list[str]
    provenance: Provenance
    takeaways: list[Takeaway]
    compared: list[Compared]
    results: Results


def reproduce(
    name: str | Declared,
    folder: Path,
    engine: Engine,
    *,
    datasets: Sequence[str] | None = None,
    seeds: int | None = None,
    quick: bool = False,
    resume: bool = False,
    only_show: bool = False,
    mixed: bool = False,
    command: str = "privgcn reproduce",
    device: str | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Runs an experiment, or all of them, and says what came out.

    Args:
        name: An experiment, several with commas between them, or ``all``; or one that a user
            declared, whose datasets and seeds are its own.
        folder: The results folder.
        engine: Where runs run.
        datasets: Default: what each experiment runs on in the paper, as far as it is here.
        seeds: How many of every configuration.
        quick: The small size.
        resume: Go on in a folder that has records; failed runs are tried again.
        only_show: Run nothing: make tables and figures of the records that are there.
        mixed: Go on beside records that other code made; every page then says so.
        command: What the user typed, for the pages.
        device: Where runs train: ``auto``, ``cpu`` or ``cuda``; default as the environment
            says, else ``cpu``.
        progress: Shows how far it is.

    Raises:
        ConfigError: The folder cannot be written, or has records and ``resume`` was not
            asked for, or has records of other code; or no run could work with these datasets
            or on this device.
        DataError: There is nothing to show.
        DataNotAvailableError: No data for any experiment.
    """
    where = check_device(device, here=engine.here)
    if isinstance(name, Declared):
        chosen = [_Chosen("declared", *declared_target(name), [])]
    else:
        chosen = list(_with_options(name, datasets, seeds, quick))
    with RecordStore(folder, create=not only_show) as store:
        if len(store) and not (resume or only_show):
            raise ConfigError(
                f"The results folder {folder} has {len(store)} records of an earlier call. "
                "Add --resume to go on with them, or name another folder with --out."
            )
        tasks = list(_tasks(chosen, where))
        others = [code for code in store.codes_of(tasks) if code != code_identity()]
        if others and not (only_show or mixed):
            raise ConfigError(
                f"The results folder {folder} has records of other code ({', '.join(others)}; "
                f"this is {code_identity()}). Name another folder with --out, or add --mixed: "
                "then every page says that its numbers are of several versions."
            )
        if only_show:
            summary = summary_of(tasks, store)
        else:
            with noted_call(folder, where, here=engine.here):
                summary = run_tasks(tasks, store, engine, progress=progress)
        shown = [
            _shown(store, one, folder / one.label if len(chosen) > 1 else folder, command)
            for one in chosen
        ]
        failures = [
            {"label": run_label(f["kind"], f["settings"], f["seeds"]), **f}
            for f in store.failures_of(tasks)
        ]
        # The seeds that all have, so that the same cell is the same number everywhere.
        everything = Results(store, range(min(len(one.options.seeds) for one in chosen)))
        named = in_order({name for one in chosen for name in one.options.datasets})
        return Reproduction(
            summary,
            shown,
            failures,
            _torn_labels(store, tasks),
            provenance(store, tasks, _seeds(chosen), command),
            takeaways(everything, named),
            compared(everything, claims()),
            everything,
        )


class _Chosen(NamedTuple):
    """An experiment of a call, and sentences about what it leaves out."""

    label: str
    target: Target
    options: Options
    left_out: list[str]

    @property
    def seeds(self) -> str:
        """In words."""
        first, last = self.options.seeds[0], self.options.seeds[-1]
        return str(first) if first == last else f"{first} to {last}"


def _shown(store: RecordStore, one: _Chosen, place: Path, command: str) -> Shown:
    """Tables and figures of an experiment, with notes on where their numbers come from."""
    made = one.target.present(Results(store, one.options.seeds), one.options)
    origin = provenance(store, list(one.target.plan(one.options)), one.seeds, command)
    *mixture, written = origin.sentences()
    asked = [one.target.question] if one.target.question else []
    notes = [*mixture, *asked, *made.notes, *one.left_out, written]
    return Shown(one.label, one.target.title, place, replace(made, notes=notes))


def _seeds(chosen: Sequence[_Chosen]) -> str:
    """The seeds of most experiments, and which have others."""
    usual = Counter(one.seeds for one in chosen).most_common(1)[0][0]
    others = [f"{one.label}: {one.seeds}" for one in chosen if one.seeds != usual]
    return f"{usual} ({', '.join(others)})" if others else usual


def _torn_labels(store: RecordStore, tasks: Sequence[Task]) -> list[str]:
    """Damaged records by their hashes, each with its run where it is among the tasks."""
    if not store.torn:
        return []
    known = {
        task.run_key(seed): run_label(task.kind, task.settings, [seed])
        for task in tasks
        for seed in task.seeds
    }
    return [f"{known[key]} ({key})" if key in known else key for key in store.torn]


def _with_options(
    name: str, datasets: Sequence[str] | None, seeds: int | None, quick: bool
) -> Iterator[_Chosen]:
    targets = chosen_targets(name)
    found = False
    for label, wanted in fitting_datasets(targets, datasets).items():
        target = targets[label]
        try:
            options, notes = make_options(target, datasets=wanted, seeds=seeds, quick=quick)
        except DataNotAvailableError:
            if len(targets) == 1 or datasets is not None:
                raise
            continue
        found = True
        yield _Chosen(label, target, options, notes)
    if not found:
        raise DataNotAvailableError(
            "No experiment has its data on this machine. Download some with: privgcn fetch "
            "cora, or set PRIVGCN_DATA to a folder that holds them."
        )


def _tasks(chosen: Sequence[_Chosen], device: str) -> Iterator[Task]:
    """Every configuration once, with the most seeds that any experiment asks for."""
    merged: dict[str, Task] = {}
    for one in chosen:
        for task in one.target.plan(one.options):
            other = merged.get(task.configuration)
            if other is None or len(task.seeds) > len(other.seeds):
                merged[task.configuration] = task
    for task in merged.values():
        yield from task.on(device).pieces()
