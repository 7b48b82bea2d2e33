"""Records on disk: one file per run, and never half a task.

All records of a task appear in one atomic step: they are written into a temporary folder,
flushed, and the folder is renamed. A process that is killed at any moment leaves either
all records of a task or none, so going on never repeats a run and never loses one. Wall
times differ from run to run and have a file of their own; a record holds only what its
settings and the code decide, so the same experiment of the same code gives the same bytes.

Layout: ``records/<task>/<run>.json``, ``failures/<run>.json``, ``torn/`` for what was found
damaged, ``times.jsonl``. Other names, such as ``.DS_Store``, are left alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

from privgcn.errors import ConfigError, DataError
from privgcn.experiments.origin import code_identity
from privgcn.experiments.tasks import RECORD_FORMAT, Task, canonical, digest
from privgcn.files import flush_folder, lock, write_atomically, writing

Record = dict[str, Any]
_TEMPORARY = ".writing-"
_TIMES = "times.jsonl"
_HASH = re.compile("[0-9a-f]{64}")
_FIELDS = {"format", "key", "kind", "settings", "seed", "replicas", "code", "result"}
_FIELDS |= {"digest"}
# What reading a damaged record may raise.
_DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


class RecordStore:
    """The records of a results folder; one process at a time may hold it.

    Args:
        folder: Where the records are.
        create: Whether a folder without records becomes a results folder.

    Attributes:
        folder: Where the records are.
        torn: Hashes of damaged records, that is of their runs, that were set aside when the
            store was opened.
    """

    def __init__(self, folder: str | os.PathLike[str], *, create: bool = True) -> None:
        self.folder = Path(folder)
        self._create = create
        self.torn: list[str] = []
        self._records: dict[str, Record] = {}
        self._failures: dict[str, Record] = {}
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        if not (self._create or (self.folder / "records").is_dir()):
            raise DataError(
                f"The results folder {self.folder} has no records. Run the experiment first, "
                "or name the folder of an earlier call with --out."
            )
        try:
            for name in ("records", "failures"):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
            self._lock = _locked(self.folder / "lock")
            self._read()
        except OSError as error:
            self.__exit__()
            raise ConfigError(
                f"The results folder must be a folder that can be read and written. Got "
                f"{self.folder}: {error.strerror or error}. Name another one with --out."
            ) from None
        except ConfigError:
            self.__exit__()
            raise
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

    def codes_of(self, tasks: Iterable[Task]) -> list[str]:
        """The identities of the code that made the records of some tasks."""
        keys = (task.run_key(seed) for task in tasks for seed in task.seeds)
        return sorted({self._records[key]["code"] for key in keys if key in self})

    def failures_of(self, tasks: Iterable[Task]) -> list[Record]:
        """The failures among some tasks; runs of one that failed alike are one entry."""
        keys = {task.run_key(seed) for task in tasks for seed in task.seeds}
        groups: dict[tuple[str, str], Record] = {}
        for failure in (self._failures[key] for key in self._failures if key in keys):
            group = groups.setdefault(
                (failure["configuration"], failure["reason"]), {**failure, "seeds": []}
            )
            group["seeds"] = sorted({*group["seeds"], *failure["seeds"]})
        return list(groups.values())

    def failed(self, task: Task) -> tuple[int, ...]:
        """The seeds of a task that failed and have no record since."""
        return tuple(seed for seed in task.seeds if task.run_key(seed) in self._failures)

    def missing(self, task: Task) -> tuple[int, ...]:
        """The seeds of a task that have no record yet."""
        return tuple(seed for seed in task.seeds if task.run_key(seed) not in self)

    def add(self, task: Task, results: Sequence[Mapping[str, Any]], seconds: float) -> None:
        """Stores the records of a task, all of them or none.

        Raises:
            ConfigError: The disk is full or read-only; what was there is unchanged.
        """
        records = [
            _record(task, seed, result)
            for seed, result in zip(task.seeds, results, strict=True)
        ]
        with writing(self.folder):
            self._write(task, records)
        self._records.update({record["key"]: record for record in records})
        for record in records:
            self._failures.pop(record["key"], None)
        with writing(self.folder):
            for record in records:
                (self.folder / "failures" / f"{record['key']}.json").unlink(missing_ok=True)
            note(self.folder / _TIMES, {"task": task.key, "seconds": round(seconds, 3)})

    def _write(self, task: Task, records: Sequence[Record]) -> None:
        place = self.folder / "records" / task.key
        temporary = place.with_name(_TEMPORARY + task.key)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        for record in records:
            write_atomically(temporary / f"{record['key']}.json", canonical(record) + "\n")
        if place.exists():
            # What damage left of this task, or a folder with nothing but a stray file.
            self._move_aside(place)
        os.rename(temporary, place)
        flush_folder(place.parent)

    def fail(self, task: Task, reason: str) -> None:
        """Stores that the runs of a task failed, and why."""
        for seed in task.seeds:
            key, failure = task.run_key(seed), _failure(task, seed, reason)
            write_atomically(
                self.folder / "failures" / f"{key}.json", canonical(failure) + "\n"
            )
            self._failures[key] = failure

    def seconds(self) -> dict[str, float]:
        """Seconds of each task, as far as they were noted."""
        times: dict[str, float] = {}
        for entry in noted(self.folder / _TIMES):
            with suppress(ValueError, KeyError, TypeError):
                times[entry["task"]] = float(entry["seconds"])
        return times

    def _read(self) -> None:
        self._records, self._failures, self.torn = {}, {}, []
        for place in sorted((self.folder / "records").iterdir()):
            if place.name.startswith(_TEMPORARY):
                shutil.rmtree(place)
            elif _HASH.fullmatch(place.name) and place.is_dir():
                self._read_task(place)
        for place in sorted((self.folder / "failures").iterdir()):
            if _is_named_by_hash(place):
                self._read_failure(place)

    def _read_task(self, place: Path) -> None:
        """Takes the good records of a task; a damaged one does not cost its siblings."""
        for path in sorted(place.iterdir()):
            if not _is_named_by_hash(path):
                continue
            record = _read_record(path)
            if record is None:
                self._check_format(path)
                self._set_aside(path)
            else:
                self._records[record["key"]] = record

    def _check_format(self, path: Path) -> None:
        """Leaves a record of another version where it is: it is not damaged.

        Raises:
            ConfigError: The record has another format.
        """
        record: Any = None
        with suppress(OSError, ValueError, RecursionError):
            record = json.loads(path.read_text(encoding="utf-8"))
        found = record.get("format") if isinstance(record, dict) else None
        if isinstance(found, int) and found != RECORD_FORMAT:
            raise ConfigError(
                f"The results folder {self.folder} holds records of another version of "
                f"privgcn (format {found}; this version has {RECORD_FORMAT}). They stay as "
                "they are. Name another folder with --out."
            )

    def _read_failure(self, place: Path) -> None:
        self._check_format(place)
        try:
            failure = json.loads(place.read_text(encoding="utf-8"))
            (seed,) = failure["seeds"]
            task = Task(failure["kind"], failure["settings"], (seed,))
            made = _failure(task, seed, str(failure["reason"]))
        except _DAMAGE:
            self._set_aside(place)
            return
        if place.stem != task.run_key(seed):
            self._set_aside(place)
        elif place.stem in self:
            # Killed after a retry succeeded and before its failure was forgotten.
            place.unlink()
        else:
            self._failures[place.stem] = made

    def _set_aside(self, place: Path) -> None:
        """Moves a damaged file out of the way: its run counts as missing."""
        self._move_aside(place)
        self.torn.append(place.stem)

    def _move_aside(self, place: Path) -> None:
        torn = self.folder / "torn"
        torn.mkdir(exist_ok=True)
        target, number = torn / place.name, 0
        while target.exists():
            number += 1
            target = torn / f"{place.name}.{number}"
        os.rename(place, target)


def note(path: Path, entry: Mapping[str, Any]) -> None:
    """Adds a line to a file of notes, which are for information only."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def noted(path: Path) -> list[dict[str, Any]]:
    """The lines of such a file, less any that a kill has cut."""
    entries = []
    with suppress(FileNotFoundError):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError):
                entries.append(json.loads(line))
    return [entry for entry in entries if isinstance(entry, dict)]


