"""What a run is doing just now: packages say it, and whoever watches shows it.

A stage has a name and, where it can be counted, how much of it is done. Nobody watches unless
asked to (:func:`watched`), and then telling costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class Watcher(Protocol):
    """Shows progress."""

    def begin(self, name: str) -> None:
        """A stage begins, and the one before ends; an empty name only ends it."""

    def advance(self, done: int, total: int) -> None:
        """So much of the stage is done."""


_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


def begin(name: str) -> None:
    """A stage begins, and the one before ends; without a name it only ends."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher.begin(name)


def advance(done: int, total: int) -> None:
    """So much of the stage is done."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher.advance(done, total)


@contextmanager
def watched(watcher: Watcher | None) -> Iterator[None]:
    """Has progress shown while the block runs."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)
