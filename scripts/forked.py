"""Copies of a process that has imported everything: a command starts in milliseconds.

The process that forks imports and never computes, so that no copy inherits a thread.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

# One thread each; before anything imports torch or polars.
for _name in ("OMP_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import privgcn  # noqa: E402
import privgcn.cli  # noqa: E402

_SETTLE_SECONDS = 30.0
_LIBRARIES = (
    "dp_accounting.pld",
    "dp_accounting.rdp",
    "polars",
    "rich.box",
    "rich.console",
    "rich.table",
    "safetensors.torch",
    "scipy.fft",
    "scipy.optimize",
    "scipy.signal",
    "scipy.sparse",
    "scipy.special",
    "scipy.stats",
    "sklearn.feature_extraction.text",
    "sklearn.linear_model",
    "torch",
    "torch.distributed",
    "torch.nn.functional",
    "xml.dom.minidom",
)


def import_everything() -> None:
    """Imports the package and what its functions import when they are called."""
    for module in pkgutil.walk_packages(privgcn.__path__, "privgcn."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):
                importlib.import_module(module.name)
    for name in _LIBRARIES:
        with suppress(ImportError):
            importlib.import_module(name)


@dataclass
class Child:
    """A copy of this process at work.

    Attributes:
        pid: Its process id.
        log: What it printed.
    """

    pid: int
    log: Path
    _code: int | None = None

    def ended(self) -> int | None:
        """The exit code (negative: the signal that ended it); ``None`` while it runs."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def wait(self, seconds: float) -> int:
        """Waits for its end.

        Raises:
            TimeoutError: It did not end; it is killed then.
        """
        deadline = time.monotonic() + seconds
        while (code := self.ended()) is None:
            if time.monotonic() > deadline:
                self.kill()
                raise TimeoutError(f"a process did not end within {seconds:g} s")
            time.sleep(0.002)
        self._settle()
        return code

    def kill(self) -> int:
        """Ends it by SIGKILL; the code of one that ended before stays."""
        if self.ended() is None:
            os.kill(self.pid, signal.SIGKILL)
            _, status = os.waitpid(self.pid, 0)
            self._code = os.waitstatus_to_exitcode(status)
        self._settle()
        assert self._code is not None
        return self._code

    def _settle(self) -> None:
        """Waits until the processes that it started have noticed its end."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        with suppress(ProcessLookupError):
            while time.monotonic() < deadline:
                os.killpg(self.pid, 0)
                time.sleep(0.002)
            raise TimeoutError("processes outlived the one that started them")

    @property
    def said(self) -> str:
        """Everything that it printed."""
        return self.log.read_text("utf-8", "replace")


def start(
    work: Callable[[], int | None], log: Path, environment: Mapping[str, str] | None = None
) -> Child:
    """Calls ``work`` in a copy of this process; it returns the exit code, default 0."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return Child(pid, log)
    code = 70
    try:
        os.setsid()
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for own, number in ((nothing, 0), (handle, 1), (handle, 2)):
            os.dup2(own, number)
        os.environ.update(environment or {})
        code = work() or 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def command(words: Sequence[str]) -> Callable[[], int | None]:
    """``privgcn`` with these words, as work for a copy."""

    def work() -> None:
        sys.argv = ["privgcn", *words]
        privgcn.cli.main()

    return work


def call(work: Callable[[], Any], log: Path, seconds: float = 120.0) -> Any:
    """What ``work`` returns, as JSON carries it, computed in a copy of this process.

    Raises:
        RuntimeError: It failed; the message is what the copy printed.
    """
    answer = log.with_suffix(".answer")
    child = start(_told(work, answer), log)
    if child.wait(seconds) != 0:
        raise RuntimeError(child.said.strip())
    return json.loads(answer.read_text())


class Work(NamedTuple):
    """Something to compute in a copy of this process.

    Attributes:
        name: Of the work.
        slots: How many processors it keeps busy.
        call: What is computed; JSON carries the answer.
    """

    name: str
    slots: int
    call: Callable[[], Any]


class Answer(NamedTuple):
    """What came of a work: its answer, or what the copy that failed printed."""

    work: Work
    value: Any
    error: str | None


def side_by_side(works: deque[Work], jobs: int, folder: Path) -> Iterator[Answer]:
    """Answers in the order in which they come; works may be added meanwhile.

    Args:
        works: What to compute; emptied.
        jobs: Processors that may be kept busy.
        folder: For what copies print and answer.
    """
    running: dict[int, tuple[Work, Child]] = {}
    number = 0
    while works or running:
        busy = sum(work.slots for work, _ in running.values())
        while works and (not running or busy + works[0].slots <= jobs):
            work, number = works.popleft(), number + 1
            told = _told(work.call, folder / f"answer-{number}")
            running[number] = work, start(told, folder / f"log-{number}")
            busy += work.slots
        for key, (work, child) in list(running.items()):
            code = child.ended()
            if code is not None:
                del running[key]
                answer = folder / f"answer-{key}"
                good = code == 0 and answer.exists()
                value = json.loads(answer.read_text()) if good else None
                yield Answer(work, value, None if good else f"code {code}: {child.said}")
                answer.unlink(missing_ok=True)
        time.sleep(0.005)


def _told(work: Callable[[], Any], answer: Path) -> Callable[[], None]:
    def told() -> None:
        answer.write_text(json.dumps(work()))

    return told
