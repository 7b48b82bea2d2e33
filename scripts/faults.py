"""Kills commands at random moments and takes their disk, clock and workers away.

    python scripts/faults.py [--times 50] [--verbs train,ranks] [--others 3] [--jobs 4]

After each fault the target must be absent or whole, the same command run again must end well,
epsilon must be what an undisturbed run has, and a ledger must hold a release once or not at
all. Every other kill comes right before a random file operation, where a half-written folder
would arise; the rest come at random times. Commands run in copies of one process that has
imported the package; training writes a checkpoint after every step. With ``--jobs`` many faults
are injected at once, each in a folder of its own. Exits with 1 if anything was lost, charged
twice, left half-written, or answered otherwise than by one line.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forked import Child, Work, call, command, import_everything, side_by_side, start

from privgcn.errors import PrivGCNError

LOST, TWICE, HALF, ANSWER = "lost", "charged twice", "half-written", "wrong answer"
KINDS = (LOST, TWICE, HALF, ANSWER)
# Faults that did not happen after all.
_LATE = "ended before the kill"
_MISSED = (_LATE, "no run under way", "went through")
_LIMIT = 180.0
_RANKS = 4
_FILE_EVENTS = {
    "os.chmod",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "shutil.rmtree",
    "tempfile.mkdtemp",
    "tempfile.mkstemp",
}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_PRIVATE = ["--epsilon", "4", "--delta", "1e-3", "--features", "hashing"]

Problem = tuple[str, str]
Look = Callable[[Path], list[Problem]]


@dataclass
class Verb:
    """A command, and what must hold after a kill and at its end.

    Attributes:
        name: What is killed.
        words: The command, given the folder that it works in.
        looked: Problems right after a kill, found in a copy of this process.
        ended: Problems after the command was run again.
        prepared: Fills the folder before the command.
        again: The command that goes on; default the same.
        ranks: How many processes share the work.
    """

    name: str
    words: Callable[[Path], list[str]]
    looked: Look = lambda place: []
    ended: Look = lambda place: []
    prepared: Callable[[Path], None] = lambda place: None
    again: Callable[[Path], list[str]] | None = None
    ranks: int = 1
    seconds: float = 0.0
    operations: int = 0

    def go_on(self, place: Path) -> list[str]:
        """The command after a fault."""
        return (self.again or self.words)(place)


@dataclass
class Tally:
    """What was done to one verb, and what came of it."""

    faults: Counter[str] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        """The counts, for ``--json``."""
        found = Counter(kind for kind, _ in self.problems)
        return {
            "faults": dict(self.faults),
            **{kind: found[kind] for kind in KINDS},
            "problems": [f"{kind}: {text}" for kind, text in self.problems],
        }


# What a folder holds.


def write_letters(folder: Path) -> None:
    """A small corpus of two classes with all three splits and some links."""
    folder.mkdir()
    words = {"heart": "pulse pressure valve beat", "skin": "rash itch cream spot"}
    lines, links = [], ["source,target"]
    for number in range(120):
        kind = ("heart", "skin")[number % 2]
        split = ("train", "train", "validation", "test")[number // 2 % 4]
        document = {"id": f"d{number}", "text": f"{words[kind]} letter {number % 7}"}
        lines.append(json.dumps({**document, "label": kind, "split": split}))
        if number >= 8:
            links.append(f"d{number},d{number - 8}")
    (folder / "documents.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "edges.csv").write_text("\n".join(links) + "\n")


def facts_of(folder: Path) -> dict[str, Any]:
    """What must be the same in every whole copy of a folder."""
    from privgcn.runs.folder import read_folder
    from privgcn.runs.run import verify

    statement = verify(folder).statement
    return {
        "epsilon": statement.epsilon,
        "delta": statement.delta,
        "steps": statement.plan.steps,
        "files": sorted(read_folder(folder).files),
    }


def look_at_folder(folder: Path, expected: Mapping[str, Any], *, there: bool) -> list[Problem]:
    """Problems of a run or release folder and of the drafts beside it."""
    from privgcn.runs.folder import read_folder

    problems: list[Problem] = []
    if folder.exists():
        try:
            found = facts_of(folder)
        except PrivGCNError as error:
            problems.append((HALF, f"{folder.name} is there and refused: {error}"))
        else:
            if found != expected:
                problems.append((HALF, f"{folder.name} reads as {found}, not {dict(expected)}"))
    elif there:
        problems.append((LOST, f"{folder.name} is not there"))
    for draft in folder.parent.glob(f".{folder.name}.*"):
        with suppress(PrivGCNError):
            files = sorted(read_folder(draft).files)
            if files != expected["files"]:
                problems.append((HALF, f"the draft {draft.name} reads as whole: {files}"))
    return problems


def look_at_ledger(path: Path, least: int, spent: float | None) -> list[Problem]:
    """Problems of a ledger that must hold at least so many of two releases."""
    from privgcn.privacy.ledger import Ledger

    try:
        entries = Ledger(path).entries()
        found = Ledger(path).spent(1e-3)
    except PrivGCNError as error:
        return [(LOST, f"the ledger cannot be read: {error}")]
    if len(entries) < least:
        return [(LOST, f"the ledger has {len(entries)} releases, not {least}")]
    if len(entries) > 2 or len({entry.digest for entry in entries}) < len(entries):
        return [(TWICE, f"the ledger has {len(entries)} releases, not 2")]
    if spent is not None and found != spent:
        return [(TWICE, f"the ledger adds up to {found}, not {spent}")]
    return []


def records_of(folder: Path) -> dict[str, str]:
    """The records of a results folder, by their place."""
    below = folder / "records"
    return {
        str(path.relative_to(below)): path.read_text()
        for path in below.glob("*/*.json")
        if not path.parent.name.startswith(".")
    }


def look_at_records(
    folder: Path, expected: Mapping[str, str], *, all_of: bool
) -> list[Problem]:
    """Problems of a results folder: each record whole, equal to that of a quiet run."""
    from privgcn.experiments.store import RecordStore

    if not folder.exists():
        return [(LOST, "no results")] if all_of else []
    with RecordStore(folder) as store:
        problems = [(HALF, f"a damaged record: {name}") for name in store.torn]
        kept = {record["key"] for record in store}
    found = records_of(folder)
    names = {Path(name).stem for name in found}
    if kept != names:
        problems.append((LOST, f"{len(names)} records, {len(kept)} readable"))
    # Which seeds share a pass depends on what was there before; what they gave does not.
    results = {Path(name).stem: json.loads(text)["result"] for name, text in expected.items()}
    for name, text in found.items():
        if json.loads(text)["result"] != results.get(Path(name).stem):
            problems.append((HALF, f"the record {name} differs from that of a quiet run"))
    if all_of and names != results.keys():
        problems.append((LOST, f"{len(names)} records of {len(results)}"))
    return problems


# How a command is run and killed.


def checkpoint_always() -> None:
    """So that a kill finds checkpoints, which are otherwise twenty seconds apart."""
    from privgcn.training.checkpoint import Checkpoint

    def offer(self: Checkpoint, state: Callable[[], Any]) -> None:
        self.write(state())

    Checkpoint.offer = offer  # type: ignore[method-assign]


def fork_workers() -> None:
    """Makes workers of ``reproduce`` copies of this process: none waits for imports."""
    from privgcn.experiments import local

    context: Any = multiprocessing.get_context("fork")
    local._fresh_processes = lambda: context
    local._import_once = lambda kinds: None


def count_operations(place: Path, at: int | None, told: Path | None) -> None:
    """Counts operations on files below ``place``; dies right before number ``at``."""
    below, done = str(place), 0
    synced = os.fsync

    def one_more() -> None:
        nonlocal done
        done += 1
        if done == at:
            os.kill(os.getpid(), signal.SIGKILL)
        if told is not None:
            with suppress(OSError):
                os.truncate(told, done)

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if event == "open":
            concerns = isinstance(given[2], int) and bool(given[2] & _WRITES)
        else:
            concerns = event in _FILE_EVENTS
        if concerns and any(str(each).startswith(below) for each in given[:2]):
            one_more()

    def fsync(handle: Any) -> None:
        one_more()
        synced(handle)

    os.fsync = fsync
    sys.addaudithook(hook)


def started(
    words: Sequence[str],
    place: Path,
    log: Path,
    *,
    at: int | None = None,
    told: Path | None = None,
) -> Child:
    """A command in a copy of this process."""

    def work() -> int | None:
        checkpoint_always()
        fork_workers()
        if at is not None or told is not None:
            count_operations(place, at, told)
        return command(words)()

    return start(work, log)


@dataclass
class Team:
    """Processes that share one training, and the place where they meet."""

    meeting: Child
    ranks: list[Child]

    @classmethod
    def of(cls, words: Sequence[str], place: Path, logs: Path, at: int | None = None) -> Team:
        """Starts all ranks; rank 0 dies right before its file operation number ``at``."""
        port = logs / "port"
        port.unlink(missing_ok=True)

        def meet() -> None:
            from torch.distributed import TCPStore

            store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
            (logs / "port.new").write_text(str(store.port))
            os.replace(logs / "port.new", port)
            while True:
                time.sleep(1.0)

        meeting = start(meet, logs / "meeting")
        while not port.exists():
            if meeting.ended() is not None:
                raise RuntimeError(meeting.said)
            time.sleep(0.002)
        environment = {
            "WORLD_SIZE": str(_RANKS),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port.read_text(),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCH_CPP_LOG_LEVEL": "ERROR",
            "PRIVGCN_RANK_TIMEOUT": "30",
        }

        def rank(number: int) -> Child:
            def work() -> int | None:
                checkpoint_always()
                if number == 0 and at is not None:
                    count_operations(place, at, None)
                return command(words)()

            own = {**environment, "RANK": str(number)}
            return start(work, logs / f"rank-{number}", own)

        return cls(meeting, [rank(number) for number in range(_RANKS)])

    def wait(self) -> list[int]:
        """Waits as torchrun does: once one rank fails, the others are told to end."""
        deadline = time.monotonic() + _LIMIT
        try:
            while any(rank.ended() is None for rank in self.ranks):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the ranks did not end within {_LIMIT:g} s")
                if any(rank.ended() not in (None, 0) for rank in self.ranks):
                    for rank in self.ranks:
                        if rank.ended() is None:
                            with suppress(ProcessLookupError):
                                os.kill(rank.pid, signal.SIGTERM)
                    for rank in self.ranks:
                        rank.wait(30.0)
                time.sleep(0.002)
            return [rank.wait(1.0) for rank in self.ranks]
        finally:
            for child in (*self.ranks, self.meeting):
                child.kill()


class Faults:
    """All faults of one session, in one folder."""

    def __init__(self, folder: Path, late: float) -> None:
        self.letters = folder / "letters"
        write_letters(self.letters)
        self.tallies: dict[str, Tally] = {}
        # Kills come up to so many times the duration of a quiet run after its start.
        self.late = late
        self.enter(folder, 0)

    def enter(self, folder: Path, seed: int | str) -> None:
        """Works in a folder from now on, with chances of its own."""
        self.folder, self.logs = folder, folder / "logs"
        self.logs.mkdir(parents=True)
        self.random = random.Random(seed)
        self._number = 0

    def take(self, found: Mapping[str, Any]) -> None:
        """Adds what a copy of this process found."""
        for name, each in found.items():
            tally = self.tallies.setdefault(name, Tally())
            tally.faults.update(each["faults"])
            tally.problems += [(kind, text) for kind, text in each["problems"]]

    def place(self, name: str) -> Path:
        """A fresh folder to work in."""
        self._number += 1
        place = self.folder / f"{name}-{self._number}"
        place.mkdir()
        return place

    def run(self, verb: Verb, words: Sequence[str], place: Path) -> tuple[int, str]:
        """A command to its end, undisturbed."""
        if verb.ranks > 1:
            team = Team.of(words, place, self.logs)
            codes = team.wait()
            return codes[0], team.ranks[0].said
        child = started(words, place, self.logs / "again")
        return child.wait(_LIMIT), child.said

    def asked(self, look: Look, place: Path) -> list[Problem]:
        """The problems that a look finds, in a copy of this process."""
        try:
            found = call(lambda: look(place), self.logs / "look")
        except (RuntimeError, TimeoutError) as error:
            return [(ANSWER, str(error))]
        return [(kind, text) for kind, text in found]

    # The verbs, each with what an undisturbed run of it leaves.

    def verb(self, name: str) -> Verb:
        """A verb that can be killed."""
        makers: dict[str, Callable[[], Verb]] = {
            "train": lambda: self._trained("train", 1),
            "tune": self._tuned,
            "release": self._released,
            "reproduce": self._reproduced,
            "ranks": lambda: self._trained("ranks", _RANKS),
        }
        return makers[name]()

    def quiet(self, verb: Verb) -> Path:
        """Runs a verb undisturbed; notes how long it takes and how many file operations."""
        return min(self._quiet(verb), self._quiet(verb), key=lambda found: found[0])[1]

    def _quiet(self, verb: Verb) -> tuple[float, Path]:
        place = self.place(f"quiet-{verb.name}")
        verb.prepared(place)
        told = self.logs / "operations"
        told.write_bytes(b"")
        begun = time.monotonic()
        if verb.ranks > 1:
            code, said = self.run(verb, verb.words(place), place)
        else:
            child = started(verb.words(place), place, self.logs / "quiet", told=told)
            code, said = child.wait(_LIMIT), child.said
        seconds = time.monotonic() - begun
        verb.operations = told.stat().st_size
        if code != 0:
            raise RuntimeError(f"{verb.name} fails undisturbed: {said}")
        verb.seconds = min(seconds, verb.seconds or seconds)
        return seconds, place

    def _folder_verb(self, verb: Verb) -> Verb:
        """A verb that leaves a run folder: absent or whole, as after a quiet run."""
        place = self.quiet(verb)
        facts = call(lambda: facts_of(place / "run"), self.logs / "facts")
        verb.looked = lambda place: look_at_folder(place / "run", facts, there=False)
        verb.ended = lambda place: look_at_folder(place / "run", facts, there=True)
        return verb

    def _trained(self, name: str, ranks: int) -> Verb:
        def words(place: Path) -> list[str]:
            recipe = ["--recipe", "paper-split", "--parts", "6", "--set", "training.epochs=6"]
            more = recipe if ranks > 1 else ["--recipe", "auto"]
            return ["train", str(self.letters), *_PRIVATE, *more, "--out", str(place / "run")]

        verb = self._folder_verb(Verb(name, words, ranks=ranks))
        if ranks > 1:
            # Ranks do not count; a train of one process writes as often.
            verb.operations = 40
        return verb

    def _tuned(self) -> Verb:
        def words(place: Path) -> list[str]:
            more = ["--expected-runs", "2", "--try", "training.reach=0.8,1.6"]
            return ["tune", str(self.letters), *_PRIVATE, *more, "--out", str(place / "run")]

        return self._folder_verb(Verb("tune", words))

    def _released(self) -> Verb:
        def done(words: list[str], place: Path) -> None:
            child = started(words, place, self.logs / "before")
            if child.wait(_LIMIT) != 0:
                raise RuntimeError(child.said)

        runs = []
        for number in range(2):
            runs.append(self.place("released") / "run")
            words = ["train", str(self.letters), *_PRIVATE, "--seed", str(number)]
            done([*words, "--out", str(runs[-1])], runs[-1].parent)

        def words_of(run: Path, place: Path, name: str) -> list[str]:
            ledger = ["--ledger", str(place / "ledger.jsonl")]
            return ["release", str(run), str(place / name), *ledger]

        verb = Verb(
            "release",
            lambda place: words_of(runs[1], place, "run"),
            # One release is in the ledger before.
            prepared=lambda place: done(words_of(runs[0], place, "first"), place),
        )
        quiet = self.quiet(verb)

        def known() -> tuple[dict[str, Any], float]:
            from privgcn.privacy.ledger import Ledger

            return facts_of(quiet / "run"), Ledger(quiet / "ledger.jsonl").spent(1e-3)

        facts, spent = call(known, self.logs / "facts")
        verb.looked = lambda place: [
            *look_at_folder(place / "run", facts, there=False),
            *look_at_ledger(place / "ledger.jsonl", 1, None),
        ]
        verb.ended = lambda place: [
            *look_at_folder(place / "run", facts, there=True),
            *look_at_ledger(place / "ledger.jsonl", 2, spent),
        ]
        return verb

    def _reproduced(self) -> Verb:
        grid = self.folder / "grid.toml"
        grid.write_text(
            f'seeds = 2\n[[grid]]\ndataset = "{self.letters}"\nrecipe = "auto"\n'
            'features = "hashing"\nepsilon = [2, 4]\n'
        )

        def words(place: Path) -> list[str]:
            out = ["--out", str(place / "results"), "--workers", "2"]
            return ["reproduce", "--config", str(grid), *out]

        verb = Verb("reproduce", words, again=lambda place: [*words(place), "--resume"])
        expected = records_of(self.quiet(verb) / "results")
        verb.looked = lambda place: look_at_records(place / "results", expected, all_of=False)
        verb.ended = lambda place: look_at_records(place / "results", expected, all_of=True)
        return verb

    # The faults.

    def begin(self, kind: str, verb: Verb) -> tuple[Tally, Path]:
        """Where faults of a kind are counted, and a folder in which the verb can begin."""
        place = self.place(verb.name)
        verb.prepared(place)
        return self.tallies.setdefault(kind, Tally()), place

    def kill(self, verb: Verb, number: int) -> None:
        """One kill of a verb and what must hold afterwards."""
        tally, place = self.begin(verb.name, verb)
        by_operation = bool(number % 2)
        at = self.random.randint(1, verb.operations) if by_operation else None
        moment = self.random.uniform(0.0, self.late * verb.seconds)
        if verb.ranks > 1:
            killed = self._kill_rank(verb, place, at, moment)
        else:
            child = started(verb.words(place), place, self.logs / "killed", at=at)
            if at is None:
                time.sleep(moment)
                code = child.kill()
            else:
                code = child.wait(_LIMIT)
            killed = code == -signal.SIGKILL
            if not killed and code != 0:
                tally.problems.append((ANSWER, f"exit code {code}: {child.said}"))
        how = "at a file operation" if by_operation else "at a random time"
        tally.faults[f"killed {how}" if killed else _LATE] += 1
        self._afterwards(verb, place, tally)

    def _kill_rank(self, verb: Verb, place: Path, at: int | None, moment: float) -> bool:
        team = Team.of(verb.words(place), place, self.logs, at)
        victim = self.random.choice(team.ranks)
        if at is None:
            deadline = time.monotonic() + moment
            while time.monotonic() < deadline and victim.ended() is None:
                time.sleep(0.002)
            victim.kill()
        return -signal.SIGKILL in team.wait()

    def _afterwards(self, verb: Verb, place: Path, tally: Tally) -> None:
        whole = (place / "run").exists()
        tally.problems += self.asked(verb.looked, place)
        before = records_of(place / "results")
        code, said = self.run(verb, verb.go_on(place), place)
        # A folder that was whole already is not replaced.
        if code != (2 if whole else 0) or "Traceback" in said:
            tally.problems.append((LOST, f"run again, exit code {code}: {said}"))
        tally.problems += self.asked(verb.ended, place)
        after = records_of(place / "results")
        if any(after.get(name) != text for name, text in before.items()):
            tally.problems.append((LOST, "a record from before the kill was made again"))
        shutil.rmtree(place, ignore_errors=True)

    def without_room(self, verb: Verb, room_left: int | None) -> None:
        """A disk of its own with so many bytes left, or read-only (``None``), and then not."""
        read_only = room_left is None
        name = "read-only folder" if read_only else "full disk"
        tally = self.tallies.setdefault(name, Tally())
        place = self.place("disk")
        room = self.logs / "room"

        def work() -> list[Problem]:
            mount(place)
            verb.prepared(place)
            filler = place / "filler"
            if room_left is None:
                remount(place, read_only=True)
            else:
                disk = os.statvfs(place)
                filler.write_bytes(bytes(disk.f_bavail * disk.f_frsize - room_left))
            child = started(verb.words(place), place, room)
            code = child.wait(_LIMIT)
            problems = [] if code == 0 else refused(code, child.said)
            reason = "Read-only file system" if read_only else "No space left on device"
            if (code == 0 and read_only) or (code != 0 and reason not in child.said):
                problems.append((ANSWER, f"exit code {code}: {child.said}"))
            if read_only:
                remount(place, read_only=False)
            else:
                filler.unlink()
            problems += verb.looked(place)
            again = verb.go_on(place)
            whole = (place / "run").exists()
            child = started(again, place, room)
            if child.wait(_LIMIT) != (2 if whole else 0):
                problems.append((LOST, f"run again with room: {child.said}"))
            return [*problems, *verb.ended(place), ("code", str(code))]

        problems = call(work, self.logs / "disk", 3 * _LIMIT)
        refusals = [text for kind, text in problems if kind == "code"]
        tally.faults[f"{verb.name} {'went through' if refusals == ['0'] else 'refused'}"] += 1
        tally.problems += [(kind, text) for kind, text in problems if kind != "code"]

    def with_small_files(self, verb: Verb) -> None:
        """No file may grow beyond some bytes."""
        tally, place = self.begin("limited file size", verb)
        most = self.random.choice((0, 100, 1_000, 5_000, 20_000))

        def work() -> int | None:
            checkpoint_always()
            fork_workers()
            # What it prints goes into a file too.
            reader, writer = os.pipe()
            os.dup2(writer, 1)
            os.dup2(writer, 2)
            del reader
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
            return command(verb.words(place))()

        code = start(work, self.logs / "small").wait(_LIMIT)
        if code not in (0, 2):
            tally.problems.append((ANSWER, f"{verb.name}, files of {most} bytes: code {code}"))
        tally.faults[verb.name] += 1
        self._afterwards(verb, place, tally)

    def with_jumping_clock(self, verb: Verb) -> None:
        """Every look at the clock says another year."""
        tally, place = self.begin("clock jumps", verb)
        seed = self.random.random()

        def work() -> int | None:
            fork_workers()
            jumps = random.Random(seed)
            for name in ("time", "monotonic", "perf_counter"):
                now = getattr(time, name)
                setattr(time, name, lambda now=now: now() + jumps.uniform(-3e7, 3e7))
            return command(verb.words(place))()

        child = start(work, self.logs / "clock")
        code = child.wait(_LIMIT)
        if code != 0:
            tally.problems.append((LOST, f"{verb.name}: {child.said}"))
        tally.faults[verb.name] += 1
        tally.problems += self.asked(verb.ended, place)

    def two_at_once(self, verb: Verb) -> None:
        """The same command twice in one folder, at the same time."""
        tally, place = self.begin("two processes", verb)
        children = [
            started(verb.words(place), place, self.logs / f"two-{number}") for number in (0, 1)
        ]
        codes = [child.wait(_LIMIT) for child in children]
        for code, child in zip(codes, children, strict=True):
            tally.problems += [] if code == 0 else refused(code, child.said)
        if 0 not in codes:
            tally.problems.append((LOST, f"{verb.name}: none of two ended well"))
        tally.faults[verb.name] += 1
        tally.problems += self.asked(verb.ended, place)

    def out_of_memory(self, verb: Verb) -> None:
        """A worker process of ``reproduce`` ends by SIGKILL, as the system would do it."""
        tally, place = self.begin("worker killed", verb)
        child = started(verb.words(place), place, self.logs / "memory")
        deadline = time.monotonic() + self.random.uniform(0.0, 0.7 * verb.seconds)
        while time.monotonic() < deadline and child.ended() is None:
            time.sleep(0.002)
        victim = None
        while victim is None and child.ended() is None:
            workers = children_of(child.pid)
            victim = self.random.choice(workers) if workers else None
        if victim is not None:
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        code = child.wait(_LIMIT)
        # One run failed and says why; or it was over.
        if code not in (0, 1) or (code == 1 and "ended by SIGKILL" not in child.said):
            tally.problems.append((ANSWER, f"code {code}: {child.said}"))
        tally.faults["one run failed" if code == 1 else "no run under way"] += 1
        self._afterwards(verb, place, tally)


def refused(code: int, said: str) -> list[Problem]:
    """A refusal must be one line, after what was noted before it, and exit code 2."""
    errors = [line for line in said.splitlines() if line.startswith("Error: ")]
    if code == 2 and len(errors) == 1 and "Traceback" not in said:
        return []
    return [(ANSWER, f"exit code {code}: {said}")]


def children_of(pid: int) -> list[int]:
    """The copies that a process made of itself; other programs that it started do not count."""
    found, own = [], Path("/proc/self/cmdline").read_bytes()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # After the name, which is in brackets: state and parent.
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent == pid and stat.with_name("cmdline").read_bytes() == own:
                found.append(int(stat.parent.name))
    return found


_NEW_USER, _NEW_MOUNTS = 0x10000000, 0x00020000
_READ_ONLY, _REMOUNT = 1, 32


def mount(place: Path) -> None:
    """Gives this process a small disk of its own; it vanishes with the process."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    _checked(libc.unshare(_NEW_USER | _NEW_MOUNTS))
    for name, text in (
        ("uid_map", f"0 {user} 1"),
        ("setgroups", "deny"),
        ("gid_map", f"0 {group} 1"),
    ):
        Path(f"/proc/self/{name}").write_text(text)
    _checked(libc.mount(b"tmpfs", bytes(place), b"tmpfs", 0, b"size=16m"))


