"""Stages of a run with the time so far and, where counted, the time left.

On stderr; nothing where that is no terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from privgcn.progress import watched

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


@contextmanager
def shown_stages() -> Iterator[None]:
    """Shows each stage of the block (``privgcn.progress``) while it lasts."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.progress import TimeRemainingColumn as TimeLeftColumn

    from privgcn.cli.output import voice

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        TimeLeftColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=voice() == "quiet",
    )
    with bar, watched(_Bar(bar)):
        yield


class _Bar:
    """One line for the stage that runs."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task: TaskID | None = None

    def begin(self, name: str) -> None:
        """The line of the stage before gives way."""
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(name, total=None, left="") if name else None

    def advance(self, done: int, total: int) -> None:
        """Moves the bar; until then it only says that something runs."""
        if self._task is not None:
            self._bar.update(self._task, completed=done, total=total, left="left:")
