"""Records on disk: one file per run, and never half a task.

All records of a task appear in one atomic step: they are written into a temporary folder,
flushed, and the folder is renamed. A process that is killed at any moment leaves either
all records of a task or none, so going on never repeats a run and never loses one. Wall
times differ from run to run and have a file of their own; a record holds only what its
settings decide, so the same experiment gives the same bytes.

Layout: ``records/<task>/<run>.json``, ``failures/<configuration>.json``, ``torn/`` for what was
found damaged, ``times.jsonl``.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

from privgcn.errors import ConfigError, DataError
from privgcn.experiments.canonical import canonical, digest
from privgcn.experiments.grid import RECORD_FORMAT, Task

Record = dict[str, Any]
_TEMPORARY = ".writing-"
_FIELDS = {"format", "key", "kind", "settings", "seed", "replicas", "result", "digest"}


class RecordStore:
    """The records of a results folder; one process at a time may hold it.

    Attributes:
        folder: Where the records are.
        torn: Names of damaged records that were set aside when the store was opened.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.torn: list[str] = []
        self._records: dict[str, Record] = {}
        self._failures: dict[str, Record] = {}
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        for name in ("records", "failures"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self.folder / "lock")
        self._read()
        return self

    def __exit__(self, *details: object) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records.values())

    def __contains__(self, key: object) -> bool:
        return key in self._records

    def get(self, key: str) -> Record | None:
        """The record of a run, or ``None`` where there is none yet."""
        return self._records.get(key)

    @property
    def failures(self) -> list[Record]:
        """Failed tasks with their reasons."""
        return list(self._failures.values())

    def has_failed(self, task: Task) -> bool:
        """Whether this task failed before."""
        return task.configuration in self._failures

    def missing(self, task: Task) -> tuple[int, ...]:
        """The seeds of a task that have no record yet."""
        return tuple(seed for seed in task.seeds if task.run_key(seed) not in self)

    def add(self, task: Task, results: Sequence[Mapping[str, Any]], seconds: float) -> None:
        """Stores the records of a task, all of them or none."""
        records = [
            _record(task, seed, result)
            for seed, result in zip(task.seeds, results, strict=True)
        ]
        place = self.folder / "records" / task.key
        temporary = place.with_name(_TEMPORARY + task.key)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        for record in records:
            _write(temporary / f"{record['key']}.json", record)
        _flush_folder(temporary)
        os.rename(temporary, place)
        _flush_folder(place.parent)
        self._records.update({record["key"]: record for record in records})
        self._forget_failure(task.configuration)
        self._note_time(task, seconds)

    def fail(self, task: Task, reason: str) -> None:
        """Stores that a task failed, and why."""
        failure = {
            "format": RECORD_FORMAT,
            "configuration": task.configuration,
            "kind": task.kind,
            "settings": dict(task.settings),
            "seeds": list(task.seeds),
            "reason": reason,
        }
        place = self.folder / "failures" / f"{task.configuration}.json"
        temporary = place.with_name(_TEMPORARY + place.name)
        _write(temporary, failure)
        os.replace(temporary, place)
        _flush_folder(place.parent)
        self._failures[task.configuration] = failure

    def _forget_failure(self, key: str) -> None:
        self._failures.pop(key, None)
        (self.folder / "failures" / f"{key}.json").unlink(missing_ok=True)

    def _note_time(self, task: Task, seconds: float) -> None:
        line = json.dumps({"task": task.key, "seconds": round(seconds, 3)})
        with (self.folder / "times.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def seconds(self) -> dict[str, float]:
        """Seconds of each task, as far as they were noted."""
        times: dict[str, float] = {}
        with suppress(FileNotFoundError):
            text = (self.folder / "times.jsonl").read_text(encoding="utf-8", errors="replace")
            for line in text.splitlines():
                # A kill may cut the last line; times are for information only.
                with suppress(ValueError, KeyError, TypeError):
                    entry = json.loads(line)
                    times[entry["task"]] = float(entry["seconds"])
        return times

    def _read(self) -> None:
        self._records, self._failures, self.torn = {}, {}, []
        for place in sorted((self.folder / "records").iterdir()):
            if place.name.startswith(_TEMPORARY):
                shutil.rmtree(place)
                continue
            found = _read_task(place)
            if found is None:
                self._set_aside(place)
            else:
                self._records.update({record["key"]: record for record in found})
        for place in sorted((self.folder / "failures").iterdir()):
            if place.name.startswith(_TEMPORARY):
                place.unlink()
                continue
            self._read_failure(place)

    def _read_failure(self, place: Path) -> None:
        try:
            failure = json.loads(place.read_text(encoding="utf-8"))
            task = Task(failure["kind"], failure["settings"], tuple(failure["seeds"]))
        except (ValueError, KeyError, TypeError):
            self._set_aside(place)
            return
        if self.missing(task):
            self._failures[task.configuration] = failure
        else:
            # Killed after a retry succeeded and before its failure was forgotten.
            place.unlink()

    def _set_aside(self, place: Path) -> None:
        """Moves a damaged record out of the way: its runs count as missing."""
        torn = self.folder / "torn"
        torn.mkdir(exist_ok=True)
        target = torn / place.name
        number = 1
        while target.exists():
            target = torn / f"{place.name}.{number}"
            number += 1
        os.rename(place, target)
        self.torn.append(place.name)


def _record(task: Task, seed: int, result: Mapping[str, Any]) -> Record:
    record = {
        "format": RECORD_FORMAT,
        "key": task.run_key(seed),
        "kind": task.kind,
        "settings": dict(task.settings),
        "seed": seed,
        "replicas": list(task.seeds),
        "result": dict(result),
    }
    record["digest"] = digest(record)
    # What is kept in memory is what a later reader will see.
    plain: Record = json.loads(canonical(record))
    return plain


def _read_task(place: Path) -> list[Record] | None:
    """The records of one task, or ``None`` where anything is missing or damaged."""
    records: list[Record] = []
    try:
        for path in sorted(place.iterdir()):
            record = json.loads(path.read_text(encoding="utf-8"))
            if set(record) != _FIELDS or path.name != f"{record['key']}.json":
                return None
            if digest({k: v for k, v in record.items() if k != "digest"}) != record["digest"]:
                return None
            records.append(record)
        if not records:
            return None
        task = Task(records[0]["kind"], records[0]["settings"], tuple(records[0]["replicas"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    expected = {task.run_key(seed) for seed in task.seeds}
    whole = task.key == place.name and {record["key"] for record in records} == expected
    return records if whole else None


def _write(path: Path, value: Mapping[str, Any]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(canonical(value) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _locked(path: Path) -> IO[str]:
    """Holds the folder until the process ends; the system frees it even after a kill."""
    import fcntl

    file = path.open("a", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ConfigError(
            f"The results folder {path.parent} is in use by another process. "
            "Wait for it to end, or name another folder with --out."
        ) from None
    except OSError as error:
        file.close()
        raise DataError(
            f"The results folder {path.parent} can not be locked: {error}."
        ) from None
    return file