def remount(place: Path, *, read_only: bool) -> None:
    """Takes the permission to write away, or gives it back."""
    libc = ctypes.CDLL(None, use_errno=True)
    flags = _REMOUNT | (_READ_ONLY if read_only else 0)
    _checked(libc.mount(b"tmpfs", bytes(place), b"tmpfs", flags, None))


def can_mount() -> bool:
    """Whether this system lets a user have a disk of their own."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            call(lambda: mount(Path(folder)), Path(folder).with_suffix(".log"))
        except RuntimeError:
            return False
        return True


def _checked(code: int) -> None:
    if code != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=50, help="kills of each verb")
    parser.add_argument(
        "--ranks", type=int, help="kills of the four ranks (default: as --times)"
    )
    parser.add_argument("--others", type=int, default=3, help="of every other fault, per verb")
    parser.add_argument("--verbs", default="train,tune,release,reproduce,ranks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--jobs", type=int, default=1, help="processors to keep busy")
    parser.add_argument("--json", type=Path, help="write the counts here")
    chosen = parser.parse_args(arguments)
    names = chosen.verbs.split(",")
    import_everything()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="privgcn-faults-") as folder:
        # Many at once slow each other down.
        faults = Faults(Path(folder), 1.05 if chosen.jobs == 1 else 1.4)
        verbs: dict[str, Verb] = {}
        for name in names:
            try:
                verbs[name] = faults.verb(name)
            except (RuntimeError, TimeoutError) as error:
                found = {"faults": {}, "problems": [[ANSWER, f"undisturbed: {error}"]]}
                faults.take({name: found})
        disks = can_mount()
        works = deque(_works(faults, verbs, chosen, disks))
        left = Counter(dict.fromkeys(names, 2 * chosen.times))
        for work, found, error in side_by_side(works, chosen.jobs, Path(folder)):
            if error is not None:
                found = {work.name: {"faults": {"failed": 1}, "problems": [[ANSWER, error]]}}
            faults.take(found)
            late = list(found.get(work.name, {"faults": {}})["faults"]) == [_LATE]
            if late and left[work.name] > 0:
                left[work.name] -= 1
                again = f"again-{left[work.name]}-{chosen.seed}"
                works.append(_kill(faults, verbs[work.name], again))
            if time.monotonic() - begun > 60.0 * chosen.minutes:
                works.clear()
            done = sum(sum(tally.faults.values()) for tally in faults.tallies.values())
            print(f"\r{done} faults, {len(works)} to come", end="", file=sys.stderr, flush=True)
            if chosen.json is not None:
                chosen.json.write_text(json.dumps(_record(faults, begun, disks), indent=1))
        print(file=sys.stderr)
    record = _record(faults, begun, disks)
    for name, each in record["faults"].items():
        what = ", ".join(f"{count} {how}" for how, count in each["faults"].items())
        bad = ", ".join(f"{each[kind]} {kind}" for kind in KINDS)
        print(f"{name:<18}{what}: {bad}")
        for problem in each["problems"]:
            print(f"    {problem}")
    total = record["total"]
    print(f"{total['faults']} faults injected in {total['seconds']:.0f} s.")
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(record, indent=1) + "\n")
    return int(any(total[kind] for kind in KINDS))


def _record(faults: Faults, begun: float, disks: bool) -> dict[str, Any]:
    each = {name: tally.record() for name, tally in faults.tallies.items()}
    total = {
        "faults": sum(
            count
            for one in each.values()
            for how, count in one["faults"].items()
            if not how.endswith(_MISSED)
        ),
        **{kind: sum(one[kind] for one in each.values()) for kind in KINDS},
        "seconds": round(time.monotonic() - begun, 1),
        "disks": disks,
    }
    return {"total": total, "faults": each}


def _works(
    faults: Faults, verbs: Mapping[str, Verb], chosen: argparse.Namespace, disks: bool
) -> Iterator[Work]:
    """Every fault, each in a copy of this process."""
    for verb in verbs.values():
        for kind, inject in _others(faults, verb, disks) if verb.ranks == 1 else []:
            for number in range(chosen.others):
                yield _work(faults, verb, f"{kind}-{number}-{chosen.seed}", inject)
    # In turns, so that whoever stops early has some of each.
    for number in range(chosen.times):
        for name, verb in verbs.items():
            if name != "ranks" or chosen.ranks is None or number < chosen.ranks:
                yield _kill(faults, verb, f"{number}-{chosen.seed}", number)


def _kill(faults: Faults, verb: Verb, seed: str, number: int = 0) -> Work:
    return _work(faults, verb, f"kill-{seed}", lambda: faults.kill(verb, number))


def _work(faults: Faults, verb: Verb, seed: str, inject: Callable[[], None]) -> Work:
    """One fault in a folder of its own; the answer is what it added to the tallies."""
    root = faults.folder

    def alone() -> dict[str, Any]:
        faults.enter(root / f"{verb.name}-{seed}", f"{verb.name}-{seed}")
        faults.tallies = {}
        inject()
        shutil.rmtree(faults.folder, ignore_errors=True)
        return {
            name: {"faults": dict(tally.faults), "problems": tally.problems}
            for name, tally in faults.tallies.items()
        }

    return Work(verb.name, 2 if verb.name == "reproduce" else verb.ranks, alone)


def _others(
    faults: Faults, verb: Verb, disks: bool
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Every fault but kills that a verb of one process can meet."""

    def full() -> None:
        faults.without_room(verb, 4096 * faults.random.choice((0, 1, 4, 8, 16, 32)))

    if disks:
        yield "full", full
        yield "read-only", lambda: faults.without_room(verb, None)
    yield "small", lambda: faults.with_small_files(verb)
    yield "clock", lambda: faults.with_jumping_clock(verb)
    yield "two", lambda: faults.two_at_once(verb)
    if verb.name == "reproduce":
        yield "memory", lambda: faults.out_of_memory(verb)


if __name__ == "__main__":
    sys.exit(main())
