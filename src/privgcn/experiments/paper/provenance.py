"""Where the numbers of a page come from: command, seeds, day, code, time and machine."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import privgcn
from privgcn.experiments.origin import commit
from privgcn.experiments.progress import duration
from privgcn.experiments.store import RecordStore, note, noted
from privgcn.experiments.tasks import Task
from privgcn.files import writing

CALLS = "calls.jsonl"
"""In a results folder: a line when a call that runs something begins, and one when it ends."""


@dataclass(frozen=True)
class Provenance:
    """Where the numbers of an experiment, or of several, come from.

    Attributes:
        command: What the user typed.
        seeds: Of every configuration, in words.
        asked: How many runs there should be.
        codes: The identities of the code that made the runs.
        devices: How many runs there are, by where they trained.
        training_seconds: What the runs took one by one.
        wall_seconds: What the calls that ran something took; 0 where none was noted.
        machines: Where those calls ran.
        killed: How many calls left no word about their time.
    """

    command: str
    seeds: str
    asked: int
    codes: tuple[str, ...]
    devices: dict[str, int]
    training_seconds: float
    wall_seconds: float
    machines: tuple[str, ...]
    killed: int = 0

    @property
    def made(self) -> int:
        """How many runs there are."""
        return sum(self.devices.values())

    def sentences(self) -> list[str]:
        """All of it in words; a mixture of codes comes first."""
        at = commit()
        day = f"{date.today().isoformat()} by privgcn {privgcn.__version__}"
        written = f"Command: {self.command}. Seeds: {self.seeds}. "
        written += f"Written on {day}{'' if at is None else f' at commit {at}'}."
        if not self.made:
            return [f"{written} Nothing was run yet."]
        if len(self.codes) > 1:
            mixture = (
                f"These numbers are a MIXTURE: their runs are of {len(self.codes)} versions of "
                f"the code ({', '.join(self.codes)}), so differences between them may be "
                "differences of the code."
            )
            return [mixture, f"{written} {self._runs()}"]
        return [f"{written} All runs are of one code: {self.codes[0]}. {self._runs()}"]

    def _runs(self) -> str:
        where = ", ".join(f"{count} on {name}" for name, count in self.devices.items())
        runs = f"There are {self.made} runs ({where})"
        if self.made < self.asked:
            runs = (
                f"There are {self.made} of the {self.asked} runs that are asked for ({where}); "
                "means are over the seeds that are there"
            )
        time = f"Training took {duration(self.training_seconds)}, run by run."
        if self.wall_seconds:
            least = "at least " if self.killed else ""
            time += f" The calls that filled this folder took {least}"
            time += (
                f"{duration(self.wall_seconds)} of wall time on {' and '.join(self.machines)}."
            )
        return f"{runs}. {time}"


def provenance(
    store: RecordStore, tasks: Sequence[Task], seeds: str, command: str
) -> Provenance:
    """Of the records that a store has of some tasks."""
    keys = [task.run_key(seed) for task in tasks for seed in task.seeds]
    found = [record for key in keys if (record := store.get(key)) is not None]
    devices = Counter(str(record["result"].get("device", "cpu")) for record in found)
    # A record names the seeds that trained with it, wherever that was.
    trained = {Task(r["kind"], r["settings"], tuple(r["replicas"])).key for r in found}
    spent = store.seconds()
    begun, calls = _calls(store.folder)
    return Provenance(
        command,
        seeds,
        len(keys),
        tuple(sorted({record["code"] for record in found})),
        dict(sorted(devices.items())),
        sum(spent.get(key, 0.0) for key in trained),
        sum(seconds for seconds, _ in calls),
        tuple(sorted({machine for _, machine in calls})),
        begun - len(calls),
    )


@contextmanager
def noted_call(folder: Path, device: str, *, here: bool) -> Iterator[None]:
    """Notes how long a call ran and where, also where it is interrupted."""
    begun = time.monotonic()
    _note(folder, {"began": date.today().isoformat()})
    try:
        yield
    finally:
        machine = _machine(device) if here else "a cluster"
        _note(folder, {"seconds": round(time.monotonic() - begun, 3), "machine": machine})


def _note(folder: Path, entry: dict[str, Any]) -> None:
    with writing(folder):
        note(folder / CALLS, entry)


def _machine(device: str) -> str:
    cores = f"{os.cpu_count()} cores"
    if device == "cpu":
        return cores
    import torch

    if not torch.cuda.is_available():
        return cores
    return f"{cores} with one {torch.cuda.get_device_name()}"


def _calls(folder: Path) -> tuple[int, list[tuple[float, str]]]:
    """How many calls began, and time and machine of those that ended."""
    entries = noted(folder / CALLS)
    ended = [
        (float(one["seconds"]), str(one["machine"])) for one in entries if "seconds" in one
    ]
    return sum("began" in one for one in entries), ended
