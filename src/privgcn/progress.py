"""What a run is doing just now: packages say it, and whoever watches shows it.

A stage has a name and, where it can be counted, how much of it is done.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TextIO


class Watcher(Protocol):
    """Shows progress: an empty name of a stage only ends the one before."""

    def begin(self, name: str) -> None: ...  # noqa: D102

    def advance(self, done: int, total: int) -> None: ...  # noqa: D102


_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


def begin(name: str) -> None:
    """A stage begins, and the one before ends; an empty name only ends it."""
    if watcher := _watcher.get():
        watcher.begin(name)


def advance(done: int, total: int) -> None:
    """So much of the stage is done."""
    if watcher := _watcher.get():
        watcher.advance(done, total)


@contextmanager
def watched(watcher: Watcher | None) -> Iterator[None]:
    """Has progress shown while the block runs, or nothing."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


class Printed:
    """Prints, now and then, how much of a stage is left, and where ``stages`` begin."""

    def __init__(
        self, seconds: float = 5.0, file: TextIO | None = None, *, stages: bool = True
    ) -> None:
        self._every, self._file, self._stages = seconds, file, stages
        self._name, self._begun, self._next = "", 0.0, time.monotonic() + seconds

    def begin(self, name: str) -> None:  # noqa: D102
        self._name, self._begun = name, time.monotonic()
        if name:
            self._print(f"{name} ...", always=self._stages)

    def advance(self, done: int, total: int) -> None:  # noqa: D102
        left = (time.monotonic() - self._begun) * (total - done) / max(done, 1)
        self._print(f"{self._name}: {done:,} of {total:,}, {left:,.0f} s left")

    def _print(self, line: str, *, always: bool = False) -> None:
        now = time.monotonic()
        if always or now >= self._next:
            self._next = now + self._every
            print(line, file=self._file, flush=True)
