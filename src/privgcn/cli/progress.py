"""Progress bars with the time left, on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Yields a function that takes steps done and steps in all."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from privgcn.cli.output import voice

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=voice() == "quiet",
    )
    with bar:
        task = bar.add_task(label, total=1)
        yield lambda done, total: bar.update(task, completed=done, total=total)