def _record(task: Task, seed: int, result: Mapping[str, Any]) -> Record:
    record = {
        "format": RECORD_FORMAT,
        "key": task.run_key(seed),
        "kind": task.kind,
        "settings": dict(task.settings),
        "seed": seed,
        "replicas": list(task.seeds),
        "code": code_identity(),
        "result": dict(result),
    }
    record["digest"] = digest(record)
    # What is kept in memory is what a later reader will see.
    plain: Record = json.loads(canonical(record))
    return plain


def _read_record(path: Path) -> Record | None:
    """A record, or ``None`` where it is damaged or not in its place."""
    try:
        record: Record = json.loads(path.read_text(encoding="utf-8"))
        if set(record) != _FIELDS:
            return None
        if digest({k: v for k, v in record.items() if k != "digest"}) != record["digest"]:
            return None
        task = Task(record["kind"], record["settings"], tuple(record["replicas"]))
        in_place = record["seed"] in task.seeds and task.key == path.parent.name
        right = in_place and path.stem == record["key"] == task.run_key(record["seed"])
    except _DAMAGE:
        return None
    return record if right else None


def _failure(task: Task, seed: int, reason: str) -> Record:
    return {
        "format": RECORD_FORMAT,
        "configuration": task.configuration,
        "kind": task.kind,
        "settings": dict(task.settings),
        "seeds": [seed],
        "reason": reason,
    }


def _is_named_by_hash(path: Path) -> bool:
    return path.suffix == ".json" and _HASH.fullmatch(path.stem) is not None


def _locked(path: Path) -> IO[str]:
    """Holds the folder until the process ends; the system frees it even after a kill."""
    file = path.open("a", encoding="utf-8")
    try:
        lock(file.fileno(), wait=False)
    except BlockingIOError:
        file.close()
        raise ConfigError(
            f"The results folder {path.parent} is in use by another process. "
            "Wait for it to end, or name another folder with --out."
        ) from None
    except OSError as error:
        file.close()
        raise DataError(
            f"The results folder {path.parent} cannot be locked: {error}."
        ) from None
    return file
