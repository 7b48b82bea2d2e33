"""Live progress on stderr: done, failed, time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TextIO


@dataclass
class Tally:
    """How far an experiment is.

    Time left comes from the weights of the tasks that are done: a configuration on a large
    graph counts for what it costs, not for one. Tasks, of one or more runs each, are under
    way side by side.
    """

    runs: int
    weight: float
    done: int = 0
    failed: int = 0
    kept: int = 0
    weight_done: float = 0.0
    under_way: int = 0
    begun: float = field(default_factory=time.monotonic)

    @property
    def finished(self) -> int:
        """Runs that need nothing more in this call."""
        return self.done + self.failed + self.kept

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds until the last run ends; ``None`` before the first one ended."""
        if self.weight_done <= 0:
            return None
        spent = time.monotonic() - self.begun
        return spent * max(0.0, self.weight - self.weight_done) / self.weight_done

    def line(self) -> str:
        """The tally in words."""
        left = self.seconds_left
        parts = [f"{self.done + self.kept} of {self.runs} runs done"]
        if self.kept:
            parts.append(f"{self.kept} of them earlier")
        parts.append(f"{self.failed} failed")
        if left is None and self.under_way:
            # The longest tasks go first, so this may stand for a while.
            parts.append(f"{self.under_way} task{'s' * (self.under_way > 1)} under way")
        parts.append("time left unknown" if left is None else f"about {duration(left)} left")
        return ", ".join(parts)


class Progress:
    """Shows a tally; this one shows nothing."""

    def show(self, tally: Tally) -> None:
        """Called whenever the tally changed."""

    def close(self) -> None:
        """Called once at the end, whatever happened."""


class PlainProgress(Progress):
    """One line at a time, for logs: at most one every few seconds, and the last one."""

    def __init__(
        self,
        stream: TextIO | None = None,
        every: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream or sys.stderr
        self._every = every
        self._clock = clock
        self._next = 0.0

    def show(self, tally: Tally) -> None:
        """Prints the tally unless it just did."""
        if tally.finished >= tally.runs or self._clock() >= self._next:
            self._next = self._clock() + self._every
            print(tally.line(), file=self._stream, flush=True)


class BarProgress(Progress):
    """A bar on a terminal; nothing is drawn and the cursor stays until the first tally."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._bar: Any = Progress(
            BarColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self._task: Any = None

    def show(self, tally: Tally) -> None:
        """Moves the bar."""
        if self._task is None:
            self._bar.start()
            self._task = self._bar.add_task(tally.line(), total=tally.runs)
        self._bar.update(self._task, completed=tally.finished, description=tally.line())

    def close(self) -> None:
        """Leaves the terminal as it was."""
        if self._task is not None:
            self._bar.stop()


def make_progress() -> Progress:
    """A bar on a terminal, plain lines elsewhere."""
    return BarProgress() if sys.stderr.isatty() else PlainProgress()


def duration(seconds: float) -> str:
    """Seconds in words: ``40 s``, ``12 min``, ``3 h 05 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
