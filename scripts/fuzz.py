"""Feeds broken and hostile files to everything that reads one.

    python scripts/fuzz.py [--inputs 2000] [--only WORDS] [--engine own|atheris] [--jobs 4]

An input is a valid file after some mutations; one that reaches lines of the package that none
reached before is kept and mutated further. Each must be read, or refused by an error of our
own, in one line. Anything else is a crash: another exception, a process that dies, more than
10 s of computing, more than 1 GiB of memory, a program or connection started, a pickle that
imports, a file opened outside of the folder. With ``--jobs`` every target is tried twice at
once, from two seeds. Exits with 1 if there was a crash; ``--keep`` names a folder for such
inputs.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import math
import mmap
import os
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
import types
import zipfile
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from forked import Child, Work, import_everything, side_by_side, start
from fuzz_targets import TARGETS, Target

import privgcn
from privgcn.errors import LONGEST_MESSAGE, PrivGCNError

_SECONDS = 10.0
_SILENT_SECONDS = 60.0
_MEMORY = 1 << 30
_MOST_BYTES = 1 << 20
_MOST_DEATHS = 5
_PACKAGE = str(Path(privgcn.__file__).parent) + os.sep

# What no input may do.

_FORBIDDEN = {
    *("os.exec", "os.fork", "os.forkpty", "os.kill", "os.posix_spawn", "os.spawn", "os.system"),
    *("subprocess.Popen", "socket.bind", "socket.connect", "urllib.Request"),
    "pickle.find_class",
}
_CHANGES = {"os.chmod", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link"}
_READABLE = (
    *(sys.prefix, sys.base_prefix, str(Path(privgcn.__file__).parents[1])),
    *("/proc", "/sys", "/etc/ld", "/usr", "/lib", os.devnull),
    *(os.path.realpath(place) for place in sys.path if place),
)


class Guard:
    """Watches what a process does while an input is read."""

    def __init__(self, place: Path) -> None:
        self.place = str(place)
        self.watching = False
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, given: tuple[Any, ...]) -> None:
        if not self.watching:
            return
        if event in _FORBIDDEN:
            self.seen.append(f"{event} {given!r:.200}")
        elif event in _CHANGES and given[-1] in (None, -1):
            # Otherwise the name is one in a folder that is open, and was looked at then.
            self._inside(event, given[0], ())
        elif event == "open" and not isinstance(given[0], int):
            writes = isinstance(given[2], int) and given[2] & (
                os.O_WRONLY | os.O_RDWR | os.O_CREAT
            )
            self._inside("open", given[0], () if writes else _READABLE)

    def _inside(self, event: str, path: Any, others: tuple[str, ...]) -> None:
        if path is None:
            return
        real = os.path.abspath(os.fsdecode(path))
        if not real.startswith((self.place, *others)):
            self.seen.append(f"{event} {real:.200}")


class TooSlowError(BaseException):
    """An input took too long; nothing in between may swallow that."""


def _too_slow(number: int, frame: types.FrameType | None) -> None:
    raise TooSlowError


def attempted(target: Target, guard: Guard, place: Path, data: bytes) -> tuple[str, str]:
    """Reads one input: ``read``, ``refused`` or ``crash``, and why."""
    for path in sorted(place.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    guard.seen.clear()
    outcome, why = "read", ""
    signal.setitimer(signal.ITIMER_PROF, _SECONDS)
    guard.watching = True
    try:
        target.attempt(place, data)
    except PrivGCNError as error:
        outcome = "refused"
        said = str(error)
        if not (0 < len(said) <= LONGEST_MESSAGE and said.isprintable()):
            outcome = "crash"
            why = f"a message of {len(said)} characters that is not one short line"
    except zipfile.BadZipFile:
        # An archive that carries several files to a target must itself be whole.
        outcome = "refused"
    except TooSlowError:
        outcome, why = "crash", f"more than {_SECONDS:g} s"
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [f for f in frames if f.filename.startswith(_PACKAGE)] or frames
        where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
        outcome, why = "crash", f"{type(error).__name__} at {where}: {error!s:.200}"
    finally:
        guard.watching = False
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    if guard.seen:
        return "crash", guard.seen[0]
    return outcome, why


@dataclass
class Lines:
    """Lines of the package that ran."""

    ever: set[tuple[types.CodeType, int]] = field(default_factory=set)
    now: set[tuple[types.CodeType, int]] = field(default_factory=set)

    def _inner(self, frame: types.FrameType, event: str, value: Any) -> Any:
        self.now.add((frame.f_code, frame.f_lineno))
        return self._inner

    def _outer(self, frame: types.FrameType, event: str, value: Any) -> Any:
        return self._inner if frame.f_code.co_filename.startswith(_PACKAGE) else None

    @contextlib.contextmanager
    def traced(self) -> Iterator[None]:
        """Collects the lines that run in the block."""
        self.now = set()
        sys.settrace(self._outer)
        try:
            yield
        finally:
            sys.settrace(None)

    def new(self) -> bool:
        """Whether the last block ran lines that none ran before."""
        more = not self.now <= self.ever
        self.ever |= self.now
        return more


@dataclass
class Session:
    """One target in one process after another, until enough inputs were tried."""

    target: Target
    folder: Path
    seed: int
    tried: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    crashes: dict[str, bytes] = field(default_factory=dict)
    lines: int = 0
    deaths: int = 0

    def run(self, inputs: int, engine: str, until: float) -> None:
        """Tries so many inputs."""
        shared = mmap.mmap(-1, 64)
        while self.tried < inputs and self.deaths <= _MOST_DEATHS and time.monotonic() < until:
            shared[:8] = bytes(8)
            left = inputs - self.tried
            work = partial(self._own if engine == "own" else self._atheris, shared, left, until)
            child = start(work, self.folder / "log")
            code, died = self._watched(child, shared)
            self.tried += struct.unpack("<q", shared[:8])[0]
            self._collect()
            if died or code != 0:
                self.deaths += 1
                current = self.folder / "current"
                words = "no answer" if died else f"the process ended with {code}"
                last = child.said.strip().splitlines()[-1:] or [""]
                data = current.read_bytes() if current.exists() else b""
                self.crashes[f"{words}: {last[0]:.200}"] = data

    def _watched(self, child: Child, shared: mmap.mmap) -> tuple[int, bool]:
        seen, since = shared[:8], time.monotonic()
        while (code := child.ended()) is None:
            time.sleep(0.01)
            if shared[:8] != seen:
                seen, since = shared[:8], time.monotonic()
            elif time.monotonic() - since > _SILENT_SECONDS:
                return child.kill(), True
        return code, False

    def _collect(self) -> None:
        found = self.folder / "found.json"
        if found.exists():
            record = json.loads(found.read_text())
            for name, count in record["counts"].items():
                self.counts[name] = self.counts.get(name, 0) + count
            self.lines = max(self.lines, record["lines"])
            for why, data in record["crashes"].items():
                self.crashes[why] = bytes.fromhex(data)
            found.unlink()

    def _limited(self) -> tuple[Guard, Path]:
        place = self.folder / "place"
        place.mkdir(exist_ok=True)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + _MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        signal.signal(signal.SIGPROF, _too_slow)
        tempfile.tempdir = str(place)
        return Guard(place), place

    def _seeds(self) -> list[bytes]:
        folder = self.folder / "seeds"
        folder.mkdir(exist_ok=True)
        return self.target.seeds(folder)

    def _own(self, shared: mmap.mmap, inputs: int, until: float) -> None:
        """Mutates what reached new lines."""
        draw = random.Random(self.seed + self.deaths)
        pool = self._seeds()
        guard, place = self._limited()
        lines = Lines()
        counts: dict[str, int] = {}
        crashes: dict[str, str] = {}

        def told() -> None:
            record = {"counts": counts, "crashes": crashes, "lines": len(lines.ever)}
            (self.folder / "found.new").write_text(json.dumps(record))
            os.replace(self.folder / "found.new", self.folder / "found.json")

        waiting = list(pool)
        for number in range(1, inputs + 1):
            if time.monotonic() > until:
                break
            if waiting:
                data = waiting.pop()
            else:
                data = draw.choice(pool)
                for _ in range(draw.choice((1, 1, 1, 2, 4))):
                    data = draw.choice(self.target.mutators)(draw, data)[:_MOST_BYTES]
            (self.folder / "current").write_bytes(data)
            with lines.traced():
                outcome, why = attempted(self.target, guard, place, data)
            if lines.new() and len(data) <= 1 << 16:
                pool.append(data)
            counts[outcome] = counts.get(outcome, 0) + 1
            if outcome == "crash":
                crashes.setdefault(why, data.hex())
            if outcome == "crash" or number % 100 == 0:
                told()
            shared[:8] = struct.pack("<q", number)
        told()

    def _atheris(self, shared: mmap.mmap, inputs: int, until: float) -> None:
        """Leaves the mutations to libFuzzer; a crash ends the process."""
        import atheris

        for name, module in list(sys.modules.items()):
            if name.startswith("privgcn."):
                _instrument(atheris, module)
        corpus = self.folder / "corpus"
        corpus.mkdir(exist_ok=True)
        for number, data in enumerate(self._seeds()):
            (corpus / str(number)).write_bytes(data)
        guard, place = self._limited()
        tried = 0

        def one(data: bytes) -> None:
            nonlocal tried
            (self.folder / "current").write_bytes(data)
            outcome, why = attempted(self.target, guard, place, data)
            tried += 1
            shared[:8] = struct.pack("<q", tried)
            if outcome == "crash":
                print(why, flush=True)
                os._exit(77)
            if time.monotonic() > until:
                os._exit(0)

        names = [sys.argv[0], f"-atheris_runs={inputs}", "-max_len=65536", "-rss_limit_mb=0"]
        atheris.Setup([*names, f"-artifact_prefix={self.folder}/", str(corpus)], one)
        atheris.Fuzz()


def _instrument(atheris: Any, module: types.ModuleType) -> None:
    for owner in (module, *(v for v in vars(module).values() if isinstance(v, type))):
        if getattr(owner, "__module__", module.__name__) == module.__name__:
            for value in list(vars(owner).values()):
                function = getattr(value, "__func__", value)
                if getattr(function, "__module__", None) == module.__name__ and isinstance(
                    function, types.FunctionType
                ):
                    atheris.instrument_func(function)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=2_000, help="for each target")
    parser.add_argument("--only", default="", help="targets whose name holds these words")
    parser.add_argument("--engine", choices=("own", "atheris"), default="own")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--jobs", type=int, default=1, help="processors to keep busy")
    parser.add_argument("--keep", type=Path, help="write inputs that crash into this folder")
    parser.add_argument("--json", type=Path, help="write the counts here")
    chosen = parser.parse_args(arguments)
    if chosen.engine == "atheris" and importlib.util.find_spec("atheris") is None:
        print("Error: atheris is not installed. Use --engine own.", file=sys.stderr)
        return 2
    import_everything()
    begun = time.monotonic()
    targets = [target for target in TARGETS if chosen.only in target.name]
    shares = 1 if chosen.jobs == 1 else 2
    works = deque(
        Work(target.name, 1, partial(_tried, target, chosen, chosen.seed + number, shares))
        for target in targets
        for number in range(shares)
    )
    # Each gets its share of the time, so that none is left out.
    turns = max(1, math.ceil(len(works) / chosen.jobs))
    chosen.seconds = 60.0 * chosen.minutes / turns
    record: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="privgcn-fuzz-") as folder:
        for work, found, error in side_by_side(works, chosen.jobs, Path(folder)):
            if error is not None:
                found = {"inputs": 0, "crashes": {error: ""}, "counts": {}, "lines": 0}
            each = record.setdefault(
                work.name, {"inputs": 0, "crashes": 0, "lines": 0, "found": []}
            )
            each["inputs"] += found["inputs"]
            each["lines"] = max(each["lines"], found["lines"])
            for name, count in found["counts"].items():
                each[name] = each.get(name, 0) + count
            new = {
                why: data for why, data in found["crashes"].items() if why not in each["found"]
            }
            each["found"] += list(new)
            each["crashes"] = len(each["found"])
            print(
                f"{work.name:<24}{found['inputs']:>8} inputs{found['lines']:>7} lines"
                f"{len(new):>4} crashes",
                flush=True,
            )
            for why, data in new.items():
                print(f"    {why}")
                if chosen.keep is not None:
                    chosen.keep.mkdir(parents=True, exist_ok=True)
                    name = f"{work.name} {zlib.crc32(why.encode()):08x}".replace(" ", "-")
                    (chosen.keep / name).write_bytes(bytes.fromhex(data))
            if chosen.json is not None:
                text = json.dumps(_record(record, chosen.engine, begun), indent=1)
                chosen.json.write_text(text + "\n")
    total = _record(record, chosen.engine, begun)["total"]
    print(f"{total['inputs']} inputs, {total['crashes']} crashes, {total['seconds']:.0f} s.")
    return int(total["crashes"] > 0)


def _tried(target: Target, chosen: argparse.Namespace, seed: int, shares: int) -> Any:
    """What a share of a target's inputs came to."""
    until = time.monotonic() + max(1.0, chosen.seconds)
    with tempfile.TemporaryDirectory(prefix="privgcn-fuzz-") as folder:
        session = Session(target, Path(folder), seed)
        session.run(chosen.inputs // shares, chosen.engine, until)
    return {
        "inputs": session.tried,
        "counts": session.counts,
        "lines": session.lines,
        "crashes": {why: data.hex() for why, data in session.crashes.items()},
    }


def _record(targets: Mapping[str, Any], engine: str, begun: float) -> dict[str, Any]:
    total = {
        "inputs": sum(each["inputs"] for each in targets.values()),
        "crashes": sum(each["crashes"] for each in targets.values()),
        "engine": engine,
        "seconds": round(time.monotonic() - begun, 1),
    }
    order = [target.name for target in TARGETS if target.name in targets]
    return {"total": total, "targets": {name: targets[name] for name in order}}


if __name__ == "__main__":
    sys.exit(main())
